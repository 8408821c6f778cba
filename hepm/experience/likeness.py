"""Which runs can be compared: runs of one task, and runs with similar requests where task ids do not repeat.

Many logs number their tasks anew from file to file. Two runs under one id are of one task if they begin with the same
words of the user, or name a thing of the same name: an order, an account, an address. On pairs of τ and τ² runs of
airline and retail under one id that ended differently, this finds all 782 about one customer, and takes 21 of 1,070
about two customers for one.

Similar requests are grouped by the words that the user began with. Each wording joins the group with the most similar
leader, from a cosine of .75 on, else it leads a group of its own; so no group is a chain of neighbours. Wordings that
most runs share come first, which makes the groups of a batch independent of the order of its runs. Lexical vectors are
compared, weighted by rarity (`hepm.graph.lessons.mirror`), without words that hold a digit, and without names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from hepm.embed import HashingEmbedder
from hepm.graph.lessons.mirror import rarity, weighted
from hepm.graph.store import FloatArray
from hepm.ingest.records import is_list, is_object
from hepm.ingest.transitions import USER_CHARS, without_hints
from hepm.types import Trajectory

_NAME: Final = re.compile(r"[\w#@.+-]+")
_ANY_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]|#")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d.*")
_SHORTEST: Final = 5
_SHORTEST_NUMBER: Final = 8


class Named(NamedTuple):
    """What identifies a run's task: the user's first message, and names with a digit, such as ids, in its texts."""

    goal: str
    things: frozenset[str]


def named_in(run: Trajectory) -> Named:
    """What identifies a run's task."""
    said = [text for turn in run.turns if turn.role == "user" and (text := without_hints(turn.text))]
    given = (text for call in run.calls() for text in _texts(dict(call.arguments)))
    things = frozenset(name for text in (*said, *given) for name in _names(text))
    return Named(said[0].strip() if said else "", things)


def same_task(one: Named, other: Named) -> bool:
    """Whether two runs under one id are of one task; True if neither names anything that tells them apart."""
    if one.goal and one.goal == other.goal:
        return True
    return not one.things.isdisjoint(other.things) or not (one.things or other.things)


def _names(text: str) -> Iterator[str]:
    for found in _NAME.findall(text):
        name = found.strip(".+-").lower()
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
_WORD: Final = re.compile(r"[\w#@'’.+-]+|[!?\n]")
_DIGIT: Final = re.compile(r"[\d@#]")
_CAPITALS: Final = 1 / 4
"""Where more of the words inside sentences than this begin with a capital letter, as in German, it marks no names."""


def request_of(run: Trajectory) -> str:
    """What the user asked for first, cut; "" where no user spoke."""
    said = (without_hints(turn.text).strip() for turn in run.turns if turn.role == "user")
    return next((text for text in said if text), "")[:USER_CHARS]


def group_by_request(runs: Iterable[Trajectory]) -> dict[str, str]:
    """The group of each run of one environment, by id; a group is named by the id of a run in it."""
    return group_alike({run.id: request_of(run) for run in runs})


def group_alike(requests: Mapping[str, str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The group of each request, both by a run's id.

    O(N · G · D) for N wordings and G groups, in blocks: never all pairs at once.

    Args:
        known: The leading request of each existing group, by the group's name; new requests join these first.
    """
    leaders = dict(known or {})
    wordings = _wordings({**{f"{name}\n": text for name, text in leaders.items()}, **requests})
    first: dict[str, str] = {}
    for name in sorted(leaders):
        first.setdefault(wordings[f"{name}\n"], name)
    by_wording: defaultdict[str, list[str]] = defaultdict(list)
    groups: dict[str, str] = {}
    for run in sorted(requests):
        if wordings[run]:
            by_wording[wordings[run]].append(run)
        else:
            groups[run] = run  # nothing to compare: alone
    first.pop("", None)
    fresh = sorted(by_wording.keys() - first.keys(), key=lambda text: (-len(by_wording[text]), text))
    led = [*first, *fresh]
    names = [*first.values(), *(by_wording[text][0] for text in fresh)]
    joined = _lead(led, len(first)) if fresh else list(range(len(led)))
    for text, at in zip(led, joined, strict=True):
        groups.update(dict.fromkeys(by_wording.get(text, ()), names[at]))
    return groups


def _lead(texts: list[str], leading: int) -> list[int]:
    """The position of each text's leader; the first `leading` texts lead their own groups."""
    vectors_ND = HashingEmbedder().embed(texts)
    vectors_ND = weighted(vectors_ND, rarity(vectors_ND.astype(np.float16)))
    joined = list(range(leading))
    leaders = list(range(leading))
    for start in range(leading, len(texts), _AT_ONCE):
        block_BD = vectors_ND[start : start + _AT_ONCE]
        nearest = list(_nearest(block_BD, vectors_ND[leaders]))
        among_BB = block_BD @ block_BD.T
        before, own = leaders[:], list[int]()
        for row, (cosine, at) in enumerate(nearest):
            best, leader = (cosine, before[at]) if before else (-1.0, -1)
            if own and (nearer := float(among_BB[row, own].max())) > best:
                best, leader = nearer, start + own[int(among_BB[row, own].argmax())]
            if best < LIKE:
                leader = start + row
                own.append(row)
                leaders.append(leader)
            joined.append(leader)
    return joined


def _nearest(block_BD: FloatArray, leaders_LD: FloatArray) -> Iterator[tuple[float, int]]:
    if not len(leaders_LD):
        yield from [(-1.0, -1)] * len(block_BD)
        return
    cosines_BL = block_BD @ leaders_LD.T
    nearest_B = cosines_BL.argmax(axis=1)
    yield from zip(cosines_BL[np.arange(len(block_BD)), nearest_B].tolist(), nearest_B.tolist(), strict=True)


def _wordings(texts: Mapping[str, str]) -> dict[str, str]:
    """The words of each text without names and words with a digit, lower-cased."""
    words = {name: _words(text) for name, text in texts.items()}
    inside = Counter(capital for found in words.values() for _, capital in found if capital is not None)
    named = inside[True] <= _CAPITALS * max(inside.total(), 1)
    return {
        name: " ".join(word.lower() for word, capital in found if not (named and capital))
        for name, found in words.items()
    }


@lru_cache(maxsize=4_096)  # with each run that comes, those of its memory are looked at again
def _words(text: str) -> tuple[tuple[str, bool | None], ...]:
    """Words without a digit, each with whether it begins with a capital letter; None at the beginning of a sentence."""
    words: list[tuple[str, bool | None]] = []
    begins = True
    for found in _WORD.findall(text):
        word = found.strip(".'’+-")
        if len(word) > 1 and not _DIGIT.search(word):
            # "I'm" and the like are no names.
            words.append((word, None if begins or "'" in word or "’" in word else word[0].isupper()))
        begins = found[-1] in ".!?\n" or (begins and not word)
    return tuple(words)
