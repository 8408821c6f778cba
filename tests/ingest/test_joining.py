"""What several files hold of one run is joined, in whatever order they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm import Memory
from hepm.ingest.joining import joined
from hepm.ingest.reading import read_value
from hepm.ingest.records import ReadOptions
from hepm.types import Trajectory
from tests.ingest import traces
from tests.ingest.samples import write
from tests.ingest.traces import GEN_AI, call, export, model, text, tool
from tests.ingest.transcripts import claude, result, use


def request(number: int, **more: Any) -> dict[str, Any]:
    """A trace of a session in Langfuse's layout, whose one call has the same id and arguments in each."""
    trace = f"trace-{number}"

    def observation(kind: str, second: int, **about: Any) -> dict[str, Any]:
        at = {"startTime": f"2026-03-04T05:{number:02}:{second:02}Z", "endTime": f"2026-03-04T05:{number:02}:30Z"}
        return {"id": f"{kind}{number}", "traceId": trace, "type": kind, **at, **about}

    asked = [{"role": "user", "content": "And the next?"}]
    calls = [{"id": "a", "function": {"name": f"look_{number}", "arguments": "{}"}}]
    answer = {"role": "assistant", "tool_calls": calls}
    observations = [
        observation("GENERATION", 2, input=asked, output=answer),
        observation("TOOL", 3, name=f"look_{number}", input={}, output="ok"),
    ]
    about = {"id": trace, "sessionId": "session-1", "userId": "ann", "timestamp": f"2026-03-04T05:{number:02}:01Z"}
    return {**about, "observations": observations, **more}


@pytest.mark.parametrize("order", [(2, 0, 1), pytest.param((0, 1, 2), marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("way", ["one command", "several commands"])
def test_traces_of_a_session_in_several_files_are_one_run(tmp_path: Path, order: tuple[int, ...], way: str):
    files = [write(tmp_path / f"{number}.json", request(number)) for number in order]
    commands = [[file] for file in files] if way == "several commands" else [files]
    with Memory.open(tmp_path / "m.hepm") as memory:
        for command in commands:
            assert memory.ingest(command).rejected == []
        [run] = memory.runs()
        assert [turn.text or turn.calls[0].name for turn in run.turns] == [
            "And the next?", "look_0", "And the next?", "look_1", "And the next?", "look_2",
        ]  # fmt: skip
        assert memory.examine() == []
        assert memory.ingest(files).duplicates == 3
        assert [*memory.runs()] == [run]
        memory.forget(trajectory="session-1")
        assert memory.totals().trajectories == 0
        assert memory.examine() == []


AGAIN = [*traces.ASKED, text("assistant", "Not found."), text("user", "Again.")]
SPANS = [
    *GEN_AI[:-1],
    model(7, 7, AGAIN, call("c", "find_order", {})),
    tool(8, 8, "find_order", "c", about={"gen_ai.tool.call.result": "order 9"}),
    traces.ROOT,
]


@given(st.integers(0, len(SPANS)), st.integers(0, len(SPANS)), st.permutations(range(3)))
def test_spans_of_a_trace_in_rotated_files_are_the_run_of_one_file(first: int, second: int, order: list[int]):
    start, stop = sorted((first, second))
    by_end = sorted(SPANS, key=lambda span: span["endTimeUnixNano"])
    files = [by_end[:start], by_end[start:stop], by_end[stop:]]
    parts = [part_of(*files[number]) for number in order]
    whole, expected = joined([part for part in parts if part is not None]), part_of(*SPANS)
    assert whole.turns == expected.turns


def part_of(*spans: Any) -> Trajectory | None:
    """The run that a file of these spans gives."""
    session = {"key": "gen_ai.conversation.id", "value": {"stringValue": "c-1"}}
    named = [{**span, "attributes": [*span["attributes"], session]} for span in spans]
    for _, run in read_value(export(*named), 1, ReadOptions()):
        if isinstance(run, Trajectory):
            return run
    return None  # of the agent's own span alone


def test_a_part_of_another_user_is_rejected_with_its_own_file(tmp_path: Path):
    files = [write(tmp_path / "a.json", request(1)), write(tmp_path / "b.json", request(2, userId="bob"))]
    with Memory.open(tmp_path / "m.hepm") as memory:
        [rejection] = memory.ingest(files).rejected
        assert rejection.file.endswith("b.json")
        assert [run.user for run in memory.runs()] == ["ann"]


def test_the_outcome_of_a_session_is_that_of_its_latest_trace_that_has_one(tmp_path: Path):
    scores = [[{"name": "reward", "value": reward}] for reward in (1, 0)]
    requests = [request(0, scores=scores[0]), request(1, scores=scores[1]), request(2)]
    for number, order in enumerate([requests, requests[::-1]]):
        with Memory.open(tmp_path / f"{number}.hepm") as memory:
            for record in order:
                memory.ingest(record)
            [run] = memory.runs()
            assert run.outcome.success is False
            assert memory.examine() == []


def test_a_label_that_was_given_by_hand_stays_when_a_later_part_comes(memory: Memory):
    memory.ingest(request(0))
    memory.label("session-1", success=True)
    memory.ingest(request(1))
    [run] = memory.runs()
    assert (run.outcome.success, len(run.turns)) == (True, 4)


# Sessions of coding agents that several files hold: resumed ones, forks, and copies

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


@pytest.mark.parametrize(("part", "at_once"), [(claude_part, True), (claude_part, False), (codex_part, False)])
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
