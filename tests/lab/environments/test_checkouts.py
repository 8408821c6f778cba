"""ACEBench, ToolSandbox and UserRL, from stand-ins of our own, and from checkouts where variables name them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from hepm.errors import EpisodeError, InputError
from hepm.lab.environments import PlayedUser, Task, find_environment, place_of, published
from hepm.lab.environments.worker import WorkerEnvironment
from tests.faults.command import quick
from tests.lab.environments.test_environments import play, tried
from tests.loopback import Loopback, Reply, completion

STAND_INS = Path(__file__).with_name("checkouts")
ACEBENCH, TOOLSANDBOX = str(STAND_INS / "acebench"), str(STAND_INS / "toolsandbox")


@pytest.fixture
def steps() -> Iterator[WorkerEnvironment]:
    environment = find_environment("acebench-multi_step", ACEBENCH)
    assert isinstance(environment, WorkerEnvironment)
    yield environment
    environment.close()


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerEnvironment]:
    """The stand-in, which needs no package; a model plays the user."""
    monkeypatch.setenv("HEPM_USER_MODEL", "user")
    environment = published.published("toolsandbox", "user", TOOLSANDBOX)
    environment.package = replace(published.BENCHMARKS["toolsandbox"][0], source=TOOLSANDBOX, requirements=())
    yield environment
    environment.close()


END = {"id": "call-1", "type": "function", "function": {"name": "end_conversation", "arguments": "{}"}}
"""A call of ToolSandbox's user."""


def ending(body: Any) -> Any:
    """A user who ends the conversation."""
    del body
    return {"choices": [{"message": {"role": "assistant", "tool_calls": [END]}}]}


def ended_with(environment: WorkerEnvironment, number: int, *calls: tuple[str, dict[str, Any]]) -> tuple[float, Any]:
    episode = environment.start(environment.tasks()[number])
    for tool, arguments in calls:
        tried(episode, tool, arguments)
    judged = episode.reward(), dict(episode.scores())
    episode.close()
    return judged


def test_a_checkout_is_named_by_source() -> None:
    with pytest.raises(InputError, match=r"from a checkout of https://.+/ACEBench, and none is named\. Clone it, and"):
        find_environment("acebench-multi_step").tasks()
    with pytest.raises(InputError, match=r"is none: there is no model_eval/checker\.py in it\."):
        find_environment("acebench-multi_step", str(STAND_INS)).tasks()
    with pytest.raises(InputError, match=r"^bfcl takes no source: leave --source out\.$"):
        find_environment("bfcl", ACEBENCH)
    environment = find_environment("acebench-multi_turn-user", ACEBENCH)
    assert [task.id for task in environment.tasks()] == ["agent_multi_turn_0"]
    environment.close()


def test_acebench_is_won_where_all_attributes_are_equal_and_by_nothing_else(steps: WorkerEnvironment) -> None:
    first, second = steps.tasks()
    assert first.request.startswith("Switch the lamp on")
    assert first.system.startswith("You look after a lamp.")
    for task in (first, second):
        assert play(steps, task, gold=True)[:2] == (1, {"process": 1})
        assert play(steps, task, gold=True) == play(steps, task, gold=True)
        assert play(steps, task, gold=False)[:2] == (0, {"process": 0})
    on, red = ("switch", {"on": True}), ("paint", {"colour": "red"})
    reward, scores = ended_with(steps, 0, on, red, ("note", {"text": "Ada"}))
    assert reward == 0  # on and colour are right, the note is not
    assert scores == {"process": pytest.approx(2 / 3)}


def test_process_accuracy_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ACEBENCH)
    monkeypatch.syspath_prepend(str(Path(published.__file__).parent / "backends"))
    from hepm.lab.environments.backends import acebench_backend

    assert acebench_backend.in_order([*"abcd"], [*"acd"]) == 0.75
    assert acebench_backend.in_order([*"abcd"], [*"dcba"]) == 0.25
    assert acebench_backend.calls_of("[note(text='Ada's lamp'), a(b=[1, {'c': True}])] ") == [
        ("note", {"text": "Ada's lamp"}), ("a", {"b": [1, {"c": True}]}),
    ]  # fmt: skip


def test_of_several_ideal_sequences_the_best_counts(steps: WorkerEnvironment) -> None:
    # Ideal: paint, off; or on, off, paint. Called on, off: one of two, and two of three.
    _, scores = ended_with(steps, 1, ("switch", {"on": True}), ("switch", {"on": False}))
    assert scores == {"process": pytest.approx(2 / 3)}


def test_a_call_that_acebench_cannot_make_is_told_to_the_agent(steps: WorkerEnvironment) -> None:
    episode = steps.start(steps.tasks()[0])
    assert tried(episode, "fly", {}) == "failed: there is no tool fly; there are switch, paint, note"
    assert tried(episode, "paint", {"size": 3}).startswith("failed: Error during execution")
    code = {"on=bool(__import__('os').getpid())=": 1}  # as text: switch(on=bool(...)==1)
    assert tried(episode, "switch", code).startswith("failed: Error during execution")
    assert tried(episode, "switch", {"on": True}) == "on"
    schema = next(tool["function"]["parameters"] for tool in episode.tools if tool["function"]["name"] == "note")
    assert schema["type"] == "object"
    assert schema["properties"]["tags"] == {"type": "array", "items": {}}
    episode.close()


def test_a_model_plays_the_user_of_acebench_until_it_finishes(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEPM_USER_MODEL", "user")
    monkeypatch.setenv("HEPM_USER_BASE_URL", loopback.url)
    loopback.replies = [completion("I want light."), completion("Yes, on."), completion("finish conversation")]
    environment = find_environment("acebench-multi_turn-user", ACEBENCH)
    (task,) = environment.tasks()
    assert (task.request, task.gold) == ("", ())
    episode = environment.start(task)
    assert episode.answer("") == "I want light."
    assert episode.answer("Shall it be on?") == "Yes, on."
    episode.call("switch", {"on": True})
    assert episode.answer("It is.") is None
    assert episode.reward() == 1
    said = loopback.requests[-1].body["messages"]
    assert said[0] == {"role": "system", "content": "You play a user. What you want: You want the lamp on."}
    assert [message["content"] for message in said[1:]] == [
        "Is there anything you need help with today?", "I want light.", "Shall it be on?", "Yes, on.", "It is.",
    ]  # fmt: skip
    episode.close()
    environment.close()


def test_a_model_plays_the_user_of_tau_bench_until_it_stops_or_is_handed_over_and_the_end_is_judged(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEPM_USER_MODEL", "user")
    monkeypatch.setenv("HEPM_USER_BASE_URL", loopback.url)
    environment = find_environment("tau-bench-retail-user", str(STAND_INS / "tau-bench"))
    tasks = environment.tasks()
    assert [(task.id, task.family, task.split, task.request) for task in tasks] == [
        ("train-0", "ada_moss_0001", "train", ""), ("train-1", "ben_reed_0002", "train", ""),
        ("test-0", "cleo_hart_0003", "test", ""),
    ]  # fmt: skip
    # Ben is to be told a price.
    for said, reward in (("It is blue, for 40 dollars.", 1), ("It is blue.", 0)):
        loopback.replies = [completion("Paint my fence."), completion("Blue."), completion("###STOP###")]
        episode = environment.start(tasks[1])
        assert episode.answer("") == "Paint my fence."
        assert tried(episode, "paint", {}) == "failed: Error: 'colour'"
        assert tried(episode, "fly", {}) == "failed: there is no tool fly; there are paint, transfer_to_human_agents"
        assert episode.answer("Which colour?") == "Blue."
        assert tried(episode, "paint", {"colour": "blue"}) == "painted"
        assert episode.reward() == 0  # their reward would replay the right actions in this state
        assert episode.answer(said) is None
        assert episode.reward() == reward
        heard = [message["content"] for message in loopback.requests[-1].body["messages"]]
        assert heard == [
            "You play a user. You are Ben. Have the fence painted blue.", "Hi! How can I help you today?",
            "Paint my fence.", "Which colour?", "Blue.", said,
        ]  # fmt: skip
        episode.close()
    asked = len(loopback.requests)
    loopback.replies = [completion("Hi.")]
    episode = environment.start(tasks[2])
    assert episode.answer("") == "Hi."
    assert episode.call("transfer_to_human_agents", {}) == "transferred"
    assert tried(episode, "paint", {"colour": "green"}) == "failed: the conversation has ended"
    assert episode.answer("A colleague takes over.") is None
    assert episode.reward() == 0
    assert len(loopback.requests) == asked + 1
    episode.close()
    environment.close()


def test_scenarios_of_toolsandbox_are_dealt_to_train_and_test_with_their_variants(sandbox: WorkerEnvironment) -> None:
    dealt = {(task.family, task.split) for task in sandbox.tasks()}
    assert dealt == {("wifi_on", "train"), ("get_wifi", "train"), ("wifi_talk", "test")}


def test_toolsandbox_is_won_by_its_milestones_and_leaves_out_what_needs_a_paid_service(
    sandbox: WorkerEnvironment,
) -> None:
    tasks = {task.id: task for task in sandbox.tasks()}
    scrambled = "wifi_on_3_distraction_tools_tool_name_scrambled"
    assert [*tasks] == ["wifi_on", "wifi_on_3_distraction_tools", scrambled, "get_wifi", "wifi_talk"]
    assert (tasks["wifi_on"].request, tasks["wifi_on"].system) == ("Turn on wifi", "Ask if in doubt.")
    for task in tasks.values():
        idle = sandbox.start(task, ask=ending)
        assert idle.answer("Done.") is None
        assert idle.reward() == 0
        idle.close()
    episode = sandbox.start(tasks["wifi_on"], ask=ending)
    assert tried(episode, "set_wifi_status", {"on": True}) == "None"
    assert episode.answer("Wifi is on") is None
    assert episode.reward() == 1
    episode.close()
    episode = sandbox.start(tasks[scrambled], ask=ending)
    assert [tool["function"]["name"] for tool in episode.tools] == ["s_1"]
    assert tried(episode, "s_1", {"of": True}).startswith("failed: TypeError")
    assert tried(episode, "set_wifi_status", {"on": True}) == "failed: there is no tool set_wifi_status; there are s_1"
    assert tried(episode, "s_1", {"on": True}) == "None"
    assert episode.reward() == 0.5  # the user was not told
    episode.close()


def test_a_model_plays_the_user_of_toolsandbox_and_ends_by_its_tool(
    sandbox: WorkerEnvironment, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEPM_USER_BASE_URL", loopback.url)
    loopback.replies = [completion("Wifi, I think."), Reply(completion("").body | ending(None))]
    task = next(task for task in sandbox.tasks() if task.id == "wifi_talk")
    assert task.request == "My phone does not work"
    episode = sandbox.start(task)
    assert episode.answer("What does not work?") == "Wifi, I think."
    episode.call("set_wifi_status", {"on": True})
    assert episode.answer("It is on.") is None
    assert episode.reward() == 1
    episode.close()


@pytest.fixture(scope="module")
def userrl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerEnvironment]:
    """All gyms of a stand-in of UserRL, laid out here; a model plays the users, and there is no key to search."""
    root = tmp_path_factory.mktemp("userrl")
    package, parts = published.BENCHMARKS["userrl"]
    prompt = [{"role": "system", "content": "Use the tool."}, {"role": "user", "content": "I think of a word."}]
    for part in filter(None, parts):
        folder = root / "gyms" / f"{part.capitalize()}Gym" / f"{part}gym"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text((STAND_INS / "userrl_gym.py").read_text())
        data = {"persuade": "persuasion", "search": "bamboogle"}.get(part, part)
        data = root / "data" / f"{data}_multiturn{'_onechoice' if part == 'travel' else ''}"
        data.mkdir(parents=True)
        named = "title" if part in ("turtle", "telepathy") else "id"
        for split in ("train", "test") if part != "search" else ("test",):
            rows = [{"prompt": prompt, "reward_model": {named: f"{part}-{split}-word-{n}"}} for n in range(2)]
            parquet.write_table(pa.Table.from_pylist(rows), data / f"{split}.parquet")
    schema = root / package.marker
    schema.parent.mkdir(parents=True)
    fields = "{choice: {type: string}, content: {type: string}}"
    schema.write_text(
        "tool_schema:\n  type: function\n  function:\n    name: interact_with_env\n    description: Act.\n"
        f"    parameters: {{type: object, properties: {fields}, required: [choice, content]}}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEPM_USER_MODEL", "user")
        patch.delenv("SERPER_API_KEY", raising=False)
        environment = published.published("userrl", "", str(root))
        environment.package = replace(package, source=str(root), requirements=())
        yield environment
    environment.close()


def begun(environment: WorkerEnvironment, task: str, bodies: list[Any], says: str = "Yes.") -> Any:
    """A run whose user always says the same; `bodies` has what its model was asked."""

    def ask(body: Any) -> Any:
        bodies.append(body)
        return {"choices": [{"message": {"content": says}}]}

    return environment.start(Task(task, ""), ask=ask)


def acted(episode: Any, *steps: str) -> list[str]:
    made: list[str] = []
    for step in steps:
        choice, _, content = step.partition(" ")
        made.append(tried(episode, "interact_with_env", {"choice": choice, "content": content}))
    return made


def test_the_gyms_of_userrl_have_its_published_splits_and_prompts_and_one_library_serves_all_of_them(
    userrl: WorkerEnvironment,
) -> None:
    tasks = userrl.tasks()
    assert [task.id for task in tasks][:5] == [
        "travel-train-0", "travel-train-1", "travel-test-0", "travel-test-1", "turtle-train-0",
    ]  # fmt: skip
    assert len(tasks) == 7 * 4  # searching the web needs a key
    assert {(task.request, task.system) for task in tasks} == {("I think of a word.", "Use the tool.")}
    assert [task.split for task in tasks].count("test") == 14
    assert place_of(userrl, tasks[4]) == "userrl-turtle" == find_environment("userrl-turtle", "x").name
    assert {"userrl-travel", "userrl-intention"} == published.EQUALISED
    assert isinstance(userrl, PlayedUser)
    assert not isinstance(find_environment("userrl-function", "x"), PlayedUser)


def test_the_users_of_userrl_are_asked_through_hepm_and_a_right_guess_ends_the_run(userrl: WorkerEnvironment) -> None:
    bodies: list[Any] = []
    episode = begun(userrl, "telepathy-test-0", bodies)
    assert [tool["function"]["name"] for tool in episode.tools] == ["interact_with_env"]
    assert acted(episode, "action Is it big?", "answer house") == ["Yes.", "Wrong."]
    asked = [{"role": "user", "content": "[action] Is it big?"}]
    assert bodies == [{"model": "user", "messages": asked, "temperature": 0.0, "max_tokens": 9}]
    assert tried(episode, "think", {}) == "failed: there is no tool think; there are interact_with_env"
    assert tried(episode, "interact_with_env", {"choice": 1, "content": "x"}).endswith("as texts")
    assert episode.reward() == 0
    right, late = acted(episode, "answer telepathy-test-word-0", "action More?")
    assert (right, late) == ("Right.\nThe conversation is over.", "failed: the conversation is over")
    assert (episode.reward(), episode.scores(), episode.answer("Done.")) == (1, {"published": 1}, None)
    episode.close()
    episode = begun(userrl, "function-test-0", [])
    texts = acted(episode, *["answer 1"] * 17)
    assert texts[14:] == ["Wrong.", "Wrong.\nThe conversation is over.", "failed: the conversation is over"]
    episode.close()


def test_scores_of_userrl_are_counted_as_its_analysis_does_and_rewards_end_at_one(userrl: WorkerEnvironment) -> None:
    wish = begun(userrl, "intention-train-0", [])
    assert wish.reward() == 0
    acted(wish, "action Which colour?")
    assert (wish.reward(), wish.scores()) == (0.5, {"published": 1})
    acted(wish, "action Which size?")
    assert (wish.reward(), wish.scores()) == (1, {"published": 2})
    wish.close()
    trip = begun(userrl, "travel-train-0", [])
    # Of each aspect the best choice, over both aspects; a search and an empty answer choose nothing.
    acted(trip, "search F1", "answer F2", "answer F1", "answer ", "answer H2")
    assert trip.reward() == pytest.approx((1 + 0.8) / 2)
    trip.close()


def test_a_gym_of_userrl_that_lacks_something_says_what_and_a_user_may_speak_first(userrl: WorkerEnvironment) -> None:
    with pytest.raises(EpisodeError, match=r"Serper API key not found"):
        begun(userrl, "search-test-0", [])
    with pytest.raises(EpisodeError, match=r"tau-bench is not in .*utils.tau-bench: clone it there"):
        begun(userrl, "tau-train-0", [])
    (userrl.package.checkout / "gyms" / "utils" / "tau-bench").mkdir(parents=True)
    bodies: list[Any] = []
    episode = begun(userrl, "tau-test-0", bodies, "I want my money back.")
    assert not bodies  # only when the agent first acts
    assert acted(episode, "action How can I help?") == ["I want my money back."]
    assert [body["messages"] for body in bodies] == [[], [{"role": "user", "content": "[action] How can I help?"}]]
    episode.close()


def test_a_bench_runs_from_a_checkout_and_reports_process_accuracy(tmp_path: Path) -> None:
    asked = ["bench", "acebench-multi_step", "--source", ACEBENCH, "--arms", "off", "--folder", tmp_path / "bench"]
    found = quick(*asked, "--model", "gold", "--json").json
    assert found["arms"]["off"]["measures"]["process"]["value"] == 1
    assert found["arms"]["off"]["measures"]["success"]["value"] == 1


REAL = {
    # Milestones name no log-in where one is needed, or are met by several ways of which the first ends elsewhere.
    "acebench-multi_step": ("HEPM_TEST_ACEBENCH", {f"agent_multi_step_{n}" for n in (0, 1, *range(12, 18))})
}
"""The variables of checkouts, and the tasks whose gold actions do not win."""


@pytest.mark.soak
@pytest.mark.parametrize("name", REAL)
def test_in_the_real_ones_gold_actions_win_idleness_does_not_and_two_runs_are_equal(name: str) -> None:
    variable, lost = REAL[name]
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no checkout")
    environment = find_environment(name, os.environ[variable])
    known: list[Task] = [task for task in environment.tasks() if task.gold]
    assert len(known) >= 20
    for task in known:
        ended = play(environment, task, gold=True)
        assert ended == play(environment, task, gold=True), task.id
        assert (ended[0] == 1) == (task.id not in lost), task.id
        assert play(environment, task, gold=False)[0] < 1, task.id
    environment.close()
