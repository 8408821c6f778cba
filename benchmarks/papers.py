"""The papers' tables into docs/tables: `make papers`, or `make papers ARGS="--model M --base-url URL"`.

usage: python -m benchmarks.papers [--model M] [--base-url URL] [--prices IN,OUT] [--budget LIMITS] [--dry-run]
           [--small] [--only NAME]...

Without a model, agents are scripted, simulated or replay the authors' actions, and users are rules: the tables show
that everything runs and what its parts do, never how good a model is. With a model, each command is first run with
--dry-run, and calls, tokens and, with --prices, dollars are told before anything is asked. Each table is what a command
of hepm prints, with the command, and with what it can and cannot show. --small takes few tasks. Answers of a model are
kept in the folder hepm-papers, so that a repeated command pays for none twice.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.lab.bench.parcels import clerk
from tests.loopback.server import Loopback

ROOT = Path(__file__).parent.parent
TABLES = ROOT / "docs" / "tables"
H_EPM_ARMS = (
    "off,summary,explicit,implicit,no-weight,no-state,no-efficiency,no-adapt,gnn4plan,gnn4plan-trained,k1,k3,c0,c5,c10,"
    "similar-1,similar-3,toolnet,reasoningbank,agentevolver"
)
DESK_ARMS = "off,summary,explicit,implicit,no-weight,no-state,no-adapt,hybrid"
EVOLVER_ARMS = "off,react,tagged-alone,searching,tagged"
PARCELS = "tests.lab.bench.parcels:split_parcels"
CLERK, GOLD = "clerk", "gold"


@dataclass(frozen=True)
class PaperTable:
    """A table: the commands that make it, and what it says.

    Attributes:
        scripted, modelled: Arguments of hepm without a model and with one; none for where there is no such table.
        small, small_modelled: Further arguments with --small.
        agent: What acts without a model.
    """

    name: str
    title: str
    shows: str
    hides: str
    agent: str
    scripted: Sequence[Sequence[str]]
    modelled: Sequence[Sequence[str]] = ()
    small: Sequence[str] = ()
    small_modelled: Sequence[str] = ()


PAPERS = (
    PaperTable(
        "h-epm-arms",
        "H-EPM, tables 1, 4 and 7: success of tasks by arm",
        "that each arm runs from end to end, how often memory speaks in it, and what a turn takes",
        "which arm is better for a model: without one, a clerk does what hints name, with made-up parcels",
        CLERK,
        [["bench", PARCELS, "--arms", H_EPM_ARMS, "--rollouts", "3"]],
        [["bench", "functions", "--arms", H_EPM_ARMS, "--rollouts", "3"]],
        ["--tasks", "l*-Cleo,l*-Dana"],
        ["--tasks", "4"],
    ),
    PaperTable(
        "h-epm-simulated",
        "H-EPM: its policies in simulated runs",
        "what the hints of each policy do to an agent that obeys them, after 100 runs at a desk with known answers",
        "whether a model obeys, and anything about the papers' benchmarks",
        "scripted",
        [["bench", "service-desk-0", "--arms", DESK_ARMS]],
        small=["--tasks", "12"],
    ),
    PaperTable(
        "prime-rounds",
        "PRIME, tables 1 and 2: success, reward and library by round and environment",
        "that rounds store, distill and evolve, and how the library grows by zone in each gym",
        "whether lessons help: without a model the agent replays right actions, so that success is 1 by construction",
        GOLD,
        [["bench", "gyms", "--rounds", "5", "--memory", "{folder}/gyms.hepm"]],
        [["bench", "gyms", "--rounds", "5", "--memory", "{folder}/gyms.hepm"]],
        ["--rounds", "2", "--rollouts", "3"],
        ["--rounds", "2", "--rollouts", "3"],
    ),
    PaperTable(
        "evolver-questions",
        "EvolveR, tables 1 and 3: questions by agent, with search of principles and without",
        "exact match and F1 of each agent, and that the four differ in format and search alone",
        "whether principles help: without a model the agent replays right searches and never searches principles",
        GOLD,
        [["bench", "questions", "--arms", EVOLVER_ARMS]],
        [["bench", "questions", "--arms", EVOLVER_ARMS]],
        ["--tasks", "8"],
        ["--tasks", "8"],
    ),
    PaperTable(
        "multisessioncollab",
        "MultiSessionCollab: task success, user effort and length by memory",
        "that notes carry preferences from session to session, with rules as users and an agent that follows notes",
        "how well a model reflects or recalls, and what people would say",
        "scripted",
        [["bench", "users"]],
        [["bench", "users"]],
        ["--tasks", "4", "--trials", "3"],
        ["--tasks", "4", "--trials", "3"],
    ),
)


def main() -> None:
    """Make the tables, or say what they would take."""
    options = read_options()
    wanted = [one for one in PAPERS if not options.only or one.name in options.only]
    model = ["--model", options.model, *(["--base-url", options.base_url] if options.base_url else [])]
    paid = [*(["--prices", options.prices] if options.prices else [])]
    paid += ["--budget", options.budget] if options.budget else []
    folder = Path(tempfile.mkdtemp(prefix="hepm-papers-")) if not options.model else ROOT / "hepm-papers"
    folder.mkdir(exist_ok=True)
    if options.model:
        tell_cost(wanted, model, folder, prices=options.prices, small=options.small)
        if options.dry_run:
            return
    for one in wanted:
        commands = one.modelled if options.model else one.scripted
        if not commands:
            continue
        small = one.small_modelled if options.model else one.small
        more = small if options.small else ()
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            server = Loopback()
            stack.callback(server.stop)
            server.script = clerk
            agent = [*model, *paid] if options.model else agent_of(one, server)
            made = [([*line, *more], run([*filled(line, folder), *more, *agent], folder, scratch)) for line in commands]
        write(one, made, agent=options.model or one.agent, small=options.small)
        print(f"{one.name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser()
    for name in ("--model", "--base-url", "--prices", "--budget"):
        parser.add_argument(name, default="")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", action="append", default=[], choices=[one.name for one in PAPERS])
    return parser.parse_args()


def agent_of(table: PaperTable, server: Loopback) -> list[str]:
    """The options that name what acts without a model."""
    named = {CLERK: ["--model", "clerk", "--base-url", server.url]}
    return named.get(table.agent, ["--model", table.agent])


def filled(line: Sequence[str], folder: Path) -> list[str]:
    """A command with its places filled in."""
    return [part.format(folder=folder) for part in line]


def run(arguments: Sequence[str], folder: Path, scratch: str) -> str:
    """What hepm prints."""
    command = [str(Path(sys.executable).with_name("hepm")), *arguments]
    # Answers of a scripted agent are worth nothing: they go with the scratch folder.
    place = str(folder) if folder.name == "hepm-papers" else scratch
    known = os.environ | {
        "COLUMNS": "200",
        "PYTHONPATH": str(ROOT),
        "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", "none"),
    }
    done = subprocess.run(command, cwd=place, env=known, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")


def tell_cost(tables: Sequence[PaperTable], asking: Sequence[str], folder: Path, *, prices: str, small: bool) -> None:
    """Print what each table would take, and all of them."""
    calls = tokens = 0
    for one in tables:
        more = one.small_modelled if small else ()
        for line in one.modelled:
            found = json.loads(run([*filled(line, folder), *more, *asking, "--dry-run", "--json"], folder, ""))
            print(f"{one.name}: {priced(found['calls'], found['tokens'], prices)}", flush=True)
            calls, tokens = calls + found["calls"], tokens + found["tokens"]
    print(f"all: {priced(calls, tokens, prices)}", flush=True)


def priced(calls: int, tokens: int, prices: str) -> str:
    """What calls and tokens cost at the price of input, where there is one: answers are not estimated."""
    money = f", ${tokens * float(prices.partition(',')[0]) / 1e6:,.2f} or more" if prices else ""
    return f"about {calls:,} calls, {tokens:,} tokens{money}"


def write(table: PaperTable, made: Sequence[tuple[Sequence[str], str]], *, agent: str, small: bool) -> None:
    """Write a table with its commands, and what it can and cannot show."""
    parts = [f"# {table.title}", f"The agent: {agent}.{' Few tasks only.' if small else ''} Made by `make papers`."]
    for line, printed in made:
        said = " ".join(line).replace("{folder}/", "")
        parts.append(f"`hepm {said}`\n\n```text\n{printed}\n```")
    parts.append(f"**What this can show:** {table.shows}. **What it cannot show:** {table.hides}.")
    TABLES.mkdir(exist_ok=True)
    suffix = "" if agent == table.agent else f"-{''.join(c if c.isalnum() else '-' for c in agent)}"
    (TABLES / f"{table.name}{suffix}.md").write_text("\n\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    main()
