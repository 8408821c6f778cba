"""`hepm uplift`: what memory does, by sessions that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hepm.cli.commands import command
from hepm.cli.options import json_option, print_json, print_rows, tell, with_namespaces
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.memory import Memory
    from hepm.uplift.report import UpliftReport


@command("uplift")
@with_namespaces
@json_option
def uplift(memory: Memory, namespaces: Sequence[str], store: str, as_json: bool) -> None:
    """Say what memory does: success of sessions with memory, less that of those held out.

    Example: `hepm uplift --store runs.hepm`, after `hepm serve --holdout 0.1`
    """
    from hepm.uplift.effect_text import COLUMNS

    reports = [memory.sessions.uplift(namespace=name) for name in namespaces]
    # Namespaces without a session say nothing, unless none has any.
    reports = [one for one in reports if one.sessions or one.shadow or any(one.without_outcome.values())] or reports[:1]
    if as_json:
        print_json({"store": store, "namespaces": {report.namespace: report.to_json() for report in reports}})
        return
    if not reports:
        print("No run is stored yet.")
    for report in reports:
        tell(f"{report.namespace}: {report.sentence}" if len(reports) > 1 else report.sentence)
        if report.sessions:
            controls = f"{report.controls:,} of them without memory"
            title = f"{count_of(report.sessions, 'session')} with an outcome, {controls}"
            print_rows(["", *COLUMNS], [measured.cells for measured in report.measures], title)
            _remark_on(report)


def _remark_on(report: UpliftReport) -> None:
    from hepm.uplift.effect_text import ADJUSTED

    if report.success is not None:
        tell(f"{ADJUSTED} ({count_of(report.kinds, 'kind')} of requests)")
    waiting = sum(report.without_outcome.values())
    if waiting:
        by_arm = ", ".join(f"{number:,} {arm}" for arm, number in report.without_outcome.items())
        tell(f"{count_of(waiting, 'session')} without an outcome count for nothing ({by_arm})")
    if report.shadow is not None:
        tell(report.shadow.sentence)
