from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hepm.errors import InputError
from hepm.ingest import ReadOptions, Redactor, Rejection
from hepm.ingest.prepare import IngestOptions, Prepared, prepare_in_process
from hepm.ingest.workers.parallel import WORTH_BYTES, prepare, workers_for
from tests.faults.command import interruptible

FILES = 12


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Files that are worth several processes; one is damaged, one has a run that cannot be read."""
    folder = tmp_path / "logs"
    folder.mkdir()
    long = "the customer wants the parcel back " * 25
    for number in range(FILES):
        runs = [
            {
                "hepm": 1,
                "id": f"{number}-{i}",
                "success": i % 3 > 0,
                "turns": [
                    {"role": "user", "text": f"{long} {i}"},
                    {
                        "role": "assistant",
                        "calls": [{"name": tool, "result": long} for tool in ("look", f"do_{i % 7}")],
                    },
                ],
            }
            for i in range(120)
        ]
        (folder / f"{number:02d}.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    (folder / "05.jsonl").write_text('{"hepm": 1, "id": "x", "turns": 3}\n{"hepm": 1, "id":')
    (folder / "07.json").write_bytes(b"\x00\x01 no runs")
    assert sum(file.stat().st_size for file in folder.iterdir()) > WORTH_BYTES
    return folder


def told(items: list[Prepared]) -> list[tuple[object, ...]]:
    return [
        (name, item.file, item.record, item.reason) if isinstance(item, Rejection) else (name, *item)
        for name, item in items
    ]


def children(process: int | None = None) -> set[str]:
    process = process or os.getpid()
    return set(Path(f"/proc/{process}/task/{process}/children").read_text().split())


def test_several_processes_give_the_same_runs_and_rejections_in_the_same_order_as_one(logs: Path) -> None:
    options = IngestOptions(processes=2)
    alone = list(prepare_in_process([str(logs)], ReadOptions(), options))
    assert told(list(prepare([logs], ReadOptions(), options))) == told(alone)
    assert any(isinstance(item, Rejection) for _, item in alone)


def test_small_inputs_one_process_and_a_users_own_hook_start_no_process(logs: Path) -> None:
    files = sorted(map(str, logs.iterdir()))
    assert workers_for(files, IngestOptions(processes=2)) == 2
    assert workers_for(files[:2], IngestOptions(processes=2)) == 0
    assert workers_for(files, IngestOptions(processes=1)) == 0
    assert workers_for(files, IngestOptions(Redactor(hook=str.upper), processes=2)) == 0


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="children are counted in /proc")
def test_no_process_is_left_when_the_reader_stops_halfway(logs: Path) -> None:
    before = children()
    items = prepare([logs], ReadOptions(), IngestOptions(processes=2))
    next(items)
    assert len(children() - before) == 2
    items.close()  # type: ignore[attr-defined]
    gc.collect()
    assert children() <= before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="children are counted in /proc")
def test_a_killed_process_ends_the_reading_with_a_sentence(logs: Path) -> None:
    before, threads = children(), set(threading.enumerate())
    items = prepare([logs], ReadOptions(), IngestOptions(processes=2))
    next(items)
    for child in children() - before:
        os.kill(int(child), signal.SIGKILL)
    with pytest.raises(InputError, match=r"ended before the file did.* --processes 1"):
        list(items)
    for thread in set(threading.enumerate()) - threads:
        thread.join(20)
        assert not thread.is_alive(), thread


def test_a_script_without_a_main_guard_ingests_once(logs: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from hepm import Memory\n"
        "from hepm.ingest.prepare import IngestOptions\n"
        f"with Memory.open({str(tmp_path / 'm.hepm')!r}) as memory:\n"
        f"    print(memory.ingest({str(logs)!r}, options=IngestOptions(processes=2)).stored)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{(FILES - 1) * 120}\n", "")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="children are counted in /proc")
def test_ctrl_c_ends_the_ingest_and_its_processes_at_once_and_quietly(logs: Path, tmp_path: Path) -> None:
    many = [str(logs)] * 40
    command = [sys.executable, "-m", "hepm", "ingest", *many, "--store", str(tmp_path / "m.hepm"), "--processes", "2"]
    started = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=interruptible,  # noqa: PLW1509
    )
    while len(children(started.pid)) < 2:
        assert started.poll() is None
        time.sleep(0.01)
    time.sleep(1)  # in the middle of it, where the machine is not too busy
    os.killpg(started.pid, signal.SIGINT)
    _, complaint = started.communicate(timeout=240)  # which the processes keep open while they live
    assert started.returncode == 130
    assert b"Traceback" not in complaint
