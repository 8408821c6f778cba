"""The sessions of a memory: those under way, those left behind, and what chance decides of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from hepm.errors import StoreUnavailableError
from hepm.graph.trials import CONTROL, MEMORY
from hepm.memory.background import BackgroundJobs
from hepm.memory.guard import LATEST, LEVELS, NOTHING_KNOWN, GuardState, LevelOutcomes, Outcomes, drawn
from hepm.memory.journal import common
from hepm.types import DEFAULT_NAMESPACE, Trajectory

if TYPE_CHECKING:
    from hepm.graph.rows import Selection
    from hepm.ingest.pipeline import IngestReport
    from hepm.ingest.prepare import IngestOptions
    from hepm.memory import Memory
    from hepm.memory.journal import Journal, Kept, Stamp
    from hepm.memory.session import Session
    from hepm.uplift.report import UpliftReport
    from hepm.uplift.sequence import Effect

HARMED_HOLDOUT: Final = 0.95
"""Share of sessions that memory leaves alone where it harms; the others show whether that has changed."""


class _Reported(NamedTuple):
    """A report of a revision, good enough until a time (monotonic, in seconds)."""

    revision: int
    until: float
    report: UpliftReport


class Sessions:
    """What the sessions of one memory share. Threads may share it.

    Attributes:
        journal: Keeps sessions under way on disk, if it has a folder.
    """

    def __init__(self, memory: Memory, *, journal: Journal, guard: bool) -> None:
        self.journal = journal
        self._memory = memory
        self._guard = guard
        self._jobs = BackgroundJobs()
        self._secret = ""
        self._outcomes: dict[str, tuple[int, Outcomes]] = {}
        self._reports: dict[str, _Reported] = {}

    @property
    def guarded(self) -> bool:
        """Whether sessions draw a level: not without the guard, and not where `speak` was chosen."""
        return self._guard and self._memory.speak is None

    # Under way

    def resume(
        self, id: str, *, namespace: str = DEFAULT_NAMESPACE, ingest_options: IngestOptions | None = None
    ) -> Session | None:
        """The session that a crash or a restart left under way; None if there is none. It may go on or be finished."""
        kept = self.journal.find(namespace, id)
        if kept is None:
            return None
        run = kept.run
        return self._memory.session(
            id=id,
            task=run.task,
            user=run.user,
            environment=run.environment,
            model=run.model,
            tools=run.tools or None,
            namespace=namespace,
            ingest_options=ingest_options,
            tags=run.tags,
        )

    def under_way(self, known: set[Stamp]) -> list[Kept]:
        """The sessions on disk that changed: those of running processes, and those that a crash or a restart left.

        Args:
            known: Stamps of the files that need not be read. Those of all files are in it afterwards.
        """
        return list(self.journal.changed(known))

    def by_namespace(self) -> Counter[str]:
        """How many sessions are on disk."""
        return Counter(kept.namespace for kept in self.under_way(set()))

    def is_under_way(self, id: str, namespace: str) -> bool:
        """Whether a session is on disk."""
        return self.journal.find(namespace, id) is not None

    def forget(self, selection: Selection, *, namespace: str, dry_run: bool = False) -> list[str]:
        """End the matching sessions under way on disk, so that no process stores them; the ids of their runs."""
        forgotten: list[str] = []
        for kept in self.under_way(set()):
            if kept.namespace == namespace and selection.matches(kept.run):
                forgotten.append(kept.run.id)
                if not dry_run:
                    self.journal.forget(kept)
        return forgotten

    # Left behind, or ended

    def store_abandoned(self, *, idle_s: float = 1_800, options: IngestOptions | None = None) -> int:
        """Store unfinished sessions once they rest for `idle_s`; returns how many.

        A crash may have ended them. A rule may label them (`IngestOptions.outcome_by`); else they do not count until
        they are labelled. `Memory.session(id=…)` continues them.
        """
        stored = 0
        for kept in self.journal.idle(idle_s):
            report = self.store(kept.run, kept.shown, namespace=kept.namespace, options=options)
            if report.rejected:
                rest = self._beyond_stored(kept)
                if rest is not None:
                    report = self.store(rest, kept.shown, namespace=kept.namespace, options=options)
            stored += report.stored
            kept.file.unlink(missing_ok=True)
            if report.by_rule:
                self.distill_soon(namespace=kept.namespace)
        return stored

    def _beyond_stored(self, kept: Kept) -> Trajectory | None:
        """What a session has beyond the run that is stored under its id and stays, as a run of its own."""
        stored = self._memory.run(kept.run.id, namespace=kept.namespace)
        if stored is None:
            return None
        rest = kept.run.turns[common(kept.run.turns, stored.turns) :]
        if all(turn.role == "system" for turn in rest):
            return None
        # The id of the stored run is taken: "run-2", "run-3".
        number = 2
        while self._memory.run(f"{kept.run.id}-{number}", namespace=kept.namespace) is not None:
            number += 1
        return replace(kept.run, id=f"{kept.run.id}-{number}", turns=rest)

    def store(
        self,
        run: Trajectory,
        shown: Sequence[str] = (),
        *,
        namespace: str = DEFAULT_NAMESPACE,
        options: IngestOptions | None = None,
    ) -> IngestReport:
        """`Memory.ingest` of a session's run, with the lessons it was shown."""
        self._memory.lessons.show(run.id, shown, namespace=namespace)
        return self._memory.ingest(run, namespace=namespace, options=options)

    def distill_soon(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Count what the runs of a namespace teach on a background thread, as finished sessions do."""
        from hepm.experience.counted import count_grown

        lessons = self._memory.lessons
        self._jobs.later(lambda: count_grown(lessons, namespace=namespace), key=("count", namespace))

    def tidy_soon(self, *, tried: bool, options: IngestOptions | None, namespace: str = DEFAULT_NAMESPACE) -> None:
        """After a session, on that thread: store others that were left behind, and look whether memory harms.

        Args:
            tried: Whether the session was in an experiment, which may now show that.
        """
        if self.journal.keeps:
            self._jobs.later(lambda: self.store_abandoned(options=options), key="abandoned")
        if tried:
            self._jobs.later(lambda: self.uplift(namespace=namespace, lately=True), key=("uplift", namespace))

    def wait_distilled(self) -> None:
        """Wait until the runs of `distill_soon` are distilled. `close` waits too."""
        self._jobs.wait()

    # What chance decides, and what outcomes show

    def dice(self, purpose: str, run: str, *, namespace: str = DEFAULT_NAMESPACE) -> Random:
        """The dice of one draw, such as a session's "arm" or "level"; some microseconds.

        A draw depends on its purpose, the session's id, the namespace and the store's secret: it is the same in every
        process, whoever does not know the secret can foresee none, and draws of different purposes are independent.

        Raises:
            StoreUnavailableError: the secret was not read yet, and the store does not answer.
        """
        # Read once and kept: draws go on while the store does not answer.
        self._secret = self._secret or self._memory.store.secret
        # With their lengths, so that no other parts give the same text.
        parts = "".join(f"{len(part)} {part}" for part in (self._secret, purpose, namespace, run))
        return Random(blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest())

    def draw_arm(self, run: str, holdout: float, *, namespace: str = DEFAULT_NAMESPACE) -> str:
        """The arm of a session; a share of `holdout` are controls. One that is a control at .1 is one at .2, too."""
        # The draw does not depend on the holdout, so that a larger one only adds controls.
        lot = self.dice("arm", run, namespace=namespace).random()
        return CONTROL if lot < holdout else MEMORY

    def draw_level(self, run: str, *, namespace: str = DEFAULT_NAMESPACE) -> str:
        """The guard's level of a session, by how the latest stored sessions ended."""
        dice = self.dice("level", run, namespace=namespace)
        try:
            known = self.outcomes(namespace=namespace)
        except StoreUnavailableError:  # hints go on from what was read before, and so do draws
            _, known = self._outcomes.get(namespace, (0, NOTHING_KNOWN))
        return drawn(known, dice)

    def outcomes(self, *, namespace: str = DEFAULT_NAMESPACE) -> Outcomes:
        """How the latest stored sessions of each level ended."""
        revision = self._memory.mirrors.revision
        at, known = self._outcomes.get(namespace, (-1, NOTHING_KNOWN))
        # Counted again only where something was stored since.
        if at != revision:
            counted = self._memory.store.outcomes_by_level(LEVELS, namespace=namespace, most=LATEST)
            known = {level: LevelOutcomes(*counted.get(level, ())) for level in LEVELS}
            self._outcomes[namespace] = revision, known
        return known

    def uplift(self, *, namespace: str = DEFAULT_NAMESPACE, lately: bool = False) -> UpliftReport:
        """What memory does here: sessions with memory beside those that were held out (docs/use/uplift.md).

        Args:
            lately: Take the report of before where making it anew would take much of the time.
        """
        from hepm.uplift.report import uplift_of

        revision = self._memory.mirrors.revision
        began = monotonic()
        known = self._reports.get(namespace)
        if known is not None and (known.revision == revision or (lately and began < known.until)):
            return known.report
        report = uplift_of(self._memory.store.trial_sessions(namespace=namespace), namespace=namespace)
        ended = monotonic()
        # It is made anew after twenty times the time that it took.
        self._reports[namespace] = _Reported(revision, ended + 20 * (ended - began), report)
        return report

    def harm(self, *, namespace: str = DEFAULT_NAMESPACE) -> Effect | None:
        """The difference that memory makes in a namespace where it harms, its interval below 0; else None.

        As in the last report, which is made anew after sessions: a request waits for the first one alone.
        """
        known = self._reports.get(namespace)
        report = self.uplift(namespace=namespace) if known is None else known.report
        if report.success is None or report.success.sure >= 0:
            return None
        return report.success

    def guard(self, *, namespace: str = DEFAULT_NAMESPACE) -> GuardState:
        """From which chance on hints of sessions name tools in a namespace, and why."""
        from hepm.uplift.report import harm_sentence

        harm = self.harm(namespace=namespace)
        reason = "" if harm is None else harm_sentence(harm)
        return GuardState(self.outcomes(namespace=namespace), reason)

    def holdout_now(self, wanted: float, *, namespace: str = DEFAULT_NAMESPACE) -> float:
        """The share of sessions to hold out: as wanted, and nearly all where the guard finds that memory harms."""
        if self.guarded and 0 < wanted < HARMED_HOLDOUT:
            with suppress(StoreUnavailableError):
                if self.harm(namespace=namespace) is not None:
                    return HARMED_HOLDOUT
        return wanted

    def close(self) -> None:
        """Wait for the lessons that are being distilled; safe to call twice."""
        self._jobs.close()
