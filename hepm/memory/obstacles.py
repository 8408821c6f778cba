"""What keeps memory from helping, in at most ten lines, each with the command that mends it (`hepm doctor --advice`).

Exact where a store counts it; what only records show is read from the latest runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Final, Literal

from hepm.ingest.outcome import RULES, verdict_of
from hepm.report.latest import hints_of, latest_runs
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.memory.memory import Memory

MOST_LINES: Final = 10
# From where on something is worth a line; ours.
_UNLABELLED_READ: Final = 200  # runs without an outcome that are read
_SHARE_UNLABELLED: Final = 0.05  # of all runs


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that keeps memory from helping in a namespace, and what mends it.

    Attributes:
        what: What is so, in a sentence without its end; a sample is said to be one.
        mend: What to do, as a clause.
        command: The command of it, without `--store`; of what only an agent's code can do, the call.
        runs: About how many stored runs it concerns: the most come first.
    """

    namespace: str
    kind: Literal["unlabelled", "hints-ignored", "hints-hurt", "lessons-unseen"]
    what: str
    mend: str
    command: str
    runs: int


def obstacles(memory: Memory, *, namespace: str | None = None) -> list[Obstacle]:
    """What keeps memory from helping, each with the command that mends it: what concerns most runs first.

    At most `MOST_LINES`. Reads the latest thousand runs of a namespace; some seconds.

    Args:
        namespace: Only this one; None for all.
    """
    names = memory.namespaces() if namespace is None else [namespace]
    found: list[Obstacle] = []
    for name in names:
        option = f" --namespace {quote(name)}"
        runs = memory.totals(namespace=name).trajectories
        found += _unlabelled(memory, name, option, runs)
        found += _ignored_hints(memory, name, option, runs)
        harm = memory.sessions.guard(namespace=name).harm
        if harm:
            what = harm.removeprefix("silent, since ")
            mend = "nearly all sessions are left alone; see what harms, and check the labels of the runs behind it"
            found.append(Obstacle(name, "hints-hurt", what, mend, f"hepm uplift{option}", runs))
        live, shown = memory.store.lessons.live_and_shown(namespace=name)
        if live >= 10 and not shown:
            what = f"none of {count_of(live, 'lesson')} was ever shown to an agent"
            mend = "let agents ask this memory, by memory.session, hooks, MCP or the proxy"
            found.append(Obstacle(name, "lessons-unseen", what, mend, "hepm serve", live))
    found.sort(key=lambda obstacle: -obstacle.runs)
    return found[:MOST_LINES]


def _unlabelled(memory: Memory, name: str, option: str, all_runs: int) -> Iterator[Obstacle]:
    """Runs without an outcome, apart from those that are distrusted, whose label was removed, or without a call."""
    total = memory.totals(namespace=name).unlabelled
    if not total or total < _SHARE_UNLABELLED * all_runs:
        return
    some = islice(memory.labels.unlabelled(namespace=name, removed=False), _UNLABELLED_READ)
    waiting = [run for run in some if any(run.calls())]
    # The store counts all without an outcome; which of them a label would help, the read ones show.
    runs = round(total * len(waiting) / min(total, _UNLABELLED_READ))
    if not waiting or runs < _SHARE_UNLABELLED * all_runs:
        return
    have = "has no outcome and teaches" if runs == 1 else "have no outcome and teach"
    about = "about " if total > _UNLABELLED_READ else ""
    what = f"{about}{runs:,} of {count_of(all_runs, 'run')} {have} nothing"
    rules = [verdict_of(run, RULES).by for run in waiting]
    labelled = len(rules) - rules.count("")
    command = "hepm label"
    mend = "report how runs end (session.finish, POST /outcome); label these by hand, or by a model (--by judge)"
    if labelled >= 0.2 * len(waiting):  # fewer are not worth the command
        command += f" --by {','.join(rule for rule in RULES if rule in rules)}"
        mend = f"rules label {labelled:,} of {count_of(len(waiting), 'run')} tried"
    yield Obstacle(name, "unlabelled", what, mend, command + option, runs)


def _ignored_hints(memory: Memory, name: str, option: str, all_runs: int) -> Iterator[Obstacle]:
    """Hints that agents mostly do not follow, nor name by chance what they do."""
    latest = list(map(hints_of, latest_runs(memory.store, namespace=name)))
    hinted = [hints for hints in latest if hints]
    turns = sum(map(len, hinted))
    followed = sum(map(sum, hinted))
    runs = len(hinted)
    following = sum(map(any, hinted))
    # Of ten hinted runs on: half of them called what a hint named at all, and a tenth of the turns did.
    if runs < 10 or (following >= 0.5 * runs and followed >= 0.1 * turns):
        return
    among = count_of(len(latest), "run")
    if len(latest) < all_runs:
        among = f"the latest {among}"
    what = (
        f"hints named a tool in {count_of(runs, 'session')} among {among}; the agent called one of "
        f"them in {following:,} ({followed:,} of {count_of(turns, 'turn')})"
    )
    mend = (
        "put the hint where the model reads it, as the last message or at the end of the system prompt, and say "
        "there that it is what earlier runs showed; it reads"
    )
    yield Obstacle(name, "hints-ignored", what, mend, f"hepm prompt{option}", runs)
