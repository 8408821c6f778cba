"""The sessions of a memory: those under way, those left behind, and what chance decides of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING

from hepm.errors import StoreUnavailableError
from hepm.memory.levels import GuardState, LevelDraws
from hepm.memory.lots import Lots
from hepm.types import DEFAULT_NAMESPACE, Object, Trajectory

if TYPE_CHECKING:
    from hepm.ingest.pipeline import IngestReport
    from hepm.ingest.prepare import IngestOptions
    from hepm.memory import Memory
    from hepm.memory.background import BackgroundJobs
    from hepm.memory.journal import Journal, Kept, Stamp
    from hepm.memory.session import Session
    from hepm.memory.trials import Trials
    from hepm.uplift.report import UpliftReport


class Sessions:
    """What the sessions of one memory share. Threads may share it.

    Attributes:
        journal: Keeps sessions under way on disk; None does not.
    """

    def __init__(self, memory: Memory, *, journal: Journal | None, guard: bool) -> None:
        self.journal = journal
        self._memory = memory
        self._guard = guard
        self._jobs: BackgroundJobs | None = None
        self._making = Lock()

    @property
    def guarded(self) -> bool:
        """Whether sessions draw a level: not without the guard, and not where `speak` was chosen."""
        return self._guard and self._memory.speak is None

    # Under way

    def resume(
        self, id: str, *, namespace: str = DEFAULT_NAMESPACE, ingest_options: IngestOptions | None = None
    ) -> Session | None:
        """The session that a crash or a restart left under way; None if there is none. It may go on or be finished."""
        if self.journal is None:
            return None
        kept = self.journal.find(namespace, id)
        if kept is None:
            return None
        from hepm.ingest.prepare import IngestOptions
        from hepm.memory.session import Session, SessionOptions

        memory = self._memory
        ingest = ingest_options or IngestOptions()
        about: Object = {"holdout": memory.holdout, "denies": memory.deny, "ingest": ingest}
        return Session(memory, kept.run, SessionOptions(namespace, tools=kept.run.tools or None, **about))

    def under_way(self, known: set[Stamp]) -> list[Kept]:
        """The sessions on disk that changed: those of running processes, and those that a crash or a restart left.

        Args:
            known: Stamps of the files that need not be read. Those of all files are in it afterwards.
        """
        if self.journal is None:
            return []
        return list(self.journal.changed(known))

    def why_not_kept(self) -> str:
        """Why sessions under way cannot be kept on disk now; "" if they can."""
        if self.journal is None:
            return ""
        return self.journal.why_not_kept()

    # Left behind, or ended

    def store_abandoned(self, *, idle_s: float = 1_800, options: IngestOptions | None = None) -> int:
        """Store unfinished sessions once they rest for `idle_s`; returns how many.

        A crash may have ended them. A rule may label them (`IngestOptions.outcome_by`); else they do not count until
        they are labelled. `Memory.session(id=…)` continues them.
        """
        if self.journal is None:
            return 0
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
        pairs = zip(kept.run.turns, stored.turns, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        rest = kept.run.turns[same:]
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
        self._background.later(lambda: count_grown(lessons, namespace=namespace), key=("count", namespace))

    def tidy_soon(self, *, tried: bool, options: IngestOptions | None, namespace: str = DEFAULT_NAMESPACE) -> None:
        """After a session, on that thread: store others that were left behind, and look whether memory harms.

        Args:
            tried: Whether the session was in an experiment, which may now show that.
        """
        if self.journal is not None:
            self._background.later(lambda: self.store_abandoned(options=options), key="abandoned")
        if tried:
            self._background.later(lambda: self.trials.lately(namespace=namespace), key=("trials", namespace))

    @property
    def _background(self) -> BackgroundJobs:
        from hepm.memory.background import BackgroundJobs

        with self._making:
            if self._jobs is None:
                self._jobs = BackgroundJobs()
            return self._jobs

    def wait_distilled(self) -> None:
        """Wait until the runs of `distill_soon` are distilled. `close` waits too."""
        if self._jobs is not None:
            self._jobs.wait()

    # What chance decides

    @cached_property
    def levels(self) -> LevelDraws:
        """The guard's draws for sessions, and the outcomes that they go by."""
        return LevelDraws(self._memory.store, self._memory.mirrors, self.lots)

    @cached_property
    def lots(self) -> Lots:
        """What chance decides of sessions."""
        return Lots(self._memory.store)

    @cached_property
    def trials(self) -> Trials:
        """The experiments of sessions that were held out."""
        from hepm.memory.trials import Trials

        return Trials(self._memory.store, self._memory.mirrors)

    def uplift(self, *, namespace: str = DEFAULT_NAMESPACE) -> UpliftReport:
        """What memory does here: sessions with memory beside those that were held out (docs/use/uplift.md)."""
        return self.trials.report(namespace=namespace)

    def guard(self, *, namespace: str = DEFAULT_NAMESPACE) -> GuardState:
        """From which chance on hints of sessions name tools in a namespace, and why."""
        from hepm.uplift.report import harm_sentence

        harm = self.trials.harm(namespace=namespace)
        reason = "" if harm is None else harm_sentence(harm)
        return GuardState.of(self.levels.outcomes(namespace=namespace), harm=reason)

    def holdout_now(self, wanted: float, *, namespace: str = DEFAULT_NAMESPACE) -> float:
        """The share of sessions to hold out: as wanted, and nearly all where the guard finds that memory harms."""
        from hepm.memory.trials import HARMED_HOLDOUT

        if not self.guarded or not 0 < wanted < HARMED_HOLDOUT:
            return wanted
        try:
            harm = self.trials.harm(namespace=namespace)
        except StoreUnavailableError:
            return wanted
        if harm is None:
            return wanted
        return HARMED_HOLDOUT

    def close(self) -> None:
        """Wait for the lessons that are being distilled; safe to call twice."""
        if self._jobs is not None:
            self._jobs.close()
