"""The arms of H-EPM's tables: the memory that they learn, what each is shown, and the figures of the paper by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hepm import ToolCall, Trajectory, Turn
from hepm.agents.loop import Agent
from hepm.evals.ablated import StatesOnly
from hepm.evals.metrics import entropy_of
from hepm.lab.bench.arms import ARMS, SUMMARY, KnownMemory, scratch_memory
from hepm.lab.bench.planned import PlannedPath, steps_in, walked
from hepm.llm import Endpoint
from hepm.types import SUMMARY_TOOL, StateSummary
from tests.lab.bench.parcels import clerk
from tests.lab.bench.test_bench import bench, report
from tests.loopback import Loopback, Reply, Request, completion, embeddings
from tests.runs import trajectory

SPLIT = "tests.lab.bench.parcels:split_parcels"
TWO_TASKS = ("--tasks", "l*-Cleo,l*-Dana")


@pytest.fixture
def memory() -> Iterator[KnownMemory]:
    with scratch_memory(learns_from=SUMMARY) as made:
        yield made


def summarised(name: str, *tools: str, summaries: dict[int, str], task: str = "") -> Trajectory:
    """A successful run that noted a summary before some of its calls."""
    run = trajectory(name, *tools, task=task or name)
    turns = list(run.turns)
    for at in sorted(summaries, reverse=True):
        note = ToolCall(SUMMARY_TOOL, {"summary": summaries[at]}, "Noted.")
        turns.insert(1 + at, Turn("assistant", "", (note,)))
    return replace(run, turns=tuple(turns))


def after_a(*, steps: int, target: str, name: str) -> Trajectory:
    """A run of so many turns that called `target` after a."""
    return trajectory(name, "a", target, *["end"] * (steps - 2), task=name)


def hinted(memory: KnownMemory, arm: str, replies: Sequence[str | list[str]]) -> list[str]:
    """What memory said at each step of a run of an arm whose model gives these texts, or calls these tools."""
    left = list(replies)

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        del body
        reply = left.pop(0)
        message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else ""}
        if isinstance(reply, list):
            function = [{"name": name, "arguments": "{}"} for name in reply]
            message["tool_calls"] = [{"id": "1", "type": "function", "function": one} for one in function]
        return {"choices": [{"message": message}]}

    tools: list[Any] = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in "abcdefg"
    ]
    agent = Agent(
        endpoint=Endpoint("small"), memory=memory, tools=tools, execute=lambda name, arguments: "done",
        strategy=ARMS[arm].strategy, prompt_options=ARMS[arm].prompt, complete=answer,
    )  # fmt: skip
    return [step.hint for step in agent.run("Please help.").steps]


def test_weights_of_the_paper_by_hand_for_each_c(memory: KnownMemory) -> None:
    # b: N = 2, n = 2 and 4; c: N = 1, n = 5. w'(b) = 2 + .75 c, w'(c) = 1 + .2 c.
    runs = [after_a(steps=2, target="b", name="1"), after_a(steps=4, target="b", name="2")]
    memory.learn([*runs, after_a(steps=5, target="c", name="3")], distill=False)
    for policy, weights in {
        "adaptive-c0": (0.667, 0.333),
        "adaptive-c1": (0.696, 0.304),
        "adaptive-c5": (0.742, 0.258),
        "adaptive-c10": (0.76, 0.24),
        "weights-c0": (0.667, 0.333),
    }.items():
        found = memory.suggest(after="a", policy=policy)
        assert [one.tool for one in found] == ["b", "c"]
        assert [round(one.score, 3) for one in found] == list(weights), policy


def test_the_memory_of_own_summaries_counts_the_shortest_success_and_holds_no_extract(memory: KnownMemory) -> None:
    long = summarised("long", "a", "b", "c", summaries={1: "The customer is Ada."}, task="t")
    short = summarised("short", "a", "c", summaries={1: "The order is late."}, task="t")
    failed = trajectory("failed", "a", success=False, task="t")
    memory.learn([long, short, failed], distill=False)
    assert [one.tool for one in memory.suggest(after="a", policy="procedural")] == ["c"]
    states = {str(found) for found in memory.search("customer order late Ada", k=9)}
    assert any("The order is late." in state for state in states)
    assert not any("please help" in state for state in states)


def test_in_explicit_mode_no_recalls_by_weight_and_yes_by_state(memory: KnownMemory) -> None:
    often = [trajectory(f"w{number}", "a", "b", task=f"w{number}") for number in range(4)]
    memory.learn([*often, summarised("s", "a", "c", summaries={1: "A parcel is lost."})], distill=False)
    by_weight = hinted(memory, "k1", ["No", ["a"], "No", "Done."])
    assert by_weight[1] == "Suggested next tools: b"
    by_state = hinted(memory, "k1", ["No", ["a"], "Yes", "The parcel is lost.", "Done."])
    assert by_state[1] == "Suggested next tools: c"


def test_without_weights_the_nearest_states_of_all_tools_decide_and_the_last_tool_does_not(memory: KnownMemory) -> None:
    memory.learn(
        [
            trajectory("w", "a", "b"),
            summarised("s", "d", "e", summaries={1: "A parcel is lost."}),
            summarised("f", "d", "f", summaries={1: "The bill is wrong."}),
        ],
        distill=False,
    )
    lost = hinted(memory, "no-weight", ["No", ["a"], "Yes", "The parcel is lost.", "Done."])
    assert lost == ["", "Suggested next tools: e, f"]  # neither ever followed a; b did, and no state led to it
    assert hinted(memory, "no-weight", ["No", ["a"], "No", "Done."]) == ["", ""]
    assert not StatesOnly().suggest(memory.mirror(), memory_query())


def memory_query() -> Any:
    from hepm.policy import Query

    return Query(after=("a",), state=StateSummary(said=("The parcel is lost.",)))


def test_without_adaptation_a_summary_is_asked_at_each_step_and_weights_answer_where_no_edge_has_a_state(
    memory: KnownMemory,
) -> None:
    often = [trajectory(f"w{number}", "a", "b", "d", task=f"w{number}") for number in range(4)]
    memory.learn([*often, summarised("s", "a", "c", summaries={1: "A parcel is lost."})], distill=False)
    hints = hinted(memory, "no-adapt", ["Nothing yet.", ["a"], "The parcel is lost.", ["b"], "It is done.", "Done."])
    # Before the first call the paper suggests nothing.
    assert hints == ["", "Suggested next tools: c", "Suggested next tools: d"]


@pytest.mark.parametrize(("arm", "tools"), [("k1", "b"), ("explicit", "b, c"), ("k3", "b, c, d")])
def test_an_arm_names_so_many_tools_as_it_is_called_after(arm: str, tools: str, memory: KnownMemory) -> None:
    followed = ("b", "b", "b", "c", "c", "d")
    memory.learn([trajectory(f"{n}", "a", tool, task=f"{n}") for n, tool in enumerate(followed)], distill=False)
    assert hinted(memory, arm, ["No", ["a"], "No", "Done."])[1] == f"Suggested next tools: {tools}"


def test_the_summary_tool_alone_is_offered_without_a_hint(memory: KnownMemory) -> None:
    memory.learn([trajectory("1", "a", "b")], distill=False)
    assert ARMS[SUMMARY].remembers is False
    assert hinted(memory, SUMMARY, [["a"], [SUMMARY_TOOL], "Done."]) == ["", "", ""]


def test_arms_with_summaries_learn_from_three_rollouts_that_the_summary_tool_made(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = clerk
    options = ("--arms", "off,explicit,no-state", "--rollouts", "3", *TWO_TASKS, "--json")
    planned = report(bench(tmp_path, loopback.url, *options, "--dry-run", env=SPLIT))
    assert planned["runs"] == 12 * 3 + 2 * 2 * 3  # 12 tasks to learn from; three arms, four tasks
    found = report(bench(tmp_path, loopback.url, *options, env=SPLIT))
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text("utf-8").splitlines()]
    learned = [run for run in runs if run["task"].endswith(("Ada", "Ben"))]
    assert {run["tags"]["arm"] for run in learned} == {"summary"}
    assert {run["tags"]["trial"] for run in learned} == {"0", "1", "2"}
    assert len(learned) == 36
    assert found["arms"]["explicit"]["measures"]["hinted"]["value"] > 0
    explicit, off = (found["arms"][arm]["measures"] for arm in ("explicit", "off"))
    assert off["requests_per_turn"]["value"] == 1
    assert explicit["requests_per_turn"]["value"] == 3  # the clerk says Yes at each turn, and writes a summary


def role_of(request: Request) -> str:
    """What a request is for, by its words."""
    messages = request.body.get("messages", [{"content": ""}])
    said = str(messages[-1]["content"])
    if request.path.endswith("embeddings"):
        return "embedding"
    if "You judge whether an agent" in str(messages[0]["content"]):
        return "judge"
    if 'Answer only "Yes" or "No"' in said:
        return "question"
    return "summary" if said.endswith("information from the environment and the user.") else "agent"


@pytest.mark.parametrize(("arm", "questions"), [("explicit", 3), ("implicit", 0)])
def test_online_h_epm_asks_and_hints_as_the_paper_does_and_a_judge_labels_each_run(
    arm: str, questions: int, loopback: Loopback, tmp_path: Path
) -> None:
    def judged(request: Request) -> Reply:
        if request.path.endswith("embeddings"):
            return embeddings(request)
        if role_of(request) == "judge":
            return completion("yes" if len(asked("judge")) > 1 else "no")
        return clerk(request)

    def asked(role: str) -> list[Request]:
        return [request for request in loopback.requests if role_of(request) == role]

    loopback.script = judged
    options = ("--arms", arm, "--learn-from", "online-judged", "--embedder", "openai/small", "--tasks", "*-Ada")
    report(bench(tmp_path, loopback.url, *options, "--json"))
    turns = 3 if arm == "explicit" else 4
    expected = {"agent": 6 * turns, "question": 6 * questions, "summary": 6 * questions, "judge": 6}
    assert {role: len(asked(role)) for role in expected} == expected
    assert asked("embedding")
    hinted_at: list[int] = []
    for number, request in enumerate(asked("agent")):
        system, *others = (str(message.get("content")) for message in request.body["messages"])
        assert "Suggested next tools" not in "".join(others)
        hint = re.search(r"\n\nSuggested next tools: (\w+)(, \w+)?\Z", system)
        assert (hint is not None) == ("Suggested" in system)
        if hint is not None:
            hinted_at.append(number)
            assert len(request.body["messages"]) > 2  # after a call
    # The first run taught nothing, as the judge said no: the second one knows nothing either.
    assert min(hinted_at) >= 2 * turns
    other = bench(tmp_path, loopback.url, *options[:4], "--tasks", "*-Ada")
    assert "holds runs with another --embedder" in " ".join(other.err.split())


def test_the_entropy_of_two_equal_tokens_is_ln_2_and_of_a_sure_one_is_0() -> None:
    assert entropy_of((math.log(0.5), math.log(0.5))) == pytest.approx(0.693, abs=5e-4)
    assert entropy_of((0.0,)) == 0
    assert entropy_of((math.log(0.5),)) == pytest.approx(0.693, abs=5e-4)  # the rest counts as one more token


def test_entropies_are_taken_at_the_summary_and_at_the_answers_around_it(loopback: Loopback, tmp_path: Path) -> None:
    def sure(request: Request) -> Reply:
        reply = clerk(request)
        shares = {"get_parcel": (0.5, 0.5), SUMMARY_TOOL: (0.75, 0.25)}
        named = next((part for name, part in shares.items() if f'"{name}"' in json.dumps(reply.body)), (1.0,))
        top = [{"token": "x", "bytes": None, "logprob": math.log(share)} for share in named]
        reply.body["choices"][0]["logprobs"] = {"content": [{**top[0], "top_logprobs": top}], "refusal": None}
        return reply

    loopback.script = sure
    found = report(
        bench(
            tmp_path,
            loopback.url,
            "--arms",
            "summary",
            "-o",
            "logprobs=true",
            "-o",
            "top_logprobs=20",
            *TWO_TASKS,
            "--json",
            env=SPLIT,
        )
    )
    # -.75 ln .75 - .25 ln .25 = .562
    measures = found["arms"]["summary"]["measures"]
    entropies = [measures[f"entropy.{at}"]["value"] for at in ("summary", "before", "after")]
    assert entropies == [0.5623, 0.6931, 0.0]
    assert {request.body["top_logprobs"] for request in loopback.requests} == {20}


def test_a_plan_is_walked_along_the_graph_by_hand() -> None:
    scores = np.array([[0.1, 0.9, 0.2], [0.9, 0.5, 0.4], [0.1, 0.2, 0.3]], dtype=np.float32)
    # 1 first; then 0 scores best, but only 1 and 2 follow 1; nothing follows 2, so that all are asked.
    assert walked(scores, {0: [1], 1: [1, 2]}) == [1, 1, 2]
    assert walked(scores, {1: [2]}) == [1, 2, 2]
    assert steps_in("1. Look it up\n- Pay it back\n\nStep 3: Tell the user") == [
        "Look it up", "Pay it back", "Tell the user",
    ]  # fmt: skip


def test_a_planned_path_names_what_is_not_reached_yet(memory: KnownMemory) -> None:
    from hepm.policy import Query

    path, mirror = PlannedPath(("a", "b", "c", "b")), memory.mirror()
    assert [one.tool for one in path.suggest(mirror, Query())] == ["a", "b"]
    assert [one.tool for one in path.suggest(mirror, Query(history=("a", "x")))] == ["b", "c"]
    assert [one.tool for one in path.suggest(mirror, Query(history=("a", "b", "c")))] == ["b"]
    assert not path.suggest(mirror, Query(history=("a", "b", "c", "b")))


def test_gnn4plan_asks_for_a_plan_and_suggests_the_tools_of_its_steps(loopback: Loopback, tmp_path: Path) -> None:
    plans: list[Request] = []

    def planner(request: Request) -> Reply:
        if "Split the user's request" in str(request.body):
            plans.append(request)
            return completion("1. get the parcel\n2. refund")
        return clerk(request)

    loopback.script = planner
    report(bench(tmp_path, loopback.url, "--arms", "gnn4plan", *TWO_TASKS, "--json", env=SPLIT))
    assert len(plans) == 4
    first = [str(r.body["messages"]) for r in loopback.requests if "Suggested next tools" in str(r.body)]
    assert any("Suggested next tools: get_parcel, refund" in text for text in first)


@pytest.mark.parametrize(("arm", "most"), [("reasoningbank", 1), ("agentevolver", 3)])
def test_a_model_digests_each_run_once_and_what_is_nearest_is_shown(
    arm: str, most: int, loopback: Loopback, tmp_path: Path
) -> None:
    asked: list[str] = []

    def digester(request: Request) -> Reply:
        text = str(request.body)
        if "You study the record of an agent" not in text:
            return clerk(request)
        asked.append("succeeded" if "The agent succeeded" in text else "failed")
        item = {"title": f"Rule {len(asked)}", "when_to_use": "a parcel is late", "content": "Apologise first."}
        return completion(json.dumps({"items": [item]}))

    loopback.script = digester
    options = ("--arms", f"off,{arm}", *TWO_TASKS, "--json")
    report(bench(tmp_path, loopback.url, *options, env=SPLIT))
    assert len(asked) == 12
    assert {"succeeded", "failed"} == set(asked)
    shown = [str(r.body["messages"][0]) for r in loopback.requests if "Drawn from earlier runs" in str(r.body)]
    assert len(shown) == 4 * 3
    assert {text.count("Rule ") for text in shown} == {most}
    refused = bench(tmp_path / "given", loopback.url, "--arms", arm, "--memory", str(tmp_path / "none.hepm"))
    assert "leave --memory out" in " ".join(refused.err.split())
