"""Sessions of coding agents that several files hold: resumed ones, forks, and copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from tests.ingest.samples import write
from tests.ingest.transcripts import claude, result, use

Records = list[dict[str, Any]]


def claude_part(first: int, *, session: str = "s", parent: str | None = None, **more: Any) -> Records:
    """What a session of Claude Code holds from a record on: a request, a call and its result."""
    about = {"sessionId": session, "timestamp": f"2026-03-04T05:06:{first:02}Z", **more}
    call = use(f"t{first}", "Bash", command=f"make step{first}")
    return [
        claude("user", str(first), f"Do step {first}.", **about, parentUuid=parent),
        claude("assistant", str(first + 1), call, id=f"m{first}", **about, parentUuid=str(first)),
        claude("user", str(first + 2), result(f"t{first}", "ok"), **about, parentUuid=str(first + 1)),
    ]


def codex_part(first: int, *, session: str = "s", **more: Any) -> Records:
    """The same of a rollout of Codex, which begins with its description."""

    def record(kind: str, second: int, **payload: Any) -> dict[str, Any]:
        return {"timestamp": f"2026-03-04T05:06:{second:02}Z", "type": kind, "payload": payload}

    meta = record("session_meta", first, id=session, cwd="/w/shop", timestamp=f"2026-03-04T05:06:{first:02}Z", **more)
    text = [{"type": "input_text", "text": f"Do step {first}."}]
    given = {"call_id": f"t{first}", "name": "shell", "arguments": f'{{"command": ["make", "step{first}"]}}'}
    return [
        meta,
        record("response_item", first, type="message", role="user", content=text),
        record("response_item", first + 1, type="function_call", **given),
        record("response_item", first + 2, type="function_call_output", call_id=f"t{first}", output="ok"),
    ]


def stored(folder: Path, *files: Records, at_once: bool) -> dict[str, tuple[int, list[str]]]:
    """Of each run in a new memory that read these files: how many calls, and what the user said."""
    paths = [write(folder / f"{number}.jsonl", *records) for number, records in enumerate(files)]
    with Memory.open(folder / "memory.db") as memory:
        if at_once:
            reports = [memory.ingest(folder)]
        else:
            reports = [memory.ingest(path) for path in paths]
        assert [rejection for report in reports for rejection in report.rejected] == []
        found: dict[str, tuple[int, list[str]]] = {}
        for run in memory.runs():
            found[run.id] = len(list(run.calls())), [turn.text for turn in run.turns if turn.role == "user"]
        return found


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("part", [claude_part, codex_part])
def test_parts_of_a_session_in_several_files_are_one_run_in_any_order(tmp_path: Path, part: Any, at_once: bool) -> None:
    one, two, three = part(1), part(11), part(21)
    whole = {"s": (3, ["Do step 1.", "Do step 11.", "Do step 21."])}
    for number, order in enumerate([(one, two, three), (three, one, two), (one, [*one, *two], three, two)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert stored(folder, *order, at_once=at_once) == whole


@pytest.mark.parametrize("at_once", [True, False])
def test_the_calls_that_a_fork_copied_count_once(tmp_path: Path, at_once: bool) -> None:
    origin = claude_part(1)
    kept = [*origin, *claude_part(11, session="fork", parent="3")]  # records keep the id of their session
    named: Records = []
    for record in origin:
        about = {"sessionId": "s", "messageUuid": record["uuid"]}
        named.append({**record, "uuid": f"f{record['uuid']}", "sessionId": "fork", "forkedFrom": about})
    named += claude_part(11, session="fork", parent="f3")
    codex = [codex_part(5, session="fork", forked_from_id="s")[0], *codex_part(1), *codex_part(11)[1:]]
    cases = [(origin, kept), (origin, named), (codex_part(1), codex)]
    for number, files in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert stored(folder, *files, at_once=at_once) == {"s": (2, ["Do step 1.", "Do step 11."])}
