"""The gyms: gold actions win, idleness does not, users by rule answer as they should, and rounds over all of them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, Outcome, StateSummary, ToolCall, Trajectory, Turn
from hepm.experience.comparison import compare_runs
from hepm.experience.credit import credit, key_turns
from hepm.experience.zones import zone_of
from hepm.lab.environments import Task, ToolFailed, find_environment
from hepm.lab.environments.gyms import ALL, CREDIT, GYMS
from hepm.lab.environments.gyms.episode import records
from tests.faults.command import quick
from tests.loopback import Loopback, Reply, Request, completion


def test_the_travel_run_of_figure_7_is_golden_and_a_success_and_credited_by_hand():
    rewards = (0.5, 0.6, 0.7, 0.3, 0.0)
    # From the end: 0; .3; .7 + .8 * .3 = .94; .6 + .8 * .94 = 1.352; .5 + .8 * 1.352 = 1.5816.
    assert credit(rewards) == pytest.approx([1.5816, 1.352, 0.94, 0.3, 0.0])
    assert [turn + 1 for turn in key_turns(credit(rewards, "equalised"))] == [1, 2, 3]
    outcome = Outcome(0.76).graded()
    assert outcome.success is True
    assert zone_of(0.76, succeeded=outcome.success) == "golden"
    tools = ("action", "action", "action", "search", "finish")
    turns = [Turn("assistant", "", (ToolCall(tool),), r) for tool, r in zip(tools, rewards, strict=True)]
    run = Trajectory("r", (Turn("user", "a trip"), *turns), Outcome(0.76), environment="travel")
    (found,) = compare_runs([run], CREDIT)
    assert [move.turn for move in found.keys] == [1, 2, 3]
    assert (found.well, found.stage) == (True, "exploration")


def test_a_run_credited_turn_by_turn_as_in_figure_6_is_tagged_with_two_stages_and_aligned_in_both(tmp_path: Path):
    rewards = (0.6, 0.8, 0.4, None)
    turns = [
        Turn("assistant", "", (ToolCall(tool, {}, "Yes."),), reward)
        for tool, reward in zip(("action", "action", "action", "answer"), rewards, strict=True)
    ]
    words = "I lost my sister, and in the following spring she was found"
    run = Trajectory("r", (Turn("user", words), *turns), Outcome(1.0), environment="turtle")
    (found,) = compare_runs([run], CREDIT)
    assert sorted(move.turn for move in found.keys) == [1, 2, 3]
    assert found.stage == "exploration → verification"
    with Memory.open(tmp_path) as memory:
        memory.ingest([run])
        memory.experiences.distill()

        def aligned(turn: int) -> list[bool]:
            state = StateSummary(said=(words,))
            return [one.aligned for one in memory.experiences.search(state, environment="turtle", turn=turn, horizon=4)]

        assert [aligned(turn) for turn in (1, 2, 4)] == [[True], [True], [False]]


@pytest.mark.parametrize("name", GYMS)
def test_of_all_tasks_the_right_actions_win_each_nothing_wins_none_and_two_runs_are_equal(name: str):
    environment = find_environment(name)
    tasks = environment.tasks()
    number = 120 if name == "functions" else 20
    assert (len(tasks), [task.split for task in tasks].count("test")) == (number, number // 5)
    assert {task.family for task in tasks if task.split == "test"} == {task.family for task in tasks}
    for task in tasks:
        first, second = ([*played(environment.start(task), task)] for _ in range(2))
        assert first == second
        assert first[-1] == pytest.approx(1), task.id
        idle = environment.start(task)
        idle.answer("Done.")
        assert idle.reward() == 0


def played(episode: Any, task: Task) -> list[Any]:
    said = [episode.call(call.name, call.arguments) for call in task.gold[0].calls]
    return [*said, episode.reward()]


def test_a_conversation_that_was_finished_is_over():
    environment = find_environment("intention")
    episode = environment.start(environment.tasks()[0])
    episode.call("finish", {"text": "Done."})
    with pytest.raises(ToolFailed, match="over"):
        episode.call("action", {"text": "And the guests?"})


def test_five_of_six_details_are_worth_five_sixths_as_in_figure_9():
    environment = find_environment("intention")
    episode = environment.start(environment.tasks()[0])
    for text in ("How old is she?", "How many guests, and where?", "What budget and theme?"):
        episode.call("action", {"text": text})
    assert episode.reward() == pytest.approx(0.83, abs=0.005)


def test_a_user_answers_two_questions_of_a_message_and_none_of_three():
    environment = find_environment("travel")
    episode = environment.start(environment.tasks()[0])
    three = episode.call("action", {"text": "What of climate, days and budget?"})
    assert (three, episode.reward()) == ("Ask at most 2 things at a time.", 0)
    two = episode.call("action", {"text": "What of climate and days?"})
    assert (two.count("For the"), episode.reward()) == (2, pytest.approx(2 / 5 / 2))


def test_a_thing_is_told_by_its_traits_alone_and_a_question_beyond_the_20th_is_not_answered():
    assert len({frozenset(record["says"]) for record in records("telepathy")}) == 20
    environment = find_environment("telepathy")
    episode = environment.start(environment.tasks()[0])
    assert episode.call("action", {"text": "Is it an animal?"}) == "Yes."
    assert episode.call("action", {"text": "Is it made of metal?"}) == "No."
    assert episode.call("action", {"text": "Is it xyz?"}) == "I cannot say."
    assert episode.call("action", {"text": "Is it wooden or electric?"}) == "Ask one thing at a time."
    for _ in range(16):
        episode.call("action", {"text": "Is it a place?"})
    assert episode.call("action", {"text": "Is it a place?"}).endswith("Guess.")
    assert episode.call("answer", {"text": "It is a penguin."}) == "Right."


def said_all(episode: Any, text: str) -> None:
    """Every action with one text: three times what talks, then what ends the conversation."""
    names = [tool["function"]["name"] for tool in episode.tools]
    for name in (*[n for n in names if n not in ("answer", "finish", "submit")] * 3, *names):
        fields = next(t["function"]["parameters"]["required"] for t in episode.tools if t["function"]["name"] == name)
        with suppress(ToolFailed):
            episode.call(name, dict.fromkeys(fields, text))


@pytest.mark.parametrize("name", [*GYMS])
def test_rules_echoed_secrets_listed_one_move_repeated_and_an_unasked_end_earn_nothing(name: str):
    environment = find_environment(name)
    tasks = environment.tasks()
    texts = [str(value) for task in tasks for call in task.gold[0].calls for value in call.arguments.values()]
    asked_first = {"travel", "intention", "persuade", "tau"}
    for task in tasks:
        for text in (task.system, task.request.upper(), f"{task.request} {task.system}", *lists_of(texts)):
            episode = environment.start(task)
            said_all(episode, text)
            assert episode.reward() == 0, (task.id, text[:80])
        first, last = task.gold[0].calls[0], task.gold[0].calls[-1]
        if len(task.gold[0].calls) > 1:  # else the first move is the answer itself
            once, often = environment.start(task), environment.start(task)
            tried_call(once, first.name, first.arguments)
            for _ in range(8):
                tried_call(often, first.name, first.arguments)
            assert often.reward() == once.reward() <= 1 / 3 + 1e-9, task.id
        if name in asked_first:
            episode = environment.start(task)
            tried_call(episode, last.name, last.arguments)
            assert episode.reward() == 0, task.id


def lists_of(texts: list[str]) -> list[str]:
    """All there is to say, as it is, backwards, and with the separators that guesses come in."""
    known = [*dict.fromkeys(texts)]
    return [" ".join(known), ", ".join(reversed(known)), " or ".join(known)]


def tried_call(episode: Any, tool: str, arguments: Any) -> str:
    try:
        return episode.call(tool, arguments)
    except ToolFailed as error:
        return str(error)


@pytest.mark.parametrize(
    "guess", ["penguin eagle shark cow", "eagle or penguin", "not a penguin", "penguin, penguin", "a penguin I saw", ""]
)
def test_a_guess_that_is_not_one_name_alone_is_wrong(guess: str):
    environment = find_environment("telepathy")
    episode = environment.start(environment.tasks()[0])
    assert episode.call("answer", {"text": guess}) == "Wrong."


def test_an_order_that_may_not_be_changed_is_worth_a_refusal_said_and_no_attempt():
    environment = find_environment("tau")
    task = next(task for task in environment.tasks() if task.family == "refused")
    _, look, finish = task.gold[0].calls
    number = look.arguments["text"]
    for change, words, worth in (("", finish.arguments, 1), ("", {"text": "Bye."}, 0), ("cancel", finish.arguments, 0)):
        episode = environment.start(task)
        episode.call("get_order", look.arguments)
        if change:
            with pytest.raises(ToolFailed, match="shipped"):
                episode.call("cancel_order", {"text": number})
        episode.call("finish", words)
        assert episode.reward() == worth


def test_an_argument_that_lists_the_evidence_of_several_claims_or_doubts_convinces_nobody():
    environment = find_environment("persuade")
    mine, other = environment.tasks()[:2]
    evidence = [call.arguments["text"] for call in mine.gold[0].calls[1:4]]
    foreign = [call.arguments["text"] for call in other.gold[0].calls[1:4]]
    episode = environment.start(mine)
    for text in (f"{evidence[0]} {evidence[1]} {evidence[2]}", f"{evidence[0]} {foreign[0]}"):
        assert episode.call("action", {"text": text}) == "One argument at a time, please. Shops would lose customers."
    assert episode.reward() == 0


def test_a_story_is_worth_the_share_of_its_points():
    environment = find_environment("turtle")
    task = environment.tasks()[0]
    for text, share in (("He lives there.", 0), ("It is a game.", 1 / 3), ("A game, and his token must pay.", 1)):
        episode = environment.start(task)
        episode.call("answer", {"text": text})
        assert episode.reward() == pytest.approx(share)


def test_evidence_counts_against_the_doubt_that_was_voiced_and_not_before():
    environment = find_environment("persuade")
    task = environment.tasks()[0]
    first, second, _ = (call.arguments["text"] for call in task.gold[0].calls[1:4])
    episode = environment.start(task)
    assert episode.call("action", {"text": second}).startswith("That does not convince me. Shops")
    assert episode.call("action", {"text": first}) == "I could not get to the doctor."
    assert episode.reward() == pytest.approx(1 / 3)


def prober(request: Request) -> Reply:
    """In rounds over all gyms: asks one thing and finishes; with lessons it asks all that a plan has."""
    body: Any = request.body
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    if names and all(name.startswith("e_") for name in names):
        return completion("", tool_calls=[(names[0], {})])
    done = sum(message["role"] == "assistant" for message in body["messages"])
    if "evaluate" in names or done >= 3:
        return (
            completion("I stop.") if "finish" not in names else completion("", tool_calls=[("finish", {"text": "x"})])
        )
    if "action" not in names:
        return completion("", tool_calls=[("search", {"text": "novel"})] if done < 2 else [("answer", {"text": "no"})])
    told = "hepm-memory" in str(body["messages"])
    asked = ("age and guests", "place and budget", "theme and food") if told else ("hm",) * 3
    return completion("", tool_calls=[("action", {"text": f"What about {asked[done]}?"})])


def test_rounds_over_all_gyms_report_success_reward_and_zones_by_environment_and_the_agent_chooses(
    tmp_path: Path, loopback: Loopback
):
    loopback.script = prober
    places = ("--folder", tmp_path / "f", "--memory", tmp_path / "m.hepm")
    known = ("--model", "small", "--base-url", loopback.url, *places)
    options = ("--tasks", "intention-[0-3],travel-0", "--rollouts", "4", "--rounds", "2", "--arms", "chosen")
    answer = quick("bench", ALL, *map(str, known), *options, "--json")
    assert answer.code == 0, answer.err
    first, second = (one["environments"] for one in answer.json["rounds"])
    assert {name: one["runs"] for name, one in first.items()} == {"intention": 4, "travel": 4}
    assert first["intention"]["reward"] < second["intention"]["reward"]
    assert all({"success", "reward", "golden", "warning", "preference"} < set(one) for one in first.values())
    chosen = [r.body for r in loopback.requests if "You are about to take the next step" in json.dumps(r.body)]
    assert chosen
    assert all(len(body["tools"]) <= 20 for body in chosen)
    shown = quick("bench", ALL, *map(str, known), *options)
    assert re.search(r"by environment\nenvironment +round .*\nintention +1 +0\.00 .* 0 / 4 / 0\n", shown.out)
