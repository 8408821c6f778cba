"""Compressed files and archives, as their names say; a long line through a pipe."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.files import open_source
from hepm.ingest.records import Rejection
from tests.faults.command import quick
from tests.ingest.samples import AGENTDOJO, CHAT, TAU, read, read_reason, write


def zst(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zst,
}


def tarred(folder: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, "runs")
    return out.getvalue()


@pytest.fixture
def archives(tmp_path: Path) -> dict[str, bytes]:
    """One folder with two runs, packed in every way."""
    write(tmp_path / "folder" / "a.json", AGENTDOJO)
    write(tmp_path / "folder" / "b.json", [TAU])
    tar = tarred(tmp_path / "folder")
    return {".tar": tar} | {f".tar{suffix}": compress(tar) for suffix, compress in COMPRESS.items()}


def test_an_archive_is_unpacked(archives: dict[str, bytes], tmp_path: Path) -> None:
    for kind, content in archives.items():
        path = tmp_path / f"runs{kind}"
        path.write_bytes(content)
        runs, rejected = read(path)
        assert sorted(run.source for run in runs) == [f"{path}!runs/a.json", f"{path}!runs/b.json"], kind
        assert rejected == []


@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_comes_before_the_damage_of_a_small_compressed_file_is_read(tmp_path: Path, suffix: str) -> None:
    lines = "".join(
        json.dumps({**CHAT, "id": f"run {number}", "task": os.urandom(9).hex()}) + "\n" for number in (1, 2)
    )
    packed = COMPRESS[suffix](lines.encode())
    (tmp_path / f"log{suffix}").write_bytes(packed[:-6])
    runs, rejected = read(tmp_path / f"log{suffix}")
    assert len(rejected) == 1
    assert len(runs) <= 2
    if suffix == ".gz":  # the others give whole blocks alone
        assert [run.id for run in runs] == ["run 1", "run 2"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="memory is read from /proc")
@pytest.mark.exhaustive
def test_a_long_line_through_a_pipe_is_held_in_memory_no_longer_than_a_record_may_be(tmp_path: Path) -> None:
    run = json.dumps(CHAT).encode() + b"\n"
    with open(tmp_path / "long", "wb") as out:
        for piece in (run, b'{"padding": "', *[b"x" * (1 << 20)] * 300, b'"}\n', run):
            out.write(piece)
    # Not by getrusage: that begins with what the process held that started this one.
    script = (
        "from pathlib import Path; from hepm.ingest.reading import read_runs\n"
        "kinds = [type(item).__name__ for _, item in read_runs(['-'])]\n"
        "peak = next(line for line in Path('/proc/self/status').read_text().splitlines() if 'VmHWM' in line)\n"
        "print(kinds, int(peak.split()[1]) >> 10)"
    )
    with subprocess.Popen(["cat", tmp_path / "long"], stdout=subprocess.PIPE) as cat:
        done = subprocess.run([sys.executable, "-c", script], stdin=cat.stdout, capture_output=True, check=True)
    kinds, _, peak_mb = done.stdout.decode().strip().rpartition(" ")
    assert kinds == "['Trajectory', 'Rejection', 'Trajectory']"
    assert int(peak_mb) < 280


def test_what_begins_like_an_archive_and_is_none_is_rejected(tmp_path: Path) -> None:
    for content in (b"PK\3\4 and no more", b"BZh9 and no more", bytes(2048), b"\xfd7zXZ\0?"):
        (tmp_path / "noext").write_bytes(content)
        assert read_reason(tmp_path / "noext")


# tar archives

names = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=150).filter(
    lambda name: name.strip(".") == name and name.strip() == name
)
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def packed(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("a folder.json")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("a link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "somewhere"
        archive.addfile(link)
    return out.getvalue()


def unpacked(archive: bytes, folder: Path, name: str = "a.tar") -> tuple[dict[str, bytes], list[str]]:
    """Names and contents of the members that are opened, and why others are not."""
    file = folder / name
    file.write_bytes(archive)
    found: dict[str, bytes] = {}
    reasons: list[str] = []
    for opened in open_source(str(file)):
        if isinstance(opened, Rejection):
            reasons.append(opened.reason)
        else:
            found[opened.name.removeprefix(f"{file}!")] = opened.stream.read()
    return found, reasons


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tar")


@given(st.dictionaries(names, st.binary(max_size=1500), min_size=1, max_size=4), st.sampled_from(["gnu", "pax"]))
def test_members_come_out_as_tarfile_packed_them(folder: Path, files: dict[str, bytes], form: str):
    files = {f"{name}.json": b"{" + content for name, content in files.items()}
    assert unpacked(packed(files, FORMATS[form]), folder) == (files, [])


def test_long_paths_of_old_archives_are_joined(folder: Path):
    files = {"folder/" * 20 + "file.json": b"{}"}
    assert unpacked(packed(files, tarfile.USTAR_FORMAT), folder) == (files, [])


def test_what_comes_before_the_cut_is_handed_out(folder: Path):
    archive = packed({"first.json": b"1" * 600, "second.json": b"2" * 600})
    found, (reason,) = unpacked(archive[: archive.index(b"second.json") + 600], folder)
    assert list(found) == ["first.json"]
    assert reason == "it is no tar archive, or it is damaged or cut off"


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damage_of_what_compresses_an_archive_is_told_though_all_members_were_read(tmp_path: Path, damage: str) -> None:
    whole = gzip.compress(packed({"one.jsonl": b"1", "two.jsonl": b"2"}), mtime=0)
    damaged = whole[:-4] if damage == "cut" else whole[:-8] + bytes(4) + whole[-4:]  # the checksum
    found, reasons = unpacked(damaged, tmp_path, "a.tar.gz")
    assert found.keys() == {"one.jsonl", "two.jsonl"}
    assert len(reasons) == 1
    assert reasons[0].startswith("the file is damaged")


def test_damage_between_members_is_reported(folder: Path):
    archive = bytearray(packed({"first.json": b"1" * 600, "second.json": b"2" * 600}))
    archive[archive.index(b"second.json")] ^= 1
    found, (reason,) = unpacked(bytes(archive), folder)
    assert list(found) == ["first.json"]
    assert reason == "it is no tar archive, or it is damaged or cut off"


@given(st.binary(min_size=1, max_size=2000))
def test_what_is_no_archive_is_an_error_and_no_crash(folder: Path, content: bytes):
    assert len(unpacked(content, folder)[1]) == 1


# A base install cannot read Zstandard: it says so of those files, and reads the others

SENTENCE = "it is compressed with Zstandard, which needs an extra: pip install 'hepm[zstd]'"


def test_a_zstandard_file_keeps_no_other_file_of_a_folder_or_an_archive_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, archive = tmp_path / "folder", tmp_path / "runs.tar"
    write(folder / "a.json", AGENTDOJO)
    (folder / "b.json.zst").write_bytes(zst(json.dumps(CHAT).encode()))
    write(folder / "c.json", [TAU])
    archive.write_bytes(tarred(folder))
    monkeypatch.setitem(sys.modules, "zstandard", None)  # as in a base install
    for source in (folder, archive):
        answer = quick("ingest", source, "--store", tmp_path / f"{source.stem}.hepm", "--json")
        assert (answer.code, answer.json["stored"]) == (0, 2)
        assert [one["reason"] for one in answer.json["rejected"]] == [SENTENCE]
        assert answer.json["rejected"][0]["file"].endswith("b.json.zst")
