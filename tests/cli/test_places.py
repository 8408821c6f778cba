"""Pages and pictures on full disks and in folders that nobody may write, which the real command line is told to use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.chats import WAYS, chat, write
from tests.faults.command import hepm, one_sentence, quick
from tests.faults.places import files_limited_to, unwritable


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One run."""
    return write(tmp_path / "runs.jsonl", [chat("a", WAYS["cancel"], task="t")])


def commands(log: Path, folder: Path) -> dict[str, tuple[list[str | Path], Path]]:
    """Each command that writes a file for people, and the file."""
    store = log.with_name("memory.hepm")
    if not store.exists():
        assert quick("ingest", log, "--store", store).code == 0
    return {
        "view": (["view", folder / "page.html", "--store", store], folder / "page.html"),
        "demo": (["demo", "--page", folder / "demo.html"], folder / "demo.html"),
    }


def test_a_full_disk_costs_no_page_that_was_there_and_leaves_no_half_one(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command, target = commands(log, folder)["view"]
    for before in (None, "the last one\n"):
        if before:
            target.write_text(before)
        # Enough for the store, too little for a page.
        with files_limited_to(400):
            answer = quick(*command)
        assert f"cannot be written to {target}: " in one_sentence(answer)
        assert [path.name for path in folder.iterdir()] == ([target.name] if before else [])
    assert target.read_text() == "the last one\n"


@pytest.mark.parametrize("name", ["view", "demo"])
def test_a_folder_that_nobody_may_write_is_told_before_anything_is_measured(
    name: str, log: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command, target = commands(log, folder)[name]
    target.write_text("the last one\n")
    with unwritable(folder) as under:
        answer = hepm(*command, under=under)
    assert f"cannot be written to {target}: " in one_sentence(answer)
    assert answer.out == ""
    assert target.read_text() == "the last one\n"


def test_the_demo_shows_a_line_that_its_report_writes_for_agents(tmp_path: Path) -> None:
    answer = quick("demo", "--page", tmp_path / "demo.html")

    assert "\n  When find_case says kept is elsewhere, call scan_history. (" in answer.out
    assert "says that it is kept elsewhere.\n" in answer.out
