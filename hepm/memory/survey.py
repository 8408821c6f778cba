"""A bounded look at what a namespace holds: its latest runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from hepm.errors import StoreDamagedError
from hepm.experience.likeness import request_of
from hepm.graph.rows import Totals
from hepm.graph.store import Store
from hepm.ingest.formats.hepm import parse_stored
from hepm.text import count_of
from hepm.types import LEVEL, ToolName, Trajectory, Turn

LATEST_RUNS: Final = 1_000
MOST_CHARS: Final = 48_000_000
"""Characters of records that are read of them."""
LIKE_RUNS: Final = 5
"""Like runs that all ended otherwise, from which on a label looks wrong."""
LAST_ROW: Final = (1 << 63) - 1  # after every row number

_READ_AT_ONCE: Final = 50
# "[redacted:api-key]" in a stored record.
_REDACTED: Final = re.compile(r"\[redacted:([\w-]+)\]")
_DIGITS: Final = re.compile(r"\d+")


class SeenRun(NamedTuple):
    """What is kept of a run that was read.

    Attributes:
        like: Equal for runs of one request with the same calls, arguments and results, apart from digits in these; ""
            without a call.
        hinted, followed: Turns with calls before which a hint had named tools, and those of them that called one.
        ignored: What was called before the turns in which no hint was followed.
        secrets: Kinds of secrets that were removed from it.
        in_session: Whether a session with hints recorded it.
    """

    id: str
    success: bool | None
    trusted: bool
    like: str
    hinted: int
    followed: int
    ignored: tuple[ToolName, ...]
    secrets: frozenset[str]
    in_session: bool

    @classmethod
    def of(cls, run: Trajectory, record: str) -> Self:
        """What to keep of a run."""
        hinted = followed = 0
        for turn in run.turns:
            if turn.hinted and turn.calls:
                hinted += 1
                followed += _follows(turn)
        return cls(
            run.id,
            run.outcome.success,
            run.trusted,
            _like(run, request_of(run)),
            hinted,
            followed,
            tuple(_before_ignored(run)),
            frozenset(_REDACTED.findall(record)),
            LEVEL in run.tags or hinted > 0,
        )


def _follows(turn: Turn) -> bool:
    """Whether a turn calls one of the tools that a hint had named."""
    return any(call.name in turn.hinted for call in turn.calls)


def _like(run: Trajectory, request: str) -> str:
    """A hash of the request and the calls of a run, without the digits of results: ids and times differ."""
    calls: list[object] = []
    for turn in run.turns:
        if turn.role != "user":
            for call in turn.calls:
                result = _DIGITS.sub("0", call.result or "")
                calls.append([call.name, dict(call.arguments), result, call.error, *["refused"] * call.refused])
    if not calls or not (run.task or request):
        return ""
    about = [run.environment, run.task or request, calls]
    text = json.dumps(about, sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _before_ignored(run: Trajectory) -> Iterator[ToolName]:
    """The last tool before each turn that called none of the tools that a hint had named; "" for none."""
    last = ""
    for turn in run.turns:
        if not turn.calls or turn.role == "user":
            continue
        if turn.hinted and not _follows(turn):
            yield last
        last = turn.calls[-1].name


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What was read of a namespace.

    Attributes:
        latest: The latest runs, the last stored first.
    """

    store: Store
    namespace: str
    totals: Totals
    latest: Sequence[SeenRun]

    @classmethod
    def of(cls, store: Store, namespace: str) -> Self:
        """Read the latest runs, no more than `MOST_CHARS`."""
        # Counts of the store are exact; of records no more is read than is bounded here.
        totals = store.totals(namespace=namespace)
        success_from = store.header.success_from
        latest = list(_read(latest_records(store, namespace, LATEST_RUNS), success_from))
        return cls(store, namespace, totals, latest)

    @property
    def among_latest(self) -> str:
        """The latest runs, in words."""
        if len(self.latest) == self.totals.trajectories:
            return count_of(len(self.latest), "run")
        return f"the latest {count_of(len(self.latest), 'run')}"

    @property
    def sample(self) -> int:
        """How many latest runs were read; 0 for all that there are."""
        if len(self.latest) == self.totals.trajectories:
            return 0
        return len(self.latest)

    def scaled(self, found: int) -> int:
        """How many of all runs that many of the latest ones stand for."""
        return round(found * self.totals.trajectories / max(len(self.latest), 1))


def _read(records: Iterable[tuple[str, str]], success_from: float) -> Iterator[SeenRun]:
    """The readable runs of records, up to some characters."""
    # Characters, not runs: one run may have megabytes.
    left = MOST_CHARS
    for name, record in records:
        left -= len(record)
        if left < 0:
            return
        try:
            run = parse_stored(name, record)
        except StoreDamagedError:
            continue  # `hepm doctor` names it
        yield SeenRun.of(run.graded(success_from), record)


def latest_records(store: Store, namespace: str, most: int) -> Iterator[tuple[str, str]]:
    """Ids and records of the latest runs, the last stored first; lazy."""
    before, left = LAST_ROW, most
    while left > 0:
        rows = store.latest_records(namespace=namespace, before=before, limit=min(left, _READ_AT_ONCE))
        if not rows:
            return
        for row_number, name, record in rows:
            yield name, record
            before = row_number
        left -= len(rows)
