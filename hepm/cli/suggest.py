"""`hepm suggest`: the next tools, with the reason."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, open_existing, split_names
from hepm.cli.output import print_json
from hepm.text import on_one_line
from hepm.types import Suggestions


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number to weigh with")
    return value


def suggest(
    after: Annotated[
        str | None,
        typer.Option(help="Tool of the last turn; several, comma-separated, were called in parallel. None: the start."),
    ] = None,
    history: Annotated[str | None, typer.Option(help="All calls so far, oldest first, comma-separated.")] = None,
    state: Annotated[str | None, typer.Option(help="What the agent knows now, in a few lines.")] = None,
    tools: Annotated[str | None, typer.Option(help="Tools the agent has, comma-separated; left out: all.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 2,
    policy: Annotated[
        Literal["hybrid", "adaptive", "episodic", "procedural"], typer.Option(help="How to rank.")
    ] = "hybrid",
    c: Annotated[float, typer.Option(min=0.0, callback=_finite, help="Weight of efficiency in edge weights.")] = 1.0,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Suggest the tools to try next, or say why there is no opinion.

    Example: `hepm suggest --after get_order_details --state "wants to return two items" --namespace retail`
    """
    with open_existing(store, namespace) as memory:
        found = memory.suggest(
            split_names(after),
            history=split_names(history) or (),
            state=state,
            tools=split_names(tools),
            k=k,
            policy=policy,
            c=c,
            namespace=namespace,
        )
        if as_json:
            print_json(to_json(found))
        else:
            print(to_text(found))


def to_json(found: Suggestions) -> dict[str, object]:
    """As programs read it."""
    tools = [
        {
            "tool": s.tool,
            "score": round(s.score, 6),
            "support": s.support,
            "failure_share": round(s.failure_share, 6),
            "similarity": None if s.similarity is None else round(s.similarity, 6),
            "reason": s.reason,
            "runs": list(s.runs),
            "summaries": list(s.summaries),
        }
        for s in found
    ]
    warnings = [asdict(way) for way in found.warnings]
    return {"tools": tools, "warnings": warnings, "abstained": found.abstained, "prompt": found.prompt()}


def to_text(found: Suggestions) -> str:
    """As people read it, one thing a line."""
    if found.abstained is not None:
        warned = f"\n{found.prompt()}" if found.warnings else ""
        return on_one_line(f"no suggestion: {found.abstained}") + warned
    lines = [found.prompt()]
    for s in found:
        lines.append(on_one_line(f"  {s.tool}  score {s.score:.2f}: {s.reason}"))
        if s.runs:
            lines.append(on_one_line(f"    runs: {', '.join(s.runs)}"))
    return "\n".join(lines)
