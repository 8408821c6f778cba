"""Kinds of requests that no run solved, or that fail far more often than others, named by telling words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from hepm.evidence.decisions import LabelledRun, by_family
from hepm.graph.store import Store
from hepm.report.examples import SHOWN_RUNS, ShownRun
from hepm.report.forks import task_in_words
from hepm.report.rows import ReportRow
from hepm.text import FUNCTION_WORDS, count_of, cut, on_one_line, percent
from hepm.types import ToolName

FEWEST: Final = 3
"""Runs of a task without a success, from which on it counts as never solved."""
UNLIKELY: Final = 0.05
"""Chance that any word, or any task, would seem to fail more often if none did (Fisher's exact test, Bonferroni)."""
NEVER_BY_CHANCE: Final = 0.1
"""Chance up to which a task that no run solved is one: four runs of which half would fail, not three."""
MOST_KINDS: Final = 10
_WORDS: Final = 4  # that name a kind
_REQUEST_CHARS: Final = 60
_SAME: Final = 0.8  # share of the requests of a word that another one has, from which on both name one kind
_TRIED: Final = 6  # tools that tell what was tried


_Families: TypeAlias = Mapping[str, Sequence[LabelledRun]]
_Kind: TypeAlias = tuple[tuple[str, ...], Sequence[LabelledRun]]
"""Words that requests have in common, () for a task, and their runs."""


def hard_requests(runs: Sequence[LabelledRun], store: Store, *, namespace: str) -> list[ReportRow]:
    """The kinds of requests that fail, those that lost most runs beyond what others lose first.

    Args:
        runs: With their families.
    """
    families = by_family(runs)
    kinds = list(_failing_words(families))
    named: set[str] = set()
    for _, members in kinds:
        named.update(run.id for run in members)
    all_lost = _lost(runs)
    for members in _failing_tasks(families, all_lost, len(runs)):
        if members[0].id not in named:
            kinds.append(((), members))
    found: list[tuple[float, str, ReportRow]] = []
    for words, members in kinds:
        lost = [run.id for run in members if not run.won]
        others = (all_lost - len(lost)) / max(len(runs) - len(members), 1)
        if len(lost) <= others * len(members):
            continue
        text = f": {len(lost):,} of {len(members):,} failed (others: {percent(others)})"
        if len(lost) == len(members):
            text = f": never solved in {count_of(len(lost), 'run')} (others fail in {percent(others)})"
        called = _tried(members)
        tried = [f"tried: {', '.join(called)}"] if called else []
        about = store.about_runs(lost[-SHOWN_RUNS:], namespace=namespace)
        shown = list(map(ShownRun.of, about.values()))
        counts = {"failed": len(lost), "runs": len(members), "others": others}
        name = _name_of(words, members[0], whole=members[0].family in families)
        found.append((others * len(members) - len(lost), name, ReportRow(name, text, tried, shown, counts=counts)))
    return [row for *_, row in sorted(found, key=lambda one: one[:2])[:MOST_KINDS]]


def _name_of(words: Sequence[str], run: LabelledRun, *, whole: bool) -> str:
    """Such as 'requests that say "baggage" or "insurance"', or "task 7 of retail", if those are the `whole` of it."""
    if words:
        quoted = " or ".join(f'"{word}"' for word in words)
        return f"requests that say {quoted}"
    task = [task_in_words(run.task, run.environment)] if run.family == run.task_key else []
    if not (task and whole):
        request = on_one_line(cut(run.request, _REQUEST_CHARS))
        task.append(f'requests such as "{request}"' if request else "runs without a request")
    return ", ".join(task)


def _lost(runs: Iterable[LabelledRun]) -> int:
    return sum(not run.won for run in runs)


def _failing_tasks(families: _Families, all_lost: int, all_runs: int) -> Iterator[Sequence[LabelledRun]]:
    """The runs of tasks that no run solved, or that fail more often than chance explains."""
    several = [members for members in families.values() if len(members) >= FEWEST]
    for members in several:
        failed = _lost(members)
        by_chance = _at_least(failed, len(members), all_lost, all_runs)
        never = failed == len(members) and by_chance <= NEVER_BY_CHANCE
        if never or by_chance * len(several) <= UNLIKELY:
            yield members


def _failing_words(families: _Families) -> Iterator[_Kind]:
    """Words whose requests fail more often than chance explains, with other words of the same requests.

    A family counts once, by its first request, as failing if most of its runs failed: a task that is run often is one
    request. The runs are all that say one of the words.
    """
    failing = {family for family, runs in families.items() if 2 * _lost(runs) > len(runs)}
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for family, runs in families.items():
        for word in runs[0].words - FUNCTION_WORDS:
            holders[word].add(family)
    chances: dict[str, float] = {}
    for word, having in holders.items():
        if FEWEST <= len(having) < len(families):
            chances[word] = _at_least(len(having & failing), len(having), len(failing), len(families))
    # Words of the same requests are one question.
    questions = len({frozenset(holders[word]) for word in chances})
    covered = set[str]()
    likeliest_first = sorted(chances, key=lambda word: (chances[word], word))
    for word in likeliest_first:
        having = holders[word]
        if chances[word] * questions > UNLIKELY or len(having - covered) < _SAME * len(having):
            continue
        covered |= having
        same = [other for other in likeliest_first if _are_same(holders[other], having) and other != word]
        words = (word, *same[: _WORDS - 1])
        every = chain.from_iterable(families[family] for family in sorted(families))
        yield words, [run for run in every if not run.words.isdisjoint(words)]


def _are_same(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= _SAME * max(len(one), len(other))


def _at_least(failing: int, drawn: int, all_failing: int, families: int) -> float:
    """Chance of so many failing families among those drawn, if a word made no difference (hypergeometric)."""
    total = math.comb(families, drawn)
    ways = 0
    for number in range(failing, min(drawn, all_failing) + 1):
        ways += math.comb(all_failing, number) * math.comb(families - all_failing, drawn - number)
    return ways / total


def _tried(runs: Sequence[LabelledRun]) -> list[ToolName]:
    """The tools that at least half of some runs called, in the order of their first calls."""
    first: defaultdict[ToolName, list[int]] = defaultdict(list)
    for run in runs:
        for tool in dict.fromkeys(run.calls):
            first[tool].append(run.calls.index(tool))
    usual: list[tuple[float, ToolName]] = []
    for tool, places in first.items():
        if 2 * len(places) >= len(runs):
            usual.append((sum(places) / len(places), tool))
    return [tool for _, tool in sorted(usual)[:_TRIED]]
