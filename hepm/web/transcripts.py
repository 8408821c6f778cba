"""Runs as the pages show them, turn by turn, and the report as one file with the runs that it names."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Final

from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import request_of
from hepm.memory import Memory
from hepm.report.report import Report
from hepm.text import cut, cut_off
from hepm.types import Object, Objects, Trajectory, Turn
from hepm.web.document import filled

if TYPE_CHECKING:  # they need pydantic, which comes with `hepm[serve]` alone
    from hepm.web.answers import Transcript, TurnShown

MOST_RUNS: Final = 300
"""Runs that a report's file holds, the first ones that it names."""
MOST_TURNS: Final = 200
"""Turns that are shown of a run."""
REQUEST_CHARS: Final = 160
_TURN_CHARS: Final = 1_000


def report_page(memory: Memory, report: Report) -> str:
    """A report as one HTML file, with the runs that it names."""
    redactor = Redactor()
    runs: Object = {}
    for id in report.named_runs[:MOST_RUNS]:
        run = memory.run(id, namespace=report.namespace)
        if run is not None:
            runs[id] = transcript_of(redactor(run))
    scripts = ("elements.js", "transcript.js", "report.js", "report_page.js")
    namespace = html.escape(report.namespace)
    values = {"title": f"hepm report: {namespace}", "heading": f"Where agents go wrong: {namespace}"}
    data = {"report": report.to_json(), "runs": runs}
    page, _ = filled("report.html", data, values, scripts=scripts, styles=("live.css", "report.css"), drawing=False)
    return page


def transcript_of(run: Trajectory, *, stored: bool = True) -> Transcript:
    """A run with its turns; texts are cut, and secrets are to be removed before."""
    turns = [turn for turn in run.turns if turn.role != "system"]
    return {
        "id": run.id,
        "at": run.ended_at,
        "request": cut(request_of(run), REQUEST_CHARS),
        "task": run.task,
        "success": run.outcome.success,
        "environment": run.environment,
        "stored": stored,
        "turns": [_turn(turn) for turn in turns[:MOST_TURNS]],
        "all_turns": len(turns),
    }


def _turn(turn: Turn) -> TurnShown:
    calls: Objects = []
    for call in turn.calls:
        arguments = ""
        if call.arguments:
            arguments = json.dumps(call.arguments, default=str)
        calls.append(
            {
                "name": call.name,
                "error": call.error,
                "refused": call.refused,
                "arguments": cut_off(arguments, _TURN_CHARS),
                "result": cut_off(call.result or "", _TURN_CHARS),
            }
        )
    return {"role": turn.role, "text": cut_off(turn.text, _TURN_CHARS), "calls": calls, "hinted": list(turn.hinted)}
