from __future__ import annotations

from pathlib import Path

from hepm.experience.distilling.pipeline import ExtractiveDistiller, distill_into
from hepm.experience.library import Library
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
