"""`hepm ingest --engine ray`, on a Ray that each command starts for itself."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hepm import Memory
from hepm.graph.examination.differences import differences
from hepm.graph.open_store import open_store
from hepm.graph.rows import Counting
from tests.ingest.test_parts import chat

pytestmark = [
    pytest.mark.soak,
    pytest.mark.xdist_group("ray"),  # a machine of two cores runs one
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="workers are found in /proc"),
]
RUNS, KILLS = 3_000, 10


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Files with runs that come twice, other runs with the same id, late labels and damaged lines."""
    folder = tmp_path / "archive"
    folder.mkdir()
    for number in range(6):
        lines: list[str] = []
        for i in range(RUNS // 6 * number, RUNS // 6 * (number + 1)):
            record = json.loads(chat(i)) | {"task": f"t{i % 900}", "success": None if i % 11 == 0 else i % 3 > 0}
            record["ended_at"] = 1_700_000_000 + i
            record["tools"] = [{"type": "function", "function": {"name": f"do_{i % 7}", "description": "It does it."}}]
            lines.append(json.dumps(record))
            if i % 40 == 0:
                lines += [lines[-1], "{damaged", json.dumps(record | {"success": i % 2 > 0})]
                lines.append(json.dumps(record | {"messages": record["messages"][:1]}))
        (folder / f"{number}.jsonl").write_text("\n".join(lines))
    return folder


def hepm(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "hepm", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def start_ingest(archive: Path, store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hepm", "ingest", str(archive), "--store", str(store), "--engine", "ray"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*command, "--processes", "2", "--json"],
        text=True,
        env={**os.environ, "RAY_ADDRESS": "local", "HEPM_TEST_STORE": str(store)},
        **pipes,
    )


def workers_of(store: Path) -> list[int]:
    """Processes of Ray that prepare a part for this store."""
    found: list[int] = []
    for process in filter(lambda one: one.name.isdigit(), Path("/proc").iterdir()):
        try:
            named = (process / "cmdline").read_bytes().startswith(b"ray::_prepare")
            if named and f"HEPM_TEST_STORE={store}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def assert_same(one: Path, other: Path) -> None:
    assert hepm("export", "--store", str(one)) == hepm("export", "--store", str(other))
    assert list(differences(open_store(one), open_store(other), namespace="default")) == []
    assert "all is well" in hepm("doctor", "--store", str(other))


@pytest.mark.parametrize("counting", ["all", "shortest"])
def test_ten_killed_workers_change_nothing_in_store_and_report(
    archive: Path, tmp_path: Path, counting: Counting
) -> None:
    alone, counted = tmp_path / "alone.hepm", tmp_path / "counted.hepm"
    for store in (alone, counted):
        Memory.open(store, counting=counting).close()
    report = hepm("ingest", str(archive), "--store", str(alone), "--processes", "1", "--json")
    started = start_ingest(archive, counted)
    killed = 0
    while started.poll() is None and killed < KILLS:
        for worker in workers_of(counted)[:1]:
            os.kill(worker, signal.SIGKILL)
            killed += 1
            time.sleep(random.uniform(0, 0.5))
        time.sleep(0.01)
    printed, complaint = started.communicate(timeout=400)
    assert started.returncode == 0, complaint
    assert killed > 2
    assert json.loads(printed) == json.loads(report)
    assert_same(alone, counted)


def test_a_count_goes_on_where_a_killed_one_stopped(archive: Path, tmp_path: Path) -> None:
    alone, counted = tmp_path / "alone.hepm", tmp_path / "counted.hepm"
    hepm("ingest", str(archive), "--store", str(alone), "--processes", "1")
    started = start_ingest(archive, counted)
    while started.poll() is None and not (counted.exists() and workers_of(counted)):
        time.sleep(0.01)
    time.sleep(1)
    started.kill()
    started.communicate()
    printed, complaint = start_ingest(archive, counted).communicate(timeout=400)
    assert json.loads(printed)["read"] > RUNS, complaint
    assert_same(alone, counted)
