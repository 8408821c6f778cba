"""The examples of docs/use/adapters.md, each run as it stands against a model on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, from_messages
from hepm.types import DENIED, HINT
from tests.agents.adapters.frameworks import ROOT, drive
from tests.agents.adapters.test_claude import check, environment_of, play_claude, played_by
from tests.agents.adapters.test_frameworks import runs_in
from tests.loopback import Reply, Request, completion
from tests.runs import WISH, asked

CLAUDE = "Claude Agent SDK"
TITLES = ("LangChain and LangGraph", "pydantic-ai", "OpenAI Agents SDK", "LiteLLM", "Google ADK")
DENYING = {
    "LangChain and LangGraph": ('HepmMiddleware(memory, task="refund")', "HepmMiddleware(memory, deny=True)"),
    "pydantic-ai": ("HepmCapability(memory, ", "HepmCapability(memory, deny=True, "),
}
MOST_LINES = 15

pytestmark = [pytest.mark.xdist_group("frameworks"), pytest.mark.timeout(600)]


def blocks() -> tuple[str, dict[str, str]]:
    """The tools that the examples share, and the example of each section."""
    text = (ROOT / "docs/use/adapters.md").read_text("utf-8")
    tools = re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S)[0]
    return tools, dict(re.findall(r"^## ([^\n]+)\n+```py\n(.*?)^```$", text, re.M | re.S))


def answer(request: Request) -> Reply:
    """A refund, and then an answer."""
    said = json.dumps(request.body.get("messages") or request.body["input"])
    if re.search(r'"role": "tool"|"function_call_output"', said):
        return completion("parcel 7 is refunded")
    return completion(None, tool_calls=[("refund", {"parcel": 7})])


def taught(store: Path, *, failing: bool = False) -> None:
    """A memory of runs in which a refund came first and worked; or failed, and looking the parcel up worked."""
    with Memory.open(store) as memory:
        for number in range(40):
            name = "get_order" if failing and number % 2 else "refund"
            messages = asked(name, wish=f"Refund parcel {number}, the glass is broken.")
            memory.ingest(from_messages(messages, id=f"seed-{number}", success=name == "get_order" or not failing))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, Any]]]:
    """The folder and the model of each example, after all have run in one process."""
    tools, examples = blocks()
    # A memory of so few runs is silent by default.
    examples = {
        title: code.replace('open("agent.hepm"', 'open("agent.hepm", speak="weighed"')
        for title, code in examples.items()
    }
    code = {title: f"{tools}\n\n{examples[title]}" for title in (*TITLES, CLAUDE)}
    code |= {f"{title}, denied": code[title].replace(*change) for title, change in DENYING.items()}
    given: dict[str, Any] = {}
    played: dict[str, tuple[Path, Any]] = {}
    with ExitStack() as stack:
        for title, block in code.items():
            folder = tmp_path_factory.mktemp("example")
            store = folder / "agent.hepm"
            model = stack.enter_context(played_by(play_claude if title == CLAUDE else answer))
            environment = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k"}
            if title == CLAUDE:
                environment = environment_of(model, folder)
            else:
                taught(store, failing=title.endswith("denied"))
            environment |= {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            given[title] = {"code": block, "folder": str(folder), "environment": environment}
            played[title] = folder, model
        reported = drive("all", "run_blocks", given)
        assert {title: one["error"] for title, one in reported.items()} == dict.fromkeys(given, "")
        yield played


@pytest.mark.parametrize("title", TITLES)
def test_an_example_is_hinted_and_stores_its_run_with_the_outcome(
    played: dict[str, tuple[Path, Any]], title: str
) -> None:
    folder, model = played[title]
    assert f"{HINT}refund" in json.dumps(model.requests[0].body)
    [run] = runs_in(folder / "agent.hepm")
    assert run.outcome.success is True
    assert next(turn.text for turn in run.turns if turn.role == "user") == WISH
    assert [call.name for call in run.calls()] == ["refund"]


def test_the_example_for_the_claude_agent_sdk_has_an_agent_that_follows_advice(
    played: dict[str, tuple[Path, Any]],
) -> None:
    folder, model = played[CLAUDE]
    [run] = runs_in(folder / "agent.hepm")
    check(run, model)


@pytest.mark.parametrize("title", DENYING)
def test_a_call_that_memory_denies_is_not_made_and_the_model_reads_why(
    played: dict[str, tuple[Path, Any]], title: str
) -> None:
    folder, model = played[f"{title}, denied"]
    [run] = runs_in(folder / "agent.hepm")
    [call] = [call for turn in run.turns for call in turn.calls]
    assert (call.name, call.refused) == ("refund", True)
    last = json.dumps(model.requests[-1].body)
    assert f"{DENIED}refund: failed in 20 of 20 like runs here, while get_order succeeded in 20 of 20" in last
    assert "parcel 7 is refunded" not in last


def test_no_example_has_more_lines_than_the_page_promises() -> None:
    _, examples = blocks()
    assert {*examples} >= {*TITLES, CLAUDE}
    for title, code in examples.items():
        assert len([line for line in code.splitlines() if line]) <= MOST_LINES, title
