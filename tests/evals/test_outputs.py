from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from hepm.cli.reports import eval_runs
from hepm.evals.evaluate import EvalOptions, evaluate
from hepm.evals.methods import all_methods
from hepm.evals.report import EvalReport, tables
from hepm.ingest.formats.hepm import write_run
from tests.evals.logs import domain, run
from tests.runs import trajectory


@pytest.fixture
def report() -> EvalReport:
    runs = [run(f"r{i}", "a", "b", "c") for i in range(6)]
    log = domain(*runs, run("bad", "a", "x", task="r0", success=False), run("open", "a", success=None))
    return evaluate([log], all_methods(), EvalOptions())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Nine runs of eight tasks: four at the bank, and at the shop one that failed."""
    runs = [trajectory(f"r{i}", "a", "b", "c", task=f"t{i}", environment="bank" if i < 4 else "shop") for i in range(8)]
    runs.append(trajectory("bad", "a", "x", task="t5", success=False))
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(write_run(t) + "\n" for t in runs), encoding="utf-8")
    return path


def invoke(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(eval_runs, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output if result.exit_code else result.stdout


def test_the_tables_show_methods_and_rescue_below_the_verdict(
    report: EvalReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hepm.evals.report.FEWEST_EVENTS", 1)
    console = Console(width=160, record=True, file=StringIO())
    console.print(tables(report))
    text = console.export_text()
    joined = " ".join(text.split())
    assert "shop: 12 calls of 6 task families" in text
    assert "second-order+similarity" in text
    assert "1 of 8 runs have no outcome" in text
    assert joined.startswith(report.verdict)


def test_of_too_few_runs_a_sentence_is_printed_and_no_table(log: Path) -> None:
    printed = " ".join(invoke(log)[1].split())
    assert printed.startswith("Too few runs to say whether memory would have helped: 16 calls of 8 task families")
    assert "hit@1" not in printed
    assert "rescue" not in printed


def test_five_methods_are_measured_unless_all_are_asked_for(log: Path) -> None:
    usual = ["first-order", "second-order+similarity", "adaptive", "episodic", "hybrid"]
    assert list(json.loads(invoke(log, "--json")[1])["macro"]) == usual
    every = list(json.loads(invoke(log, "--json", "--method", "all")[1])["macro"])
    assert every == [method.name for method in all_methods()]
