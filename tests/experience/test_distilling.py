from __future__ import annotations

from pathlib import Path

from hepm.experience.distilling import ExtractiveDistiller, distill_into
from hepm.experience.experiences import Experiences
from hepm.experience.library import Library
from hepm.experience.principles import Principles
from hepm.graph.lessons.transaction import LessonChange
from tests.experience.shelves import NS, open_library, remember
from tests.runs import trajectory


def distill(library: Library, *, again: bool = False) -> tuple[int, int, int]:
    report = distill_into(library, ExtractiveDistiller("experience"), namespace=NS, again=again)
    return report.runs, report.new, report.retired


def test_a_run_that_gets_its_label_late_is_distilled_then(tmp_path: Path) -> None:
    library = open_library(tmp_path / "store.hepm")
    remember(library, trajectory("late", "look", success=None, task="t"), trajectory("won", "look", "buy", task="t"))
    assert distill(library) == (1, 1, 0)
    assert distill(library) == (0, 0, 0)
    remember(library, trajectory("late", "look", success=False, task="t"))
    assert distill(library) == (1, 1, 0)


def test_what_a_run_taught_before_there_was_another_to_compare_with_is_retired_when_looked_at_again(
    tmp_path: Path,
) -> None:
    library = open_library(tmp_path / "store.hepm")
    remember(library, trajectory("won", "look", "buy", task="t", goal="I want order #1001"))
    distill(library)
    (before,) = library.list("experience", namespace=NS)
    remember(library, trajectory("lost", "look", "drop", success=False, task="t", goal="I want order #1001"))
    assert distill(library) == (1, 1, 0)
    assert distill(library, again=True) == (2, 1, 1)
    lessons = {one.row.properties["lesson"] for one in library.list("experience", namespace=NS)}
    assert len(lessons) == 2
    assert before.row.properties["lesson"] not in lessons
    stored = library.lessons(NS).get(before.row.id)
    assert stored is not None
    assert stored.row.retired == "outdated"


def test_equal_lessons_of_several_runs_are_one_and_outlive_the_runs_that_only_taught_them_again(
    tmp_path: Path,
) -> None:
    library = open_library(tmp_path / "store.hepm")
    remember(library, *(trajectory(name, "look", "buy", task="t") for name in ("a", "b", "c")))
    distill(library)
    (one,) = library.list("experience", namespace=NS)
    assert [(source.run, source.words) for source in one.row.sources] == [("a", True), ("b", False), ("c", False)]


def relearn(library: Library, *runs: str) -> None:
    """Distill the tasks of runs that just finished, as sessions do."""
    Experiences(library).distill(namespace=NS, runs=runs, again=True)
    Principles(library).distill(namespace=NS, runs=runs, again=True)


def rules(library: Library) -> dict[str, set[str]]:
    """The principles that are found, each with the runs behind it."""
    return {one.row.text: {source.run for source in one.row.sources} for one in library.list("principle", namespace=NS)}


def test_tasks_distilled_run_by_run_teach_what_they_teach_distilled_at_once(tmp_path: Path) -> None:
    step_by_step, at_once = open_library(tmp_path / "one.hepm"), open_library(tmp_path / "other.hepm")
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
    remember(at_once, *runs)
    Experiences(at_once).distill(namespace=NS)
    Principles(at_once).distill(namespace=NS)
    assert rules(step_by_step) == rules(at_once)
    told = [
        {
            (one.row.properties["lesson"], tuple(sorted(source.run for source in one.row.sources)))
            for one in library.list("experience", namespace=NS)
        }
        for library in (step_by_step, at_once)
    ]
    assert told[0] == told[1]


def test_a_rule_that_a_task_does_not_teach_any_more_stands_on_the_runs_of_others_and_comes_back_when_taught_again(
    tmp_path: Path,
) -> None:
    library = open_library(tmp_path / "store.hepm")
    remember(library, trajectory("a", "look", "buy", task="t"))
    relearn(library, "a")
    ((rule, runs),) = rules(library).items()
    assert runs == {"a"}
    remember(library, trajectory("b", "look", "drop", task="t", success=False))
    relearn(library, "b")
    assert rule not in rules(library)
    remember(library, trajectory("c", "look", "buy", task="u"))
    relearn(library, "c")
    assert rules(library)[rule] == {"c"}
    remember(library, trajectory("d", "look", "buy", task="v"))
    relearn(library, "d")
    remember(library, trajectory("e", "look", "drop", task="v", success=False))
    relearn(library, "e")
    assert rules(library)[rule] == {"c"}


def test_a_lesson_that_a_hand_retired_does_not_come_back_when_it_is_taught_again(tmp_path: Path) -> None:
    library = open_library(tmp_path / "store.hepm")
    remember(library, trajectory("a", "look", "buy", task="t"))
    relearn(library, "a")
    (one,) = library.list("principle", namespace=NS)
    library.change(LessonChange(retire={one.row.id: "deleted"}), namespace=NS)
    remember(library, trajectory("b", "look", "buy", task="t"))
    relearn(library, "b")
    assert rules(library) == {}


def test_only_the_tasks_of_the_runs_are_distilled(tmp_path: Path) -> None:
    library = open_library(tmp_path / "store.hepm")
    remember(library, *(trajectory(name, "look", "buy", task=name) for name in ("a", "b")))
    remember(library, trajectory("c", "look", "buy", task="a"))
    report = Experiences(library).distill(namespace=NS, runs=["c"])
    assert report.runs == 2
    assert library.waiting("experience/extractive", namespace=NS) == 1
