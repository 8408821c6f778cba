"""Pages and pictures on full disks and in folders that nobody may write, which the real command line is told to use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.chats import chats, write
from tests.faults.command import hepm, one_sentence, quick
from tests.faults.places import files_limited_to, unwritable


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "runs.jsonl", chats())


def commands(log: Path, folder: Path) -> dict[str, tuple[list[str | Path], Path]]:
    """Each command that writes a file for people, and the file."""
    store = log.with_name("memory.hepm")
    if not store.exists():
        assert quick("ingest", log, "--store", store).code == 0
    return {
        "view": (["view", folder / "page.html", "--store", store], folder / "page.html"),
        "demo": (["demo", log, "--page", folder / "demo.html"], folder / "demo.html"),
        "eval": (["eval", log, "--method", "global", "--plot", folder / "hits.png"], folder / "hits.png"),
    }


WRITERS = pytest.mark.parametrize("name", ["view", "demo", "eval"])


@WRITERS
def test_a_full_disk_costs_no_page_that_was_there_and_leaves_no_half_one(name: str, log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command, target = commands(log, folder)[name]
    for before in (None, "the last one\n"):
        if before:
            target.write_text(before)
        # Enough for the caches of the demo, too little for a page or a picture.
        with files_limited_to(4 if name == "eval" else 300):
            answer = quick(*command)
        assert f"cannot be written to {target}: " in one_sentence(answer)
        assert [path.name for path in folder.iterdir()] == ([target.name] if before else [])
    assert target.read_text() == "the last one\n"


@WRITERS
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


def test_a_plot_that_cannot_be_written_is_told_before_the_runs_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with unwritable(folder) as under:
        answer = hepm("eval", tmp_path / "missing.jsonl", "--plot", folder / "hits.png", under=under)
    assert "the plot cannot be written" in one_sentence(answer)


@pytest.mark.parametrize("way", ["link", "upper case", "own folder"])
def test_a_page_is_written_through_a_link_and_a_folder_is_refused_as_its_place(
    way: str, log: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    page = commands(log, folder)["view"][1]
    store = log.with_name("memory.hepm")
    if way == "link":
        (tmp_path / "real.html").touch()
        page.symlink_to(tmp_path / "real.html")
        assert quick("view", page, "--store", store).code == 0
        assert page.is_symlink()
        assert "find_user" in (tmp_path / "real.html").read_text("utf-8")
    elif way == "upper case":
        assert quick("eval", log, "--method", "global", "--plot", folder / "HITS.PNG").code == 0
        assert (folder / "HITS.PNG").read_bytes().startswith(b"\x89PNG")
    else:
        assert "Is a directory" in one_sentence(quick("view", folder, "--store", store))
