"""Runs behind the doors that end without an outcome: a rule labels them, and a given outcome wins."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from hepm import Memory
from hepm.agents.replies import Reply
from hepm.agents.runs import LiveRuns
from hepm.errors import NotFoundError
from tests.agents.serving import serving
from tests.memory.refits import refits_held
from tests.runs import stored_run, trajectory


def work(runs: LiveRuns, id: str, result: str = "12 passed in 0.31s") -> None:
    """A run that edits and tests, and then rests."""
    session = runs.named(id, namespace="default", door="test", task="fix").session
    session.say("user", "Fix the parser.")
    session.record("Edit", {"file_path": "a.py"}, "ok")
    session.record("Bash", {"command": "pytest -q"}, result)


def rested(memory: Memory, id: str = "r", **options: Any) -> tuple[LiveRuns, bool | None]:
    runs = LiveRuns(memory, idle_s=0, **options)
    work(runs, id)
    runs.store_idle()
    stored = stored_run(memory, id)
    return runs, stored.outcome.success


def test_a_run_that_rests_is_labelled_by_its_tests_and_counts(memory: Memory) -> None:
    assert rested(memory)[1] is True
    assert memory.totals().successes == 1


def test_an_outcome_that_comes_late_replaces_that_of_the_rules_and_counts(memory: Memory) -> None:
    runs, _ = rested(memory)
    runs.finish("r", namespace="default", success=False, reward=None)
    LiveRuns(memory).finish("r", namespace="default", success=False, reward=None)
    stored = stored_run(memory, "r")
    assert (stored.outcome.success, stored.outcome_by) == (False, "")
    assert (memory.totals().successes, memory.totals().failures) == (0, 1)


def test_a_session_goes_on_after_a_rest_and_its_label_follows_its_last_tests(memory: Memory) -> None:
    rested(memory)
    runs = LiveRuns(memory, idle_s=0)
    session = runs.named("r", namespace="default", door="test").session
    assert session.id == "r"
    session.record("Edit", {"file_path": "a.py"}, "ok")
    session.record("Bash", {"command": "pytest -q"}, "1 failed, 11 passed in 0.31s")
    runs.store_idle()
    stored = stored_run(memory, "r")
    assert (len(list(stored.calls())), stored.outcome.success) == (4, False)


def test_a_crashed_session_is_labelled_by_the_rules_of_the_server_that_stores_it(memory: Memory) -> None:
    work(LiveRuns(memory), "off")
    LiveRuns(memory, idle_s=-1, outcome_by=()).store_idle()
    work(LiveRuns(memory), "on")
    LiveRuns(memory, idle_s=-1).store_idle()
    found = [memory.run("off"), memory.run("on")]
    assert [one and one.outcome.success for one in found] == [None, True]


def test_an_outcome_is_answered_before_anything_is_computed_from_all_runs_and_so_is_the_next_request(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.ingest(trajectory(f"r{number}", "search", "book") for number in range(90))
    with serving(memory) as (server, url), refits_held(monkeypatch):
        for id in ("first", "second"):
            run = server.runs.named(id, namespace="default", door="test")
            run.session.say("user", "please help")
            run.session.record("search", {}, "search done")
            assert [one.tool for one in server.runs.prompt(run).suggestions] == ["book"]
            answer = httpx2.post(f"{url}/outcome", json={"session": id, "success": True})
            assert answer.json() == {"session": id, "run": id, "stored": True}
            assert memory.run(id) is not None


def test_a_run_under_way_that_was_forgotten_is_not_stored_and_what_follows_is_another_run(tmp_path: Any) -> None:
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory, Memory.open(tmp_path / "m.hepm") as other:
        runs = LiveRuns(memory, idle_s=0)
        said = [{"role": "user", "content": "I am Ann, of Quito."}]
        about = {"namespace": "default", "door": "test", "user": "ann"}
        run = runs.continued(said, id="", **about)
        runs.prompt(run)
        replied = [*said, {"role": "assistant", "content": "How can I help?"}]
        runs.replied(run, Reply(tuple(replied[1:])))
        work(runs, "of-bob")
        assert other.forget(user="ann") == [run.id]
        with pytest.raises(NotFoundError):
            runs.finish(run.id, namespace="default", success=True, reward=None)
        after = runs.continued([*replied, {"role": "user", "content": "Where is parcel 8?"}], id="", **about)
        runs.prompt(after)
        runs.store_idle()
        assert [[turn.text for turn in stored.turns] for stored in memory.runs() if stored.user] == [
            ["Where is parcel 8?"]
        ]
        assert memory.totals().trajectories == 2


def test_a_run_that_rested_and_was_forgotten_does_not_come_back_with_its_outcome(memory: Memory) -> None:
    runs, _ = rested(memory)
    assert memory.forget(trajectory="r") == ["r"]
    with pytest.raises(NotFoundError):
        runs.finish("r", namespace="default", success=True, reward=None)
    assert memory.totals().trajectories == 0
