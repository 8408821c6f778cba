from __future__ import annotations

from dataclasses import replace

from hepm.evals.metrics import Interval, RescueAndHarm
from hepm.evals.report import DomainReport, EvalReport, EvalSettings, MethodDifference, MethodScores, verdict_of

RESCUE = RescueAndHarm(
    divergences=40,
    families=12,
    rescue=0.5,
    misled=0.2,
    gain=0.3,
    harm=0.25,
    silent=0.0,
    warned=0.0,
    warned_better=0.0,
    interval={"gain": Interval(0.1, 0.5)},
)
AHEAD = MethodDifference(0.3, Interval(0.25, 0.35))


def sentence(
    rescue: RescueAndHarm | None = RESCUE,
    seen: RescueAndHarm | None = None,
    *,
    events: int = 500,
    families: int = 30,
    hit: float = 0.7,
    ahead: MethodDifference = AHEAD,
) -> str:
    """The verdict on the hybrid, beside counts that hit 40 %."""
    macro = {
        "first-order": MethodScores({"hit@2": 0.4}, {}, {}),
        "hybrid": MethodScores({"hit@2": hit}, {}, {"hit@2": ahead}),
    }
    domain = DomainReport(events, families, macro)
    report = EvalReport(
        domains={"shop": domain},
        macro=macro,
        rescue={"hybrid": rescue} if rescue else {},
        rescue_seen={"hybrid": seen} if seen else {},
        methods={},
        skipped={},
        settings=EvalSettings(runs=6),
    )
    return verdict_of(report)


def test_memory_would_have_helped() -> None:
    assert sentence() == (
        "On new tasks, memory would have helped these agents: at 40 points where a failed run left the way of a "
        "successful one, hints of hybrid (at most 2 tools) held the better tool and not the chosen one in 50 % and the "
        "reverse in 20 % (+30 points, 95 % interval +10 to +50); in successful runs they lacked the tool called next "
        "in 25 %."
    )


def test_known_tasks_are_told_first_and_what_helps_there_is_not_claimed_for_new_ones() -> None:
    unsure = replace(RESCUE, interval={"gain": Interval(-0.01, 0.6)})
    known, new = sentence(rescue=unsure, seen=RESCUE).split(" On new tasks, ")
    assert known.startswith("Where it holds other runs of the task, memory would have helped these agents: at 40")
    assert new.startswith("memory would not have helped these agents measurably: at 40 points")


def test_memory_would_have_misled() -> None:
    worse = replace(RESCUE, rescue=0.1, misled=0.5, gain=-0.4, interval={"gain": Interval(-0.6, -0.2)})
    found = sentence(rescue=worse)
    assert found.startswith("On new tasks, memory would have confirmed these agents in their wrong turns")


def test_of_too_few_runs_it_is_said_how_many_more_are_needed() -> None:
    assert sentence(events=12, families=3) == (
        "Too few runs to say whether memory would have helped: 12 calls of 3 task families could be predicted, and "
        "below 30 calls of 5 families chance decides. About 9 more runs like these are needed, of other tasks; --json "
        "prints the figures of these."
    )
    assert "1 call of 1 task family could" in sentence(events=1, families=1)


def test_few_divergences_are_named_and_not_judged() -> None:
    found = sentence(replace(RESCUE, divergences=1, families=1))
    assert found.startswith(
        "Memory would have known what comes next, but whether that helps these agents cannot be told"
    )
    assert found.endswith("fewer than 10 failed runs left the way of a successful one, which is too few to judge.")
    assert "helped" not in found


def test_no_better_than_the_reference_is_no_help() -> None:
    chance = MethodDifference(0.01, Interval(-0.02, 0.04))
    found = sentence(rescue=None, hit=0.41, ahead=chance)
    assert found.startswith("Memory would not have helped these agents as far as can be seen: ")
