"""What lessons say about one place in a run, and which of them stand beside what the evidence says there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hepm import FailedWay, Memory, Trajectory
from hepm.evidence.rules import lower_bound
from hepm.experience.comparison import says_nothing
from hepm.experience.lessons import EXTRACTIVE, Experience, Principle, PrincipleKind
from hepm.experience.moment import Moment
from hepm.experience.prompt import PromptOptions
from hepm.graph.lessons.rows import Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.tool_life import ToolNames
from hepm.memory.guard import LEVELS, at_level
from hepm.types import Suggestion, Suggestions
from tests.runs import trajectory

NS = "default"
HERE = ("look",)


def rule(
    kind: PrincipleKind, text: str, runs: int | Sequence[str], *, better: str = "", worse: str = "", after: str = "look"
) -> Principle:
    triples = [Triple(after, "followed_by", better)] if better else []
    triples += [Triple(worse, "fails_after", after)] if worse else []
    names = [f"{text}-{n}" for n in range(runs)] if isinstance(runs, int) else runs
    return Principle(kind, text, triples=tuple(triples), sources=tuple(Source(name, words=False) for name in names))


def advises(tool: str, runs: int, text: str = "") -> Principle:
    return rule("guiding", text or f"call {tool}", runs, better=tool)


def warns(tool: str, runs: int, text: str = "") -> Principle:
    return rule("cautionary", text or f"keep from {tool}", runs, worse=tool)


def test_the_lower_bound_is_that_of_wilsons_interval() -> None:
    bounds = {(0, 3): 0, (1, 0): 0.27, (2, 0): 0.425, (10, 0): 0.787, (10, 5): 0.455, (100, 50): 0.6}
    assert {counts: lower_bound(*counts) for counts in bounds} == pytest.approx(bounds, abs=0.001)


def stands(lesson: Principle | Experience, beside: Suggestions, here: Moment | None = None) -> bool:
    return (here or Moment(HERE)).agrees(lesson, beside)


def test_a_lesson_about_tools_that_the_agent_lacks_is_left_out() -> None:
    def given(*offered: str) -> list[str]:
        here = Moment(HERE, ToolNames(offered=frozenset(offered)))
        return [one.text for one in (advises("a", 2), warns("b", 2)) if stands(one, Suggestions(), here)]

    assert given() == given("a", "b", "look") == ["call a", "keep from b"]
    assert given("b", "look") == ["keep from b"]
    assert given("a") == ["call a"]
    found = Experience("s", "a", "o", "l", "golden", "exploration", 1.0, tools=("a", "look"))
    for offered, applies in ((("a",), True), (("c",), False), ((), True)):
        assert Moment(HERE, ToolNames(offered=frozenset(offered))).applies(found) is applies


# Beside a suggestion


def suggested(*tools: str, warnings: tuple[FailedWay, ...] = (), **chances: float) -> Suggestions:
    ranked = tuple(Suggestion(tool, 0.5, 1, 0.0, None, "why") for tool in tools)
    return Suggestions(ranked, warnings=warnings, chances=chances)


RATHER = rule("guiding", "b rather than a", 9, better="b", worse="a")


def test_a_lesson_that_advises_a_tool_that_is_warned_of_is_left_out_however_many_runs_taught_it() -> None:
    beside = suggested("b", warnings=(FailedWay("a", 9, 10),))
    assert not stands(advises("a", 900), beside)
    assert stands(advises("b", 2), beside)
    assert stands(warns("a", 2), beside)


def test_a_lesson_that_warns_of_a_tool_is_left_out_where_it_is_suggested_before_any_that_it_advises() -> None:
    assert not stands(warns("a", 900), suggested("b", "a"))
    assert not stands(RATHER, suggested("c", "a", "b"))
    assert stands(RATHER, suggested("b", "a"))
    assert stands(RATHER, suggested("c"))


def test_a_lesson_that_advises_what_is_unlikely_or_less_likely_than_what_it_warns_of_is_left_out() -> None:
    assert not stands(advises("a", 9), suggested(a=0.09, b=0.9))
    assert stands(advises("a", 9), suggested(a=0.11, b=0.9))
    assert stands(advises("a", 9), suggested(b=0.9)), "of a tool that the policy does not know nothing is said"
    assert not stands(RATHER, suggested(a=0.4, b=0.3))
    assert not stands(RATHER, suggested(a=0.001, b=0.01))
    assert stands(RATHER, suggested(a=0.01, b=0.03))
    assert stands(RATHER, suggested())


def test_a_lesson_that_advises_none_of_the_tools_that_the_default_policy_names_is_left_out() -> None:
    assert not stands(advises("a", 900), suggested("b", a=0.3, b=0.6))
    assert stands(advises("a", 9), suggested("b", "a", a=0.3, b=0.6))
    assert stands(warns("a", 9), suggested("b", a=0.3, b=0.6))
    assert stands(advises("a", 9), suggested("b")), "the papers' policies know no failures"


def test_a_lesson_that_advises_a_retired_tool_is_left_out_and_a_warning_of_it_is_not() -> None:
    here = Moment(HERE, ToolNames(retired=frozenset("a")))
    assert not stands(advises("a", 9), suggested("b"), here)
    assert stands(warns("a", 9), suggested("b"), here)


def test_advice_to_call_what_the_run_has_called_is_past_but_to_repeat_the_last_call() -> None:
    lock = rule("guiding", "lock rather than start", 9, better="lock", worse="start")
    again = rule("guiding", "look once more", 9, better="look", worse="start")
    here = Moment(HERE, history=["lock", "look"])
    assert stands(lock, Suggestions())
    assert not stands(lock, Suggestions(), here)
    assert stands(again, Suggestions(), here)


def test_the_agents_own_names_are_those_of_the_suggestion() -> None:
    names = ToolNames({"refund_order": "refund"}, used={"refund": "refund_order"})
    here = Moment(HERE, names)
    assert here.advice_of(advises("refund", 2)).better == {"refund_order"}
    assert not stands(warns("refund", 2), suggested("refund_order"), here)


# In a memory


LINES = (
    ("Outage in the area, crew on site", "inform", "restart"),
    ("No outage, the modem does not answer", "restart", "inform"),
    ("Account blocked, the invoice is unpaid", "send_invoice", "inform"),
)
"""What the first tool returned, what works then, and what fails; users ask the same."""


def line_run(task: str, result: str, tool: str, *, success: bool) -> Trajectory:
    goal = f"My internet is down, customer {task}"
    run = trajectory(f"{task}-{tool}", "look_up", tool, "close", goal=goal, success=success)
    user, look, *others = run.turns
    return replace(run, turns=(user, replace(look, calls=(replace(look.calls[0], result=result),)), *others))


def looked_up(result: str, *more: str) -> list[dict[str, Any]]:
    """Messages after the first tool, and after some more calls that returned nothing."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "My internet is down, customer 99"}]
    for number, (tool, text) in enumerate([("look_up", result), *((tool, "done") for tool in more)]):
        call = {"id": str(number), "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": str(number), "content": text})
    return messages


ASKED = [
    [],
    [{"role": "system", "content": "You help."}],
    looked_up("nothing of note")[:1],
    *(looked_up(result) for result, _, _ in LINES),
    looked_up(LINES[0][0], "inform"),
    looked_up(LINES[1][0], "restart", "close"),
]
OFFERED = (None, ["look_up", "inform", "restart", "close"], ["send_invoice"])
WRITTEN = [
    replace(rule("guiding", f"{tool} is best", 90, better=tool, worse=other, after="look_up"), distilled_by=by)
    for tool, other, by in (("restart", "inform", "small"), ("send_invoice", "restart", EXTRACTIVE))
]


def said(suggestions: Suggestions) -> tuple[object, ...]:
    ranked = [(one.tool, one.score, one.support, one.reason) for one in suggestions.ranked]
    return ranked, suggestions.warnings, suggestions.abstained


@pytest.fixture(scope="module")
def of_the_line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of runs that a result decided, with rules written by hand that contradict them; nothing changes it."""
    folder = tmp_path_factory.mktemp("line")
    with Memory.open(folder) as memory:
        memory.ingest(
            line_run(f"{kind}-{n}", result, tool, success=tool == right)
            for kind, (result, right, wrong) in enumerate(LINES)
            for n in range(12)
            for tool in (right, wrong)
        )
        memory.principles.distill()
        memory.experiences.distill()
        memory.lessons.change(LessonChange(put=[one.row() for one in WRITTEN], imported=True), namespace=NS)
    return folder


def test_the_suggestion_of_a_prompt_is_that_of_memory_whatever_lessons_say(of_the_line: Path) -> None:
    told: set[str] = set()
    with Memory.open(of_the_line, speak="all") as memory:
        for messages, tools in itertools.product(ASKED, OFFERED):
            for k in (1, 4):
                alone = memory.suggest(messages=messages, tools=tools, k=k)
                prompt = memory.prompt(messages, tools=tools, options=PromptOptions(suggestions=k))
                assert said(prompt.suggestions) == said(alone)
                assert alone.prompt() in prompt.text
            told |= {*memory.prompt(messages, tools=tools, options=PromptOptions(suggestions=0)).lessons}
            for level in LEVELS:
                alone = at_level(level, memory.suggest(messages=messages, tools=tools))
                assert said(memory.prompt(messages, tools=tools, guarded=partial(at_level, level)).suggestions) == said(
                    alone
                )
    assert told & {one.id for one in WRITTEN}, "what a model wrote is shown where nothing contradicts it"


def parcel(name: str, tool: str, *, success: bool) -> Trajectory:
    return trajectory(name, "get_order", tool, goal="Refund parcel, broken glass", task="parcel", success=success)


STATE = "Refund parcel 77, broken glass"


@pytest.mark.parametrize("policy", ["hybrid", "adaptive"])
def test_a_prompt_names_what_worked_first_and_says_by_its_warning_or_a_lesson_what_failed(
    memory: Memory, policy: str
) -> None:
    memory.ingest(
        [
            *(parcel(f"g{n}", "refund", success=True) for n in range(10)),
            *(parcel(f"b{n}", "close_ticket", success=False) for n in range(10)),
            *(trajectory(f"o{n}", "get_order", "close_ticket", goal=f"Invoice {n}", task=f"{n}") for n in range(3)),
        ]
    )
    memory.principles.distill(namespace=NS)
    memory.experiences.distill(namespace=NS)
    told = memory.prompt(state=STATE, after="get_order", options=PromptOptions(policy=policy))
    assert told.suggestions[0].tool == "refund"
    (line,) = (line for line in told.text.splitlines() if line.startswith("Suggested next tools: refund"))
    # The papers' policies say what the papers say: of successes alone.
    warned = re.search(r"close_ticket(: | \()failed in 10 of 1[03] (like )?runs", line)
    assert "close_ticket" not in line or warned or policy != "hybrid"
    # What a warning says, no lesson repeats.
    rule = r"After get_order, when the user says .*, call refund rather than close_ticket.\" "
    rule += r"\(worked in 10 of 10 runs\)"
    assert bool(re.search(rule, told.text)) is (policy != "hybrid")


def test_lessons_that_name_no_tool_are_not_told_though_they_are_stored(memory: Memory) -> None:
    memory.ingest(
        [
            parcel("g", "refund", success=True),
            trajectory("b", "get_order", goal="Refund parcel, broken glass", task="parcel", success=False),
            trajectory("same", "get_order", "refund", goal="Refund parcel, broken glass", task="parcel", success=False),
        ]
    )
    memory.principles.distill(namespace=NS)
    memory.experiences.distill(namespace=NS)
    assert memory.lessons.list("principle", namespace=NS) == []
    stored = {one.row.properties["lesson"] for one in memory.lessons.list("experience", namespace=NS)}
    assert any("nothing more" in str(text) for text in stored)
    told = memory.prompt(state="Refund parcel, broken glass", after="get_order").text
    assert "nothing more" not in told
    assert "did not decide" not in told


def test_rules_without_a_tool_that_were_stored_before_are_told_no_more(memory: Memory) -> None:
    memory.ingest([trajectory("r0", "look", "buy"), trajectory("r1", "look", "buy")])
    texts = (
        "In shop, after look, calling buy rather than nothing more led to success.",
        "In shop, at the start, calling no tool rather than look ended in failure.",
        "In shop, answering without a tool led to success.",
    )
    triples, sources = (Triple("look", "followed_by", "buy"),), (Source("r0", words=False),)
    old = [Principle("guiding", text, triples=triples, sources=sources, tools=("buy",)) for text in texts]
    memory.lessons.change(LessonChange(put=[one.row() for one in old]), namespace=NS)
    assert memory.principles.at(HERE, namespace=NS) == []
    for one in old:
        assert says_nothing(one.row())
        assert memory.principles.search(one.text, namespace=NS, floor=-1.0) == []
        assert memory.lessons.lessons(NS).get(one.id) is not None


def test_what_a_model_wrote_is_told_whatever_its_words() -> None:
    words = "After look, calling no tool is right where the user asks for none."
    assert not says_nothing(Principle("guiding", words, distilled_by="small").row())
    assert not says_nothing(Experience("s", "a", "o", words, "golden", "exploration", 1.0, distilled_by="small").row())


def test_an_experience_about_what_comes_next_is_given_before_a_more_similar_one(memory: Memory) -> None:
    goal = "Refund parcel, broken glass"
    memory.ingest(
        [
            trajectory("a1", "get_order", "refund", goal=goal, task="a", success=True),
            trajectory("a2", "get_order", "close_ticket", goal=goal, task="a", success=False),
            trajectory("b1", "find_user", "get_order", goal=f"{goal}, order of a friend", task="b", success=True),
            trajectory("b2", "send_mail", "get_order", goal=f"{goal}, order of a friend", task="b", success=False),
        ]
    )
    memory.experiences.distill(namespace=NS)

    def given(*after: str) -> set[str]:
        here = Moment(after)
        found = memory.experiences.search(f"In shop. User: {goal}", here=here, k=2, namespace=NS)
        assert here.concerns(found[0].experience)
        return {one.experience.conditions.preconditions[0] for one in found}

    plain = memory.experiences.search(f"In shop. User: {goal}", k=4, namespace=NS)
    assert [one.experience.conditions.preconditions[0] for one in plain][:2] == ["after get_order"] * 2
    assert given("get_order") == {"after get_order"}
    assert given() == {"at the start"}
