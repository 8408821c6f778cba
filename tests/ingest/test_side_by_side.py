"""Several processes read runs, or ask memories, and give what one gives."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from hepm.errors import InputError
from hepm.evals.domains import domains_of
from hepm.evals.evaluate import evaluate
from hepm.evals.methods import find_methods
from hepm.ingest import prepare as prepare_module
from hepm.ingest.prepare import IngestOptions, prepare
from hepm.ingest.reading import read_runs
from hepm.ingest.records import ReadOptions, Rejection
from hepm.ingest.redact import Redactor
from hepm.ingest.side_by_side import answers_in_order
from hepm.types import Trajectory
from tests.cli.chats import chats, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")


def test_figures_do_not_depend_on_how_many_processes_work(tmp_path: Path) -> None:
    file = write(tmp_path / "runs.jsonl", chats(tasks=12))
    records = [(name, item) for name, item in read_runs([str(file)]) if isinstance(item, Trajectory)]
    methods = find_methods(["first-order", "episodic"])
    steps: list[tuple[int, int]] = []
    alone = evaluate(domains_of(records), methods)
    together = evaluate(domains_of(records), methods, processes=3, on_progress=lambda *step: steps.append(step))
    assert together.to_json() == alone.to_json()
    assert steps == [(number, len(steps)) for number in range(1, len(steps) + 1)]
    assert len(steps) == 15


def test_answers_come_in_order_and_what_one_raises_is_raised() -> None:
    assert [*answers_in_order(lambda part: (part, os.getpid()) and part * 2, range(7), processes=3)] == [
        0, 2, 4, 6, 8, 10, 12,
    ]  # fmt: skip

    def broken(part: int) -> int:
        if part == 4:
            raise ValueError("the fifth is broken")
        return part

    with pytest.raises(ValueError, match="the fifth is broken"):
        list(answers_in_order(broken, range(7), processes=2))


def test_a_process_that_is_killed_ends_the_command_with_a_sentence() -> None:
    with pytest.raises(InputError, match="too little memory is the likeliest reason"):
        list(answers_in_order(lambda part: os._exit(9), range(4), processes=2))


def test_a_command_that_stops_early_leaves_no_folder() -> None:
    def slow(part: int) -> int:
        with tempfile.TemporaryDirectory(prefix="hepm-test-side-"):
            return part + sum(range(3_000_000))

    answers = answers_in_order(slow, range(40), processes=2)
    next(answers)
    answers.close()
    assert not list(Path(tempfile.gettempdir()).glob("hepm-test-side-*"))


def test_several_processes_give_the_runs_and_rejections_of_one_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "WORTH_BYTES", 0)
    monkeypatch.setattr(prepare_module, "PART_BYTES", 1)
    for number in range(6):
        write(tmp_path / f"{number}.jsonl", [{**one, "id": f"{number}-{at}"} for at, one in enumerate(chats(tasks=3))])
    (tmp_path / "3.jsonl").write_text('{"messages": 3}\n{broken')
    (tmp_path / "5.json").write_bytes(b"\x00\x01 no runs")
    alone, together = (list(prepare([tmp_path], ReadOptions(), IngestOptions(processes=number))) for number in (1, 3))
    assert together == alone
    assert sum(isinstance(item, Rejection) for _, item in alone) == 3
    monkeypatch.setattr(prepare_module, "MOST_BYTES", 1)
    assert list(prepare([tmp_path], ReadOptions(), IngestOptions(processes=3))) == alone


def test_a_function_of_the_users_is_asked_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "WORTH_BYTES", 0)
    asked: list[str] = []
    for number in range(3):
        write(tmp_path / f"{number}.jsonl", chats(tasks=1))
    redactor = Redactor(hook=lambda text: asked.append(text) or text)
    options = IngestOptions(processes=2, redactor=redactor)
    list(prepare([tmp_path], ReadOptions(), options))
    assert asked
