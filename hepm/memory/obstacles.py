"""What keeps memory from helping, in at most ten lines, each with the command that mends it (`hepm doctor --advice`).

Exact where a store counts it; what only records tell is read from a bounded part of the runs (`hepm.memory.survey`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from hepm.errors import StoreDamagedError
from hepm.graph.rows import ToolRow
from hepm.ingest.formats.hepm import parse_stored
from hepm.ingest.outcome import verdict_of
from hepm.memory.levels import CHANCES, FEWEST, SILENT, GuardState
from hepm.memory.survey import LAST_ROW, LIKE_RUNS, MOST_CHARS, SeenRun, Surveyed
from hepm.text import count_of
from hepm.types import REMOVED, ToolName, Trajectory

if TYPE_CHECKING:
    from hepm.memory.memory import Memory

MOST_LINES: Final = 10
# From where on something is worth a line; ours.
_UNLABELLED_READ: Final = 200  # runs without an outcome that are read
_SHARE_UNLABELLED: Final = 0.05  # of all runs
_HINTED_TURNS: Final = 30
_HINTED_RUNS: Final = 5
_FOLLOWED: Final = 0.1  # share of hinted turns in which the agent called what the hint named
_FEWEST_OF_TOOL: Final = 3  # runs with it
_OVERLAP: Final = 0.05
"""How much of the time of both names an old one may still be called in: a change is rolled out bit by bit."""
_DESCRIBED: Final = 20  # characters of a description from which on an equal one is no accident
_FEWEST_LESSONS: Final = 10
_SURE: Final = 0.95
_RULES_TRIED: Final = ("tests", "exit-code")
_RULE_LABELS: Final = 0.2  # share of the runs read that rules must label for the command to be worth it
_IDS_SHOWN: Final = 3

# The words of "searchFlights", "search_flights_v2".
_NAME_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+")
# "v2", "2", "legacy": what is added to a name when a tool is replaced.
_VERSION: Final = re.compile(r"v?\d+|new|old|legacy|deprecated|beta")

ObstacleKind: TypeAlias = Literal[
    "unlabelled", "labels", "hints-ignored", "renamed", "hints-hurt", "lessons-unseen",
    "secrets",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that keeps memory from helping in a namespace, and what mends it.

    Attributes:
        what: What is so, in a sentence without its end; a sample is said to be one.
        mend: What to do, as a clause.
        command: The command of it, without `--store`; of what only an agent's code can do, the call.
        runs: About how many stored runs it concerns: the most come first.
        sample: How many runs were read for it; 0 if it is counted exactly.
    """

    namespace: str
    kind: ObstacleKind
    what: str
    mend: str
    command: str
    runs: int
    sample: int = 0

    def to_json(self) -> dict[str, Any]:
        """In values that JSON can hold."""
        return asdict(self)


def obstacles(memory: Memory, *, namespace: str | None = None) -> list[Obstacle]:
    """What keeps memory from helping, each with the command that mends it: what concerns most runs first.

    At most `MOST_LINES`. Reads the latest thousand runs of a namespace, whatever it holds; some seconds.

    Args:
        namespace: Only this one; None for all.
    """
    obstacles: list[Obstacle] = []
    namespaces = memory.namespaces() if namespace is None else [namespace]
    for name in namespaces:
        here = Surveyed.of(memory.mirror(name).store, name)
        for look in _LOOKS:
            obstacles += look(here)
        obstacles += _hints_that_hurt(here, memory.sessions.guard(namespace=name))
    # Secrets last: what was removed costs memory next to nothing.
    obstacles.sort(key=lambda obstacle: (obstacle.kind == "secrets", -obstacle.runs))
    return obstacles[:MOST_LINES]


def _option(namespace: str) -> str:
    return f"--namespace {quote(namespace)}"


def _unlabelled(here: Surveyed) -> Iterator[Obstacle]:
    """Runs without an outcome, apart from those that are distrusted, whose label was removed, or without a call."""
    all_runs, total = here.totals.trajectories, here.totals.unlabelled
    if not total or total < _SHARE_UNLABELLED * all_runs:
        return
    read, waiting = _unlabelled_runs(here)
    # The store counts all without an outcome; which of them a label would help, the read ones tell.
    runs = round(total * len(waiting) / max(read, 1))
    if not waiting or runs < _SHARE_UNLABELLED * all_runs:
        return
    sample = 0 if read == total else read
    about = "about " if sample else ""
    have = "has no outcome and teaches" if runs == 1 else "have no outcome and teach"
    what = f"{about}{runs:,} of {count_of(all_runs, 'run')} {have} nothing"
    labelled = Counter[str]()
    for run in waiting:
        rule = verdict_of(run, _RULES_TRIED).by
        if rule:
            labelled[rule] += 1
    if labelled.total() >= _RULE_LABELS * len(waiting):
        rules = ",".join(rule for rule in _RULES_TRIED if labelled[rule])
        mend = f"rules label {labelled.total():,} of {count_of(len(waiting), 'run')} tried"
        command = f"hepm label --by {rules} {_option(here.namespace)}"
    else:
        mend = (
            "report how runs end (session.finish, POST /outcome), and label these by hand, or by a model (--by judge)"
        )
        command = f"hepm label {_option(here.namespace)}"
    yield Obstacle(here.namespace, "unlabelled", what, mend, command, runs, sample)


def _unlabelled_runs(here: Surveyed) -> tuple[int, list[Trajectory]]:
    """How many runs without an outcome were read, the latest ones, and those of them that a label would help."""
    about: dict[str, Any] = {"environment": None, "task": None, "limit": _UNLABELLED_READ}
    rows = here.store.unlabelled(namespace=here.namespace, before=LAST_ROW, **about)
    waiting: list[Trajectory] = []
    read, left = 0, MOST_CHARS
    for _, name, record in rows:
        left -= len(record)
        if left < 0:
            break
        read += 1
        with suppress(StoreDamagedError):  # `hepm doctor` names it
            run = parse_stored(name, record)
            if run.trusted and run.outcome_by != REMOVED and any(run.calls()):
                waiting.append(run)
    return read, waiting


def _wrong_labels(here: Surveyed) -> Iterator[Obstacle]:
    """Runs that ended otherwise than all of at least `LIKE_RUNS` like ones."""
    odd = _odd_runs(here.latest)
    if not odd:
        return
    shown = ", ".join(f"{run.id} against {others}" for run, others in odd[:_IDS_SHOWN])
    more = ", …" if len(odd) > _IDS_SHOWN else ""
    what = (
        f"{count_of(len(odd), 'run')} among {here.among_latest} ended otherwise than all runs of the same request "
        f"with the same calls and results ({shown}{more})"
    )
    mend = "look at the label" if len(odd) == 1 else "look at the labels, one after the other"
    first, _ = odd[0]
    command = f"hepm label {quote(first.id)} {_option(here.namespace)}"
    yield Obstacle(here.namespace, "labels", what, mend, command, len(odd), here.sample)


def _odd_runs(read: Sequence[SeenRun]) -> list[tuple[SeenRun, int]]:
    """Runs that ended otherwise than all like ones, each with how many these are; those of most like ones first."""
    like: defaultdict[str, list[SeenRun]] = defaultdict(list)
    for run in read:
        if run.like and run.trusted and run.success is not None:
            like[run.like].append(run)
    odd: list[tuple[SeenRun, int]] = []
    for runs in like.values():
        successes = [run for run in runs if run.success]
        failures = [run for run in runs if not run.success]
        rarer = min(successes, failures, key=len)
        if len(rarer) == 1 and len(runs) > LIKE_RUNS:
            odd.append((rarer[0], len(runs) - 1))
    return sorted(odd, key=lambda pair: (-pair[1], pair[0].id))


def _ignored_hints(here: Surveyed) -> Iterator[Obstacle]:
    """Hints that agents do not follow, nor name by chance what they do."""
    runs = hinted = followed = 0
    ignored = Counter[ToolName]()
    for run in here.latest:
        if run.hinted:
            runs += 1
            hinted += run.hinted
            followed += run.followed
            ignored.update(run.ignored)
    if hinted < _HINTED_TURNS or runs < _HINTED_RUNS or followed >= _FOLLOWED * hinted:
        return
    called = f"in {followed:,}" if followed else "never"
    sessions = count_of(runs, "session")
    what = (
        f"hints named tools before {hinted:,} turns of {sessions} among {here.among_latest}, and agents called these "
        f"{called}"
    )
    mend = "put the hint where the model reads it, as the last message or at the end of the system prompt; what it says"
    # After the tool where most were ignored; "" is the start of a run.
    ((last, _),) = ignored.most_common(1)
    after = f" --after {quote(last)}" if last else ""
    command = f"hepm prompt{after} {_option(here.namespace)}"
    yield Obstacle(here.namespace, "hints-ignored", what, mend, command, here.scaled(runs), here.sample)


def _renamed_tools(here: Surveyed) -> Iterator[Obstacle]:
    """Tools that were called until another one of like name or description was."""
    pairs = _like_tools([row for row in here.store.tools(namespace=here.namespace) if row.calls and not row.retired])
    names = sorted(set[ToolName]().union(*pairs))
    spans = here.store.tool_spans(names, namespace=here.namespace)
    for pair in pairs:
        if any(name not in spans or spans[name].runs < _FEWEST_OF_TOOL for name in pair):
            continue
        old, new = sorted(pair, key=lambda name: spans[name].last)
        before, after = spans[old], spans[new]
        # Spans are row numbers of runs, in order of arrival.
        together = before.last - after.first
        if before.first >= after.first or together > _OVERLAP * (after.last - before.first):
            continue
        # Two systems that were ingested one after the other look like a rename.
        if _environment_at(here, before.last) != _environment_at(here, after.first):
            continue
        count = "run counts" if before.runs == 1 else "runs count"
        what = f"{old} was called until {new} was, as if renamed: {before.runs:,} {count} for a tool that is gone"
        command = f"hepm tool alias {quote(old)} {quote(new)} {_option(here.namespace)}"
        yield Obstacle(here.namespace, "renamed", what, "if it was, count both as one", command, before.runs)


def _like_tools(rows: Sequence[ToolRow]) -> list[tuple[ToolName, ToolName]]:
    """Pairs of tools whose names differ in a version or in how they are written, or that are described alike."""
    alike: defaultdict[tuple[str, ...], list[ToolName]] = defaultdict(list)
    for row in rows:
        alike["name", *_words_of(row.name)].append(row.name)
        text = " ".join(row.description.lower().split())
        if len(text) >= _DESCRIBED:
            alike["description", text, row.parameters].append(row.name)
    pairs: dict[tuple[ToolName, ToolName], None] = {}
    for names in alike.values():
        if len(names) == 2:  # of more it is not clear which became which
            pairs[min(names), max(names)] = None
    return list(pairs)


def _words_of(name: ToolName) -> list[str]:
    """The words of a tool's name without its version, and without the server before it."""
    own = name.rpartition("__")[2] if name.startswith("mcp__") else name
    words: list[str] = []
    for part in _NAME_PART.findall(own):
        word = part.lower()
        if not _VERSION.fullmatch(word):
            words.append(word)
    # A name that is all version, such as "v2", stands for itself.
    return words or [name]


def _environment_at(here: Surveyed, seq: int) -> str | None:
    """The environment of the run in this row; None if it cannot be read."""
    for _, name, record in here.store.latest_records(namespace=here.namespace, before=seq + 1, limit=1):
        with suppress(StoreDamagedError):
            return parse_stored(name, record).environment
    return None


def _hints_that_hurt(here: Surveyed, guard: GuardState) -> Iterator[Obstacle]:
    """Memory that lowers success, as held-out sessions show; or levels of the guard that do worse than silence."""
    if guard.harm:
        what = guard.harm.removeprefix("silent, since ")
        mend = "nearly all sessions are left alone; see what harms, and check the labels of the runs behind it"
        command = f"hepm uplift {_option(here.namespace)}"
        yield Obstacle(here.namespace, "hints-hurt", what, mend, command, here.totals.trajectories)
        return
    silent, outcomes = guard.outcomes[SILENT], guard.outcomes
    tried = [level for level in CHANCES if outcomes[level].sessions >= FEWEST]
    worse = [level for level in tried if silent.better_than(outcomes[level]) >= _SURE]
    if silent.sessions < FEWEST or not worse:
        return
    most = max(worse, key=lambda level: outcomes[level].sessions)
    what = f"hints hurt: {outcomes[most]} sessions with hints from {most} on succeeded, and {silent} without"
    mend = "the guard gives them to a few sessions only; see why, and check the labels of the runs behind them"
    sessions = sum(outcomes[level].sessions for level in worse)
    yield Obstacle(here.namespace, "hints-hurt", what, mend, f"hepm stats {_option(here.namespace)}", sessions)


def _unseen_lessons(here: Surveyed) -> Iterator[Obstacle]:
    """Lessons of which none was ever shown to an agent."""
    live, shown = here.store.lessons.live_and_shown(namespace=here.namespace)
    if live < _FEWEST_LESSONS or shown:
        return
    what = f"none of {count_of(live, 'lesson')} was ever shown to an agent"
    if any(run.in_session for run in here.latest):
        mend = "sessions get hints, but no lesson applies there: compare the environments, and see what a prompt holds"
        command = f"hepm prompt {_option(here.namespace)}"
    else:
        mend = "let agents ask this memory, by memory.session, hooks, MCP or the proxy"
        command = "hepm serve"
    yield Obstacle(here.namespace, "lessons-unseen", what, mend, command, live)


def _removed_secrets(here: Surveyed) -> Iterator[Obstacle]:
    """Runs from which secrets were removed."""
    runs = 0
    kinds = Counter[str]()
    for run in here.latest:
        if run.secrets:
            runs += 1
            kinds.update(sorted(run.secrets))
    if not runs:
        return
    listed = ", ".join(f"{kind} in {number:,}" for kind, number in kinds.most_common(_IDS_SHOWN))
    what = f"secrets were found in {runs:,} of {here.among_latest}, and removed ({listed})"
    mend = "change those that agents wrote out, and keep them out of prompts; where they were"
    command = f"hepm export {_option(here.namespace)} | grep 'redacted:'"
    yield Obstacle(here.namespace, "secrets", what, mend, command, here.scaled(runs), here.sample)


_LOOKS: Final[Sequence[Callable[[Surveyed], Iterator[Obstacle]]]] = (
    _unlabelled,
    _wrong_labels,
    _ignored_hints,
    _renamed_tools,
    _unseen_lessons,
    _removed_secrets,
)
