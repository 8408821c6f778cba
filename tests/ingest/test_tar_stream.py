from __future__ import annotations

import contextlib
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.tar_stream import TarError, tar_members

names = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=150).filter(
    lambda name: name.strip(".") == name and name.strip() == name
)
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def packed(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("a folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("a link")
        link.type, link.linkname = tarfile.SYMTYPE, "somewhere"
        archive.addfile(link)
    return out.getvalue()


def unpacked(archive: bytes) -> dict[str, bytes]:
    return {name: stream.read() for name, stream in tar_members(io.BytesIO(archive))}


@given(st.dictionaries(names, st.binary(max_size=1500), max_size=4), st.sampled_from(["gnu", "pax"]))
def test_members_come_out_as_tarfile_packed_them(files: dict[str, bytes], form: str):
    assert unpacked(packed(files, FORMATS[form])) == files


def test_long_paths_of_old_archives_are_joined():
    files = {"folder/" * 20 + "file.json": b"{}"}
    assert unpacked(packed(files, tarfile.USTAR_FORMAT)) == files


def test_members_larger_than_memory_allows_are_streamed():
    files = {"large": bytes(3 << 20), "small": b"x"}
    sizes = {name: len(stream.read()) for name, stream in tar_members(io.BytesIO(packed(files)))}
    assert sizes == {"large": 3 << 20, "small": 1}


def test_a_member_need_not_be_read():
    files = {"large": bytes(3 << 20), "small": b"x"}
    assert [name for name, _ in tar_members(io.BytesIO(packed(files)))] == ["large", "small"]


def test_what_comes_before_the_cut_is_handed_out():
    archive = packed({"first": b"1" * 600, "second": b"2" * 600})
    found: list[str] = []
    with pytest.raises(TarError, match="cut off"):
        found.extend(name for name, _ in iter_all(archive[: 512 + 512 + 1024 + 512 + 100], found))
    assert found == ["first"]


def iter_all(archive: bytes, found: list[str]) -> list[tuple[str, bytes]]:
    for name, _ in tar_members(io.BytesIO(archive)):
        found.append(name)
    return []


@pytest.mark.parametrize("size", [b"-0000000001\0", b"-1 \0"])
def test_a_member_of_negative_size_is_an_error(size: bytes):
    archive = bytearray(packed({"first": b"1" * 600}, tarfile.USTAR_FORMAT))
    start = archive.index(b"first")
    archive[start + 124 : start + 124 + len(size)] = size
    with pytest.raises(TarError, match="negative size"):
        unpacked(bytes(archive))


@given(st.binary(min_size=1, max_size=2000))
def test_what_is_no_archive_is_an_error_and_no_crash(content: bytes):
    try:
        unpacked(content)
    except TarError:
        return
    assert content[:512].strip(b"\0") == b""


@given(st.integers(0, 4095), st.integers(0, 255))
def test_a_damaged_archive_is_an_error_and_no_crash(position: int, value: int):
    archive = bytearray(packed({"first": b"1" * 600, "name" * 40: b"2"}))
    archive[position % len(archive)] = value
    with contextlib.suppress(TarError):
        unpacked(bytes(archive))
