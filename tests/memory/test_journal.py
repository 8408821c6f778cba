"""Sessions under way are on disk: what a crash leaves, and how it goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome, Trajectory
from tests.faults.places import files_limited_to
from tests.runs import asked, stored_run

CRASHES = """
import os, sys
from hepm import Memory
from tests.runs import stored_run
memory = Memory.open(sys.argv[1])
session = memory.session(id="parcel-7", task="refund", user="ada")
session.say("user", "Refund parcel 7. My key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF.")
session.record("get_order", {"parcel": 7}, "delivered")
session.record("refund", {"parcel": 7}, "no such parcel", error=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory beside which a killed process left a session."""
    file = tmp_path_factory.mktemp("left") / "m.hepm"
    process = subprocess.run([sys.executable, "-c", CRASHES, str(file)], check=False)
    assert process.returncode == -9
    return file


@pytest.fixture
def crashed(left: Path, tmp_path: Path) -> Path:
    shutil.copytree(left.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / left.name


@pytest.fixture
def memory(crashed: Path) -> Iterator[Memory]:
    with Memory.open(crashed) as memory:
        yield memory


def kept(crashed: Path) -> list[Path]:
    return list(crashed.with_name("m.hepm-sessions").iterdir())


def calls(run: Trajectory | None) -> list[tuple[str, bool | None]]:
    assert run is not None
    return [(call.name, call.error) for turn in run.turns for call in turn.calls]


def rest(file: Path, seconds: float) -> None:
    os.utime(file, (time.time() - seconds,) * 2)


def test_what_a_killed_process_recorded_is_stored_without_a_label_once_it_rests(crashed: Path, memory: Memory) -> None:
    assert memory.sessions.store_abandoned() == 0
    rest(*kept(crashed), 1_801)
    assert memory.sessions.store_abandoned() == 1
    run = memory.run("parcel-7")
    assert calls(run) == [("get_order", None), ("refund", True)]
    assert run is not None
    assert (run.task, run.user, run.outcome.success) == ("refund", "ada", None)
    assert kept(crashed) == []
    assert memory.sessions.store_abandoned() == 0


def test_what_a_session_has_beyond_its_labelled_run_is_stored_as_a_run_of_its_own(
    crashed: Path, memory: Memory
) -> None:
    journal = memory.sessions.journal
    (left,) = journal.idle(0)
    user, get_order, refund = left.run.turns
    memory.ingest([replace(left.run, turns=(user, get_order), outcome=Outcome(1.0, True))])
    assert memory.sessions.store_abandoned(idle_s=0) == 1
    labelled, beyond = memory.run("parcel-7"), memory.run("parcel-7-2")
    assert labelled is not None
    assert beyond is not None
    assert (labelled.turns, labelled.outcome.success) == ((user, get_order), True)
    assert (beyond.turns, beyond.outcome.success) == ((refund,), None)


def test_no_secret_of_a_session_under_way_is_on_disk(crashed: Path) -> None:
    (file,) = kept(crashed)
    assert "sk-proj-" not in file.read_text()
    assert file.parent.stat().st_mode & 0o077 == 0


def test_a_session_goes_on_where_a_crash_ended_it(crashed: Path, memory: Memory) -> None:
    with memory.session(id="parcel-7", task="refund", user="ada") as session:
        session.record("get_order", {"parcel": 70}, "delivered")
        session.finish(success=True)
    assert calls(memory.run("parcel-7")) == [("get_order", None), ("refund", True), ("get_order", None)]
    assert kept(crashed) == []


def test_a_session_may_be_finished_after_a_restart(memory: Memory) -> None:
    session = memory.sessions.resume("parcel-7")
    assert session is not None
    session.finish(success=False)
    run = stored_run(memory, "parcel-7")
    assert run.outcome.success is False
    assert memory.sessions.resume("parcel-7") is None


def test_messages_that_hold_the_whole_run_are_not_added_to_what_was_kept(memory: Memory) -> None:
    said = "Refund parcel 7. My key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF."
    messages = asked("get_order", "refund", "close_ticket", wish=said)
    session = memory.session(id="parcel-7")
    session.hint(messages)
    session.finish(success=True)
    assert [name for name, _ in calls(memory.run("parcel-7"))] == ["get_order", "refund", "close_ticket"]


def test_a_session_that_was_stored_while_it_rested_goes_on_and_is_one_run(crashed: Path, memory: Memory) -> None:
    session = memory.session(id="other")
    session.say("user", "Where is parcel 8?")
    session.record("get_order", {"parcel": 8}, "lost")
    for file in kept(crashed):
        rest(file, 1_801)
    assert memory.sessions.store_abandoned() == 2
    session.record("refund", {"parcel": 8}, "done")
    with Memory.open(crashed) as after_a_crash:
        assert calls(kept_run(after_a_crash, "other")) == [("get_order", None), ("refund", None)]
    session.finish(success=True)
    run = memory.run("other")
    assert calls(run) == [("get_order", None), ("refund", None)]
    assert run is not None
    assert run.outcome.success is True
    assert memory.totals().trajectories == 2


def kept_run(memory: Memory, id: str) -> Trajectory | None:
    assert memory.sessions.resume(id) is not None
    memory.sessions.store_abandoned(idle_s=0)
    return memory.run(id)


def test_turns_recorded_after_a_torn_line_are_kept(crashed: Path, memory: Memory) -> None:
    (file,) = kept(crashed)
    lines = file.read_bytes()
    file.write_bytes(lines[: len(lines) - 20])
    memory.session(id="parcel-7").record("close_ticket", {}, "done")
    session = memory.sessions.resume("parcel-7")
    assert session is not None
    session.finish(success=False)
    assert calls(memory.run("parcel-7")) == [("get_order", None), ("close_ticket", None)]


def test_turns_that_a_full_disk_kept_out_are_on_disk_once_there_is_room(crashed: Path, memory: Memory) -> None:
    session = memory.session(id="parcel-8")
    session.say("user", "Refund parcel 8.")
    with files_limited_to(2):
        session.record("get_order", {"parcel": 8}, "x" * 4_000)
        session.record("get_photo", {"parcel": 8}, "broken")
    session.record("refund", {"parcel": 8}, "done")
    with Memory.open(crashed) as other:
        again = other.sessions.resume("parcel-8")
        assert again is not None
        assert again.calls == ["get_order", "get_photo", "refund"]
    session.finish(success=True)
    assert calls(memory.run("parcel-8")) == [("get_order", None), ("get_photo", None), ("refund", None)]


def test_a_session_that_never_got_room_leaves_no_file(crashed: Path, memory: Memory) -> None:
    before = kept(crashed)
    with files_limited_to(0):
        memory.session(id="parcel-8").say("user", "Refund parcel 8.")
    assert kept(crashed) == before


def test_a_session_that_this_process_writes_has_not_moved_to_another_one(memory: Memory) -> None:
    session = memory.session(id="s")
    with ThreadPoolExecutor(1) as other:

        def work() -> None:
            for number in range(300):
                session.record(f"tool_{number % 7}", {"n": number}, "ok")
            session.finish(success=True)

        working = other.submit(work)
        while not working.done():
            assert not session.moved
        working.result()


@pytest.mark.parametrize(
    "chosen", [{"user": "ada"}, {"trajectory": "parcel-7"}, {"task": "refund"}, {"user": "ada", "task": "refund"}]
)
def test_forgetting_ends_the_sessions_that_a_crash_left(crashed: Path, memory: Memory, chosen: dict[str, str]) -> None:
    assert memory.forget(**chosen, dry_run=True) == ["parcel-7"]
    assert memory.forget(**chosen) == ["parcel-7"]
    assert memory.forget(**chosen) == []
    assert b"parcel" not in kept(crashed)[0].read_bytes()
    assert memory.sessions.store_abandoned(idle_s=0) == 0
    assert memory.sessions.resume("parcel-7") is None
    assert memory.totals().trajectories == 0


@pytest.mark.parametrize("chosen", [{"user": "ada", "task": "other"}, {"namespace": "other"}])
def test_forgetting_leaves_the_sessions_of_others(memory: Memory, chosen: dict[str, str]) -> None:
    assert memory.forget(**{"user": "ada"} | chosen) == []
    assert memory.sessions.store_abandoned(idle_s=0) == 1


def test_a_session_that_was_forgotten_is_not_stored_by_the_process_that_has_it(crashed: Path, memory: Memory) -> None:
    session = memory.session(id="other", user="bob")
    session.say("user", "Where is parcel 8?")
    with Memory.open(crashed) as another:
        assert another.forget(user="bob") == ["other"]
    session.record("get_order", {"parcel": 8}, "lost")
    session.finish(success=True)
    assert memory.totals().trajectories == 0
    assert not any(b"parcel 8" in file.read_bytes() or b"lost" in file.read_bytes() for file in kept(crashed))
    with memory.session(id="other", user="bob") as again:
        again.say("user", "Where is parcel 9?")
        again.finish(success=True)
    assert memory.totals().trajectories == 1


def test_an_outcome_does_not_bring_a_forgotten_run_back(memory: Memory) -> None:
    session = memory.session(id="other", user="bob")
    session.record("get_order", {"parcel": 8}, "lost")
    session.finish()
    assert memory.forget(user="bob") == ["other"]
    session.finish(success=True)
    assert memory.run("other") is None


def test_the_mark_of_a_forgotten_session_goes_after_a_week(crashed: Path, memory: Memory) -> None:
    memory.forget(user="ada")
    (mark,) = kept(crashed)
    rest(mark, 8 * 86_400)
    session = memory.session(id="other", user="bob")
    session.say("user", "Where is parcel 8?")
    memory.forget(user="bob")
    assert not mark.exists()
