"""An agent that acts by tags, on a played endpoint: what it is sent, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hepm import Memory
from hepm.agents.loop import Done
from hepm.agents.tagged import TaggedAgent, read_action, spans_of
from hepm.agents.toolbox import AnyTool
from hepm.llm import Endpoint
from hepm.types import BLOCK_START, Trajectory
from tests.loopback import Loopback, completion
from tests.runs import stored_run

ASK = "<think>Has anyone done this?</think><search_experience>after search, open_page</search_experience>"
ANSWER = "<think>That is it.</think><answer>Canberra</answer>"


def search(query: str) -> str:
    """Search an encyclopedia."""
    return f"a page on {query}"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Twelve runs, of which those that opened a page succeeded."""
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        for number in range(12):
            last = ("open_page", "guess")[number % 2]
            with memory.session(task="capital", environment="trivia") as session:
                session.say("user", "Which city is the capital of Australia?")
                for call in ("search", last):
                    session.record(call, {}, "Sydney")
                session.finish(success=last == "open_page")
        memory.sessions.wait_distilled()
        memory.principles.distill()
        yield memory


def work(
    memory: Memory,
    played: Loopback,
    texts: Sequence[str],
    *tools: AnyTool,
    max_turns: int = 30,
) -> tuple[Done, Trajectory]:
    """A run in which the model says these texts, and its record."""
    played.replies = [completion(text) for text in texts]
    endpoint = Endpoint("small", played.url)
    agent = TaggedAgent(endpoint=endpoint, memory=memory, tools=tools or (search,), max_turns=max_turns)
    done = agent.run("Which city is the capital?", environment="trivia", outcome=lambda done: done.text == "Canberra")
    run = stored_run(memory, done.id)
    return done, run


TEXTS = [
    ("<answer> 4 </answer>", "", "answer", "4"),
    ("<Answer>4</Answer>", " and so on", "answer", "4"),
    ("<think>I may <answer>no</answer></think><search_knowledge>x</search_knowledge>", "", "search_knowledge", "x"),
    ("<search_knowledge>x</search_knowledge>", "<information>invented</information>", "search_knowledge", "x"),
    ("<answer></answer> I mean <answer>5</answer>", "", "answer", "5"),
    ("<think>no end <answer>6</answer>", "", "answer", "6"),
    ("The answer is 7.", "", "", ""),
    ("", "", "", ""),
]


def test_the_first_action_outside_of_thoughts_is_taken_and_the_text_ends_with_it() -> None:
    for text, dropped, action, query in TEXTS:
        assert read_action(text + dropped)[:3] == (text, action, query)


def test_principles_come_with_type_score_and_description_and_are_credited(memory: Memory, loopback: Loopback) -> None:
    done, run = work(memory, loopback, [ASK, ANSWER])
    read = loopback.requests[-1].body["messages"][-1]["content"]
    assert 'guiding, score 0.50: "After search, call open_page rather than guess."' in read
    assert read.startswith("<experience>\n<hepm-memory>")
    assert done.steps[0].hint in read
    recalled = [id for turn in run.turns for id in turn.recalled]
    assert recalled
    assert all(memory.lessons.shown_in(id) == {done.id: True} for id in recalled)
    assert [BLOCK_START in turn.read for turn in run.turns if turn.role == "assistant"] == [True, False]
    memory.forget(trajectory=done.id)
    assert not any(memory.lessons.shown_in(id) for id in recalled)


def test_a_question_that_no_principle_is_like_gets_those_about_the_tool_just_called(
    memory: Memory, loopback: Loopback
) -> None:
    ask = "<search_experience>How do I solve it?</search_experience>"
    work(memory, loopback, [ask, "<search_knowledge>Australia</search_knowledge>", ask, ANSWER])
    said = [message["content"] for message in loopback.requests[-1].body["messages"]]
    assert said[3] == "<experience>\nNo principle is like this.\n</experience>"
    assert "call open_page rather than guess" in said[7]


def test_one_search_tool_takes_the_query_and_other_tools_are_called_by_name(memory: Memory, loopback: Loopback) -> None:
    _, run = work(memory, loopback, ["<search_knowledge>Australia's capital</search_knowledge>", ANSWER])
    assert [(call.name, call.arguments, call.result) for call in run.calls()] == [
        ("search", {"query": "Australia's capital"}, "a page on Australia's capital")
    ]
    texts = (
        '<search_knowledge>add {"a": 1, "b": 2}</search_knowledge>',
        '<search_knowledge>{"name": "add", "arguments": {"a": 2, "b": 2}}</search_knowledge>',
        '<search_knowledge>add({"a": 1, "b": "x"})</search_knowledge>',
        "<search_knowledge>what is 1 + 2?</search_knowledge>",
        ANSWER,
    )
    done, run = work(memory, loopback, texts, search, add)
    assert [call.result for call in run.calls()][:2] == ["3", "4"]
    assert [call.error for call in run.calls()] == [False, False, True]
    assert done.malformed == 1
    assert "names no tool; there are search, add" in done.messages[-2]["content"]


@pytest.mark.parametrize("absorb", [False, True])
def test_the_spans_of_a_run_are_what_the_model_read_and_wrote_and_principles_are_trained_only_where_absorbed(
    memory: Memory, loopback: Loopback, absorb: bool
) -> None:
    unlike = "<search_experience>zzz qqq</search_experience>"
    texts = [unlike, "I wonder.", "", ASK, "<search_knowledge>x</search_knowledge>", ANSWER]
    done, run = work(memory, loopback, texts)
    memory.forget(task="capital")  # with its principles: what memory says now is something else
    read = loopback.requests[-1].body["messages"]
    spans = spans_of(run, absorb=absorb)
    assert [span.text for span in spans[1:-1]] == [message["content"] for message in read[1:]]
    assert read[0]["content"].startswith(spans[0].text.removesuffix("…"))  # records cut system prompts
    assert spans[-1].text == ANSWER
    kinds = "prompt prompt agent memory agent prompt agent prompt agent memory agent tool agent"
    assert [span.by for span in spans] == kinds.split()
    assert {span.by for span in spans if span.trained} == {"agent", "memory"} if absorb else {"agent"}
    assert done.malformed == 2
