"""Labels of stored runs, on every store: given, by rule, corrected, removed, and who wins."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.errors import NotFoundError
from hepm.ingest.outcome import RunVerdict
from hepm.ingest.prepare import IngestOptions
from hepm.types import REMOVED
from tests.runs import trajectory


def support(memory: Memory) -> tuple[int, int, int]:
    """Runs behind the edge from the start to "look": successful, failed, unlabelled."""
    memory.refresh()
    edges = memory.graph().edges(data=True)
    return next((data["support"], data["failures"], data["unlabelled"]) for _, b, data in edges if b == "look")


def run(name: str = "r", *, success: bool | None = None, by: str = "") -> Trajectory:
    plain = trajectory(name, "look", "buy", success=success, task="t")
    return replace(plain, outcome=Outcome(None, success), tags={"hepm:outcome-by": by} if by else {})


def test_a_label_is_corrected_and_removed_and_nothing_else_of_the_run_changes(memory: Memory) -> None:
    secret = Turn("user", "my key is sk-" + "a1B2" * 12)
    before = replace(run(), turns=(secret, *run().turns))
    memory.ingest(before, options=IngestOptions(redactor=None, own_states=True))
    kept = memory.run("r")
    for success, counts in ((True, (1, 0, 0)), (False, (0, 1, 0))):
        memory.label("r", success=success)
        assert support(memory) == counts
        assert memory.run("r") == replace(kept, outcome=Outcome(None, success))
    assert memory.labels.remove("r").outcome.success is False
    assert support(memory) == (0, 0, 1)
    assert memory.run("r") == replace(kept, tags={**kept.tags, "hepm:outcome-by": REMOVED})
    assert memory.examine() == []


def test_a_given_label_wins_over_a_rule_whichever_comes_first(memory: Memory) -> None:
    memory.ingest(run(success=True, by="tests"))
    memory.ingest(run(success=False))
    memory.ingest(run(success=True, by="tests"))
    stored = memory.run("r")
    assert (stored.outcome.success, stored.outcome_by) == (False, "")


@pytest.mark.above_stores
def test_a_label_given_by_hand_that_agrees_with_a_rule_counts_once_and_with_its_reward(memory: Memory) -> None:
    memory.ingest(run(success=True, by="tests"))
    memory.label("r", success=True, reward=1.0)
    stored = memory.run("r")
    assert (stored.outcome, stored.outcome_by, support(memory)) == (Outcome(1.0, True), "", (1, 0, 0))
    assert memory.examine() == []


@pytest.mark.above_stores
def test_no_rule_labels_again_what_was_removed_by_hand_until_a_label_is_given(memory: Memory) -> None:
    memory.ingest(run(success=True, by="tests"))
    memory.labels.remove("r")
    assert memory.ingest(run(success=True, by="tests")).duplicates == 1
    assert list(memory.labels.store([RunVerdict(run(), True, "judge:small")]))
    assert support(memory) == (0, 0, 1)
    assert [one.id for one in memory.labels.unlabelled()] == ["r"]
    assert not list(memory.labels.unlabelled(removed=False))
    memory.label("r", success=True)
    assert support(memory) == (1, 0, 0)


def test_all_labels_of_a_judge_are_retracted_and_may_be_given_again(memory: Memory) -> None:
    memory.ingest([run("a"), run("b"), run("c", success=True)])
    verdicts = [RunVerdict(one, one.id == "a", "judge:small") for one in memory.labels.unlabelled()]
    assert list(memory.labels.store(verdicts)) == verdicts
    assert support(memory) == (2, 1, 0)
    assert sorted(one.id for one in memory.labels.derived("judge")) == ["a", "b"]
    assert memory.labels.derived("tests") == []
    assert memory.labels.retract("judge:small") == 2
    assert support(memory) == (1, 0, 2)
    assert list(memory.labels.store(verdicts))
    assert support(memory) == (2, 1, 0)


def test_what_a_label_taught_goes_with_it_and_lessons_keep_what_they_were_shown_in(memory: Memory) -> None:
    memory.ingest([run("a", success=True), run("b", success=True)])
    memory.experiences.distill()
    shown = memory.lessons.list("experience")[0].row
    assert {source.run for source in shown.sources} == {"a", "b"}
    memory.lessons.show("c", [shown.id])
    memory.ingest(run("c", success=True, by="tests"))
    memory.refresh()
    assert memory.lessons.list("experience")[0].uses.successes == 1
    memory.labels.remove("c")
    memory.refresh()
    uses = memory.lessons.list("experience")[0].uses
    assert (uses.shown, uses.uses, uses.successes) == (1, 0, 0)
    for name in ("a", "b"):
        memory.labels.remove(name)
    memory.refresh()
    assert memory.lessons.list("experience") == []


@pytest.mark.above_stores
def test_a_forgotten_or_another_run_is_not_labelled(memory: Memory) -> None:
    memory.ingest(run("a"))
    other = replace(run("a"), turns=(Turn("user", "hello"), Turn("assistant", "", (ToolCall("look"),))))
    list(memory.labels.store([RunVerdict(run("gone"), True, "tests"), RunVerdict(other, True, "tests")]))
    assert memory.run("gone") is None
    assert support(memory) == (0, 0, 1)
    with pytest.raises(NotFoundError, match="no run is stored"):
        memory.label("gone", success=True)


@pytest.mark.above_stores
def test_the_label_of_a_distrusted_run_stays_in_its_tag(memory: Memory) -> None:
    distrusted = replace(run(), tags={"attack": "yes"})
    memory.ingest(distrusted, options=IngestOptions(distrusted=("attack",)))
    memory.label("r", success=True)
    stored = memory.run("r")
    assert (stored.outcome, stored.tags["hepm:distrusted"]) == (Outcome(), '{"success": true}')
    assert list(memory.labels.unlabelled()) == []


def test_unlabelled_runs_come_latest_first_and_while_they_are_labelled(memory: Memory) -> None:
    memory.ingest([replace(run(f"r{n:03}"), task=f"t{n % 2}") for n in range(250)])
    memory.ingest([run("done", success=True), replace(run("part"), outcome=Outcome(0.5))])
    assert [one.id for one in islice(memory.labels.unlabelled(), 3)] == ["r249", "r248", "r247"]
    verdicts = (RunVerdict(one, True, "tests") for one in memory.labels.unlabelled())
    assert sum(1 for _ in memory.labels.store(verdicts)) == 250
    assert memory.totals().failures == 1  # its reward is below .7
