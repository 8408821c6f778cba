"""Credit by gym as in PRIME's figures, and hidden functions: right actions win, idleness does not."""

from __future__ import annotations

from typing import Any

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.experience.comparison import compare_runs
from hepm.experience.credit import credit, key_turns
from hepm.experience.zones import stage_of, zone_of
from hepm.lab.environments import Task, find_environment
from hepm.lab.environments.published import EQUALISED


def test_a_run_credited_turn_by_turn_as_in_figure_6_is_tagged_with_two_stages_and_aligned_in_both(memory: Memory):
    rewards = (0.6, 0.8, 0.4, None)
    turns = [
        Turn("assistant", "", (ToolCall(tool, {}, "Yes."),), reward)
        for tool, reward in zip(("action", "action", "action", "answer"), rewards, strict=True)
    ]
    words = "I lost my sister, and in the following spring she was found"
    run = Trajectory("r", (Turn("user", words), *turns), Outcome(1.0), environment="turtle")
    (found,) = compare_runs([run], EQUALISED)
    assert sorted(move.turn for move in found.keys) == [1, 2, 3]
    assert found.experience.stage == "exploration → verification"
    memory.ingest([run])
    memory.experiences.distill()
    (stored,) = memory.experiences.search(words, environment="turtle")
    assert [stage_of(turn, 4) in stored.experience.stages for turn in (1, 2, 4)] == [True, True, False]


def test_of_all_functions_the_right_actions_win_each_nothing_wins_none_and_two_runs_are_equal():
    environment = find_environment("functions")
    tasks = environment.tasks()
    assert (len(tasks), [task.split for task in tasks].count("test")) == (120, 24)
    assert {task.family for task in tasks if task.split == "test"} == {task.family for task in tasks}
    for task in tasks:
        first, second = ([*played(environment.start(task), task)] for _ in range(2))
        assert first == second
        assert first[-1] == 1, task.id
        idle = environment.start(task)
        idle.answer("Done.")
        assert idle.reward() == 0


def played(episode: Any, task: Task) -> list[Any]:
    said = [episode.call(call.name, call.arguments) for call in task.gold[0].calls]
    return [*said, episode.reward()]


def test_the_travel_run_of_figure_7_is_golden_and_a_success_and_credited_by_hand():
    rewards = (0.5, 0.6, 0.7, 0.3, 0.0)
    # From the end: 0; .3; .7 + .8 * .3 = .94; .6 + .8 * .94 = 1.352; .5 + .8 * 1.352 = 1.5816.
    assert credit(rewards) == pytest.approx([1.5816, 1.352, 0.94, 0.3, 0.0])
    assert [turn + 1 for turn in key_turns(credit(rewards, equalised=True))] == [1, 2, 3]
    outcome = Outcome(0.76).graded()
    assert outcome.success is True
    assert zone_of(0.76, succeeded=outcome.success) == "golden"
    tools = ("action", "action", "action", "search", "finish")
    turns = [Turn("assistant", "", (ToolCall(tool),), r) for tool, r in zip(tools, rewards, strict=True)]
    run = Trajectory("r", (Turn("user", "a trip"), *turns), Outcome(0.76), environment="userrl-travel")
    (found,) = compare_runs([run], EQUALISED)
    assert [move.turn for move in found.keys] == [1, 2, 3]
    assert (found.well, found.experience.stage) == (True, "exploration")
