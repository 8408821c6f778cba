"""Lines of a file against runs: what each claims is counted anew."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome, Trajectory
from hepm.experience.counted import learn_by_counting
from hepm.experience.lesson_files import LessonFile, lessons_for_file
from hepm.report.check import CheckedLine, check_lines, lines_to_check
from tests.evidence.remembered import told
from tests.report.desk import desk_run, desk_runs


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The section of a file, written from runs of the desk."""
    with Memory.open(tmp_path_factory.mktemp("written") / "m.hepm") as memory:
        memory.ingest(desk_runs())
        learn_by_counting(memory.lessons)
        chosen, _ = lessons_for_file(memory.lessons, namespace="default")
        return LessonFile.read("", "AGENTS.md").with_lessons(chosen, namespace="default")


def checked(section: str, tmp_path: Path, *runs: object) -> dict[str, CheckedLine]:
    """What runs say of the lines about the status of an order, by it."""
    with Memory.open(tmp_path / "other.hepm") as memory:
        memory.ingest(runs)
        lines = lines_to_check(section, "AGENTS.md")
        rows = check_lines(lines, memory.lessons, memory.evidence(), namespace="default")
    return {status: row for row in rows for status in ("delivered", "pending") if f"is {status}" in row.text}


def test_a_line_is_supported_by_other_runs_that_show_the_same(section: str, tmp_path: Path) -> None:
    rows = checked(section, tmp_path, *(replace(run, id=f"new {run.id}") for run in desk_runs(60)))
    assert {row.verdict for row in rows.values()} == {"supported"}
    assert rows["delivered"].better == {"return_items": (20, 20)}
    assert rows["delivered"].worse == {"cancel_order": (0, 10)}


def test_a_line_is_untrue_where_what_it_warns_of_works_now(section: str, tmp_path: Path) -> None:
    turned = (replace(run, outcome=Outcome(None, not run.outcome.success)) for run in desk_runs(60))
    assert {row.verdict for row in checked(section, tmp_path, *turned).values()} == {"untrue"}


def test_two_runs_that_lost_by_what_a_line_warns_of_do_not_make_it_untrue(section: str, tmp_path: Path) -> None:
    good = [desk_run(number, "delivered", "return_items") for number in range(16)]
    bad = [desk_run(number, "delivered", "cancel_order") for number in (90, 91)]
    row = checked(section, tmp_path, *good, *(replace(run, outcome=Outcome(None, False)) for run in bad))["delivered"]
    assert (row.verdict, row.better, row.worse) == ("supported", {"return_items": (16, 16)}, {"cancel_order": (0, 2)})


def test_a_line_whose_situation_no_run_met_is_not_met(section: str, tmp_path: Path) -> None:
    runs = (desk_run(number, "pending", "cancel_order") for number in range(20))
    rows = checked(section, tmp_path, *runs)
    assert (rows["delivered"].verdict, rows["pending"].verdict) == ("not met", "supported")


def test_a_line_that_a_person_changed_is_named_so_with_the_numbers_of_what_it_said(
    section: str, tmp_path: Path
) -> None:
    edited = section.replace("call return_items rather than", "always call return_items and never")
    row = checked(edited, tmp_path, *desk_runs(60))["delivered"]
    assert (row.verdict, row.better, row.worse) == (
        "changed by hand",
        {"return_items": (20, 20)},
        {"cancel_order": (0, 10)},
    )
    without_mark = re.sub(r"(never cancel_order.*?) <!-- p-.*? -->", r"\1", edited)
    (tmp_path / "own").mkdir()
    assert checked(without_mark, tmp_path / "own", *desk_runs(60))["delivered"].verdict == "unchecked"


def test_a_claim_that_an_editor_damaged_is_not_checked_and_stops_nothing(section: str, tmp_path: Path) -> None:
    damaged = section.replace('"call": ["return_items"]', '"call": ["return_items"')
    rows = checked(damaged, tmp_path, *desk_runs(60))
    assert (rows["delivered"].verdict, rows["pending"].verdict) == ("unchecked", "supported")


def test_lines_about_stopping_are_checked_by_how_runs_end(tmp_path: Path) -> None:
    def runs(of: str, *, done_by_itself: bool) -> list[Trajectory]:
        found: list[Trajectory] = []
        for n in range(30):
            settles, name, goal = bool(n % 3), f"{of} {n}", f"Please see to case {of} {n}"
            calls = [("look", {"state": "open"}), *[("settle", "done")] * settles]
            found.append(told(name, *calls, success=settles or done_by_itself, goal=goal, last="It is open."))
        return found

    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest(runs("old", done_by_itself=False))
        learn_by_counting(memory.lessons)
        chosen, _ = lessons_for_file(memory.lessons, namespace="default")
        section = LessonFile.read("", "AGENTS.md").with_lessons(chosen, namespace="default")
    assert "After look, call settle rather than stop." in section
    for name, works, verdict in (("same", False, "supported"), ("changed", True, "untrue")):
        with Memory.open(tmp_path / name) as memory:
            memory.ingest(runs(name, done_by_itself=works))
            lines = lines_to_check(section, "AGENTS.md")
            [row] = check_lines(lines, memory.lessons, memory.evidence(), namespace="default")
        assert row.verdict == verdict
        assert f"settle worked in 20 of 20; stopping failed in {0 if works else 10} of 10" in row.sentence
