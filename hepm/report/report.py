"""The report on a namespace: where its agents go wrong, what worked instead, and what memory did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from hepm.evidence.learning import set_cases
from hepm.evidence.upkeep import LiveEvidence
from hepm.experience.counted import principles_as_counted
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lesson_files import lessons_for_file, line_of
from hepm.experience.lessons import ListedLesson
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.report.forks import Fork, forks_of, lost_at
from hepm.report.latest import latest_runs
from hepm.report.receipts import receipts_of
from hepm.report.requests import hard_requests
from hepm.report.rows import ReportRow, ReportSection
from hepm.report.text import SPOKEN, WASTE
from hepm.report.tools import tool_remarks, tool_rows
from hepm.report.waste import waste_rows
from hepm.text import count_of, percent
from hepm.types import Object
from hepm.uplift.report import UpliftReport

MONTH_DAYS: Final = 30
_FEWEST_A_MONTH: Final = 10  # runs below which a month has no share


@dataclass(frozen=True, slots=True)
class Report:
    """Where agents go wrong.

    Attributes:
        runs: All that are stored; `succeeded` and `failed` of them have a label.
        before: Share of successes in the 30 days before the last 30 days, and in these; None if unknown.
        learned_runs: Labelled runs that forks and requests are counted in; `learned_lost` of them failed.
        saved: How many of those the alternatives of all forks would have saved, `twice` of them at several forks.
        sections: What follows the forks: requests that fail, waste, tools, what memory did, and the advice; those that
            have anything to say.
        advice: What to tell the agent: the lines that `hepm report --write` writes, those of the costliest forks first.
    """

    namespace: str
    runs: int
    succeeded: int
    failed: int
    before: float | None
    lately: float | None
    learned_runs: int
    learned_lost: int
    saved: int
    twice: int
    forks: tuple[Fork, ...]
    sections: tuple[ReportSection, ...]
    advice: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is wrong, in one sentence."""
        labelled = self.succeeded + self.failed
        if not self.runs:
            return "No run is stored yet."
        if not labelled:
            return f"{count_of(self.runs, 'run')}, none with an outcome: nothing can be said of what goes wrong."
        of_labelled = f" of {labelled:,} with an outcome" if labelled < self.runs else ""
        rate = f"{count_of(self.runs, 'run')}, {percent(self.succeeded / labelled)}{of_labelled} succeeded"
        if self.before is not None and self.lately is not None:
            lately, before = percent(self.lately), percent(self.before)
            rate += f" (in the last {MONTH_DAYS} days {lately}, in the {MONTH_DAYS} before {before})"
        if not self.failed:
            return f"{rate}; none was lost."
        if not self.forks:
            return f"{rate}; no place stands out at which runs were lost that others passed."
        lost = f"the {count_of(self.learned_lost, 'lost run')}"
        if self.learned_runs < labelled:
            lost += f" of {self.learned_runs:,} that were compared"
        places = count_of(len(self.forks), "place")
        sentence = f"{rate}; about {self.saved:,} of {lost} went wrong at {places} that other runs passed"
        if self.twice:
            sentence += f", {self.twice:,} of them at several"
        return f"{sentence}."

    def to_json(self) -> Object:
        """In values that JSON can hold."""
        values: Object = {**asdict(self), "sentence": self.sentence}
        for fork, values_of in zip(self.forks, values["forks"], strict=True):
            values_of |= {"sentence": fork.sentence, "cost": str(fork.lost)}
            del values_of["lost_runs"]
        return values

    @property
    def named_runs(self) -> list[str]:
        """Every run that is named as one to open, once."""
        named: list[str] = []
        for fork in self.forks:
            for tally in (*fork.mistakes, *fork.ways):
                named += [run.id for run in tally.shown]
        for section in self.sections:
            for row in section.rows:
                named += [run.id for run in row.runs]
        return list(dict.fromkeys(named))


def report_of(
    bank: LessonBank,
    evidence: LiveEvidence,
    uplift: UpliftReport,
    mirror: NamespaceMirror,
    *,
    anew: bool = False,
    on_progress: Callable[[str], object] = lambda step: None,
) -> Report:
    """The report on a namespace.

    Args:
        evidence, uplift, mirror: Of this namespace.
        anew: Learn the evidence anew before.
        on_progress: Called with what is done next.
    """
    store, namespace = bank.store, mirror.name
    on_progress("counting rules")
    rules = evidence.rules(anew=anew)
    on_progress("reading runs")
    labelled = list(evidence.valued().runs)
    set_cases(labelled)
    on_progress("reading calls")
    latest = list(latest_runs(store, namespace=namespace))
    on_progress("comparing runs")
    totals = store.totals(namespace=namespace)
    by_day = store.outcomes_by_day(namespace=namespace)
    forks = forks_of(rules, store, namespace=namespace, runs=labelled)
    rows, twice = lost_at(forks)
    principles = principles_as_counted(bank, rules, namespace=namespace)
    lessons, _ = lessons_for_file(bank, namespace=namespace, principles=principles)
    forks = tuple([replace(fork, line=_line_about(fork, lessons)) for fork in forks])
    about_forks = [fork.line for fork in forks if fork.line]
    advice = tuple(dict.fromkeys([*about_forks, *map(line_of, lessons)]))
    tools = tool_rows(tool_remarks(store, namespace=namespace))
    waste = waste_rows(latest, labelled)
    spoken = receipts_of(uplift, store.trial_sessions(namespace=namespace), latest, mirror)
    of_compared = ""
    if len(labelled) < totals.labelled:
        of_compared = f"in the {count_of(len(labelled), 'run')} that were compared"
    sections = [
        ReportSection("Requests that fail", of_compared, hard_requests(labelled, store, namespace=namespace)),
        ReportSection(WASTE, f"in the {count_of(len(latest), 'run')} stored last", waste),
        ReportSection("Tools", "errors are counted in runs whose records say which calls failed", tools),
        ReportSection(SPOKEN, "", spoken),
        ReportSection("What to tell the agent", "--write AGENTS.md writes these lines", list(map(ReportRow, advice))),
    ]
    before, lately = _months(by_day)
    lost = sum(not run.won for run in labelled)
    return Report(
        namespace=namespace,
        runs=totals.trajectories,
        succeeded=totals.successes,
        failed=totals.failures,
        before=before,
        lately=lately,
        learned_runs=len(labelled),
        learned_lost=lost,
        saved=min(rows - twice, lost),
        twice=twice,
        forks=forks,
        sections=tuple([section for section in sections if section.rows]),
        advice=advice,
    )


def _line_about(fork: Fork, lessons: Iterable[ListedLesson]) -> str:
    """What a file for agents says of a fork: the one of some lines that says what the fork does; "" if none does."""
    for same in lessons:
        environments = same.lesson.conditions.environments
        if same.lesson.sentence == fork.line and (not environments or set(environments) & set(fork.environments)):
            return line_of(same)
    return ""


def _months(by_day: Mapping[int, tuple[int, int]]) -> tuple[float | None, float | None]:
    """The share of successes in the 30 days before the last 30 days, and in these."""
    last = max(by_day, default=0)

    def share(newest: int) -> float | None:
        days = [outcomes for day, outcomes in by_day.items() if newest - MONTH_DAYS < day <= newest]
        runs = sum(map(sum, days))
        if runs < _FEWEST_A_MONTH:
            return None
        return sum(succeeded for succeeded, _ in days) / runs

    return share(last - MONTH_DAYS), share(last)
