from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.files import open_source
from hepm.ingest.records import Rejection

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
