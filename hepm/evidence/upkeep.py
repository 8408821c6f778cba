"""The evidence of one namespace, kept up to date with its store.

A new run is added to what is known in about a millisecond: it ends in leaves that are there. All is learned anew when
the memory has grown by a quarter, on the thread that follows the store. Of a large memory a bounded part of the runs
is read, so that neither costs more the more runs are stored.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from hepm.errors import StoreUnavailableError
from hepm.evidence.decisions import CallPlace, Decision, FactNumbers, LabelledRun, read_run
from hepm.evidence.engine import Learned
from hepm.evidence.kept import (
    KeptEvidence,
    drop_former,
    keep,
    keep_rules,
    kept_file,
    read_kept,
    read_kept_rules,
)
from hepm.evidence.learning import learn
from hepm.evidence.place import PlaceEvidence, grow
from hepm.evidence.rules import ToolRule, rules_of, task_rules_of
from hepm.evidence.values import best_known, left_at_end
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import LAST_ROW, RevisionChange, RunRow
from hepm.types import ToolName

MOST_CALLS: Final = 24_000
"""Calls that are learned from: half of the latest runs, half of earlier ones. A memory with no more is read whole."""
GROWN: Final = 1.25
"""By so much the runs may grow until all is learned anew."""
KEPT_FROM: Final = 3_000
"""Calls from which on what was learned is kept in a file."""
FEW_CALLS: Final = 150
"""Calls up to which all is learned anew with each run, at once and not on a thread."""
SELDOM: Final = 20
"""Decisions at a place that a part of the runs is too few for: others are read from the store,"""
MOST_AFTER: Final = 64
"""this many runs,"""


class RunSample(NamedTuple):
    """Labelled runs of a namespace in order of arrival.

    Attributes:
        whole: Whether these are all of them.
        revision: Of the store before they were read.
    """

    runs: list[LabelledRun]
    numbers: FactNumbers
    whole: bool
    revision: int

    @property
    def calls(self) -> int:
        """How many calls they have."""
        return sum(len(run.calls) for run in self.runs)

    @property
    def turns(self) -> Iterator[Decision]:
        """The decisions of all runs, in order, their ends included."""
        return (decision for run in self.runs for decision in run.turns)


def live_evidence(mirror: NamespaceMirror) -> LiveEvidence:
    """What came of calls in which situations in a namespace; made when it is first asked for, and kept up to date."""
    return mirror.follower(LiveEvidence)


class LiveEvidence:
    """What is known of a namespace. Safe to use from several threads.

    A file in the mirror's folder, if it has one, keeps that of a large memory.
    """

    def __init__(self, mirror: NamespaceMirror) -> None:
        self._store = mirror.store
        self._namespace = mirror.name
        self._file = None if mirror.folder is None else kept_file(mirror.folder, mirror.name)
        self._lock = threading.RLock()
        self._evidence: Learned | None = None
        self._sample: RunSample | None = None
        self._restored: KeptEvidence | None = None  # a file, until the values of its decisions are taken
        self._newest = self._learned_from = 0  # row number of the newest known run; runs, when all was learned
        self._added = False  # whether runs were added since all was learned
        self._behind = False
        self._stale = False  # whether runs that are known were removed or changed
        self._seldom: dict[ToolName, Learned] = {}
        self._reading = threading.Lock()

    def latest(self) -> Learned:
        """What is known now; learned, or read from a file, when it is first asked for."""
        if self._evidence is None:
            with self._lock:
                if self._evidence is None and not self._restore():
                    self._learn(self.runs())
        assert self._evidence is not None
        return self._evidence

    def at(self, place: CallPlace) -> Learned:
        """What is known at a place: of a large memory by runs that came there, if those that were read hardly did."""
        evidence = self.latest()
        known = evidence.places.get(place)
        if evidence.whole or (known is not None and known.seen >= SELDOM):
            return evidence
        with self._reading:
            if place.tool not in self._seldom:
                if len(self._seldom) >= 256:
                    self._seldom.clear()
                # It is made anew with each run, and so is what is measured.
                with suppress(StoreUnavailableError):
                    self._seldom[place.tool] = self._read_after(place.tool, evidence)
            return self._seldom.get(place.tool, evidence)

    def _read_after(self, tool: ToolName, evidence: Learned) -> Learned:
        """What is known by the latest runs that went on from a tool."""
        edges = self._store.edges(namespace=self._namespace, sources=[tool])
        runs_on = {(source, target): support + failures for source, target, support, _, failures, _ in edges}
        total = sum(runs_on.values())
        if not total:
            return evidence
        most = {edge: max(MOST_AFTER * runs // total, 1) for edge, runs in runs_on.items() if runs}
        rows = self._store.latest_on_edges(most, namespace=self._namespace)
        numbers = FactNumbers()
        runs = [read_run(row, numbers) for row in rows[-2 * MOST_AFTER :]]
        return learn(runs, numbers, whole=False, chance=evidence.chance)

    def runs(self) -> RunSample:
        """The runs that are learned from."""
        sample = self._sample
        if sample is None:
            with self._lock:
                sample = self._sample = self._sample or self._read_sample()
        return sample

    def rules(self, *, anew: bool = True) -> list[ToolRule]:
        """What worked and what failed where, as rules: of all tasks, and after them of single ones.

        Of a large memory they are kept in a file until its runs change.

        Args:
            anew: Learn all anew before, as a new process would.
        """
        with self._lock:
            if self._evidence is None and self._file is not None:
                kept = read_kept_rules(self._file)
                if kept is not None and self._unchanged_since(kept[0]):
                    return kept[1]
            sample = self.valued(anew=anew)
            runs, as_read = list(sample.runs), not self._added
        found = [*rules_of(runs, sample.numbers), *task_rules_of(runs)]
        rules = [rule for rule in found if rule.is_borne_out]
        if self._file is not None and as_read and sample.calls >= KEPT_FROM:
            keep_rules(self._file, sample.revision, rules)
        return rules

    def valued(self, *, anew: bool = False) -> RunSample:
        """The runs that are learned from, with the values of their decisions."""
        with self._lock:
            self.latest()
            self.update(anew=anew)
            sample = self.runs()
            kept, self._restored = self._restored, None
            if kept is not None:
                decisions = list(sample.turns)
                of_others = [run.id for run in sample.runs] != kept.evidence.requests.run_ids
                if of_others or len(decisions) != len(kept.value_D2):
                    self._learn(sample)
                    return sample
                for decision, (value, missed) in zip(decisions, kept.value_D2.tolist(), strict=True):
                    decision.value, decision.missed = value, missed
            return sample

    def _unchanged_since(self, revision: int) -> bool:
        """Whether no run was stored, changed or removed since."""
        changes = self._store.changes_since(revision)
        # Lessons change no tool.
        return changes is not None and not any(
            change.sources != () for change in changes if change.namespace in (self._namespace, "")
        )

    def follow(self, changes: Sequence[RevisionChange]) -> None:
        """Note what later revisions changed, for `update`."""
        whole = self._evidence is None or self._evidence.whole
        for change in changes:
            # In a large memory a text that replaced an almost equal one is not worth to learn all anew.
            if change.removed or (change.rewritten and whole):
                self._stale = self._behind = True
            # Lessons change no tool.
            elif change.sources != ():
                self._behind = True
        if self._stale and self._evidence is None:
            self._sample = None

    @property
    def behind(self) -> bool:
        """Whether `update` has anything to do."""
        return self._behind and (self._evidence is not None or self._sample is not None)

    def update(self, *, anew: bool = True, defer: bool = False) -> None:
        """Take in what changed.

        Args:
            anew: Learn all anew, as a new process would; else only if the memory has grown, or runs were removed.
            defer: Do nothing if it would take more than some milliseconds.
        """
        with self._lock:
            if self._evidence is None:
                if self._behind:
                    self._sample, self._behind, self._stale = None, False, False
                return
            few = len(self._evidence.requests.runs) * 2 <= FEW_CALLS and self.runs().calls <= FEW_CALLS
            if (defer and not few) or not (self._behind or (anew and self._added)):
                return
            self._behind, stale, self._stale = False, self._stale, False
            try:
                anew = anew or stale or few
                new = [] if anew else self._store.runs_after(self._newest, namespace=self._namespace)
                if anew or len(self._evidence.requests.runs) + len(new) > GROWN * self._learned_from:
                    self._sample = self._read_sample()
                    self._learn(self._sample)
                    return
                for row in new:
                    self._add(row)
            except BaseException:
                self._behind, self._stale = True, self._stale or stale
                raise

    def _learn(self, sample: RunSample) -> None:
        evidence = learn(sample.runs, sample.numbers, whole=sample.whole)
        for place in evidence.places.values():
            place.prepare()
        self._take(evidence, sample.runs[-1].seq if sample.runs else 0)
        if self._file is not None and sample.calls >= KEPT_FROM:
            newest = sample.runs[-1]
            about = {"revision": sample.revision, "newest": newest.seq, "newest_id": newest.id}
            values = [(decision.value, decision.missed) for decision in sample.turns]
            keep(self._file, KeptEvidence(about, evidence, np.array(values)))

    def _take(self, evidence: Learned, newest: int) -> None:
        self._seldom.clear()
        self._restored = None
        self._evidence, self._newest, self._added = evidence, newest, False
        self._learned_from = len(evidence.requests.runs)

    def _restore(self) -> bool:
        """Take what another process learned, if its runs are there still and few are newer."""
        if self._file is None:
            return False
        drop_former(self._file)
        kept = read_kept(self._file)
        if kept is None or not self._holds(kept):
            return False
        self._take(kept.evidence, kept.about["newest"])
        self._restored = kept
        for row in self._store.runs_after(self._newest, namespace=self._namespace):
            self._add(row)
        return True

    def _holds(self, kept: KeptEvidence) -> bool:
        """Whether a file is of this store, none of its runs was removed since, and few are newer."""
        about = kept.about
        held = self._store.runs_at([about["newest"]], namespace=self._namespace)
        if not held or held[0].id != about["newest_id"]:
            return False
        changes = self._store.changes_since(about["revision"])
        if changes is None or any(change.removed for change in changes if change.namespace == self._namespace):
            return False
        latest = self._store.latest_runs(namespace=self._namespace, before=LAST_ROW, most=1)
        return latest[-1].seq - about["newest"] <= (GROWN - 1) * len(kept.evidence.requests.runs)

    def _add(self, row: RunRow) -> None:
        """Add one run to what is known; tests and trees stay."""
        evidence = self.latest()
        self._newest, self._added = row.seq, True
        if row.id in evidence.requests.run_ids:
            return
        numbers = FactNumbers() if self._sample is None else self._sample.numbers
        run = read_run(row, numbers)
        number = len(evidence.requests.runs)
        places: dict[CallPlace, PlaceEvidence] = {}
        # From the end: the value of a call in a failed run is what is known of the situation after it.
        after: float | None = None
        end = run.end
        if end is not None and not run.won and end.place in evidence.places:
            place = evidence.places[end.place]
            end.missed = left_at_end(place, place.leaf_of(end, numbers), evidence.base)
        for decision in reversed(run.decisions):
            if after is not None:
                decision.value, after = after, None
            place = places.get(decision.place) or evidence.places.get(decision.place)
            last = evidence.numbers.last(decision.past)
            if place is None:
                run_N, last_N4 = np.array([number]), np.array([last], dtype=np.int32)
                places[decision.place] = grow([decision], numbers, seen=1, run_N=run_N, last_N4=last_N4)
                continue
            true_F = place.answers(decision.facts(numbers.names))[-1]
            places[decision.place] = place.with_decision(decision, true_F, number, last)
            if not run.won:
                after = float(best_known(place, place.like(true_F[None])[0][None], evidence.base)[0])
                decision.missed = max(after - decision.value, 0.0)
        if end is not None:
            place = places.get(end.place) or evidence.places.get(end.place)
            if place is not None:
                places[end.place] = place.with_ends([end], [number], numbers)
        if self._sample is not None:
            self._sample.runs.append(run)
        for place in places.values():
            place.prepare()
        self._evidence = evidence.with_run(run, places)
        self._seldom.clear()

    def _read_sample(self) -> RunSample:
        """All labelled runs, or of a large memory the latest and as many that are evenly spread over those before."""
        revision = self._store.header.revision
        numbers = FactNumbers()
        runs: list[LabelledRun] = []
        calls = latest = 0  # how many of the runs hold the latest half of the calls
        whole = True
        for row in self._from_latest():
            run = read_run(row, numbers)
            calls += len(run.calls)
            if runs and calls > MOST_CALLS:
                whole = False
                break
            runs.append(run)
            latest += calls <= MOST_CALLS // 2
        if not whole:
            runs = runs[: max(latest, 1)]
            earlier = self._store.spread_runs(namespace=self._namespace, before=runs[-1].seq, most=len(runs))
            runs += [read_run(row, numbers) for row in reversed(earlier)]
        return RunSample(runs[::-1], numbers, whole, revision)

    def _from_latest(self) -> Iterator[RunRow]:
        """Labelled, counted runs, the latest first."""
        before = LAST_ROW
        while True:
            page = self._store.latest_runs(namespace=self._namespace, before=before, most=512)
            if not page:
                return
            yield from reversed(page)
            before = page[0].seq
