"""Kinds of requests that no run solved, or that fail far more often than others, named by telling words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hepm.evidence.decisions import LabelledRun
from hepm.graph.rows import RunAbout
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


def hard_requests(runs: Sequence[LabelledRun], store: Store, *, namespace: str) -> tuple[HardRequests, ...]:
    """The kinds of requests that fail, those that lost most runs first.

    Args:
        runs: With their families (see `hepm.evidence.decisions.set_families`).
    """
    of_family: defaultdict[str, list[LabelledRun]] = defaultdict(list)
    for run in runs:
        of_family[run.family].append(run)
    failures = sum(not run.won for run in runs)
    found: list[HardRequests] = []
    covered = set[str]()

    def add(words: tuple[str, ...], members: Sequence[LabelledRun], task: str = "", environment: str = "") -> None:
        lost = [run.id for run in members if not run.won]
        others = (failures - len(lost)) / max(len(runs) - len(members), 1)
        shown = tuple([ShownRun(id, "") for id in lost[-SHOWN_RUNS:]])
        tried = _tried(members)
        found.append(HardRequests(words, task, environment, len(lost), len(members), others, tried, shown))

    for words, members in _failing_words(of_family):
        add(words, members)
        covered.update(run.id for run in members)
    families_of = Counter(word for members in of_family.values() for word in members[0].words)
    several = [members for members in of_family.values() if len(members) >= FEWEST]
    for members in several:
        failed = sum(not run.won for run in members)
        by_chance = _at_least(failed, len(members), failures, len(runs))
        never = failed == len(members) and by_chance <= NEVER_BY_CHANCE
        often = by_chance * len(several) <= UNLIKELY
        if (often or never) and not covered.issuperset(run.id for run in members):
            ids = {(run.task, run.environment) for run in members}
            task, environment = ids.pop() if len(ids) == 1 else ("", "")
            add(_telling(members, families_of), members, task, environment)
    found = sorted(found, key=lambda kind: (-kind.lost, kind.words))[:MOST_KINDS]
    about = store.about_runs([run.id for kind in found for run in kind.shown], namespace=namespace)
    return tuple([replace(kind, shown=_with_requests(kind.shown, about)) for kind in found])


def _with_requests(runs: Iterable[ShownRun], about: Mapping[str, RunAbout]) -> tuple[ShownRun, ...]:
    """Those of some runs that are stored, with what was asked for."""
    return tuple([ShownRun.of(about[run.id]) for run in runs if run.id in about])


def _failing_words(
    of_family: Mapping[str, list[LabelledRun]],
) -> Iterable[tuple[tuple[str, ...], list[LabelledRun]]]:
    """Words whose requests fail more often than chance explains, with other words of the same requests.

    A family counts once, as failing if most of its runs failed: a task that is run often is one request.
    """
    failing = {family for family, runs in of_family.items() if 2 * sum(run.won for run in runs) < len(runs)}
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for family, runs in of_family.items():
        for word in runs[0].words - FUNCTION_WORDS:
            holders[word].add(family)
    tried = {word: families for word, families in holders.items() if FEWEST <= len(families) < len(of_family)}
    chances: dict[str, float] = {}
    for word, families in tried.items():
        chances[word] = _at_least(len(families & failing), len(families), len(failing), len(of_family))
    # Words of the same requests are one question.
    questions = len(set(map(frozenset, tried.values())))
    left = sorted(chances, key=lambda word: (chances[word], word))
    covered = set[str]()
    for word in left:
        if chances[word] * questions > UNLIKELY:
            break
        families = tried[word]
        if len(families - covered) < _SAME * len(families):
            continue
        covered |= families
        same = [other for other in left if _are_same(tried[other], families) and other != word]
        yield (word, *same[: _WORDS - 1]), [run for family in sorted(families) for run in of_family[family]]


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
