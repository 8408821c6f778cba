"""Files that are damaged, hostile or odd, through the command line: what is good is stored, the rest is told."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Answer, measured, quick
from tests.faults.content import content_of
from tests.faults.logs import lines, records, run

HUGE_MB = 300
GOOD = lines(records(40))


class Ingest:
    """A store that holds three runs already, and which must still hold them after every ingest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store.hepm"
        (folder / "before.jsonl").write_bytes(lines(records(3, prefix="before")))
        assert self.read("before.jsonl").code == 0

    def write(self, name: str, content: bytes) -> str:
        """A file beside the store."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return name

    def read(self, *names: str, run: Callable[..., Answer] = quick) -> Answer:
        """Ingest files by name. Whatever they hold: no traceback, and nothing is lost."""
        answer = run("ingest", *(str(self.folder / name) for name in names), "--store", self.store, "--json")
        assert "Traceback" not in answer.err, answer.err[-2000:]
        assert answer.out, answer.err
        report = answer.json
        assert answer.code == (0 if report["read"] else 1)
        assert all(one["file"] and one["reason"] for one in report["rejected"]), report["rejected"]
        assert self.ids() >= {"before-00000", "before-00001", "before-00002"} or names == ("before.jsonl",)
        return answer

    def ids(self) -> set[str]:
        """What is stored; nothing twice."""
        runs = content_of(self.store).runs
        assert set(runs.values()) <= {1}
        return set(runs)

    def doctor(self) -> str:
        """What doctor says."""
        return quick("doctor", "--store", self.store).out


@pytest.fixture
def ingest(tmp_path: Path) -> Ingest:
    return Ingest(tmp_path)


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


# Cut off and damaged


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.jsonl", GOOD[:-30]),
        ("cut.jsonl.gz", gzip.compress(GOOD)[:-200]),
        ("cut.tar", tar_of({"a.jsonl": GOOD, "b.jsonl": lines(records(40, prefix="b"))})[:-15_000]),
        ("crc.jsonl.gz", gzip.compress(GOOD)[:-8] + bytes(8)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_of_a_damaged_file_the_good_beginning_is_stored_and_the_damage_told(
    ingest: Ingest, name: str, content: bytes
) -> None:
    answer = ingest.read(ingest.write(name, content), ingest.write("good.jsonl", lines([run("after", "look", "buy")])))
    assert any(name in one["file"] for one in answer.json["rejected"])
    assert "after" in ingest.ids(), "the file behind the damaged one was not read"
    assert "run-00000" in ingest.ids()
    assert ingest.doctor() == "all is well\n"


# Large


def test_a_line_of_many_small_values_takes_no_more_than_a_few_times_its_size(ingest: Ingest) -> None:
    """A list takes 60 bytes where its text takes 3; a limit in bytes of text alone is no limit."""
    with (ingest.folder / "many.jsonl").open("wb") as file:
        file.write(lines([run("ahead", "look")]))
        file.write(
            b'{"hepm":1,"id":"many","success":true,"turns":[{"role":"assistant","calls":[{"name":"t","arguments":{"a":['
        )
        for _ in range(60):
            file.write(b"[]," * (1 << 20))
        file.write(b"0]}}]}]}\n")
        file.write(lines([run("behind", "look")]))
    answer = ingest.read("many.jsonl", run=measured)
    assert answer.peak_mb < 1500
    assert {"ahead", "behind"} <= ingest.ids()


@pytest.mark.soak
def test_a_file_that_unpacks_to_gigabytes_is_told_in_bounded_memory(ingest: Ingest) -> None:
    block = b"a" * (1 << 20)
    with gzip.open(ingest.folder / "bomb.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(b'{"hepm":1,"id":"')
        for _ in range(2 * HUGE_MB):
            file.write(block)
    answer = ingest.read("bomb.jsonl.gz", run=measured)
    assert answer.peak_mb < 1200
    assert "bomb.jsonl.gz" in answer.reasons()


# Names of tools and files

ODD_TOOLS = (
    *('say "hello"', "two\nlines", "🛫 fly", "x" * 256, "nul\0inside", "half \ud83d pair"),
    *("'; DROP TABLE trajectory; --", "[bold]loud[/bold]", "\x1b[31mred\x1b[0m", " padded "),
)


def test_a_tool_of_any_name_is_remembered_and_suggested(ingest: Ingest) -> None:
    for tool in ODD_TOOLS:
        place = f"before {ODD_TOOLS.index(tool)}"
        runs = [run(f"{place} {number}", place, tool, "buy_it") for number in range(3)]
        answer = ingest.read(ingest.write("odd.jsonl", lines(runs)))
        assert (answer.json["stored"], answer.json["rejected"]) == (3, [])
        found = quick("suggest", "--after", place, "--policy", "procedural", "--store", ingest.store, "--json")
        expected = tool.encode("utf-8", "replace").decode()
        assert [one["tool"] for one in found.json["tools"]] == [expected]
        told = quick("suggest", "--after", place, "--store", ingest.store)
        assert (told.code, told.err) == (0, "")
    for command in (["stats"], ["view", str(ingest.folder / "page.html")]):
        told = quick(*command, "--store", ingest.store)
        assert (told.code, told.err) == (0, "")
    assert ingest.doctor() == "all is well\n"


def test_what_is_no_name_of_a_tool_is_told_and_stops_nothing(ingest: Ingest) -> None:
    no_names: list[Any] = ["", "  ", "<START>", None, 7, ["a"], {"a": 1}, "x" * 257]
    bad = [run(f"bad {number}", "look", tool) for number, tool in enumerate(no_names)]
    answer = ingest.read(ingest.write("odd.jsonl", lines([*bad, run("good", "look")])))
    assert len(answer.json["rejected"]) == len(no_names)
    assert {name for name in ingest.ids() if not name.startswith("before")} == {"good"}


def test_a_file_whose_name_is_no_unicode_is_read_or_told(ingest: Ingest) -> None:
    folder = ingest.folder / "names"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl")).write_bytes(GOOD)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xfe.jsonl")).write_bytes(GOOD[:-30])
    answer = ingest.read("names")
    assert answer.json["stored"] == 40
    assert len(answer.json["rejected"]) == 1
    assert ingest.doctor() == "all is well\n"
    assert quick("export", "--store", ingest.store).code == 0


# Folders and what may lie in them


def test_links_in_a_circle_end_and_what_lies_between_is_read_once(ingest: Ingest) -> None:
    ingest.write("circle/runs.jsonl", GOOD)
    (ingest.folder / "circle" / "again").symlink_to(ingest.folder / "circle")
    (ingest.folder / "circle" / "self.json").symlink_to("self.json")
    answer = ingest.read("circle")
    assert (answer.json["read"], answer.json["stored"]) == (40, 40)
    assert answer.reasons().keys() == {"self.json"}


def test_members_with_names_that_lead_out_are_read_and_nothing_is_written(ingest: Ingest) -> None:
    outside = ingest.folder / "absolute.jsonl"
    members = {"../../up.jsonl": lines([run("up", "look")]), str(outside): lines([run("absolute", "look")])}
    answer = ingest.read(ingest.write("a/b/members.tar", tar_of(members)))
    assert "absolute" in ingest.ids()
    assert "up" in ingest.ids() or "up.jsonl" in answer.reasons()
    assert sorted(path.name for path in ingest.folder.rglob("*") if path.is_file()) == [
        "before.jsonl", "members.tar", "store.hepm",
    ]  # fmt: skip
