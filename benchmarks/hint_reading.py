"""Does a real model read the hint? The probability that it calls the hinted tool, with hints of several forms.

usage: python benchmarks/hint_reading.py ROWS [--runs RUNS] [--model smollm2] [--domain NAME]... [--points 30]
           [--minutes 60] [--context 1536] [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). The points are those of the environment
`recorded` where the hybrid suggests tools, from a memory of other task families. At each one the local model
(benchmarks/README.md) is asked for the probability of each given tool as the next call: without a hint, with the line
that memory writes, with a line that names as many tools that are neither hinted nor right, with other wordings, and
with the line in the system prompt. For the model's sake, ten tools are offered, and conversations are cut to the system
message, the first request and the last turns. A row a point is written to ROWS; a repeated command goes on behind them.
Prints one JSON line, or with --markdown the table of benchmarks/LOG.md, from ROWS alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

# Before torch is loaded: on shared cores a second thread costs more than it brings.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.local_model.model import LocalModel, find_model
from hepm.agents.wire import Object, Placement, with_hint
from hepm.evals.bench.arms import find_arms
from hepm.evals.domains import by_request, ten_domains
from hepm.evals.environments.recorded import points_in
from hepm.evals.metrics import Bootstrap, interval
from hepm.evals.replay import HintedPoint, hinted_points
from hepm.ingest import Rejection, read_runs
from hepm.llm import Endpoint
from hepm.types import HINT
from hepm.user_cache import user_cache

DOMAINS = ("airline", "agentdojo-banking", "agentdojo-workspace", "bfcl-multi_turn_base")
LAST_TURNS, TEXT_CHARS, TOOLS = 5, 300, 10


def main() -> None:
    arguments = parse()
    known = [json.loads(line) for line in arguments.rows.read_text().splitlines()] if arguments.rows.exists() else []
    if not arguments.markdown:
        known += list(measured(arguments, {row["key"] for row in known}))
    if arguments.markdown:
        print("\n".join(markdown(known)))
    else:
        print(json.dumps({"benchmark": "hint_reading", "model": arguments.model, **summary(known)}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--runs", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data")))
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--points", type=int, default=30, help="of each domain")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--context", type=int, default=1_536)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def measured(arguments: argparse.Namespace, known: set[str]) -> Iterator[dict[str, object]]:
    """A row for each point, until there are no more or time is up."""
    records = [(name, run) for name, run in read_runs([arguments.runs]) if not isinstance(run, Rejection)]
    wanted = arguments.domain or DOMAINS
    points: list[HintedPoint] = []
    draws = random.Random(0)
    for domain in map(by_request, ten_domains(records)):
        if domain.name in wanted:
            found = points_in(domain, "divergence")
            drawn = draws.sample(found, min(len(found), arguments.points))
            points += hinted_points(domain, drawn, find_arms(["hybrid"], trials=1))
            print(f"{domain.name}: {len(points)} points", file=sys.stderr, flush=True)
    random.Random(0).shuffle(points)  # so that any part of them is a sample of all domains
    cache = user_cache() / "models"
    model = LocalModel.load(find_model(arguments.model), cache=cache, context=arguments.context)
    until = time.monotonic() + 60 * arguments.minutes
    with arguments.rows.open("a") as file:
        for point in points:
            if point.point.key in known or not point.prompts["hybrid"].suggestions.ranked:
                continue
            if time.monotonic() > until:
                break
            row = row_of(model, point)
            if row is not None:
                file.write(json.dumps(row) + "\n")
                file.flush()
                yield row


def row_of(model: LocalModel, hinted_point: HintedPoint) -> dict[str, object] | None:
    """Probabilities at a point by form of the hint; None where no tool could be named wrongly."""
    point = hinted_point.point
    prompt = hinted_point.prompts["hybrid"]
    ranked, shown = prompt.suggestions.ranked, prompt.present
    hinted = [one.tool for one in ranked]
    names = [tool["function"]["name"] for tool in point.tools]
    others = [name for name in names if name not in hinted and name not in point.right]
    if not set(hinted) <= set(names) or len(others) < len(hinted):
        return None
    draws = random.Random(point.key)
    wrong = draws.sample(others, len(hinted))
    needed = {*hinted, *wrong, *(point.right & {*names})}
    rest = [name for name in names if name not in needed]
    offered = needed.union(draws.sample(rest, min(len(rest), max(TOOLS - len(needed), 0))))
    specs = [tool for tool in point.tools if tool["function"]["name"] in offered]
    tools = ", ".join(hinted)
    forms: dict[str, tuple[str, Placement]] = {
        "none": ("", "tail"),
        "as written": (shown, "tail"),
        "wrong tools": (HINT + ", ".join(wrong), "tail"),
        "worked": ("Next tools that worked here: " + tools, "tail"),
        "worked, from runs": ("In earlier runs that succeeded, the next tool was: " + " or ".join(hinted), "tail"),
        "scores": (HINT + ", ".join(f"{one.tool} ({one.score:.0%})" for one in ranked), "tail"),
        "reasons": (HINT + "; ".join(f"{one.tool} ({one.reason})" for one in ranked), "tail"),
        "command": (f"Call {' or '.join(hinted)} next.", "tail"),
        "system": (shown, "system"),
        "system, wrong tools": (HINT + ", ".join(wrong), "system"),
    }
    body = shortened(hinted_point)
    found = {
        name: model.tool_probabilities(
            with_hint("chat", body, stable="", present=text, placement=placement)["messages"], specs
        )
        for name, (text, placement) in forms.items()
    }
    run = point.event.run
    return {
        "key": point.key,
        "kind": point.kind,
        "family": f"{run.domain}/{run.family}",
        "hinted": hinted,
        "right": sorted(point.right),
        "wrong": wrong,
        "tools": len(specs),
        "forms": {name: scores(chances, hinted, wrong, point.right) for name, chances in found.items()},
    }


def shortened(hinted_point: HintedPoint) -> Object:
    """The request at a point: the system message, the first request and the last turns, each cut in its middle."""
    body = replace(hinted_point, prompts={}).body(Endpoint("local", "http://127.0.0.1/v1"), {})
    messages: list[Object] = body["messages"]
    first = next((at for at, message in enumerate(messages) if message["role"] == "user"), 0)
    kept = [*messages[: first + 1], *messages[max(first + 1, len(messages) - LAST_TURNS) :]]
    for message in kept:
        text = message.get("content") or ""
        half = TEXT_CHARS // 2
        message["content"] = text if len(text) <= TEXT_CHARS else f"{text[:half]} … {text[-half:]}"
    return {**body, "messages": kept}


def scores(
    chances: Mapping[str, float], hinted: Sequence[str], wrong: Sequence[str], right: frozenset[str]
) -> dict[str, float]:
    """Probability of the hinted tools, of as many wrong ones, and of the right ones; rank of the first hinted one."""
    ranked = sorted(chances, key=lambda name: -chances[name])
    return {
        "hinted": sum(chances[name] for name in hinted),
        "first": chances[hinted[0]],
        "wrong": sum(chances[name] for name in wrong),
        "right": sum(chances.get(name, 0.0) for name in right),
        "rank": ranked.index(hinted[0]) + 1,
        "called hinted": float(ranked[0] in hinted),
        "called wrong": float(ranked[0] in wrong),
        "called right": float(ranked[0] in right),
    }


def summary(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Means by form, with the interval of the difference to no hint, from resampling families."""
    bootstrap = Bootstrap([str(row["family"]) for row in rows])
    found: dict[str, object] = {"points": len(rows), "families": bootstrap.families}
    for form in rows[0]["forms"]:
        measures: dict[str, object] = {}
        for name in rows[0]["forms"]["none"]:
            values, without = (np.array([row["forms"][one][name] for row in rows]) for one in (form, "none"))
            change = values - without
            low, high = interval(bootstrap.means(change))
            measures[name] = [round(float(one), 3) for one in (values.mean(), change.mean(), low, high)]
        found[form] = measures
    return found


def markdown(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Probabilities by form, each with the interval of its change against no hint, and shares of points."""
    found = summary(rows)
    tools = sum(row["tools"] for row in rows) / len(rows)
    yield f"{found['points']} points of {found['families']} task families, {tools:.0f} tools on average:\n"
    changed, plain = ("hinted", "wrong", "right"), ("rank", "called hinted", "called wrong", "called right")
    yield f"| hint | {' | '.join(f'P({name})' for name in changed)} | {' | '.join(plain)} |"
    yield "|---" * (len(changed) + len(plain) + 1) + "|"
    for form in rows[0]["forms"]:
        cells = [
            f"{mean:.2f} [{low:+.2f}, {high:+.2f}]" for mean, _, low, high in (found[form][one] for one in changed)
        ]
        yield f"| {form} | {' | '.join([*cells, *(f'{found[form][one][0]:.2f}' for one in plain)])} |"


if __name__ == "__main__":
    main()
