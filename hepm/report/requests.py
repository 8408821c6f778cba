"""Kinds of requests that no run solved, or that fail far more often than others, named by telling words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from hepm.evidence.decisions import LabelledRun
from hepm.graph.store import Store
from hepm.report.examples import SHOWN_RUNS, ShownRun
from hepm.report.forks import task_in_words
from hepm.text import FUNCTION_WORDS
from hepm.types import ToolName

FEWEST: Final = 3
"""Runs of a task without a success, from which on it counts as never solved."""
UNLIKELY: Final = 0.05
"""Chance that any word, or any task, would seem to fail more often if none did (Fisher's exact test, Bonferroni)."""
NEVER_BY_CHANCE: Final = 0.1
"""Chance up to which a task that no run solved is one: four runs of which half would fail, not three."""
MOST_KINDS: Final = 10
_WORDS: Final = 4  # that name a task
_SAME: Final = 0.8  # share of the requests of a word that another one has, from which on both name one kind
_TRIED: Final = 6  # tools that tell what was tried


@dataclass(frozen=True, slots=True)
class HardRequests:
    """Requests of one kind.

    Attributes:
        words: What their requests have in common.
        task, environment: Of a single task, its id and where it is, if that is known.
        failed, runs: How many of its runs failed, and how many there are.
        others: Share of the other runs that failed, in [0, 1].
        tried: What most of these runs called, in order.
    """

    words: tuple[str, ...]
    task: str
    environment: str
    failed: int
    runs: int
    others: float
    tried: tuple[ToolName, ...]
    shown: tuple[ShownRun, ...]

    @property
    def never_solved(self) -> bool:
        """Whether no run of them succeeded."""
        return self.failed == self.runs

    @property
    def lost(self) -> float:
        """Runs lost beyond what others lose."""
        return self.failed - self.others * self.runs

    @property
    def name(self) -> str:
        """Such as 'requests that say "baggage" or "insurance"'."""
        words = " or ".join(f'"{word}"' for word in self.words)
        if self.task:
            task = task_in_words(self.task, self.environment)
            return f"{task} ({words})" if words else task
        return f"requests that say {words}"


class _Kind(NamedTuple):
    """Runs of requests that fail, with what names them (see `HardRequests`)."""

    words: tuple[str, ...]
    runs: Sequence[LabelledRun]
    task: str = ""
    environment: str = ""


_Families: TypeAlias = Mapping[str, Sequence[LabelledRun]]


def by_family(runs: Iterable[LabelledRun]) -> _Families:
    """Runs by their family (see `hepm.evidence.decisions.set_families`)."""
    families: defaultdict[str, list[LabelledRun]] = defaultdict(list)
    for run in runs:
        families[run.family].append(run)
    return families


def hard_requests(runs: Sequence[LabelledRun], store: Store, *, namespace: str) -> tuple[HardRequests, ...]:
    """The kinds of requests that fail, those that lost most runs first.

    Args:
        runs: With their families.
    """
    families = by_family(runs)
    by_words = list(_failing_words(families))
    named = {run.id for kind in by_words for run in kind.runs}
    all_lost, all_runs = _lost(runs), len(runs)
    found: list[HardRequests] = []
    for kind in (*by_words, *_failing_tasks(families, all_lost, all_runs, named)):
        lost = [run.id for run in kind.runs if not run.won]
        others = (all_lost - len(lost)) / max(all_runs - len(kind.runs), 1)
        about = store.about_runs(lost[-SHOWN_RUNS:], namespace=namespace)
        shown = tuple(map(ShownRun.of, about.values()))
        counts = len(lost), len(kind.runs), others
        found.append(HardRequests(kind.words, kind.task, kind.environment, *counts, _tried(kind.runs), shown))
    return tuple(sorted(found, key=lambda kind: (-kind.lost, kind.words))[:MOST_KINDS])


def _lost(runs: Iterable[LabelledRun]) -> int:
    return sum(not run.won for run in runs)


def _failing_tasks(families: _Families, all_lost: int, all_runs: int, named: set[str]) -> Iterator[_Kind]:
    """Tasks that no run solved, or that fail more often than chance explains, unless all their runs are named."""
    families_of = Counter[str]()
    for members in families.values():
        families_of.update(members[0].words)
    several = [members for members in families.values() if len(members) >= FEWEST]
    for members in several:
        failed = _lost(members)
        by_chance = _at_least(failed, len(members), all_lost, all_runs)
        never = failed == len(members) and by_chance <= NEVER_BY_CHANCE
        often = by_chance * len(several) <= UNLIKELY
        if (often or never) and not named.issuperset(run.id for run in members):
            words = _telling(members, families_of)
            tasks = {(run.task, run.environment) for run in members}
            if len(tasks) == 1:
                yield _Kind(words, members, *tasks.pop())
            else:
                yield _Kind(words, members)


def _failing_words(families: _Families) -> Iterator[_Kind]:
    """Words whose requests fail more often than chance explains, with other words of the same requests.

    A family counts once, as failing if most of its runs failed: a task that is run often is one request.
    """
    failing = {family for family, runs in families.items() if 2 * _lost(runs) > len(runs)}
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for family, runs in families.items():
        for word in runs[0].words - FUNCTION_WORDS:
            holders[word].add(family)
    tried = {word: those for word, those in holders.items() if FEWEST <= len(those) < len(families)}
    chances: dict[str, float] = {}
    for word, those in tried.items():
        chances[word] = _at_least(len(those & failing), len(those), len(failing), len(families))
    # Words of the same requests are one question.
    questions = len(set(map(frozenset, tried.values())))
    left = sorted(chances, key=lambda word: (chances[word], word))
    covered = set[str]()
    for word in left:
        if chances[word] * questions > UNLIKELY:
            break
        those = tried[word]
        if len(those - covered) >= _SAME * len(those):
            covered |= those
            same = [other for other in left if _are_same(tried[other], those) and other != word]
            runs = list(chain.from_iterable(families[family] for family in sorted(those)))
            yield _Kind((word, *same[: _WORDS - 1]), runs)


def _are_same(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= _SAME * max(len(one), len(other))


def _at_least(failing: int, drawn: int, all_failing: int, families: int) -> float:
    """Chance of so many failing families among those drawn, if a word made no difference (hypergeometric)."""
    total = math.comb(families, drawn)
    ways = 0
    for number in range(failing, min(drawn, all_failing) + 1):
        ways += math.comb(all_failing, number) * math.comb(families - all_failing, drawn - number)
    return ways / total


def _telling(members: Sequence[LabelledRun], families_of: Counter[str]) -> tuple[str, ...]:
    """The rarest words of a task's requests that another request has, too: a word of one alone is a name or an id."""
    words = frozenset[str].intersection(*(run.words for run in members)) - FUNCTION_WORDS
    shared = sorted((word for word in words if families_of[word] > 1), key=lambda word: (families_of[word], word))
    return tuple(shared[:_WORDS])


def _tried(runs: Sequence[LabelledRun]) -> tuple[ToolName, ...]:
    """The tools that at least half of some runs called, in the order of their first calls."""
    first: defaultdict[ToolName, list[int]] = defaultdict(list)
    for run in runs:
        for tool in dict.fromkeys(run.calls):
            first[tool].append(run.calls.index(tool))
    usual = [tool for tool, places in first.items() if 2 * len(places) >= len(runs)]
    usual.sort(key=lambda tool: (sum(first[tool]) / len(first[tool]), tool))
    return tuple(usual[:_TRIED])
