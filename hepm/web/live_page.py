"""The page of `hepm serve`: the live graph, what was suggested, and lessons to read and change.

The document at `/` contains no data and is open to every client. The data come from `/api`, which the guard checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from datetime import time as time_of_day
from functools import cached_property, partial
from time import monotonic
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from hepm.agents.guard import access_of, namespace_of
from hepm.agents.live_run import Bounded
from hepm.agents.runs import LiveRuns
from hepm.errors import NotFoundError
from hepm.experience.lessons import ListedLesson, listed_lessons
from hepm.graph.lessons.rows import PENDING, StoredLesson
from hepm.graph.rows import LAST_ROW, RunFilter
from hepm.ingest.transitions import request_of
from hepm.report.forks import Fork
from hepm.report.receipts import monday_of, week_of
from hepm.report.report import Report
from hepm.text import cut
from hepm.types import Object, Objects
from hepm.uplift.effect_text import ADJUSTED, COLUMNS
from hepm.web.answers import (
    EdgeQuery,
    FoundRuns,
    GraphQuery,
    LessonsQuery,
    ReportGiven,
    Retirement,
    RunQuery,
    RunsQuery,
    Transcript,
)
from hepm.web.document import filled
from hepm.web.doors import HEADERS, Door
from hepm.web.graph_page import graph_data, texts_of
from hepm.web.transcripts import REQUEST_CHARS, transcript_of

MOST_RUNS: Final = 50
"""Stored runs that are listed."""
MOST_LISTED: Final = 100
"""Hints, runs or lessons of one answer."""

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
_MOST_CHOICES: Final = 500  # of a filter


def routes(runs: LiveRuns) -> tuple[Route, list[Door]]:
    """The page, and the doors of its data."""
    page = _Page(runs)

    door = partial(Door, page=ThreadPoolExecutor(1, thread_name_prefix="hepm-page"))
    return Route("/", page.document), [
        door("GET", "/api/now", page.now),
        door("GET", "/api/graph", page.graph, refuses=(404,)),
        door("GET", "/api/edge", page.edge),
        door("GET", "/api/report", page.report),
        door("GET", "/api/runs", page.found_runs),
        door("GET", "/api/run", page.run, refuses=(404,)),
        door("GET", "/api/advice", page.advice),
        door("GET", "/api/lessons", page.lessons),
        door("POST", "/api/lessons", page.retire_or_revive, writes=True, refuses=(404,)),
    ]


class _Page:
    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs
        self._memory = runs.memory
        # By what it is and the namespace: the revision that it was made at, until when it stands, and itself.
        self._kept = Bounded[tuple[str, str, str], tuple[int, float, Any]](24)

    # HTTP

    async def document(self, request: Request) -> Response:
        return self._document

    @cached_property
    def _document(self) -> Response:
        nothing: Object = {"start": None, "focus": None, "base": None, "tools": [], "edges": []}
        rules = ("connect-src 'self'", "img-src data:")
        values = {"title": "hepm"}
        styles = ("live.css", "report.css")
        html, policy = filled("live.html", nothing, values, scripts=_SCRIPTS, styles=styles, rules=rules)
        return HTMLResponse(html, headers={**HEADERS, "content-security-policy": f"{policy}; frame-ancestors 'none'"})

    def _made(self, what: str, namespace: str, make: Callable[[], Any], about: str = "") -> Any:
        """What `make` gives, kept until the memory changed and ten times the time that it took has passed."""
        key = (what, namespace, about)
        revision = self._memory.header.revision
        kept = self._kept.get(key)
        if kept is None or (kept[0] != revision and monotonic() > kept[1]):
            began = monotonic()
            value = make()
            ended = monotonic()
            # So that runs under way go first.
            kept = (revision, ended + 10 * (ended - began), value)
        self._kept[key] = kept
        return kept[2]

    # Runs and hints

    def now(self, request: Request) -> Object:
        """What is under way in a namespace, the latest hints, and the counts of what it holds."""
        namespace = namespace_of(request)
        access = access_of(request)
        memory = self._memory
        recent = list(self._runs.recent.get(namespace, ()))[: -MOST_LISTED - 1 : -1]
        under_way = self._runs.under_way(namespace)
        shown = under_way[:MOST_LISTED]
        stored = memory.store.find_known([hint.run for hint in recent], namespace=namespace)
        requests = self._requests_of([*[hint.run for hint in recent], *[run.id for run in shown]], namespace)
        hints: Objects = []
        for hint in recent:
            success = stored[hint.run].success if hint.run in stored else None
            hints.append({**asdict(hint), "success": success, "request": requests[hint.run]})
        open_runs: Objects = []
        for run in shown:
            open_runs.append({"id": run.id, "door": run.door, "at": run.touched, "request": requests[run.id]})
        # A copy: other threads count while the page reads.
        all_counts = list(self._runs.counts.items())
        uplift = memory.sessions.uplift(namespace=namespace, lately=True).to_json()
        guard = "off"
        if memory.sessions.guarded:
            guard = memory.sessions.guard(namespace=namespace).sentence
        return {
            "namespace": namespace,
            "namespaces": sorted({namespace, *filter(access.to, memory.namespaces())}),
            "write": access.write,
            "revision": memory.header.revision,
            "totals": memory.totals(namespace=namespace),
            "counts": {counted: count for (counted, counted_in), count in all_counts if counted_in == namespace},
            "runs": open_runs,
            "open_runs": len(under_way),
            "hints": hints,
            "guard": guard,
            "uplift": {**uplift, "columns": COLUMNS, "adjusted": ADJUSTED, "holdout": memory.holdout},
        }

    # The graph

    def graph(self, request: Request, query: GraphQuery) -> Object:
        """The graph as the page draws it; with `tool`, that tool and its neighbours."""
        namespace = namespace_of(request)

        def draw() -> Object:
            self._memory.refresh(defer=True)
            # The report takes seconds: forks are marked once it was looked at.
            report = self._kept.get(("report", namespace, ""))
            forks: Sequence[Fork] = ()
            if report is not None:
                forks = report[2].forks
            return graph_data(self._memory, namespace, focus=query.tool or None, evidence=False, forks=forks)

        return self._made("graph", namespace, draw, query.tool)

    def edge(self, request: Request, query: EdgeQuery) -> Object:
        """Runs and summaries behind the edge between two tools."""
        ends = query.source, query.target
        namespace = namespace_of(request)
        (behind,) = self._memory.mirror(namespace).evidence_of([ends])
        texts = texts_of(behind)
        return {**texts, "requests": self._requests_of(texts["runs"], namespace)}

    # Runs

    def report(self, request: Request) -> ReportGiven:
        """Where agents go wrong, as it was known lately."""
        namespace = namespace_of(request)
        report: Report = self._made("report", namespace, lambda: self._memory.report(namespace=namespace))
        return cast(ReportGiven, report.to_json())

    def found_runs(self, request: Request, query: RunsQuery) -> FoundRuns:
        """Stored runs that a filter leaves, the latest first, and what it can be set to."""
        namespace = namespace_of(request)
        store = self._memory.store
        since = until = None
        if query.week is not None:
            since = datetime.combine(query.week, time_of_day.min, UTC).timestamp()
            until = since + 7 * _DAY_S
        words = query.model_dump(exclude={"week", "before"})
        run_filter = RunFilter(**{name: value or None for name, value in words.items()}, since=since, until=until)
        before = int(query.before or LAST_ROW)
        found = store.runs_found(run_filter, namespace=namespace, before=min(before, LAST_ROW), limit=MOST_RUNS)
        redactor = self._runs.page_redactor()
        runs: Objects = []
        for about in found:
            line = cut(redactor.text(about.request), REQUEST_CHARS)
            runs.append({**about._asdict(), "at": about.ended_at, "request": line})
        choices = self._made("choices", namespace, lambda: self._choices(namespace))
        return cast(FoundRuns, {"runs": runs, "more": len(found) == MOST_RUNS, **choices})

    def _choices(self, namespace: str) -> Object:
        """The tools, models and weeks that stored runs have."""
        store = self._memory.store
        weeks = {week_of(day * _DAY_S) for day in store.outcomes_by_day(namespace=namespace)}
        return {
            "tools": sorted(store.called_tools(namespace=namespace))[:_MOST_CHOICES],
            "models": store.models(namespace=namespace, most=10_000)[:_MOST_CHOICES],
            "weeks": list(map(monday_of, sorted(weeks, reverse=True)[:_MOST_CHOICES])),
        }

    def run(self, request: Request, query: RunQuery) -> Transcript:
        """One run, stored or under way, turn by turn, without secrets."""
        namespace = namespace_of(request)
        id = query.id
        live = {run.id: run for run in self._runs.under_way(namespace)}
        run = live[id].session.so_far if id in live else self._memory.run(id, namespace=namespace)
        if run is None:
            raise NotFoundError(f"there is no run {id!r} in {namespace!r}")
        return transcript_of(self._runs.page_redactor()(run), stored=id not in live)

    def advice(self, request: Request) -> Object:
        """What keeps memory from helping here, as it was known lately."""
        from hepm.memory.obstacles import obstacles

        namespace = namespace_of(request)
        return {"advice": self._made("advice", namespace, lambda: obstacles(self._memory, namespace=namespace))}

    def _requests_of(self, runs: Sequence[str], namespace: str) -> dict[str, str]:
        """What was asked for in each run, without secrets; "" if it is not known."""
        requests = dict.fromkeys(runs, "")
        for id, about in self._memory.store.about_runs(runs, namespace=namespace).items():
            requests[id] = cut(about.request, REQUEST_CHARS)
        redactor = self._runs.page_redactor()
        for run in self._runs.under_way(namespace):
            if run.id in requests:
                requests[run.id] = cut(redactor.text(request_of(run.session.so_far)[:4_000]), REQUEST_CHARS)
        return requests

    # Lessons

    def lessons(self, request: Request, query: LessonsQuery) -> Object:
        """Lessons of a kind that contain every word of a query.

        What waits for approval comes first, then what prompts show: principles of most runs first, experiences the
        newest first, as are notes.
        """
        self._memory.refresh(defer=True)
        bank = self._memory.lessons
        namespace = namespace_of(request)
        newest_first = bank.list(query.kind, namespace=namespace, retired=True)[::-1]
        stored = [lesson for lesson in newest_first if query.retired == "true" or not lesson.row.is_retired]
        if query.kind == "notes":
            cards = list(map(_notes, stored))
        else:
            listed = list(listed_lessons(stored))
            if query.kind == "principle":
                listed.sort(key=ListedLesson.by_support)
            # The sort is stable: within each part lessons stay in order.
            listed.sort(key=lambda one: (one.stored.row.retired != PENDING, one.held_back))
            cards = [_card(one, bank.replaced_by(one.stored.row, namespace=namespace)) for one in listed]
        matching = [card for card in cards if all(word in _searched(card) for word in query.q.lower().split())]
        pending = len(bank.pending(namespace=namespace))
        return {"lessons": matching[:MOST_LISTED], "total": len(matching), "pending": pending}

    def retire_or_revive(self, request: Request, change: Retirement) -> Object:
        """Keep a principle or an experience from hints, or let it be found: reject or approve it."""
        id = change.id
        kind = change.kind
        namespace = namespace_of(request)
        bank = self._memory.lessons
        stored = bank.lessons(namespace).get(id)
        if stored is None or stored.row.kind != kind:
            raise NotFoundError(f"there is no {kind} {id!r} in {namespace!r}")
        apply = bank.retire if change.retired else bank.revive
        return {"id": id, "retired": change.retired, "changed": apply(id, namespace=namespace)}


def _searched(card: Object) -> str:
    """What words are looked for in: all that the page shows of a lesson but its uses, in lower case."""
    return " ".join([str(value) for name, value in card.items() if name != "uses"]).lower()


def _card(listed: ListedLesson, replaced: Sequence[StoredLesson]) -> Object:
    """A lesson as the page shows it, with what it would replace."""
    row = listed.stored.row
    lesson = listed.lesson
    about: Object = {}
    if row.kind == "experience":
        about = {name: row.properties[name] for name in ("situation", "action", "outcome")}
    return {
        "id": row.id,
        "kind": row.kind,
        "text": listed.text,
        "evidence": lesson.evidence,
        "held_back": listed.held_back,
        "labels": listed.labels,
        "about": about,
        "tools": row.tools,
        "runs": len(row.sources),
        "uses": listed.stored.uses._asdict(),
        "retired": row.retired,
        "by": lesson.distilled_by,
        "replaces": [former.row.properties.get("lesson", former.row.text) for former in replaced],
    }


def _notes(notes: StoredLesson) -> Object:
    row = notes.row
    return {
        "id": row.id,
        "kind": row.kind,
        "text": row.text,
        "user": row.user,
        "version": row.properties["version"],
        "by": row.properties["written_by"],
    }
