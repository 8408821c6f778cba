"""How well synthetic archives fit recorded runs: both measured by the same code (see archive.py --fit)."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from archive import Archive, Shape, write

from hepm.graph.delta import RunRecord
from hepm.ingest.formats.hepm import parse_run
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.records import ReadOptions
from hepm.ingest.workers.parallel import prepare

Measures = Mapping[str, float]

PARAMETERS = {
    "calls a run": "turns",
    "runs without a call": "idle",
    "tools by rank": "tool_exponent",
    "calls of the ten": "domain_exponent",
    "successors a tool": "popular",
    "top successor": "successor_exponent",
    "turns with parallel": "parallel",
    "runs a task": "task_exponent",
    "texts of users": "reworded",
    "repeated states": "fresh",
    "successful": "success",
    "failed calls": "errors",
    "characters of what": "said",
    "characters of arg": "argument",
    "characters of res": "result",
}
"""The parameter of `Shape` that decides a measure most, by the start of its name."""


def measure(source: Path) -> Measures:
    """What the shape of an archive is compared by, over all its runs."""
    runs: list[RunRecord] = []
    lengths: defaultdict[str, list[int]] = defaultdict(list)
    # As they are: not redacted, and without labels by rule.
    for _, item in prepare(source, ReadOptions(), IngestOptions(redactor=None, outcome_by=())):
        if isinstance(item, RunRecord):
            for call in parse_run(item.record).calls():
                lengths["arguments"].append(len(json.dumps(dict(call.arguments))))
                lengths["results"].append(len(call.result or ""))
            lengths["what users say"].append(len(item.said))
            lengths["records"].append(len(item.record))
            runs.append(item._replace(record=""))
    tools = Counter(name for run in runs for name in run.called)
    tasks = Counter((run.environment, run.task) for run in runs)
    states = [(t.sources, t.targets, run.success, t.key) for run in runs for t in run.transitions]
    calls = [len(run.called) for run in runs]
    counts = np.array(sorted(tools.values(), reverse=True))
    exponent = -np.polyfit(np.log(np.arange(1, len(counts) + 1)), np.log(counts), 1)[0]
    found = {
        "runs": len(runs),
        "tools": len(tools),
        "calls a run, mean": np.mean(calls),
        **_percentiles("calls a run", calls, 50, 90, 99),
        "runs without a call": np.mean([not count for count in calls]),
        "tools by rank, Zipf exponent": exponent,
        "calls of the ten first tools": counts[:10].sum() / counts.sum(),
        **_successors(runs),
        "turns with parallel calls": np.mean([len(t.targets) > 1 for run in runs for t in run.transitions]),
        **_percentiles("runs a task", list(tasks.values()), 50, 90),
        "runs a task, mean": len(runs) / len(tasks),
        "texts of users, distinct a run": len({run.said for run in runs}) / len(runs),
        "repeated states, whole archive": 1 - len(set(states)) / len(states),
        "successful runs": np.mean([run.success is True for run in runs]),
        "failed calls": sum(run.calls[name][1] for run in runs for name in run.calls) / sum(calls),
    }
    for what, values in lengths.items():
        found |= _percentiles(f"characters of {what}", values, 50, 90)
    return {name: float(value) for name, value in found.items()}


def _percentiles(name: str, values: Iterable[float], *percents: int) -> dict[str, float]:
    return {f"{name}, p{p}": float(np.percentile(list(values), p)) for p in percents}


def _successors(runs: Iterable[RunRecord]) -> dict[str, float]:
    edges = Counter(
        edge for run in runs for t in run.transitions for edge in {(a, b) for a in t.sources for b in t.targets}
    )
    by_source: defaultdict[str, list[int]] = defaultdict(list)
    for (source, _), count in edges.items():
        by_source[source].append(count)
    share = sum(max(counts) for counts in by_source.values()) / sum(edges.values())
    counts = [len(counts) for counts in by_source.values()]
    return {**_percentiles("successors a tool", counts, 50, 90), "top successor of a tool, share": share}


def print_fit(recorded: Path, *, seed: int) -> None:
    """Print the measures of recorded runs, of as many synthetic ones with as many tools, and their parameters."""
    real = measure(recorded)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "runs.jsonl"
        write(file, Archive(int(real["tools"]), seed=seed).lines(int(real["runs"])))
        made = measure(file)
    print("| measure | recorded | synthetic | parameter |\n|---|---|---|---|")
    for name, value in real.items():
        parameter = next(
            (f"{p} = {getattr(Shape(), p)}" for start, p in PARAMETERS.items() if name.startswith(start)), ""
        )
        print(f"| {name} | {_short(value)} | {_short(made[name])} | {parameter} |")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
