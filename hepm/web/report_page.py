"""A report as one HTML file, with the runs that it names."""

from __future__ import annotations

import html
from typing import Final

from hepm.ingest.redact import Redactor
from hepm.memory import Memory
from hepm.report.report import Report
from hepm.web.document import filled
from hepm.web.transcripts import transcript_of

MOST_RUNS: Final = 300
"""Runs that the file holds, the first ones that the report names."""


def report_page(memory: Memory, report: Report) -> str:
    """The file."""
    redactor = Redactor()
    runs: dict[str, object] = {}
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
