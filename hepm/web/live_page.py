"""The page of `hepm serve`: the live graph, what was suggested, and lessons to read and change.

The document at `/` contains no data and is open to every client. The data come from `/api`, which the guard checks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from datetime import time as time_of_day
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from hepm.agents.guard import access_of, namespace_of
from hepm.agents.live_run import Bounded, LiveRun
from hepm.agents.runs import LiveRuns
from hepm.errors import NotFoundError
from hepm.experience.lessons import ListedLesson, Notes, listed_lessons
from hepm.graph.lessons.rows import PENDING, StoredLesson
from hepm.graph.mirror.mirror import switching_often
from hepm.graph.rows import LAST_ROW, RunFilter
from hepm.report.receipts import monday_of, week_of
from hepm.report.report import Report
from hepm.text import cut
from hepm.types import Object
from hepm.uplift.effect_text import ADJUSTED, COLUMNS
from hepm.web.answers import (
    EdgeQuery,
    FoundRuns,
    GraphQuery,
    LessonsQuery,
    NotesEdit,
    NotesQuery,
    ReportGiven,
    Retirement,
    RunQuery,
    RunsQuery,
    Transcript,
)
from hepm.web.document import filled
from hepm.web.doors import Door, as_json
from hepm.web.graph_page import content_of, texts_of
from hepm.web.transcripts import REQUEST_CHARS, transcript_of

MOST_TOOLS: Final = 200
"""Tools drawn at once, the most called first. Others are found by name, each with its neighbours."""
MOST_RUNS: Final = 50
"""Stored runs that are listed."""
MOST_LISTED: Final = 100
"""Hints, runs or lessons of one answer."""

_KEPT: Final = 24  # graphs, counts and advice
# A graph is drawn anew after so many times the time that this took, so that runs under way go first.
_PAUSE_FACTOR: Final = 10.0
_READ_CHARS: Final = 4_000  # the part of a user's request that is read
_EXAMPLES: Final = 3  # lessons of single runs that are shown below the sentence which they say
_SCRIPTS: Final = (
    "main.js",
    "api.js",
    "transcript.js",
    "uplift.js",
    "runs.js",
    "hints.js",
    "lessons.js",
    "report.js",
    "live.js",
)
_DAY_S: Final = 86_400
_WEEK_S: Final = 7 * _DAY_S
_MOST_CHOICES: Final = 500  # of a filter
_MODELS_OF: Final = 10_000  # latest runs whose models can be chosen
_HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was made at a revision; it stands until a time on the monotonic clock."""

    revision: int
    value: Any
    until: float


def routes(runs: LiveRuns) -> tuple[Route, list[Door]]:
    """The page, and the doors of its data."""
    page = _Page(runs)

    def reads(path: str, work: Callable[..., Any], *refuses: int) -> Door:
        return Door("GET", path, work, refuses=(304, *refuses), respond=page.respond)

    def changes(path: str, work: Callable[..., Any], *refuses: int) -> Door:
        return Door("POST", path, work, writes=True, refuses=refuses, respond=page.respond)

    return Route("/", page.document), [
        reads("/api/now", page.now),
        reads("/api/graph", page.graph, 404),
        reads("/api/edge", page.edge),
        reads("/api/report", page.report),
        reads("/api/runs", page.found_runs),
        reads("/api/run", page.run, 404),
        reads("/api/advice", page.advice),
        reads("/api/lessons", page.lessons),
        changes("/api/lessons", page.retire_or_revive, 404),
        reads("/api/notes", page.notes),
        changes("/api/notes", page.edit_notes, 404, 409),
    ]


class _Page:
    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs
        self._memory = runs.memory
        # By what it is and the namespace; of a graph also by the tool that it is drawn around.
        self._kept: Bounded[tuple[str, ...], _Kept] = Bounded(_KEPT)
        # One thread of its own, so that no number of open pages takes the threads that answer agents.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="hepm-page")

    # HTTP

    async def document(self, request: Request) -> Response:
        del request
        html, policy = self._document
        headers = {**_HEADERS, "content-security-policy": f"{policy}; frame-ancestors 'none'"}
        return HTMLResponse(html, headers=headers)

    @cached_property
    def _document(self) -> tuple[str, str]:
        nothing: Object = {"start": None, "focus": None, "base": None, "tools": [], "edges": []}
        rules = ("connect-src 'self'", "img-src data:")
        values = {"title": "hepm"}
        return filled("live.html", nothing, values, scripts=_SCRIPTS, styles=("live.css", "report.css"), rules=rules)

    async def respond(self, request: Request, make: Callable[[], object]) -> Response:
        """JSON on the page's own thread, or 304 if the client has it already."""

        def work() -> str:
            with switching_often():
                return as_json(make())

        text = await asyncio.get_running_loop().run_in_executor(self._worker, work)
        etag = f'"{blake2b(text.encode(), digest_size=12).hexdigest()}"'
        headers = {**_HEADERS, "etag": etag}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(text, media_type="application/json", headers=headers)

    def _made(self, key: tuple[str, ...], make: Callable[[Any], Any], pause: float = _PAUSE_FACTOR) -> Any:
        """What `make` gives, kept until the memory changed and `pause` times the time that it took has passed.

        `make` is called with what it gave before, or None.
        """
        revision = self._memory.header.revision
        kept = self._kept.get(key)
        if kept is None or (kept.revision != revision and time.monotonic() > kept.until):
            began = time.monotonic()
            value = make(kept and kept.value)
            ended = time.monotonic()
            kept = _Kept(revision, value, ended + pause * (ended - began))
        self._kept[key] = kept
        return kept.value

    # Runs and hints

    def now(self, request: Request) -> Object:
        """What is under way in a namespace, the latest hints, and the counts of what it holds."""
        namespace, access = namespace_of(request), access_of(request)
        totals = self._made(("totals", namespace), lambda _: self._memory.totals(namespace=namespace), pause=0)
        recent = list(self._runs.recent.get(namespace, ()))[: -MOST_LISTED - 1 : -1]
        recent_runs = [hint.run for hint in recent]
        outcomes = self._memory.lessons.outcomes(recent_runs, namespace=namespace)
        requests = self._requests_of(recent_runs, namespace)
        hints: list[Object] = []
        for hint in recent:
            hints.append({**asdict(hint), "success": outcomes.get(hint.run), "request": requests[hint.run]})
        # A copy: other threads count while the page reads.
        all_counts = list(self._runs.counts.items())
        counts = {counted: count for (counted, counted_in), count in all_counts if counted_in == namespace}
        under_way = self._runs.under_way(namespace)
        open_runs: list[Object] = []
        for run in under_way[:MOST_LISTED]:
            open_runs.append({"id": run.id, "door": run.door, "at": run.touched, "request": self._request(run)})
        return {
            "namespace": namespace,
            "namespaces": sorted({namespace, *filter(access.to, self._memory.namespaces())}),
            "write": access.write,
            "revision": self._memory.header.revision,
            "totals": totals,
            "counts": counts,
            "runs": open_runs,
            "open_runs": len(under_way),
            "hints": hints,
            "guard": self._guard_sentence(namespace),
            "uplift": self._uplift(namespace),
        }

    def _uplift(self, namespace: str) -> Object:
        """What memory does here, and how that became known."""
        uplift = self._memory.sessions.uplift(namespace=namespace, lately=True).to_json()
        return {**uplift, "columns": COLUMNS, "adjusted": ADJUSTED, "holdout": self._memory.holdout}

    def _guard_sentence(self, namespace: str) -> str:
        """Which level of chance is in force for sessions, and why."""
        if not self._memory.sessions.guarded:
            return "off"
        return self._memory.sessions.guard(namespace=namespace).sentence

    # The graph

    def graph(self, request: Request, asked: GraphQuery) -> Object:
        """The graph as the page draws it; with `tool`, that tool and its neighbours."""
        namespace, tool = namespace_of(request), asked.tool or None
        return self._made(("graph", namespace, tool or ""), partial(self._drawn, namespace, tool))

    def _drawn(self, namespace: str, tool: str | None, before: Object | None) -> Object:
        self._memory.refresh(defer=True)
        # The report takes seconds: forks are marked once it was looked at.
        report = self._kept.get(("report", namespace))
        forks = () if report is None else report.value.forks
        content = content_of(self._memory, namespace, focus=tool, max_tools=MOST_TOOLS, evidence=False)
        # Tools stay where they were drawn before, so that the eye finds them again.
        places = None
        if before is not None:
            places = {known["name"]: (known["x"], known["y"]) for known in before["tools"]}
        return {**content.data(places, forks), "counts": content.counts, "others": content.left_out}

    def edge(self, request: Request, asked: EdgeQuery) -> Object:
        """Runs and summaries behind the edge between two tools."""
        ends = asked.source, asked.target
        namespace = namespace_of(request)
        (behind,) = self._memory.mirror(namespace).evidence_of([ends])
        texts = texts_of(behind)
        return {**texts, "requests": self._requests_of(texts["runs"], namespace)}

    # Runs

    def report(self, request: Request) -> ReportGiven:
        """Where agents go wrong, as it was known lately."""
        namespace = namespace_of(request)
        report: Report = self._made(("report", namespace), lambda _: self._memory.report(namespace=namespace))
        return cast(ReportGiven, report.to_json())

    def found_runs(self, request: Request, asked: RunsQuery) -> FoundRuns:
        """Stored runs that a filter leaves, the latest first, and what it can be set to."""
        namespace = namespace_of(request)
        store = self._memory.store
        since = until = None
        if asked.week is not None:
            since = datetime.combine(asked.week, time_of_day.min, UTC).timestamp()
            until = since + _WEEK_S
        words = asked.model_dump(exclude={"week", "before"})
        wanted = RunFilter(**{name: value or None for name, value in words.items()}, since=since, until=until)
        before = int(asked.before or LAST_ROW)
        found = store.runs_found(wanted, namespace=namespace, before=min(before, LAST_ROW), limit=MOST_RUNS)
        redactor = self._runs.page_redactor()
        runs: list[Object] = []
        for about in found:
            line = cut(redactor.text(about.request), REQUEST_CHARS)
            runs.append({**about._asdict(), "at": about.ended_at, "request": line})
        choices = self._made(("choices", namespace), lambda _: self._choices(namespace))
        return cast(FoundRuns, {"runs": runs, "more": len(found) == MOST_RUNS, **choices})

    def _choices(self, namespace: str) -> Object:
        """The tools, models and weeks that stored runs have."""
        store = self._memory.store
        weeks = {week_of(day * _DAY_S) for day in store.outcomes_by_day(namespace=namespace)}
        return {
            "tools": sorted(store.called_tools(namespace=namespace))[:_MOST_CHOICES],
            "models": store.models(namespace=namespace, most=_MODELS_OF)[:_MOST_CHOICES],
            "weeks": [monday_of(week) for week in sorted(weeks, reverse=True)[:_MOST_CHOICES]],
        }

    def run(self, request: Request, asked: RunQuery) -> Transcript:
        """One run, stored or under way, turn by turn, without secrets."""
        namespace, id = namespace_of(request), asked.id
        live = {run.id: run for run in self._runs.under_way(namespace)}
        run = live[id].session.so_far if id in live else self._memory.run(id, namespace=namespace)
        if run is None:
            raise NotFoundError(f"there is no run {id!r} in {namespace!r}")
        return transcript_of(self._runs.page_redactor()(run), stored=id not in live)

    def advice(self, request: Request) -> Object:
        """What keeps memory from helping here, as it was known lately."""
        from hepm.memory.obstacles import obstacles

        namespace = namespace_of(request)
        return {"advice": self._made(("advice", namespace), lambda _: obstacles(self._memory, namespace=namespace))}

    def _request(self, run: LiveRun) -> str:
        """What the user asked for first, without secrets; "" if it is not known."""
        return cut(self._runs.page_redactor().text(run.session.request[:_READ_CHARS]), REQUEST_CHARS)

    def _requests_of(self, runs: Sequence[str], namespace: str) -> dict[str, str]:
        """What was asked for in each run; "" if it is not known."""
        live = {run.id: run for run in self._runs.under_way(namespace)}
        stored = self._memory.store.about_runs([run for run in runs if run not in live], namespace=namespace)
        requests = {about.id: cut(about.request, REQUEST_CHARS) for about in stored.values()}
        requests |= {run: self._request(live[run]) for run in runs if run in live}
        return {run: requests.get(run, "") for run in runs}

    # Lessons

    def lessons(self, request: Request, asked: LessonsQuery) -> Object:
        """Lessons of a kind that contain every word of a query.

        What waits for approval comes first, then what prompts show: principles of most runs first, experiences the
        newest first, as are notes.
        """
        kind, words = asked.kind, asked.q.lower().split()
        self._memory.refresh(defer=True)
        bank = self._memory.lessons
        namespace = namespace_of(request)
        stored = bank.list(kind, namespace=namespace, retired=True)
        if asked.retired == "false":
            stored = [lesson for lesson in stored if not lesson.row.is_retired]
        cards: list[Object] = []
        if kind == "notes":
            cards += map(_notes, reversed(stored))
        else:
            listed = listed_lessons(stored)
            if kind == "principle":
                listed.sort(key=ListedLesson.by_support)
            else:
                listed.sort(key=_newest_first)
            listed.sort(key=lambda one: one.stored.row.retired != PENDING)
            for one in listed:
                cards.append(_lesson(one, bank.replaced_by(one.stored.row, namespace=namespace)))
        matching = [card for card in cards if all(word in _searched(card) for word in words)]
        pending = len(bank.pending(namespace=namespace))
        return {"lessons": matching[:MOST_LISTED], "total": len(matching), "pending": pending}

    def retire_or_revive(self, request: Request, asked: Retirement) -> Object:
        """Keep principles or experiences from hints, or let them be found: reject or approve them."""
        ids, kind, namespace = asked.ids, asked.kind, namespace_of(request)
        bank = self._memory.lessons
        unknown = [id for id in ids if bank.lessons(namespace).get(id) is None]
        if unknown:
            raise NotFoundError(f"there is no {kind} {unknown[0]!r} in {namespace!r}")
        change = bank.retire if asked.retired else bank.revive
        changed = change(kind, ids, namespace=namespace)
        return {"ids": ids, "retired": asked.retired, "changed": bool(changed)}

    def notes(self, request: Request, asked: NotesQuery) -> Object:
        """All versions of the notes on a user, the newest first."""
        versions = self._memory.preferences.history(asked.user, namespace=namespace_of(request))
        return {"versions": versions[::-1]}

    def edit_notes(self, request: Request, asked: NotesEdit) -> Notes:
        """Write the notes on a user by hand, unless there is a newer version than the one that was edited."""
        namespace = namespace_of(request)
        return self._memory.preferences.edit(asked.user, asked.text, namespace=namespace, version=asked.version)


def _searched(card: Object) -> str:
    """What words are looked for in: all that the page shows of lessons, in lower case."""
    texts = [str(value) for key, value in card.items() if key not in ("examples", "uses")]
    for example in card.get("examples", ()):
        texts += example.values()
    return " ".join(texts).lower()


def _newest_first(listed: ListedLesson) -> tuple[bool, int]:
    return bool(listed.held_back), -listed.stored.seq


def _lesson(listed: ListedLesson, replaced: Sequence[StoredLesson]) -> Object:
    """A lesson with where it comes from, and what it would replace."""
    row, uses, lesson = listed.stored.row, listed.stored.uses, listed.lesson
    examples: list[dict[str, str]] = []
    if row.kind == "experience":
        examples.append({name: str(row.properties[name]) for name in ("situation", "action", "outcome")})
    return {
        "id": row.id,
        "ids": [row.id],
        "kind": row.kind,
        "text": listed.text,
        "evidence": lesson.evidence,
        "held_back": listed.held_back,
        "labels": listed.labels,
        "examples": examples,
        "tools": lesson.tools,
        "runs": len(lesson.sources),
        "uses": uses._asdict(),
        "score": round(uses.score, 3),
        "retired": row.retired,
        "by": str(row.properties["distilled_by"]),
        "replaces": [str(former.row.properties.get("lesson", former.row.text)) for former in replaced],
    }


def _notes(notes: StoredLesson) -> Object:
    row = notes.row
    about = {name: row.properties[name] for name in ("version", "written_by")}
    named = {"id": row.id, "kind": row.kind, "text": row.text, "user": row.user, "retired": row.retired}
    return {**named, **about, "uses": notes.uses._asdict()}
