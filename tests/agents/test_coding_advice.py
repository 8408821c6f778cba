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

    def __init__(self, memory: Memory) -> None:
        self.door = ClaudeCode(LiveRuns(memory))

    def __call__(self, session: str, kind: str, **more: Any) -> str:
        event = {"session_id": session, "hook_event_name": kind, "cwd": f"/home/u1/{PROJECT}", **more}
        answer = self.door.answer(event, "default")
        return answer["hookSpecificOutput"]["additionalContext"] if answer else ""

    def play(self, session: Session) -> Iterator[tuple[str, str, str]]:
        """Each moment with the answer that it should have got, "" for none, and what was answered."""
        yield "start", "?", self(session.id, "UserPromptSubmit", prompt=session.asked)
        for number, call in enumerate(session.calls):
            name = f"t{number}"
            about = {"tool_name": call.tool, "tool_input": call.given, "tool_use_id": name}
            yield "before", call.before, self(session.id, "PreToolUse", **about)
            if call.failed:
                assert self(session.id, "PostToolUseFailure", error=call.result, **about) == ""
            calls = [{**about, "tool_response": call.result}]
            yield "after", call.after, self(session.id, "PostToolBatch", tool_calls=calls)


def test_known_situations_get_their_answer_and_other_moments_get_none(memory: Memory) -> None:
    hooks, counts = Hooks(memory), Counter[str]()
    for session in sessions(24, seed=2):
        known: list[str] = []
        for moment, wanted, text in hooks.play(session):
            if moment == "start":
                known.append(text)
                counts["starts_told"] += bool(text)
                counts["starts_wrong"] += session.kind == "client" and "make generate" not in text
            elif wanted:
                counts["known"] += 1
                # What was read at the start is not said again.
                counts["answered"] += wanted in text or any(wanted in one for one in known)
            else:
                counts["others"] += 1
                counts["spoken"] += bool(text)
    assert counts["known"] >= 20
    assert counts["answered"] >= 0.8 * counts["known"], counts
    assert counts["spoken"] <= 0.05 * counts["others"], counts
    assert counts["starts_wrong"] == 0, counts


def test_what_is_said_is_one_short_line_with_evidence_and_no_id(memory: Memory) -> None:
    hooks = Hooks(memory)
    given = {"file_path": f"/srv/{PROJECT}/src/api/client.py", "old_string": "a", "new_string": "b"}
    text = hooks("s1", "PreToolUse", tool_name="Edit", tool_input=given)
    lines = text.splitlines()
    assert lines[0] == BLOCK_START
    does = "Edit src/api/client.py fails; Edit openapi.yaml, then make generate worked"
    assert lines[2] == f"- {does} (failed in 4 of 4 runs)"
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}|[{}]", text)
    assert hooks("s1", "PreToolUse", tool_name="Edit", tool_input=given) == ""


def test_a_recipe_is_said_after_its_error_whatever_its_numbers(memory: Memory) -> None:
    hooks = Hooks(memory)
    about = {
        "tool_name": "Bash",
        "tool_input": {"command": "cd src && pytest tests/test_new.py -x"},
        "tool_use_id": "t",
    }
    error = "psycopg.OperationalError: connection to server at 10.0.0.9, port 6543 failed: Connection refused"
    hooks("s2", "PostToolUseFailure", error=error, **about)
    text = hooks("s2", "PostToolBatch", tool_calls=[{**about, "tool_response": ""}])
    assert "docker compose up -d db (" in text
    assert "10.0.0.9" not in text


def test_lessons_of_one_project_are_not_said_in_another(memory: Memory) -> None:
    door = ClaudeCode(LiveRuns(memory))
    given = {"file_path": "/srv/blog/src/api/client.py", "old_string": "a", "new_string": "b"}
    event = {"session_id": "s3", "hook_event_name": "PreToolUse", "cwd": "/srv/blog", "tool_name": "Edit"}
    assert door.answer({**event, "tool_input": given}, "default") == {}


def test_lessons_read_in_a_session_are_credited_with_its_outcome(memory: Memory) -> None:
    hooks = Hooks(memory)
    given = {"file_path": f"/srv/{PROJECT}/src/api/client.py", "old_string": "a", "new_string": "b"}
    hooks("s4", "UserPromptSubmit", prompt="Write a poem about rivers and mountains.")
    assert hooks("s4", "PreToolUse", tool_name="Edit", tool_input=given)
    calls = [{"tool_name": "Edit", "tool_input": given, "tool_use_id": "t", "tool_response": "ok"}]
    hooks("s4", "PostToolBatch", tool_calls=calls)
    hooks.door._runs.finish("s4", namespace="default", success=False, reward=None)
    used = [one for one in memory.lessons.list("principle") if one.uses.uses]
    assert [one.row.properties["kind"] for one in used] == ["cautionary"]
    stored = memory.run("s4")
    assert stored is not None
    assert "make generate" not in json.dumps([turn.text for turn in stored.turns])
