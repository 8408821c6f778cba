from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.agents.claude_code import ClaudeCode
from hepm.agents.runs import LiveRuns
from hepm.types import BLOCK_START
from tests.agents.made_up_repository import PROJECT, Session, sessions, write_transcripts
from tests.runs import stored_run


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of 30 transcripts."""
    made, folder = [*sessions(30, seed=1)], tmp_path_factory.mktemp("taught")
    write_transcripts(folder / "transcripts", made)
    with Memory.open(folder / "runs.hepm") as memory:
        memory.ingest(folder / "transcripts")
        for session in made:
            memory.label(session.id, success=session.success)
        memory.principles.distill()
    return folder


@pytest.fixture
def memory(taught: Path, tmp_path: Path) -> Iterator[Memory]:
    shutil.copytree(taught, tmp_path, dirs_exist_ok=True)
    with Memory.open(tmp_path / "runs.hepm") as memory:
        yield memory


class Hooks:
    """Sends the events of a session, and gives what each was answered."""

    def __init__(self, memory: Memory, project: str = PROJECT) -> None:
        self.door = ClaudeCode(LiveRuns(memory))
        self.project = project

    def __call__(self, session: str, kind: str, **more: Any) -> str:
        event = {"session_id": session, "hook_event_name": kind, "cwd": f"/home/u1/{self.project}", **more}
        answer = self.door.answer(event, "default")
        return answer["hookSpecificOutput"]["additionalContext"] if answer else ""

    def play(self, session: Session) -> Iterator[tuple[str, str]]:
        """Of each moment the answer that it should have got, "" for none, and what was answered."""
        yield "", self(session.id, "UserPromptSubmit", prompt=session.asked)
        for number, call in enumerate(session.calls):
            name = f"t{number}"
            about = {"tool_name": call.tool, "tool_input": call.given, "tool_use_id": name}
            yield "", self(session.id, "PreToolUse", **about)
            if call.failed:
                assert self(session.id, "PostToolUseFailure", error=call.result, **about) == ""
            calls = [{**about, "tool_response": call.result}]
            yield call.after, self(session.id, "PostToolBatch", tool_calls=calls)

    def after_error(self, session: str) -> str:
        """What is answered after tests that found no database."""
        command = {"command": "cd src && pytest tests/test_new.py -x"}
        about = {"tool_name": "Bash", "tool_input": command, "tool_use_id": "t"}
        error = "psycopg.OperationalError: connection to server at 10.0.0.9, port 6543 failed: Connection refused"
        self(session, "PostToolUseFailure", error=error, **about)
        return self(session, "PostToolBatch", tool_calls=[{**about, "tool_response": ""}])


def test_known_situations_get_their_answer_and_other_moments_get_none(memory: Memory) -> None:
    hooks, counts = Hooks(memory), Counter[str]()
    for session in sessions(24, seed=2):
        for wanted, text in hooks.play(session):
            if wanted:
                counts["known"] += 1
                counts["answered"] += wanted in text
            else:
                counts["others"] += 1
                counts["spoken"] += bool(text)
    assert counts["known"] >= 15
    assert counts["answered"] >= 0.8 * counts["known"], counts
    assert counts["spoken"] <= 0.05 * counts["others"], counts


def test_what_is_said_is_one_short_line_with_evidence_and_no_id(memory: Memory) -> None:
    hooks = Hooks(memory)
    text = hooks.after_error("s1")
    lines = text.splitlines()
    assert lines[0] == BLOCK_START
    assert lines[2].endswith("→ docker compose up -d db (worked in 4 of 4 runs)")
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}|[{}]|10\.0\.0\.9", text), "an id, or a number of this error"
    assert hooks.after_error("s1") == ""


def test_lessons_of_one_project_are_not_said_in_another(memory: Memory) -> None:
    assert Hooks(memory, project="blog").after_error("s3") == ""


def test_lessons_read_in_a_session_are_credited_with_its_outcome(memory: Memory) -> None:
    hooks = Hooks(memory)
    hooks("s4", "UserPromptSubmit", prompt="Write a poem about rivers and mountains.")
    assert hooks.after_error("s4")
    hooks.door._runs.finish("s4", namespace="default", success=False, reward=None)
    (used,) = [one for one in memory.lessons.list("principle") if one.uses.uses]
    assert used.row.text.endswith("docker compose up -d db")
    stored = stored_run(memory, "s4")
    assert "docker compose" not in json.dumps([turn.text for turn in stored.turns])
