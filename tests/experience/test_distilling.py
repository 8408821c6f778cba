from __future__ import annotations

from pathlib import Path

from hepm.evidence.decisions import CallPlace
from hepm.evidence.rules import RunsOf, ToolRule
from hepm.experience.counted import next_tools
from hepm.experience.distilling import ExtractiveDistiller, distill_into
from hepm.experience.experiences import Experiences
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.principles import Principles
from hepm.graph.lessons.rows import Source
from hepm.graph.lessons.transaction import LessonChange
from tests.experience.shelves import NS, forget, open_bank, remember
from tests.runs import trajectory


def distill(bank: LessonBank, *, runs: list[str] | None = None) -> tuple[int, int, int]:
    report = distill_into(bank, ExtractiveDistiller(), namespace=NS, runs=runs)
    return report.runs, report.new, report.retired


def test_a_run_that_gets_its_label_late_is_distilled_then(tmp_path: Path) -> None:
    bank = open_bank(tmp_path / "store.hepm")
    remember(bank, trajectory("late", "look", success=None, task="t"), trajectory("won", "look", "buy", task="t"))
    assert distill(bank) == (1, 1, 0)
    assert distill(bank) == (0, 0, 0)
    remember(bank, trajectory("late", "look", success=False, task="t"))
    assert distill(bank) == (1, 1, 0)


def test_what_a_run_taught_before_there_was_another_to_compare_with_is_retired_when_looked_at_again(
    tmp_path: Path,
) -> None:
    bank = open_bank(tmp_path / "store.hepm")
    remember(bank, trajectory("won", "look", "buy", task="t", goal="I want order #1001"))
    distill(bank)
    (before,) = bank.list("experience", namespace=NS)
    remember(bank, trajectory("lost", "look", "drop", success=False, task="t", goal="I want order #1001"))
    assert distill(bank) == (1, 1, 0)
    assert distill(bank, runs=["won"]) == (2, 1, 1)
    lessons = {one.row.properties["lesson"] for one in bank.list("experience", namespace=NS)}
    assert len(lessons) == 2
    assert before.row.properties["lesson"] not in lessons
    stored = bank.lessons(NS).get(before.row.id)
    assert stored is not None
    assert stored.row.retired == "outdated"


def test_what_a_run_teaches_again_is_live_again(tmp_path: Path) -> None:
    bank = open_bank(tmp_path / "store.hepm")
    remember(bank, trajectory("won", "look", "buy", task="t", goal="I want order #1001"))
    distill(bank)
    (before,) = bank.list("experience", namespace=NS)
    remember(bank, trajectory("lost", "look", "drop", success=False, task="t", goal="I want order #1001"))
    distill(bank, runs=["won"])
    assert before.row.id not in {one.row.id for one in bank.list("experience", namespace=NS)}
    forget(bank, "lost")
    bank.mirror.refresh()
    distill(bank, runs=["won"])
    (again,) = [one for one in bank.list("experience", namespace=NS) if one.row.id == before.row.id]
    assert [source.run for source in again.row.sources] == ["won"]


def test_equal_words_make_one_experience_with_several_sources(tmp_path: Path) -> None:
    bank = open_bank(tmp_path / "store.hepm")
    remember(bank, trajectory("b", "look", task="t"), trajectory("a", "look", task="t"))
    assert distill(bank) == (2, 1, 0)
    (found,) = bank.list("experience", namespace=NS)
    assert found.row.sources == (Source("a", 1.0), Source("b", 1.0, words=False))


def relearn(bank: LessonBank, *runs: str) -> None:
    """Distill the tasks of runs that just finished, as sessions do."""
    Experiences(bank).distill(namespace=NS, runs=runs)


def rules(bank: LessonBank) -> dict[str, set[str]]:
    """The principles that are found, each with the runs behind it."""
    return {one.row.text: {source.run for source in one.row.sources} for one in bank.list("principle", namespace=NS)}


def test_tasks_distilled_run_by_run_teach_what_they_teach_distilled_at_once(tmp_path: Path) -> None:
    step_by_step, in_one_run = open_bank(tmp_path / "one.hepm"), open_bank(tmp_path / "other.hepm")
    runs = [
        trajectory(
            f"{task}-{number}", "look", tool, success=tool == "buy", task=task, goal=f"I want {task}", ended_at=number
        )
        for number, (task, tool) in enumerate(
            [("x", "buy"), ("y", "buy"), ("x", "drop"), ("z", "drop"), ("y", "buy"), ("z", "buy"), ("x", "keep")]
        )
    ]
    for run in runs:
        remember(step_by_step, run)
        relearn(step_by_step, run.id)
    remember(in_one_run, *runs)
    Experiences(in_one_run).distill(namespace=NS)
    told = [
        {
            (one.row.properties["lesson"], tuple(sorted(source.run for source in one.row.sources)))
            for one in bank.list("experience", namespace=NS)
        }
        for bank in (step_by_step, in_one_run)
    ]
    assert told[0] == told[1]


def test_a_rule_that_runs_do_not_teach_any_more_is_retired_and_comes_back_with_its_uses(tmp_path: Path) -> None:
    bank = open_bank(tmp_path / "store.hepm")
    good = [trajectory(f"g{n}", "look", "buy") for n in range(6)]
    remember(bank, *good, *(trajectory(f"b{n}", "look", "drop", success=False) for n in range(6)))
    Principles(bank).distill(namespace=NS)
    (rule,) = rules(bank)
    (id,) = (one.row.id for one in bank.list("principle", namespace=NS))
    bank.show("live", [id], namespace=NS)
    for name in range(6):
        forget(bank, f"g{name}")
    bank.mirror.refresh()
    Principles(bank).distill(namespace=NS)
    assert rules(bank) == {}
    remember(bank, *good)
    bank.mirror.refresh()
    Principles(bank).distill(namespace=NS)
    assert {*rules(bank)} == {rule}
    assert [one.uses.shown for one in bank.list("principle", namespace=NS)] == [1]


def test_an_imported_rule_whose_runs_are_elsewhere_outlives_what_the_runs_here_teach(tmp_path: Path) -> None:
    there, here = open_bank(tmp_path / "there.hepm"), open_bank(tmp_path / "here.hepm")
    for bank, good, bad in ((there, "buy", "drop"), (here, "sell", "keep")):
        remember(bank, *(trajectory(f"{good}{n}", "look", good) for n in range(6)))
        remember(bank, *(trajectory(f"{bad}{n}", "look", bad, success=False) for n in range(6)))
    Principles(there).distill(namespace=NS)
    (rule,) = there.list("principle", namespace=NS)
    here.change(LessonChange(put=[rule.row], imported=True), namespace=NS)
    for _ in range(2):
        Principles(here).distill(namespace=NS)
        assert {rule.row.text} < {*rules(here)}


def test_a_lesson_that_a_hand_retired_does_not_come_back_when_it_is_taught_again(tmp_path: Path) -> None:
    bank = open_bank(tmp_path / "store.hepm")
    remember(bank, *(trajectory(f"g{n}", "look", "buy") for n in range(6)))
    remember(bank, *(trajectory(f"b{n}", "look", "drop", success=False) for n in range(6)))
    Principles(bank).distill(namespace=NS)
    (one,) = bank.list("principle", namespace=NS)
    bank.change(LessonChange(retire={one.row.id: "deleted"}), namespace=NS)
    remember(bank, trajectory("later", "look", "buy"))
    Principles(bank).distill(namespace=NS)
    assert rules(bank) == {}


def test_only_the_tasks_of_the_runs_are_distilled(tmp_path: Path) -> None:
    bank = open_bank(tmp_path / "store.hepm")
    remember(bank, *(trajectory(name, "look", "buy", task=name) for name in ("a", "b")))
    remember(bank, trajectory("c", "look", "buy", task="a"))
    report = Experiences(bank).distill(namespace=NS, runs=["c"])
    assert report.runs == 2
    [task] = bank.tasks("experience/extractive", namespace=NS)
    assert len(task.wanted) == 1


def test_a_lesson_counts_all_runs_that_made_the_call_as_the_report_and_its_check_do() -> None:
    runs = RunsOf(worked=("a",), failed=("b", "c", "d"), lost=("e", "f"))
    [lesson] = next_tools([ToolRule(CallPlace("calculate"), (), "", ("book",), {"book": runs})])
    assert lesson.evidence == "failed in 5 of 6 runs"
