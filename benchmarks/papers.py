"""Tables of scripted agents into docs/tables: `make papers`. With `--model M`, the papers' own tables by that model.

usage: python -m benchmarks.papers [--small] [--only TABLE]...
       python -m benchmarks.papers --model M [--only PAPER]... [options of `hepm papers`]

Agents are scripted, simulated or replay the authors' actions: the tables show that everything runs
and what its parts do, never how good a model is. Each is what a command of hepm prints, with the command, and with what
it can and cannot show. Times, which differ run by run, are left out. --small takes few tasks.
With a model, `hepm papers` plays the tables of each paper.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hepm.lab.papers import PAPERS
from tests.lab.bench.parcels import clerk
from tests.loopback.server import Loopback

ROOT = Path(__file__).parent.parent
TABLES = ROOT / "docs" / "tables"
HEPM = Path(sys.executable).with_name("hepm")
H_EPM_ARMS = "off,explicit,implicit,no-weight,no-state,no-adapt,gnn4plan,toolnet"
PARCELS = "tests.lab.bench.parcels:split_parcels"
CLERK, GOLD = "clerk", "gold"


@dataclass(frozen=True)
class ScriptedTable:
    """A table: the commands that make it, and what it says.

    Attributes:
        commands: Arguments of hepm.
        small: Further arguments with --small.
        agent: What acts.
    """

    name: str
    title: str
    shows: str
    hides: str
    agent: str
    commands: Sequence[Sequence[str]]
    small: Sequence[str] = ()


TABLES_MADE = (
    ScriptedTable(
        "h-epm-arms",
        "H-EPM, tables 1 and 4: success of tasks by arm",
        "that each arm runs from end to end, how often memory speaks in it, and what a turn takes",
        "which arm is better for a model: without one, a clerk does the first thing that a hint names, with made-up "
        "parcels. Rows that cannot differ here are left out: k, c and efficiency, as all runs are equally long, and "
        "arms that say nothing in hints (summary, similar-1, similar-3, reasoningbank, agentevolver). With a model, "
        "`hepm papers h-epm` has them",
        CLERK,
        [["bench", PARCELS, "--arms", H_EPM_ARMS, "--rollouts", "3"]],
        ["--tasks", "l*-Cleo,l*-Dana"],
    ),
    ScriptedTable(
        "prime-rounds",
        "PRIME, tables 1 and 2: success, reward and library by round",
        "that rounds store, distill and prune, and how the library grows by zone",
        "whether lessons help: without a model the agent replays right actions, so that success is 1 by construction",
        GOLD,
        [["bench", "functions", "--rounds", "5", "--memory", "{folder}/functions.hepm"]],
        ["--rounds", "2", "--rollouts", "3"],
    ),
)


def main() -> None:
    """Make the tables, or have a model play the papers' own."""
    options, others = read_options()
    if options.model:
        small = ["--small"] if options.small else []
        for paper in options.only or PAPERS:
            subprocess.run([str(HEPM), "papers", paper, "--model", options.model, *small, *others], check=True)
        return
    for one in TABLES_MADE:
        if options.only and one.name not in options.only:
            continue
        more = one.small if options.small else ()
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            server = Loopback()
            stack.callback(server.stop)
            server.script = clerk
            agent = agent_of(one, server)
            made = [([*line, *more], run([*filled(line, scratch), *more, *agent], scratch)) for line in one.commands]
        write(one, made, small=options.small)
        print(f"{one.name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)


def read_options() -> tuple[argparse.Namespace, list[str]]:
    """The options of the command line, and those of `hepm papers`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="")
    parser.add_argument("--small", action="store_true")
    names = [one.name for one in TABLES_MADE]
    parser.add_argument("--only", action="append", default=[], choices=[*names, *PAPERS])
    return parser.parse_known_args()


def agent_of(table: ScriptedTable, server: Loopback) -> list[str]:
    """The options that name what acts without a model."""
    named = {CLERK: ["--model", "clerk", "--base-url", server.url]}
    return named.get(table.agent, ["--model", table.agent])


def filled(line: Sequence[str], scratch: str) -> list[str]:
    """A command with its places filled in."""
    return [part.format(folder=scratch) for part in line]


def run(arguments: Sequence[str], scratch: str) -> str:
    """What hepm prints, without times."""
    known = os.environ | {"COLUMNS": "200", "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none"}
    command = [str(HEPM), *arguments]
    done = subprocess.run(command, cwd=scratch, env=known, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return "\n".join(without_times(done.stdout.splitlines())).strip("\n")


def without_times(lines: Sequence[str]) -> list[str]:
    """Lines without the column of milliseconds, which is the last one of the means, and what explains it."""
    kept: list[str] = []
    in_means = False
    for printed in lines:
        line = printed.rstrip().replace("; memory ms: median of a turn", "")
        in_means = (in_means or line.endswith(" memory")) and not line.startswith("success: ")
        kept.append(re.sub(r" +\S+$", "", line) if in_means else line)
    return kept


def write(table: ScriptedTable, made: Sequence[tuple[Sequence[str], str]], *, small: bool) -> None:
    """Write a table with its commands, and what it can and cannot show."""
    about = f"The agent: {table.agent}.{' Few tasks only.' if small else ''} Made by `make papers`."
    parts = [f"# {table.title}", about]
    for line, printed in made:
        said = " ".join(line).replace("{folder}/", "")
        parts.append(f"`hepm {said}`\n\n```text\n{printed}\n```")
    parts.append(f"**What this can show:** {table.shows}. **What it cannot show:** {table.hides}.")
    (TABLES / f"{table.name}.md").write_text("\n\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    main()
