"""The runs under way behind every door: which conversation a request continues, what was suggested, how it ended."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import RLock
from time import monotonic, time
from typing import Any, Final, NamedTuple
from uuid import uuid4

from hepm.agents import wire
from hepm.agents.live_run import (
    OTLP_DOOR,
    TOKEN,
    Bounded,
    Key,
    LiveRun,
    Shown,
    aliases_of,
    mark_of,
    only_summarised,
    opening_of,
)
from hepm.agents.replies import Reply
from hepm.agents.wire import Api, Object, name_of, objects
from hepm.errors import ConflictError, HepmError, InputError, NotFoundError, StoreError, StoreUnavailableError
from hepm.experience.prompt import Prompt
from hepm.ingest.outcome import OUTCOME_BY_DEFAULT
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import own_tool
from hepm.memory import Memory
from hepm.memory.journal import Stamp
from hepm.memory.labels import given_label
from hepm.memory.session import Session
from hepm.types import RECORDED_BY, ToolName, Trajectory, followed

_log = logging.getLogger("hepm")

RECENT: Final = 200
"""Hints of a namespace that the page lists, and finished runs whose outcome may be sent again."""

SWEEP_S: Final = 30.0

MOST: Final = 2_000
"""Runs under way in the memory of the process; of more than that, those that rest longest are stored."""

MOST_ID: Final = 1_000
"""Characters of a session's id. It is a key here and in the store, and replies name it in a header."""

STORE_S: Final = 20.0
"""Seconds that an outcome waits for the store. Many clients give up after thirty."""


class _Asked(NamedTuple):
    """How a request names its conversation.

    Attributes:
        id: The session's; "" if the client names none.
        sequel: Id of the response that it continues, as this token's; "" if it holds the whole conversation.
        opening: See `opening_of`; "" with an id.
        marks: Of its messages.
    """

    namespace: str
    id: str
    sequel: str
    opening: str
    marks: list[str]


class LiveRuns:
    """All runs under way in one process. Threads may share it.

    Args:
        idle_s: A run that rests for so long is stored; a rule may label it.
        outcome_by: Rules for runs without an outcome (see `IngestOptions`).
        distrust: Names of tokens whose runs are stored and never count.
        redactor: Makes what removes secrets from a run, or None to keep them. Each run gets its own, as it remembers
            texts.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        idle_s: float = 1_800.0,
        outcome_by: tuple[str, ...] = OUTCOME_BY_DEFAULT,
        distrust: Collection[str] = (),
        redactor: Callable[[], Redactor | None] = Redactor,
    ) -> None:
        self.memory = memory
        self.idle_s = idle_s
        # By what is counted and the namespace, for /metrics: ("hints", "desk").
        self.counts = Counter[tuple[str, str]]()
        self.recent: defaultdict[str, deque[Shown]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._outcome_by = outcome_by
        self._distrust = frozenset(distrust)
        self._redactor = redactor
        self._runs: dict[Key, LiveRun] = {}
        # By namespace and id of a response that a next request may name.
        self._sequels: dict[Key, LiveRun] = {}
        # By namespace and opening: runs of one task that are under way at the same time.
        self._alike: defaultdict[Key, list[LiveRun]] = defaultdict(list)
        # Runs that are over, by the names of each and its opening: an outcome may be sent again, and what follows the
        # messages of one that has its outcome is another run.
        self._ended = Bounded[Key, LiveRun](3 * RECENT)
        self._recording = set[Future[None]]()
        self._swept = monotonic()
        self._failing = False
        self._lock = RLock()
        # Since a store may not answer.
        self._waiting = ThreadPoolExecutor(5, thread_name_prefix="hepm-store")
        # Runs that are not under way in this process, and that a later request may continue: the id by namespace and
        # alias, and how many of its turns the client has that knows it by that alias.
        self._left = Bounded[Key, tuple[str, int | None]](20_000)
        self._stamps = set[Stamp]()
        self._read_left()

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, id: str, *, namespace: str) -> LiveRun | None:
        """A run under way here, by the id that its client gave; None if there is none.

        One that another process went on with, or stored, is none.
        """
        with self._lock:
            return self._current(self._runs.get((namespace, id)))

    def ingest_options(self) -> IngestOptions:
        """How runs are stored."""
        distrusted = tuple(f"{RECORDED_BY}={name}" for name in sorted(self._distrust))
        return IngestOptions(redactor=self._redactor(), outcome_by=self._outcome_by, distrusted=distrusted)

    def page_redactor(self) -> Redactor:
        """What removes secrets from runs that a page shows, even where they are stored with them."""
        return self._redactor() or Redactor()

    # Which run

    def named(self, id: str, *, namespace: str, door: str, **about: Any) -> LiveRun:
        """The run of a session that the client names; a new one if it is not under way.

        Raises:
            ConflictError: another token began it.
        """
        with self._lock:
            run = self.find(id, namespace=namespace) or self._begin(id, namespace, door, **about)
            check_own(run.session)
            return run

    def continued(
        self,
        messages: Sequence[Object],
        *,
        id: str,
        namespace: str,
        door: str,
        sequel: str = "",
        group: str = "",
        list_tools: Callable[[], Sequence[Object]] = tuple,
        **about: Any,
    ) -> LiveRun:
        """The run that a request with its messages continues, with these messages in its record.

        Args:
            id: The session as the client names it; "" to recognise the conversation by its messages.
            group: What sets conversations with equal messages apart, if the client says anything of the kind.
            sequel: Id of the response that the messages continue; "" if they are the whole conversation.
            list_tools: Returns the agent's tools; none for any. They are known of a run that the client names.
            about: Further arguments of `Memory.session`, for a run that begins.
        Raises:
            ConflictError: another token began the session that the client names.
        """
        # No token's conversation is recognised by what another one sends.
        token = TOKEN.get()
        opening = ""
        if not id:
            opening = opening_of(messages, list_tools(), group, about.get("user"), *filter(None, [token]))
        asked = _Asked(namespace, id, _of_token(token, sequel), opening, self._marks(messages, id, namespace, opening))
        while True:
            # The thread that records replies may be behind the client, which sends its next request already.
            if self._recording:
                with self._lock:
                    run = self._recognised(asked)
                if run is None or run.waiting:
                    self.wait_recorded()  # its reply, or the end of the request that it repeats, may be among those
            with self._lock:
                run = self._recognised(asked)
                if run is None:
                    run = self._begin_or_resume(asked, messages, door, tools=list_tools() or None, **about)
                check_own(run.session)
                if asked.sequel:
                    self._sequels[namespace, asked.sequel] = run
                    run.sequel.add(asked.sequel)
            with run.lock:
                if run.over:  # it ended while this request waited for it
                    continue
                if run.door == OTLP_DOOR:  # what its spans said stays, and no later ones are taken
                    run.door = door
                    run.session.set_aside()
                    run.messages = []
                run.touched = time()
                # Until `replied`: a second request with the same messages is then a repetition, not a sequel.
                run.waiting += 1
                run.extend(messages, asked.marks, whole=not asked.sequel)
                longest_alias = []
                if run.opening:  # else the client names it
                    longest_alias = aliases_of(run.opening, run.marks)[-1:]
                run.session.aliases = (*run.sequel, *longest_alias)
                return run

    def of_request(self, api: Api, body: Object, *, id: str = "", user: str = "", **about: Any) -> LiveRun:
        """The run that a request to a model belongs to, as `continued`; `id` and `user` if not the body names them."""
        sequel = ""  # id of the reply that this request continues: then it does not repeat the history
        if api == "responses":
            sequel = wire.continued(body)
        return self.continued(
            wire.messages_of(api, body),
            id=id or wire.session_id_of(body),
            sequel=sequel,
            group=wire.group_of(body),
            list_tools=partial(wire.tools_of, body),
            user=user or wire.user_of(body),
            **about,
        )

    def _marks(self, messages: Sequence[Object], id: str, namespace: str, opening: str) -> list[str]:
        """The marks of a request's messages. Those that stand at the same place of a run under way are known."""
        runs = self._runs.get((namespace, id)), *self._alike.get((namespace, opening), ())
        run = next(filter(None, runs), None)
        held = list(zip(run.messages, run.marks, strict=False)) if run else []  # at once: other threads change both
        marks = [mark if message == same else mark_of(message) for message, (same, mark) in zip(messages, held)]  # noqa: B905
        return [*marks, *map(mark_of, messages[len(marks) :])]

    def _recognised(self, asked: _Asked) -> LiveRun | None:
        """The run under way that a request continues; None if there is none."""
        if asked.sequel:
            run = self._current(self._sequels.get((asked.namespace, asked.sequel)))
            if run is not None:
                return run
        found = self._runs.get((asked.namespace, asked.id)) if asked.id else self._by_marks(asked)
        return self._current(found)

    def _begin_or_resume(self, asked: _Asked, messages: Sequence[Object], door: str, **about: Any) -> LiveRun:
        """A new run; or one that a crash, a restart or a rest left, and that this request continues."""
        left = ""
        turns = None
        # A request with one or two messages begins a conversation here, if no run is known to be left.
        if not asked.id and (asked.sequel or self._left or len(asked.marks) > 2):
            self._read_left()
            left, turns = self._take_left(asked)
        run = self._begin(asked.id or left, asked.namespace, door, **about)
        if turns is not None:
            run.session.rewind(turns)
        run.opening = asked.opening
        run.resumed = bool(left)
        if asked.opening:
            self._alike[asked.namespace, asked.opening].append(run)
        if not asked.sequel and not left:
            run.before = self._marks_of_finished(asked, messages)
        return run

    def _marks_of_finished(self, asked: _Asked, messages: Sequence[Object]) -> tuple[str, ...]:
        """The marks that are those of a finished run with this name or opening; () if the messages continue none."""
        ended = self._ended.get((asked.namespace, asked.id or asked.opening))
        if ended is None or not ended.finished:
            return ()
        count = ended.continued_by(asked.marks)
        if count is None:
            return ()
        while count < len(messages) and messages[count].get("role") == "assistant":
            count += 1
        return tuple(asked.marks[:count])

    def _read_left(self) -> None:
        """Read the names of the runs that a crash, a restart or another process left on disk."""
        # The files of this process need not be read.
        for run in self._runs.values():
            if run.session.stamp is not None:
                self._stamps.add(run.session.stamp)
        for kept in self.memory.sessions.under_way(self._stamps):
            for alias, turns in kept.aliases.items():
                self._left[kept.namespace, alias] = kept.run.id, turns

    def _add_left(self, run: LiveRun) -> None:
        """Note that a run of this process is on disk or stored: a later request goes on with it."""
        aliases = run.session.aliases
        # With the server's ids of a conversation, only what follows its last turn goes on with the whole of it.
        if run.sequel:
            aliases = aliases[-1:]
        with self._lock:
            for alias in aliases:
                self._left[run.namespace, alias] = run.id, None

    def _take_left(self, asked: _Asked) -> tuple[str, int | None]:
        """Remove the run that a request continues. Its id, "" if there is none; and how many turns the client has.

        The turns are None if the request holds them.
        """
        left = self._left.pop((asked.namespace, asked.sequel), None)
        if left is not None:
            return left
        # The longest known beginning first: runs of one task begin alike.
        for alias in reversed(aliases_of(asked.opening, asked.marks)):
            left = self._left.pop((asked.namespace, alias), None)
            if left is not None:
                return left[0], None
        return "", None

    def is_over(self, id: str, *, namespace: str) -> bool:
        """Whether the client's run of this name has its outcome, and no other one is under way."""
        stored = None if (namespace, id) in self._runs else self.memory.run(id, namespace=namespace)
        return stored is not None and given_label(stored)

    def _begin(self, id: str, namespace: str, door: str, **about: Any) -> LiveRun:
        if len(id) > MOST_ID:
            raise InputError(f"a session's id has {len(id):,} characters: send one of at most {MOST_ID:,}")
        own = id or uuid4().hex
        stored = None
        if id:
            stored = self._find(namespace, own)
            # A run with a given outcome is over: "job-7" goes on as "job-7-2", "job-7-3".
            number = 1
            while stored is not None and given_label(stored):
                number += 1
                own = f"{id}-{number}"
                stored = self._find(namespace, own)
        about |= {"token": TOKEN.get(), "ingest_options": self.ingest_options()}
        session = self.memory.session(id=own, namespace=namespace, **about)
        session.share()
        if stored is not None:  # as it rested
            session.go_on(stored)
        check_own(session)
        name = id or own
        run = LiveRun(session, namespace, door, name=name)
        self._runs[namespace, name] = run
        self.counts["runs", namespace] += 1
        how = "goes on" if session.so_far.turns else "begins"
        _log.info("run %r of %r %s (%s)", session.id, namespace, how, door)
        return run

    def _find(self, namespace: str, id: str) -> Trajectory | None:
        """A stored run; None also while the store does not answer, as the new one is kept on disk until then."""
        if self.memory.lost_since is not None:
            return None
        if not self.memory.store.remote:
            return self.memory.run(id, namespace=namespace)
        try:
            return self._waiting.submit(self.memory.run, id, namespace=namespace).result(timeout=0.5)
        except (TimeoutError, StoreUnavailableError):
            return None

    def _current(self, run: LiveRun | None) -> LiveRun | None:
        """A run, unless it was forgotten, or another process went on with it, or stored it: it is read again then."""
        if run is None or not run.session.moved:
            return run
        if run.session.forgotten:
            run.finished = True  # later messages of its conversation are another run
            self._end(run)
            return None
        self._remove(run)
        self._add_left(run)
        return None

    def _by_marks(self, asked: _Asked) -> LiveRun | None:
        """The run whose record these messages continue; the longest, as runs of one task begin alike."""
        marks = asked.marks
        alike: list[LiveRun] = []
        changed: list[LiveRun] = []  # all but the model's reply, which some clients write again in their own way
        for run in self._alike.get((asked.namespace, asked.opening), ()):
            count = run.continued_by(marks)
            repeated = not run.replied and not run.waiting and len(marks) == count  # a request without a reply
            if count is None or (len(marks) <= count and not repeated):
                continue
            if not run.replied or marks[count] == run.marks[-1]:
                alike.append(run)
            else:
                changed.append(run)
        if alike:
            return max(alike, key=lambda run: len(run.marks))
        # Of several, it is unknown which one's reply was written again.
        if len(changed) == 1 and not changed[0].waiting:
            return changed[0]
        return None

    def why_not_kept(self) -> str:
        """Why runs cannot be kept on disk now, or could not be stored; "" if they can."""
        why = self.memory.sessions.journal.why_not_kept()
        why = why or self.memory.why_not_stored()
        if not why and self._failing:
            why = "runs that rest could not be stored: see the log"
        return why

    def under_way(self, namespace: str) -> list[LiveRun]:
        """The runs under way in a namespace, the latest active first."""
        with self._lock:
            runs = [run for run in self._runs.values() if run.namespace == namespace]
        return sorted(runs, key=lambda run: -run.touched)

    # During a run

    def recording(self) -> Future[None]:
        """Announce that a reply will be recorded: set the result when it is."""
        announced = Future[None]()
        self._recording.add(announced)
        announced.add_done_callback(self._recording.discard)
        return announced

    def wait_recorded(self) -> None:
        """Wait for the replies that ended by now: a client may be faster than the thread that records them."""
        wait(list(self._recording))

    def prompt(self, run: LiveRun, *, tools: Iterable[ToolName] | None = None, keep: bool = True) -> Prompt:
        """What memory says now. It raises nothing: without memory there is nothing to say.

        Args:
            tools: Names of the agent's tools, if they are not those of the session.
            keep: Whether to write the run to disk before; False if `replied` follows.
        """
        with run.lock:
            prompt = run.session.prompt(run.messages or None, tools=tools, keep=keep)  # None: recorded call by call
            run.prompt = prompt
            run.stable = run.stable or prompt.stable
            self.counts["requests", run.namespace] += 1
            ranked = prompt.suggestions.ranked
            run.shown = None
            if prompt.present:
                run.shown = Shown(
                    run=run.id,
                    namespace=run.namespace,
                    at=time(),
                    after=run.session.last,
                    tools=tuple(suggestion.tool for suggestion in ranked),
                    warned=tuple(way.tool for way in prompt.suggestions.warnings),
                    lessons=len(prompt.lessons),
                )
                self.recent[run.namespace].append(run.shown)
                self.counts["texts", run.namespace] += 1
                if ranked:
                    self.counts["hints", run.namespace] += 1
            if keep:
                run.explain()
        return prompt

    def replied(self, run: LiveRun, reply: Reply) -> None:
        """Add a model's reply to the record, and keep the run on disk."""
        with run.lock:
            run.touched = time()
            run.waiting -= 1
            if reply.messages:
                run.reply(reply.messages)
            id = _of_token(run.session.token, reply.id)
            if id:
                run.session.aliases = (*run.session.aliases, id)
            if not run.session.moved:  # else the client has gone on, or ended it, at another server
                run.session.keep()
            run.kept = len(run.messages)
            run.explain()
            called: list[ToolName] = []
            for message in reply.messages:
                called.extend(map(name_of, objects(message.get("tool_calls"))))
            self.called(run, called)
        if id:
            with self._lock:
                self._sequels[run.namespace, id] = run
                run.sequel.add(id)

    def called(self, run: LiveRun, tools: Sequence[str]) -> None:
        """Note which tools an agent called after the last hint, but for hepm's own."""
        shown = run.shown
        called = tuple(tool for tool in tools if not own_tool(tool))
        if run.unlisted is not None and not run.unlisted.isdisjoint(called):
            run.missed = True
            run.unlisted.difference_update(called)
        if shown is None or not called or shown.followed is not None:
            return
        shown.called = called
        shown.followed = followed(shown.tools, called)
        if shown.followed is not None:
            with suppress(StoreError):
                shown.usual = self.memory.mirror(shown.namespace).is_usual(shown.after, shown.tools[0])
            if not shown.usual:
                self.counts["followed" if shown.followed else "not_followed", run.namespace] += 1

    # End

    def finish(self, id: str, *, namespace: str, success: bool | None, reward: float | None) -> str:
        """Store a run with its outcome; its own id, which is another one where the client's session had a run before.

        Raises:
            InputError: no such run is known here, or it has another outcome already.
            StoreError: the store cannot be written, or takes long. Try again: the same outcome is stored once.
        """
        self.wait_recorded()
        try:
            if self.memory.lost_since is not None:  # it would be waited for
                raise TimeoutError
            finishing = self._waiting.submit(copy_context().run, self._finish, id, namespace, success, reward)
            try:
                return finishing.result(STORE_S)
            finally:
                finishing.cancel()
        except TimeoutError as error:  # as a server that died just now
            raise StoreUnavailableError(
                "the store does not answer: the run is kept on disk. Send its outcome again later"
            ) from error

    def _finish(self, id: str, namespace: str, success: bool | None, reward: float | None) -> str:
        with self._lock:
            # By the name that its client gave, else by its own id, which a reply's header names.
            found = self._runs.get((namespace, id))
            if found is None:
                found = next((run for run in self._runs.values() if (run.namespace, run.id) == (namespace, id)), None)
            run = self._current(found)
            known = run or self._ended.get((namespace, id))
        if known is not None and known.session.forgotten:
            known = None
        if known is not None:
            session = known.session
        else:
            session = self.memory.sessions.resume(id, namespace=namespace, ingest_options=self.ingest_options())
        so_far = self.memory.run(id, namespace=namespace) if session is None else session.so_far
        if so_far is None:
            raise NotFoundError(
                f"no run {id!r} is under way or stored in {namespace!r}: check the id and the namespace"
            )
        token = TOKEN.get()
        if token in self._distrust and token != so_far.tags.get(RECORDED_BY, ""):
            raise NotFoundError(f"the token {token!r} recorded no run {id!r} in {namespace!r}, and labels no other's")
        if session is None:
            self.memory.label(id, success=success, reward=reward, namespace=namespace)
            if success is not None or reward is not None:
                self.memory.sessions.distill_soon(namespace=namespace)
        elif known is None:
            session.finish(success=success, reward=reward)
        else:
            with known.lock:
                session.finish(success=success, reward=reward)
                known.finished = True
                if run is not None:
                    self._end(run)
        self.counts["outcomes", namespace] += 1
        _log.info("run %r of %r is stored with its outcome", so_far.id, namespace)
        return so_far.id

    def discard(self, id: str, *, namespace: str) -> None:
        """Forget a run under way, as it goes on under another id."""
        with self._lock:
            run = self._runs.get((namespace, id))
        if run is not None:
            with run.lock:
                self._end(run)
                self._ended.pop((namespace, id), None)
                run.session.discard()

    def _remove(self, run: LiveRun) -> None:
        with self._lock:
            run.over = True
            self._runs.pop((run.namespace, run.name), None)
            alike = self._alike.pop((run.namespace, run.opening), [])
            others = [other for other in alike if other is not run]
            if others:
                self._alike[run.namespace, run.opening] = others
            for sequel in run.sequel:
                self._sequels.pop((run.namespace, sequel), None)

    def _end(self, run: LiveRun) -> None:
        """Take a run out of those under way; its outcome may be sent again."""
        with self._lock:
            self._remove(run)
            # Clients name it by their own id, the header of a reply by the run's.
            openings = [run.opening] if run.finished else []
            for name in filter(None, [run.id, run.name, *openings]):
                self._ended[run.namespace, name] = run
        if run.unlisted is not None and run.session.calls:
            self.memory.shortlists.record(missed=run.missed, namespace=run.namespace)
            self.counts["shortlisted", run.namespace] += 1
            self.counts["shortlist_missed", run.namespace] += run.missed

    def sweep(self) -> None:
        """`store_idle`, if it was not called in the last `SWEEP_S`: for a process without a clock of its own."""
        if monotonic() - self._swept > SWEEP_S:
            self.store_idle()

    def rest(self, run: LiveRun) -> None:
        """Store a run that rests, with no outcome but by a trace or a rule. What comes later goes on with it.

        Raises:
            StoreError: the store cannot be written. It stays under way, and `store_idle` tries again.
        """
        if self._current(run) is None:
            return
        if only_summarised(run):
            self.discard(run.name, namespace=run.namespace)
            return
        with run.lock:
            try:
                run.session.finish(success=run.outcome.success, reward=run.outcome.reward)
            except InputError as error:
                _log.warning("the run %r is not stored: %s", run.id, error)
            else:
                _log.info("run %r of %r is stored, as it rests", run.id, run.namespace)
            self._end(run)
        self._add_left(run)

    def store_idle(self) -> None:
        """Store runs that rest, the oldest of too many, and what a crash left: no outcome but by a trace or a rule."""
        now = time()
        self._swept = monotonic()
        failed: HepmError | None = None
        with self._lock:
            latest_first = sorted(self._runs.values(), key=lambda run: -run.touched)
        # A copy: storing takes runs out of the dictionary.
        for number, run in enumerate(latest_first):
            if number < MOST and now - run.touched < self.idle_s:
                continue
            try:
                self.rest(run)
            except HepmError as error:  # the others are tried all the same
                failed = error
        try:
            self.memory.sessions.store_abandoned(idle_s=self.idle_s, options=self.ingest_options())
        except HepmError as error:
            failed = error
        if failed is not None and not self._failing:
            _log.warning("runs that rest are stored when the store can be written again: %s", failed)
        self._failing = failed is not None


def check_own(session: Session) -> None:
    """Raise a ConflictError if another token than that of the request began a session."""
    token = TOKEN.get()
    if token and session.token not in ("", token):  # without tokens all clients are one party
        raise ConflictError(f"the session {session.id!r} belongs to another token: name another session")


def _of_token(token: str, response: str) -> str:
    """The id of a response, or of a conversation, as this token's; "" stays empty."""
    if not (token and response):
        return response
    return f"{token} {response}"
