"""What memory says where runs end, and where they go on: whether agents stop too early, or hear so too early.

usage: python benchmarks/ends.py [RUNS] [--domain NAME]... [--runs-each 400] [--markdown]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). *Unseen*: the families of a run are out of
memory, five folds; *seen*: the run alone is, ten folds. The default policy is asked after the last call of successful
and lost runs, and before each later call of successful ones, where no message of the user came between. Counted are the
turns at which it warns of stopping, says that nothing is left to call ("done"), names a tool, or says neither. Harm is
a warning of stopping, or a tool named, where a successful run ended; and "done" where one went on. What lost runs hear
at their end need not be wrong: most were lost before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from parts.measured import about, options, read_records, recorded_domains

from hepm import Memory, Suggestions, Turn
from hepm.evals.domains import DomainRun, Split, by_family, by_request, by_run
from hepm.experience.moment import Moment
from hepm.graph.rows import spread_over
from hepm.types import END

ENDED, LOST, WENT_ON = "successful runs ended", "lost runs ended", "successful runs went on"
SAID = ("stopping fails", "done", "a tool", "neither")


def main() -> None:
    arguments = parse()
    heard: dict[str, Counter[tuple[str, str]]] = {"unseen": Counter(), "seen": Counter()}
    for domain in map(by_request, recorded_domains(read_records(arguments.runs))):
        if arguments.domain and domain.name not in arguments.domain:
            continue
        print(domain.name, file=sys.stderr, flush=True)
        for memory, splits in (("unseen", [*by_family(domain.runs)]), ("seen", [*by_run(domain.runs)])):
            for split in splits:
                heard[memory].update(heard_by(split, arguments.runs_each // len(splits)))
    print(*(markdown(heard) if arguments.markdown else lines(heard)), sep="\n")


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--runs-each", type=int, default=400)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def heard_by(split: Split, count: int) -> Iterator[tuple[str, str]]:
    """Where so many of the successful, and of the lost runs that are out of memory are asked, and what is said."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        memory.ingest(run.trajectory for run in split.train)
        for success in (True, False):
            runs = [run for run in split.test if run.success == success]
            for place in spread_over(len(runs), min(count, len(runs))):
                for where, turns in asked_at(runs[place]):
                    now = Moment.after_turns(turns)
                    found = memory.suggest(after=now.after or None, state=now.state, history=list(now.history))
                    yield where, what(found)


def asked_at(run: DomainRun) -> Iterator[tuple[str, list[Turn]]]:
    """What had happened before each turn that is asked about, and whether the run ended there."""
    turns = [turn for turn in run.trajectory.turns if not turn.hidden]
    steps = [number for number, turn in enumerate(turns) if turn.role == "assistant" and turn.ran]
    for before, step in pairwise(steps):
        if run.success and not any(turn.role == "user" for turn in turns[before:step]):
            yield WENT_ON, turns[:step]
    if not steps:
        return
    after = next((number for number in range(steps[-1] + 1, len(turns)) if turns[number].role != "tool"), len(turns))
    # A lost run without a word after its last call may have been cut off.
    if run.success or after < len(turns):
        yield ENDED if run.success else LOST, turns[:after]


def what(found: Suggestions) -> str:
    """What is said of going on."""
    if any(warning.tool == END for warning in found.warnings):
        return "stopping fails"
    if found.done:
        return "done"
    return "a tool" if found.ranked else "neither"


def lines(heard: dict[str, Counter[tuple[str, str]]]) -> Iterator[str]:
    for memory, counts in heard.items():
        for where in (ENDED, LOST, WENT_ON):
            said = {one: counts[where, one] for one in SAID}
            yield json.dumps(about("ends") | {"memory": memory, "where": where, "turns": sum(said.values())} | said)


def markdown(heard: dict[str, Counter[tuple[str, str]]]) -> Iterator[str]:
    yield f"| memory | where | turns | {' | '.join(SAID)} |"
    yield f"|---|---|--:|{'--:|' * len(SAID)}"
    for memory, counts in heard.items():
        for where in (ENDED, LOST, WENT_ON):
            said = [counts[where, one] for one in SAID]
            yield f"| {memory} | {where} | {sum(said):,} | {' | '.join(f'{one:,}' for one in said)} |"


if __name__ == "__main__":
    main()
