"""Files that are damaged, hostile or odd, through the command line: what is good is stored, the rest is told."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import stat
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


def spoilt(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


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


def test_a_flipped_byte_anywhere_in_a_packed_file_is_told(ingest: Ingest) -> None:
    names: list[str] = []
    for suffix, pack in (("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)):
        content = pack(GOOD)
        names += [ingest.write(f"{at}.jsonl.{suffix}", spoilt(content, len(content) * at // 100)) for at in (5, 60)]
    assert {name.partition("!")[0] for name in ingest.read(*names).reasons()} == set(names)


# Encodings


# Numbers


REWARDS = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "9" * 5000, '"high"', "[1]")


@pytest.mark.parametrize("form", ["hepm", "chat"])
def test_a_reward_that_is_no_number_is_told_and_stops_nothing(ingest: Ingest, form: str) -> None:
    if form == "hepm":
        bad = json.dumps({**run("bad", "look"), "reward": "@"})
    else:
        call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        bad = json.dumps({"id": "bad", "messages": [{"role": "assistant", "tool_calls": [call]}], "reward": "@"})
    good = bad.replace('"@"', "1.0").replace('"bad"', '"good"')
    names: list[str] = []
    for number, reward in enumerate(REWARDS):
        odd = bad.replace('"@"', reward)
        names.append(ingest.write(f"{number}.jsonl", f"{odd}\n{good}\n".encode()))
        names.append(ingest.write(f"{number}.json", f"[{odd}, {good}]".encode()))
    assert ingest.read(*names).reasons().keys() == set(names)
    assert "bad" not in ingest.ids()
    assert "good" in ingest.ids()


@pytest.mark.parametrize("key", ["ended_at", "latency_s", "arguments"])
def test_whatever_number_a_record_holds_the_store_can_read_it_again(ingest: Ingest, key: str) -> None:
    numbers = ("NaN", "1e999", "-1e999", "9" * 400)
    records_of: list[bytes] = []
    for number in numbers:
        odd = run(f"odd {number}", "look", "buy")
        if key == "ended_at":
            odd["ended_at"] = "@"
        else:
            odd["turns"][1]["calls"][0][key] = "@" if key == "latency_s" else {"a": ["@"]}
        records_of.append(lines([odd]).replace(b'"@"', number.encode()))
    ingest.read(ingest.write("odd.jsonl", b"".join(records_of) + lines([run("behind", "look")])))
    assert "behind" in ingest.ids()
    assert ingest.doctor() == "all is well\n"
    for line in quick("export", "--store", ingest.store).out.splitlines():
        json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} was stored"))
    for number in numbers:
        stored = f"odd {number}" in ingest.ids()
        answer = quick("forget", "--trajectory", f"odd {number}", "--store", ingest.store)
        assert answer.code == (0 if stored else 1)


# Large


def test_a_run_of_ten_thousand_different_tools_at_once_does_not_take_the_machine(ingest: Ingest) -> None:
    calls = [[{"name": f"{side}{number}"} for number in range(5000)] for side in "ab"]
    wide = {"hepm": 1, "id": "wide", "success": True, "turns": [{"role": "assistant", "calls": side} for side in calls]}
    answer = ingest.read(ingest.write("wide.jsonl", lines([wide, run("after", "look")])), run=measured)
    assert answer.peak_mb < 1000
    assert "after" in ingest.ids()


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


# Deep


# Names of tools and files

ODD_TOOLS = (
    'say "hello"', "it's", "two\nlines", "tab\there", "søk_fly", "🛫 fly", "a,b", "x" * 256, "nul\0inside",
    "half \ud83d pair", "'; DROP TABLE trajectory; --", "[bold]loud[/bold]", "\x1b[31mred\x1b[0m", " padded ",
    "{curly}", "%s", "..", "\u202eright to left",
)  # fmt: skip


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


def test_a_folder_without_permission_is_told(ingest: Ingest) -> None:
    """Root may open it all the same: then everything in it is read."""
    ingest.write("closed/inner/runs.jsonl", GOOD)
    ingest.write("closed/open.jsonl", lines([run("open", "look")]))
    inner = ingest.folder / "closed" / "inner"
    inner.chmod(0)
    try:
        answer = ingest.read("closed")
    finally:
        inner.chmod(stat.S_IRWXU)
    assert "open" in ingest.ids()
    assert answer.json["stored"] == 41 or "inner" in answer.reasons()


def test_members_with_names_that_lead_out_are_read_and_nothing_is_written(ingest: Ingest) -> None:
    outside = ingest.folder / "absolute.jsonl"
    members = {"../../up.jsonl": lines([run("up", "look")]), str(outside): lines([run("absolute", "look")])}
    answer = ingest.read(ingest.write("a/b/members.tar", tar_of(members)))
    assert "absolute" in ingest.ids()
    assert "up" in ingest.ids() or "up.jsonl" in answer.reasons()
    assert sorted(path.name for path in ingest.folder.rglob("*") if path.is_file()) == [
        "before.jsonl", "members.tar", "store.hepm",
    ]  # fmt: skip


# The same again


def test_every_record_read_is_stored_a_duplicate_or_rejected_and_only_one_of_these(ingest: Ingest) -> None:
    name = ingest.write(
        "ids.jsonl", lines([run("one", "look"), run("one", "look"), run("one", "buy"), run("two", "look")])
    )
    report = ingest.read(name).json
    assert (report["read"], report["stored"], report["duplicates"], len(report["rejected"])) == (4, 2, 1, 1)
    assert report["rejected"][0]["record"] == "one"
    again = ingest.read(name).json
    assert (again["read"], again["stored"], again["duplicates"], len(again["rejected"])) == (4, 0, 3, 1)
