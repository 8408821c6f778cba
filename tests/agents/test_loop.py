"""What a model is sent, turn by turn, with memory off and on, for each strategy and through each door."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from hepm import Memory
from hepm.agents.loop import Agent, Done
from hepm.errors import AnswerError, EndpointError, InputError
from hepm.experience.prompt import PromptOptions
from hepm.llm import Endpoint
from tests.agents.serving import serving
from tests.loopback import Loopback, Reply, completion, error, tool_call
from tests.runs import stored_run


@dataclass
class TaskBoard:
    """Users and their tasks. Its methods are the agent's tools; what they raise, the model reads."""

    users: dict[str, str] = field(default_factory=lambda: {"user_1": "Ada", "user_2": "Ben", "user_3": "Cleo"})
    tasks: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    transferred: bool = False

    @property
    def tools(self) -> list[object]:
        return [self.create_task, self.update_task_status, self.get_users, self.transfer_to_human_agents]

    def create_task(self, user_id: str, title: str, description: str = "") -> dict[str, str]:
        """Create a task for a user."""
        self._check_user(user_id)
        task = {"task_id": f"task_{len(self.tasks) + 1}", "user_id": user_id, "title": title, "status": "pending"}
        self.tasks[task["task_id"]] = task | ({"description": description} if description else {})
        return self.tasks[task["task_id"]]

    def update_task_status(self, task_id: str, status: Literal["pending", "completed"]) -> dict[str, str]:
        """Set the status of a task."""
        if task_id not in self.tasks:
            raise ValueError(f"Task {task_id} not found")
        self.tasks[task_id]["status"] = status
        return self.tasks[task_id]

    def get_users(self) -> dict[str, str]:
        """Names of all users by their ids."""
        return self.users

    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand the conversation over to a human, if no other tool can help."""
        self.transferred = bool(summary)
        return "Transfer successful"

    def _check_user(self, user_id: str) -> None:
        if user_id not in self.users:
            raise ValueError(f"User {user_id} not found")


SILENT = PromptOptions(suggestions=0, experiences=0, principles=0, recalled=0, notes=False)
OWN = "create_task update_task_status get_users transfer_to_human_agents"
USERS = tool_call("get_users")
KNOWN = "Ada is user_1, and her task is not created yet."
SUMMARY = tool_call("summarize_the_task", {"summary": KNOWN})
YES, NO, DONE = completion("Yes."), completion("No"), completion("Done.")


def create(user: str, title: str = "Pay rent") -> Reply:
    return tool_call("create_task", {"user_id": user, "title": title})


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of two runs that looked the user up and created the task, and one that gave up."""
    store, played = tmp_path_factory.mktemp("taught") / "m.hepm", Loopback()
    try:
        with Memory.open(store, speak="weighed") as memory:
            for id, user, title in (("ben", "user_2", "Call the bank"), ("cleo", "user_3", "Buy milk")):
                work(memory, played, [USERS, create(user, title), DONE], f'Create the task "{title}" for {id}.', id=id)
            lost = [create("Ada"), tool_call("transfer_to_human_agents", {"summary": "no Ada"}), DONE]
            work(memory, played, lost, 'Create the task "Pay rent" for Ada.', id="lost")
            memory.sessions.wait_distilled()
    finally:
        played.stop()
    return store


@pytest.fixture
def memory(taught: Path, tmp_path: Path) -> Iterator[Memory]:
    shutil.copy(taught, tmp_path / "m.hepm")
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        yield memory


def work(
    memory: Memory,
    played: Loopback,
    replies: Sequence[Reply],
    wish: str = 'Create the task "Pay rent" for Ada.',
    *,
    url: str = "",
    id: str = "now",
    answer: Callable[[str], str | None] = lambda text: None,
    user: str = "",
    outcome: bool = False,
    **options: Any,
) -> tuple[Done, TaskBoard]:
    """A run of the agent with the replies as given; a success if `outcome`, or if there is a task at its end."""
    board = TaskBoard()
    played.replies = list(replies)
    agent = Agent(
        endpoint=Endpoint("small", url or played.url),
        memory=memory,
        **{"tools": board.tools, "system": "You manage tasks.", "strategy": "hybrid", **options},
    )
    done = agent.run(
        wish, answer=answer, outcome=lambda done: outcome or bool(board.tasks), id=id, user=user, task="create"
    )
    return done, board


def sent(played: Loopback, done: Done) -> str:
    """Each request: the names of its tools, its last message, and what else is new in it or not in the conversation."""
    lines: list[str] = []
    shown = 0
    for request in played.requests:
        messages = request.body["messages"]
        is_extra = (
            messages[-1]["role"] == "user" and messages[-2]["role"] == "tool" and messages[-1] not in done.messages
        )
        lines.append("--- " + " ".join(tool["function"]["name"] for tool in request.body["tools"]))
        for at, message in enumerate(messages):
            if at < shown and at < len(messages) - 1 - is_extra and message == done.messages[at]:
                continue
            calls = [f"{c['function']['name']}({c['function']['arguments']})" for c in message.get("tool_calls", ())]
            lines.append(f"{message['role']}: {' and '.join(calls) or message['content']}")
        shown = len(messages) - is_extra
    return "\n".join(lines) + "\n"


QUESTION = (
    "Before your next step: does the conversation need to be summarized, so that the summary helps to choose the step? "
    'Answer only "Yes" or "No", without a reason.'
)
ASKED_FOR = "Write a summary of the current state, including information from the environment and the user."
RULE = "<hepm-memory>\nSuggested next tools: create_task\n</hepm-memory>\n"
FIRST = "<hepm-memory>\nSuggested next tools: get_users\n</hepm-memory>\n"
GOT = 'tool: {"user_1":"Ada","user_2":"Ben","user_3":"Cleo"}\n'
CREATED = """\
assistant: create_task({"user_id": "user_1", "title": "Pay rent"})
tool: {"task_id":"task_1","user_id":"user_1","title":"Pay rent","status":"pending"}
"""
WISH = 'user: Create the task "Pay rent" for Ada.\n'

STEPS: dict[str, Sequence[Reply]] = {
    "off": [USERS, create("user_1"), DONE],
    "implicit": [USERS, SUMMARY, create("user_1"), DONE],
    "explicit": [NO, USERS, YES, completion(KNOWN), create("user_1"), NO, DONE],
    "hybrid": [USERS, create("user_1"), DONE],
}
HYBRID = f"""\
--- {OWN}
system: You manage tasks.
{WISH}
{FIRST}--- {OWN}
assistant: get_users({{}})
{GOT}user: {RULE}--- {OWN}
{CREATED}"""
HINTS = re.compile(r"\n(\n|user: )<hepm-memory>.*?</hepm-memory>", re.DOTALL)

SENT = {
    "off": HINTS.sub("", HYBRID),  # three runs teach no rule
    "hybrid": HYBRID,
    "implicit": f"""\
--- {OWN} summarize_the_task
system: You manage tasks.

Call summarize_the_task whenever what you have learned should decide your next step, and at least once in each task.
{WISH}
{FIRST}--- {OWN} summarize_the_task
assistant: get_users({{}})
{GOT}user: {RULE}--- {OWN} summarize_the_task
assistant: summarize_the_task({{"summary": "Ada is user_1, and her task is not created yet."}})
tool: Noted.
user: {RULE}--- {OWN} summarize_the_task
{CREATED}""",
    "explicit": f"""\
--- {OWN}
system: You manage tasks.
{WISH}
{QUESTION}
--- {OWN}
{WISH}
{FIRST}--- {OWN}
assistant: get_users({{}})
{GOT}user: {QUESTION}
--- {OWN}
{GOT}user: {ASKED_FOR}
--- {OWN}
{GOT}user: {RULE}--- {OWN}
{CREATED}user: {QUESTION}
--- {OWN}
{CREATED.splitlines()[1]}
""",
}


def test_edge_weights_alone_suggest_where_the_strategy_is_weight(
    memory: Memory, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    suggestions = PromptOptions(experiences=0, principles=0, recalled=0, notes=False, policy="no such policy")
    done, _ = work(memory, loopback, STEPS["hybrid"], strategy="weight", prompt_options=suggestions)
    assert [step.hint for step in done.steps] == [
        "Suggested next tools: get_users",
        "Suggested next tools: create_task",
        "",
    ]
    done, _ = work(memory, loopback, STEPS["off"], strategy="off", prompt_options=suggestions, id="off")
    assert [step.hint for step in done.steps] == ["", "", ""]
    assert all(step.memory_s > 0 for step in done.steps)
    assert not caplog.records


def test_tools_may_change_between_steps(memory: Memory, loopback: Loopback) -> None:
    board = TaskBoard()
    shown = iter([[board.get_users], [board.get_users, board.create_task], [board.create_task]])
    done, _ = work(memory, loopback, STEPS["hybrid"], tools=lambda: next(shown))
    names = [[tool["function"]["name"] for tool in request.body["tools"]] for request in loopback.requests]
    assert names == [["get_users"], ["get_users", "create_task"], ["create_task"]]
    assert "Suggested next tools: create_task" in done.steps[1].hint
    assert "Suggested next tools: get_users" in done.steps[0].hint


def without_chances(text: str) -> str:
    return re.sub(r" \(\d+ of \d+ such runs succeeded\)", "", text)


@pytest.mark.parametrize("strategy", SENT)
def test_each_request_ends_with_what_memory_says_now_and_the_run_is_stored_without_it_and_teaches(
    memory: Memory, loopback: Loopback, strategy: str
) -> None:
    done, board = work(memory, loopback, STEPS[strategy], strategy=strategy)
    requests = sent(loopback, done)
    assert ("such runs succeeded)" in requests) == (strategy in ("hybrid", "implicit", "explicit"))
    assert without_chances(requests) == SENT[strategy]
    stored = stored_run(memory, "now")
    assert stored.outcome.success is True
    assert board.tasks
    summaries = ["summarize_the_task"] if strategy in ("implicit", "explicit") else []
    assert [call.name for turn in stored.turns for call in turn.calls] == ["get_users", *summaries, "create_task"]
    assert "hepm-memory" not in f"{stored}{done.messages}"
    assert QUESTION not in f"{stored}{done.messages}"
    assert (done.text, done.ended, done.turns) == ("Done.", "answered", len(done.messages) // 2)
    [state] = memory.search("Ada is user_1, and her task is not created yet.", k=1)
    assert (state.summary == "Ada is user_1, and her task is not created yet.") == bool(summaries)


PLACED = {
    "behind": lambda messages: messages[-1]["content"] if messages[-1]["role"] == "user" else "",
    "tail": lambda messages: messages[-1]["content"],
    "system": lambda messages: messages[0]["content"],
    "message": lambda messages: messages[-1]["content"] if messages[-1]["role"] == "developer" else "",
}


@pytest.mark.parametrize("placement", PLACED)
def test_the_proxy_sends_what_the_loop_sends_with_the_hint_once_and_in_its_place(
    memory: Memory, loopback: Loopback, placement: str, tmp_path: Path
) -> None:
    shutil.copy(tmp_path / "m.hepm", tmp_path / "proxy.hepm")
    work(memory, loopback, STEPS["hybrid"], placement=placement)
    in_process = [request.body for request in loopback.requests]
    loopback.requests.clear()
    with (
        Memory.open(tmp_path / "proxy.hepm", speak="weighed") as served,
        serving(served, upstream=loopback.url, placement=placement) as (_, url),
    ):
        work(memory, loopback, STEPS["hybrid"], url=f"{url}/v1", prompt_options=SILENT, id="client")
    assert masked([request.body for request in loopback.requests]) == masked(in_process)
    for body, tool in zip(in_process, ["get_users", "create_task"], strict=False):
        assert f"Suggested next tools: {tool}" in PLACED[placement](body["messages"])
        assert json.dumps(body["messages"]).count("Suggested next tools") == 1


def masked(bodies: Sequence[dict[str, Any]]) -> str:
    """Requests without the ids of calls, which the played model numbers."""
    return re.sub(r"call_\d+_", "call_", json.dumps(bodies, indent=1, sort_keys=True))


def test_all_but_the_last_message_stays_as_it_was_so_that_a_providers_cache_works(
    memory: Memory, loopback: Loopback
) -> None:
    memory.preferences.edit("ann", "- Wants short answers.")
    work(memory, loopback, STEPS["hybrid"], user="ann", placement="tail")
    first, *later = [request.body["messages"] for request in loopback.requests]
    assert "Wants short answers" in first[0]["content"]
    assert "Wants short answers" not in json.dumps(first[1:])
    for messages in later:
        assert messages[:1] == first[:1]
        assert messages[1] == {"role": "user", "content": 'Create the task "Pay rent" for Ada.'}


def test_parallel_calls_are_one_turn_and_the_model_reads_what_was_wrong_with_a_call(
    memory: Memory, loopback: Loopback
) -> None:
    calls = [
        ("create_task", {"user_id": "user_9", "title": "x"}),
        ("create_task", {"user": "user_1"}),
        ("delete_task", {}),
        ("get_users", {}),
    ]
    both = completion("I try.", tool_calls=calls)
    broken = tool_call("get_users")
    broken.body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"a'
    done, _ = work(memory, loopback, [both, broken, DONE])
    assert [message["content"] for message in done.messages if message["role"] == "tool"] == [
        "Error: User user_9 not found",
        "Error: user_id: Missing required argument; title: Missing required argument; "
        "user: Unexpected keyword argument",
        "Error: there is no tool 'delete_task'. There are: create_task, update_task_status, get_users, "
        "transfer_to_human_agents",
        '{"user_1":"Ada","user_2":"Ben","user_3":"Cleo"}',
        "Error: the arguments are no JSON: Unterminated string starting at: line 1 column 2 (char 1)",
    ]
    stored = stored_run(memory, "now")
    first, second = [turn for turn in stored.turns if turn.calls]
    assert first.text == "I try."
    assert [(call.name, call.error) for call in first.calls] == [
        ("create_task", True),
        ("create_task", True),
        ("delete_task", True),
        ("get_users", False),
    ]
    assert second.calls[0].error is True
    assert stored.outcome.success is False


def test_a_user_may_answer_and_a_run_ends_at_its_limits(memory: Memory, loopback: Loopback) -> None:
    replies = [completion("For whom?"), USERS, create("user_1"), DONE]
    heard = iter(["For Ada."])
    done, board = work(memory, loopback, replies, "A task, please.", answer=lambda text: next(heard, None))
    assert board.tasks
    assert [m["content"] for m in done.messages if m["role"] == "user"] == ["A task, please.", "For Ada."]
    done, _ = work(memory, loopback, [USERS] * 3, id="long", max_turns=2)
    assert (done.ended, done.turns, done.text) == ("turns", 2, "")
    done, _ = work(memory, loopback, [USERS] * 3, id="dear", max_tokens=20)
    assert (done.ended, done.turns, done.tokens) == ("tokens", 2, 30)


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [(error(401, "no"), EndpointError, "OPENAI_API_KEY"), (Reply({"choices": []}), AnswerError, "without a choice")],
)
def test_a_run_whose_model_fails_is_stored_without_a_label(
    memory: Memory, loopback: Loopback, reply: Reply, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        work(memory, loopback, [USERS, reply])
    stored = stored_run(memory, "now")
    assert stored.outcome.success is None
    assert [call.name for turn in stored.turns for call in turn.calls] == ["get_users"]


def test_the_answer_is_given_though_the_store_cannot_be_written_and_the_run_waits_on_disk(
    loopback: Loopback, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def damage(done: Done) -> bool:
        for file in tmp_path.glob("m.hepm*"):
            if file.is_file():
                file.write_bytes(b"no database" * 1_000)
        return True

    loopback.replies = [USERS, DONE]
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        agent = Agent(endpoint=Endpoint("small", loopback.url), memory=memory, tools=TaskBoard().tools)
        assert agent.run("Who is there?", id="now", outcome=damage).text == "Done."
        assert memory.sessions.resume("now") is not None
    assert "the run 'now' is not stored" in caplog.text


def test_tools_may_be_specifications_with_a_function_that_calls_them(memory: Memory, loopback: Loopback) -> None:
    spec = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    replies = [tool_call("add", {"a": 1}), DONE]
    done, _ = work(memory, loopback, replies, tools=[spec], execute=lambda name, arguments: [name, arguments])
    assert loopback.requests[0].body["tools"] == [spec]
    assert done.messages[-2]["content"] == '["add",{"a":1}]'


async def later() -> None:
    pass


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([{"type": "function", "function": {"name": "add"}}], "say with execute= how it is called"),
        ([{"name": "add"}], "is no tool"),
        ([later], "wrap it"),
        ([TaskBoard().get_users] * 2, "two tools are called 'get_users'"),
    ],
)
def test_a_tool_that_cannot_be_described_or_called_is_refused_in_a_sentence(
    memory: Memory, loopback: Loopback, tools: list[Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        work(memory, loopback, [], tools=tools)
    assert not loopback.requests


def test_the_agent_in_the_docs_runs_as_written(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "use/session.md").read_text("utf-8")
    [block] = [one for one in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "Agent(" in one]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    loopback.replies = [tool_call("get_order", {"parcel": 7}), tool_call("refund", {"parcel": 7}), DONE]
    exec(block, {})
    assert capsys.readouterr().out == "Done.\n"
    with Memory.open("agent.hepm", speak="weighed") as memory:
        assert [one.tool for one in memory.suggest(after="get_order")] == ["refund"]
