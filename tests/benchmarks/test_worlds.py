"""The made-up worlds of benchmarks/worlds.py: their right answers are right, and facts decide what they claim."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from random import Random

import pytest

from benchmarks.guard import CASES, CONTROL_RATE, HARMFUL_LESSONS, HELD_OUT_CASES, SESSIONS, SOON, stream
from benchmarks.parts.worlds.agents import Agent, Heard, run, silent
from benchmarks.parts.worlds.asked import calibration_error, warned_of_right
from benchmarks.parts.worlds.claims import BY_COMPANIES, CLAIMS, MOST
from benchmarks.parts.worlds.fleet import FLEET
from benchmarks.parts.worlds.incident import CPU_LIMIT, HANDS_OFF, INCIDENT, PLANNED
from benchmarks.parts.worlds.library import LIBRARY
from benchmarks.parts.worlds.office import OFFICE
from benchmarks.parts.worlds.online import ARMS, learn_online
from benchmarks.parts.worlds.payroll import PAYROLL
from benchmarks.parts.worlds.pharmacy import PHARMACY
from benchmarks.parts.worlds.rental import RENTAL
from benchmarks.parts.worlds.shop import SHOP
from benchmarks.parts.worlds.workflows import WORKFLOWS
from benchmarks.parts.worlds.world import Progress, Task, World, follow
from hepm.memory.guard import SILENT, drawn
from hepm.memory.sessions import HARMED_HOLDOUT
from hepm.types import END, FailedWay, Suggestion, Suggestions

WORLDS = (SHOP, WORKFLOWS, OFFICE, RENTAL, CLAIMS, INCIDENT, FLEET, PAYROLL, PHARMACY, LIBRARY)
KNOWS_ALL = Agent("knows all", skill=1.0)
ERRS_BY_HABIT = Agent("habit", habits=True)


@pytest.fixture(params=WORLDS, ids=lambda world: world.name)
def world(request: pytest.FixtureRequest) -> World:
    return request.param


def tasks(world: World, number: int = 120) -> list[Task]:
    return [world.task(str(n)) for n in range(number)]


def at_branch(world: World, kind: str) -> Iterator[Progress]:
    for task in tasks(world, 240):
        progress = Progress(world, task)
        if follow(progress, until=kind):
            yield progress


def test_an_agent_that_does_what_is_right_always_succeeds(world: World) -> None:
    assert all(run(world, task, KNOWS_ALL, silent).success for task in tasks(world))


def test_a_task_is_the_same_each_time_and_its_results_are_too(world: World) -> None:
    again = [run(world, world.task("7"), ERRS_BY_HABIT, silent) for _ in range(2)]
    assert again[0].messages == again[1].messages
    assert world.task("7") == world.task("7") != world.task("8")


def test_every_branch_is_met_and_its_right_calls_differ(world: World) -> None:
    for kind in world.branches:
        right = {progress.right for progress in at_branch(world, kind)}
        assert len(right) >= 2, kind


def test_the_habit_is_sometimes_right_and_sometimes_fatal(world: World) -> None:
    for kind in world.branches:
        right = set()
        for progress in at_branch(world, kind):
            step = progress.step
            progress.call(step.habit)
            right.add(not progress.failed)
            assert progress.failed == (step.habit not in step.calls)
        assert right == {True, False}, kind


def results(progress: Progress) -> dict[str, str]:
    """The last result of each tool, and what the user said under ""."""
    said = {"": progress.messages[0]["content"]}
    tools = iter(progress.called)
    return said | {next(tools): one["content"] for one in progress.messages if one["role"] == "tool"}


def worded(text: str, wordings: Iterable[str]) -> bool:
    """Whether it is one of these wordings, with names and ids in place of the braces."""
    return any(all(part in text for part in re.split(r"{\w+}", wording)) for wording in wordings)


def claimed_above_limit(reply: str) -> bool:
    found = json.loads(reply)
    return found["open_claim"]["claimed"]["value"] > found["policy"]["coverage"]["limit"]["value"]


def deployed_after_burst(deploys: str, metrics: str) -> bool:
    begun, deployed = metrics[-9:-1], deploys.splitlines()[1][11:19]
    clock = "%H:%M:%S"
    passed = datetime.strptime(deployed, clock) - datetime.strptime(begun, clock)
    return passed % timedelta(days=1) < timedelta(hours=12)  # midnight may lie between


IS_UNUSUAL: dict[str, Callable[[dict[str, str]], bool]] = {
    "closure": lambda said: '"resealed"' in said["get_inspection"],
    "assessed": lambda said: json.loads(said["assess_damage"])["assessment"]["totals"]["net"]["value"] > MOST,
    "customs": lambda said: "CUSTOMS_HOLD" in said["get_tracking"],
    "basis": lambda said: '"current_value"' in said["get_policy"],
    "company": lambda said: worded(said[""], BY_COMPANIES),
    "bank": lambda said: json.loads(said["get_payments"])["history"][-1]["state"] == "RETURNED_BY_BANK",
    "cover": lambda said: claimed_above_limit(said["get_policy"]),
    "cpu": lambda said: int(said["get_metrics"].split("cpu_percent")[1].split()[0]) <= CPU_LIMIT,
    "killed": lambda said: "OOMKilled" not in said["search_logs"],
    "deploy": lambda said: "m ago)" not in said["list_deploys"].splitlines()[1],
    "order": lambda said: deployed_after_burst(said["list_deploys"], said["get_metrics"]),
    "answer": lambda said: worded(said["ask_owner"], PLANNED),
    "tier": lambda said: '"gold"' not in said["get_alert"],
    "words": lambda said: worded(said[""], HANDS_OFF),
    "refused": lambda said: not said["restart_service"].startswith("{"),
}


@pytest.mark.parametrize("world", [CLAIMS, INCIDENT], ids=lambda world: world.name)
def test_what_the_agent_has_seen_decides_every_branch(world: World) -> None:
    for kind in world.branches:
        for progress in at_branch(world, kind):
            unusual = progress.step.habit not in progress.right
            assert IS_UNUSUAL[kind](results(progress)) == unusual, (kind, progress.messages)


@pytest.mark.parametrize(("world", "kind"), [(PHARMACY, "pickup"), (LIBRARY, "wait")], ids=["pharmacy", "library"])
def test_a_user_writes_once_more_right_before_it_matters(world: World, kind: str) -> None:
    for progress in at_branch(world, kind):
        assert progress.messages[0] == {"role": "system", "content": progress.task.system}
        assert [one["role"] for one in progress.messages[-3:]] == ["tool", "assistant", "user"]
        assert not progress.step.said


def test_no_call_repairs_a_fatal_mistake(world: World) -> None:
    for kind in world.branches:
        for progress in islice(at_branch(world, kind), 20):
            if progress.step.habit not in progress.right:
                progress.call(progress.step.habit)
                follow(progress)
                assert progress.right == {END}
                assert not progress.success


def suggest(tool: str, score: float = 0.95) -> Suggestions:
    return Suggestions((Suggestion(tool, score, 1, 0.0, None, ""),))


def test_an_agent_that_obeys_takes_the_named_tool() -> None:
    obeyed = run(SHOP, SHOP.task("0"), Agent("obeys"), lambda messages: suggest("escalate"))
    assert obeyed.called[0] == "escalate"
    assert not obeyed.success


def test_an_agent_that_weighs_follows_chances_above_its_own_alone() -> None:
    weighs = Agent("weighs", skill=1.0, manner="weighs")
    assert run(SHOP, SHOP.task("0"), weighs, lambda messages: suggest("escalate", 0.99)).success
    unsure = replace(weighs, skill=0.5)
    assert run(SHOP, SHOP.task("0"), unsure, lambda messages: suggest("escalate", 0.6)).called[0] == "escalate"


def test_an_agent_that_heeds_warnings_never_makes_a_warned_call() -> None:
    warned = Suggestions(warnings=(FailedWay("find_customer", 3, 4),))
    heeds = run(SHOP, SHOP.task("0"), Agent("heeds", skill=1.0, heed=1.0), lambda messages: warned)
    assert "find_customer" not in heeds.called


def test_a_memory_learns_from_the_runs_before() -> None:
    runs = learn_online(SHOP, KNOWS_ALL, ARMS["weighed"], runs=12, seed=0)
    assert not any(one.named for one in runs[0].heard)
    assert any(one.named for one in runs[-1].heard)


def test_the_calibration_error_is_worked_out_by_hand() -> None:
    right, wrong = (Heard("", frozenset({tool}), "a", 0.95, (), "", 0) for tool in "ab")
    assert calibration_error([]) is None
    assert calibration_error([right]) == pytest.approx(0.05)
    assert calibration_error([right, wrong]) == pytest.approx(0.45)
    assert calibration_error([right, replace_chance(wrong, 0.15)]) == pytest.approx((0.05 + 0.15) / 2)


def replace_chance(heard: Heard, chance: float) -> Heard:
    return heard._replace(chance=chance)


def test_warnings_of_the_right_call_are_counted() -> None:
    heard = [Heard("", frozenset({"a"}), "", 0.0, ("a", "b"), "", 0), Heard("", frozenset({"a"}), "", 0.0, (), "", 1)]
    assert warned_of_right(heard) == (1, 2)


def test_the_script_prints_one_line_about_every_arm() -> None:
    asked = ["--world", "shop", "--runs", "3", "--seeds", "1", "--arm", "none", "--arm", "sure", "--logs", "8"]
    command = [sys.executable, "benchmarks/worlds.py", "--agent", "habit obeys", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert [(row["arm"], row["runs"], sum(row["parts"]) == row["success"]) for row in report["online"]] == [
        ("none", 3, True),
        ("sure", 3, True),
    ]
    (answers,) = report["logs"]
    assert {kind: sum(found.values()) for kind, found in answers["branches"].items()} == dict.fromkeys(
        SHOP.branches, 40
    )


# Streams of hints that help or harm


@pytest.mark.parametrize(("case", "sessions"), [("harm a lot", SOON), ("harm, .9", SESSIONS)])
def test_where_hints_harm_silence_comes_into_force_with_a_tenth_held_out(case: str, sessions: int) -> None:
    rates = CASES[case]
    found = [stream(rates, drawn, Random(seed), holdout=0.1, control=rates[0]) for seed in range(10)]
    assert sum(one.in_force[sessions - 1] == SILENT for one in found) >= 8


def test_where_lessons_harm_at_each_level_nearly_all_sessions_are_held_out_once_it_is_known() -> None:
    rates = HELD_OUT_CASES[HARMFUL_LESSONS]
    found = [stream(rates, drawn, Random(seed), holdout=0.1, control=CONTROL_RATE) for seed in range(8)]
    assert sum(any(one.harmed) for one in found) >= 7
    held_out = [control for one in found for control, known in zip(one.controls, one.harmed, strict=True) if known]
    assert sum(held_out) / len(held_out) > HARMED_HOLDOUT - 0.03


def test_a_control_succeeds_as_controls_do_and_draws_no_level() -> None:
    found = stream((0.1, 0.1), drawn, Random(2), holdout=0.5, control=0.7)
    assert {rate for rate, held_out in zip(found.rates, found.controls, strict=True) if held_out} == {0.7}
    assert {rate for rate, held_out in zip(found.rates, found.controls, strict=True) if not held_out} == {0.1}
