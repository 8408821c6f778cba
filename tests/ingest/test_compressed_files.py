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
