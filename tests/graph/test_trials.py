"""What stores keep of sessions in experiments."""

from __future__ import annotations

from dataclasses import replace

from hepm.graph.rows import Selection
from hepm.graph.store import Store
from hepm.graph.trials import CONTROL, MEMORY, Trial, Withheld, trial_columns
from hepm.types import TRIAL, Outcome, ToolCall, Trajectory, Turn
from tests.graph.test_levels import NS, store_runs
from tests.runs import trajectory

TOLD = Trial(MEMORY, 0.1, tokens=40, shown=("p-1", "hint buy"))


def in_trial(trial: Trial, name: str, success: bool | None) -> Trajectory:
    return replace(trajectory(name, "look", "buy", success=success), tags={TRIAL: trial.to_tag()})


def test_a_tag_is_read_as_it_was_written_and_what_is_none_is_no_trial() -> None:
    shadow = Trial(CONTROL, 1.0, withheld=(Withheld(0, ("look",), 0.9), Withheld(2, ("buy", "look"), 0.6)))
    for trial in (TOLD, shadow, Trial(CONTROL, 0.5)):
        assert Trial.from_tag(trial.to_tag()) == trial
    for tag in (
        "",
        "none",
        "[]",
        "3",
        '{"arm": "other", "holdout": 0.1}',
        '{"arm": "memory"}',
        '{"arm": "memory", "holdout": 2}',
    ):
        assert Trial.from_tag(tag) is None


def test_sessions_of_experiments_are_listed_in_order_with_what_is_compared(store: Store) -> None:
    store_runs(store, in_trial(TOLD, "b", True), trajectory("c", "look", success=True), in_trial(TOLD, "a", None))
    store_runs(store, in_trial(Trial(CONTROL, 0.1), "d", False), namespace="other")
    found = store.trial_sessions(namespace=NS)
    assert [(one.run, one.arm, one.success) for one in found] == [("b", MEMORY, True), ("a", MEMORY, None)]
    assert found[0].shown == ("p-1", "hint buy")
    assert (found[0].tokens, found[0].holdout, found[0].shadow) == (40, 0.1, False)
    assert [one.arm for one in store.trial_sessions(namespace="other")] == [CONTROL]


def test_a_late_label_a_rebuild_and_forgetting_leave_every_session_counted_once(store: Store) -> None:
    shelf = store_runs(store, in_trial(TOLD, "a", None), in_trial(Trial(CONTROL, 0.1), "b", False))
    store_runs(store, in_trial(TOLD, "a", True), relabel=True)
    before = {one.run: one._replace(seq=0) for one in store.trial_sessions(namespace=NS)}
    assert before["a"].success is True
    store.rebuild(namespace=NS, replay=shelf.replay)
    assert {one.run: one._replace(seq=0) for one in store.trial_sessions(namespace=NS)} == before
    store.forget(Selection(trajectory="b"), namespace=NS, replay=shelf.replay)
    assert [one.run for one in store.trial_sessions(namespace=NS)] == ["a"]


def test_a_hint_of_a_shadow_session_is_judged_by_the_next_turn_with_calls() -> None:
    withheld = (Withheld(0, ("look",), 0.9), Withheld(1, ("sell",), 0.6), Withheld(2, ("end",), 0.7))
    turns = (
        Turn("user", "Buy  a thing"),
        Turn("assistant", calls=(ToolCall("look"),)),
        Turn("assistant", "Let me see."),
        Turn("assistant", calls=(ToolCall("buy", error=True),)),
    )
    run = Trajectory("a", turns, Outcome(success=True), tags={TRIAL: Trial(CONTROL, 1.0, withheld=withheld).to_tag()})
    columns = trial_columns(run)
    assert columns["arm"] == CONTROL
    assert '"hints":[[0.9,true],[0.6,false]]' in columns["trial"]  # the last hint was followed by no call
    assert '"errors":1' in columns["trial"]
    assert '"request":"Buy a thing"' in columns["trial"]
