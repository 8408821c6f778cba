"""Which runs can be compared: runs of one task, and runs with similar requests where task ids do not repeat.

Logs may use one id for several tasks. Of 782 pairs of one customer in τ and τ² all are found, of 1,070 of two 21 are
taken for one. Similar requests are grouped by their first words: each wording joins the most similar leader, from a
cosine of .75 on, else it leads; wordings of most runs come first, so that the order of runs does not matter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from hepm.embed import HashingEmbedder
from hepm.evidence.decisions import BoolArray
from hepm.evidence.nearest import Requests
from hepm.graph.delta import request_of as first_request
from hepm.graph.delta import words_of
from hepm.graph.mirror.lesson_mirror import rarity, weighted
from hepm.graph.rows import Float32Array
from hepm.ingest.fields import is_list, is_object
from hepm.ingest.transitions import USER_CHARS, without_hints
from hepm.types import Trajectory

# "#W2611340", "mia_li_3668", "mia.li@example.com".
_NAME: Final = re.compile(r"[\w#@.+-]+")
_ANY_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]|#")
# "2024-05-01", "2024-05-01t09".
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d.*")
_SHORTEST: Final = 5  # characters of an id with a letter
_SHORTEST_NUMBER: Final = 8  # of one without: shorter numbers are amounts


class Named(NamedTuple):
    """What identifies a run's task: the user's first message, and names with a digit, such as ids, in its texts."""

    goal: str
    things: frozenset[str]


def named_in(run: Trajectory) -> Named:
    """What identifies a run's task."""
    goal = ""
    things: set[str] = set()
    for turn in run.turns:
        text = without_hints(turn.text) if turn.role == "user" else ""
        if text:
            goal = goal or text
            things.update(_names(text))
    for call in run.calls():
        for text in _texts(dict(call.arguments)):
            things.update(_names(text))
    return Named(goal.strip(), frozenset(things))


def same_task(one: Named, other: Named) -> bool:
    """Whether two runs under one id are of one task; True if neither names anything."""
    if one.goal and one.goal == other.goal:
        return True
    if not one.things and not other.things:
        return True
    return not one.things.isdisjoint(other.things)


def _names(text: str) -> Iterator[str]:
    """Names with a digit, such as ids: "#w1234567", "user_42"."""
    for word in _NAME.findall(text):
        name = word.strip(".+-").lower()
        # Numbers that are short are amounts, and dates are anybody's.
        shortest = _SHORTEST if _LETTER.search(name) else _SHORTEST_NUMBER
        if len(name) >= shortest and _ANY_DIGIT.search(name) and not _DATE.fullmatch(name):
            yield name


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for member in value.values():
            yield from _texts(member)
    elif is_list(value):
        for element in value:
            yield from _texts(element)


LIKE: Final = 0.75
"""Least cosine of like requests; measured in benchmarks/LOG.md, "Requests grouped by likeness"."""

_AT_ONCE: Final = 256  # rows of a block: with 100,000 leaders its cosines take 100 MB
# Words, and the marks that end a sentence.
_WORD: Final = re.compile(r"[\w#@'’.+-]+|[!?\n]")
_DIGIT: Final = re.compile(r"[\d@#]")
Words: TypeAlias = list[tuple[str, bool | None]]
"""Words, each with whether it begins with a capital letter; None where that means nothing."""
_CAPITALS: Final = 1 / 4
"""Where more of the words inside sentences than this begin with a capital letter, as in German, it marks no names."""


_ALIKE: Final = 0.5
"""Least cosine of what a user said so far and what another said in a whole run, if they may want the same."""


def like_runs(requests: Requests, said: str) -> BoolArray:
    """Of which runs the users may have wanted what this one says, shape (R,); of none without a word."""
    words = words_of(first_request(said))
    return (requests.cosines(words) >= _ALIKE) & bool(words)


def request_of(run: Trajectory) -> str:
    """What the user asked for first, cut; "" where no user spoke."""
    for turn in run.turns:
        if turn.role == "user":
            text = without_hints(turn.text).strip()
            if text:
                return text[:USER_CHARS]
    return ""


def group_by_request(runs: Iterable[Trajectory]) -> dict[str, str]:
    """The group of each run of one environment, by id; a group is named by the id of a run in it."""
    return RequestGroups({run.id: request_of(run) for run in runs}).group_of


class RequestGroups:
    """Similar requests in groups, by a run's id. O(N · G · D) for N wordings and G groups, in blocks.

    Args:
        known: The leading request of each existing group, by the group's name; requests join these first.

    Attributes:
        group_of: The group of each request.
    """

    def __init__(self, requests: Mapping[str, str], known: Mapping[str, str] | None = None) -> None:
        leaders = dict(known or {})
        self.group_of: dict[str, str] = {}
        words_of_run = dict(zip(requests, map(_words, requests.values()), strict=True))
        words_of_leader = dict(zip(leaders, map(_words, leaders.values()), strict=True))
        # Over all of them: a few requests tell nothing of what capitals mean in their language.
        self._named = _capitals_mark_names([*words_of_run.values(), *words_of_leader.values()])
        # By wording: the group that it leads, and the runs that ask so.
        leading: dict[str, str] = {}
        for name in sorted(leaders):
            wording = _wording(words_of_leader[name], self._named)
            if wording:
                leading.setdefault(wording, name)
        by_wording: defaultdict[str, list[str]] = defaultdict(list)
        for run in sorted(requests):
            wording = _wording(words_of_run[run], self._named)
            if wording:
                by_wording[wording].append(run)
            else:
                self.group_of[run] = run  # nothing to compare: alone
        fresh = sorted(by_wording.keys() - leading.keys(), key=lambda text: (-len(by_wording[text]), text))
        texts = [*leading, *fresh]
        names = [*leading.values(), *(by_wording[text][0] for text in fresh)]
        vectors_ND = HashingEmbedder().embed(texts)
        self._rarity_D = rarity(vectors_ND.astype(np.float16))
        vectors_ND = weighted(vectors_ND, self._rarity_D)
        leader_of = _lead(vectors_ND, len(leading))
        for text, leader in zip(texts, leader_of, strict=True):
            self.group_of.update(dict.fromkeys(by_wording.get(text, ()), names[leader]))
        leaders_L = sorted(set(leader_of))
        self._leaders = [names[leader] for leader in leaders_L]
        self._leaders_LD = vectors_ND[leaders_L]

    def add(self, run: str, request: str) -> str:
        """The group that one more request joins, else a new one named by its run. O(G · D); weights stay."""
        if run in self.group_of:
            return self.group_of[run]
        wording = _wording(_words(request), self._named)
        if not wording:
            return self.group_of.setdefault(run, run)
        vector_1D = weighted(HashingEmbedder().embed([wording]), self._rarity_D)
        # Not `@`, whose threads cost more than they save on few rows.
        cosines_L = np.einsum("ld,d->l", self._leaders_LD, vector_1D[0])
        if cosines_L.max(initial=-1.0) >= LIKE:
            group = self._leaders[int(cosines_L.argmax())]
        else:
            group = run
            self._leaders.append(run)
            self._leaders_LD = np.concatenate([self._leaders_LD, vector_1D])
        return self.group_of.setdefault(run, group)

    def with_members(self, marked: Mapping[str, str]) -> RequestGroups:
        """A copy with further members, each by its run's id with its group."""
        other = copy(self)
        other.group_of = {**self.group_of, **marked}
        other._leaders = [*self._leaders]
        return other

    def remove(self, runs: Iterable[str]) -> None:
        """Take runs out of their groups; a group keeps its leading request."""
        for run in runs:
            self.group_of.pop(run, None)

    def members(self, names: Collection[str] | None = None) -> dict[str, list[str]]:
        """The runs of groups, of all or of the named ones, in order."""
        runs_of: defaultdict[str, list[str]] = defaultdict(list)
        for run, group in self.group_of.items():
            if names is None or group in names:
                runs_of[group].append(run)
        return {group: sorted(runs) for group, runs in sorted(runs_of.items())}


def _lead(vectors_ND: Float32Array, leading: int) -> list[int]:
    """The position of each text's leader; the first `leading` texts lead their own groups."""
    joined = list(range(leading))
    leaders = list(range(leading))
    for start in range(leading, len(vectors_ND), _AT_ONCE):
        block_BD = vectors_ND[start : start + _AT_ONCE]
        among_BB = block_BD @ block_BD.T
        # The leaders from before this block, and those of its own rows, which are added as it goes.
        before = leaders[:]
        own: list[int] = []
        best_B, nearest_B = _nearest_leaders(block_BD, vectors_ND, before)
        for row in range(len(block_BD)):
            best, leader = best_B[row], nearest_B[row]
            if own:
                nearer = float(among_BB[row, own].max())
                if nearer > best:
                    best = nearer
                    leader = start + own[int(among_BB[row, own].argmax())]
            if best < LIKE:
                leader = start + row
                own.append(row)
                leaders.append(leader)
            joined.append(leader)
    return joined


def _nearest_leaders(
    block_BD: Float32Array, vectors_ND: Float32Array, leaders: Sequence[int]
) -> tuple[list[float], list[int]]:
    """Of each row the cosine with its most similar leader, and this leader; -1 and -1 without any."""
    if not leaders:
        return [-1.0] * len(block_BD), [-1] * len(block_BD)
    cosines_BL = block_BD @ vectors_ND[leaders].T
    nearest_B: list[int] = cosines_BL.argmax(axis=1).tolist()
    best_B: list[float] = cosines_BL.max(axis=1).tolist()
    return best_B, [leaders[number] for number in nearest_B]


def _wording(words: Words, named: bool) -> str:
    """Lower-cased; without names where capital letters mark them."""
    return " ".join(word.lower() for word, capital in words if not (named and capital))


def _capitals_mark_names(texts: Iterable[Words]) -> bool:
    inside = Counter[bool]()
    for words in texts:
        inside.update(capital for _, capital in words if capital is not None)
    return inside[True] <= _CAPITALS * max(inside.total(), 1)


def _words(text: str) -> Words:
    """Words without a digit, each with whether it begins with a capital letter; None at the beginning of a sentence."""
    words: Words = []
    begins = True
    for token in _WORD.findall(text):
        word = token.strip(".'’+-")
        if len(word) > 1 and not _DIGIT.search(word):
            # "I'm" and the like are no names.
            unclear = begins or "'" in word or "’" in word
            words.append((word, None if unclear else word[0].isupper()))
        # "Hello. - Yes": what is stripped away whole does not end the beginning.
        begins = token[-1] in ".!?\n" or (begins and not word)
    return words
