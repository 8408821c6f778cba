"""What memory says now: the next tools with their reasons, situations like this one, a text for the prompt."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.lessons import read_messages_file
from hepm.cli.model import ModelChoice, ModelOption, cost_of, tell_cost
from hepm.cli.options import JsonOption, Place, split_names
from hepm.cli.output import print_json
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.types import Suggestions


def suggest(
    place: Place,
    after: Annotated[
        str | None,
        Option(help="Tool of the last turn; several parallel ones comma-separated. Default: the start."),
    ] = None,
    history: Annotated[str | None, Option(help="All calls so far, oldest first, comma-separated.")] = None,
    state: Annotated[str | None, Option(help="What the agent knows now, in a few lines.")] = None,
    tools: Annotated[str | None, Option(help="Tools the agent has, comma-separated. Default: all.")] = None,
    k: Annotated[int, Option("-k", min=1, help="Maximum number.")] = 2,
    policy: Annotated[Literal["hybrid", "adaptive", "episodic", "procedural"], Option(help="How to rank.")] = "hybrid",
    c: Annotated[float, Option(min=0.0, help="Weight of efficiency in edge weights.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Suggest the next tools, or say why there is no opinion.

    Example: `hepm suggest --after get_order_details --state "wants to return two items" --namespace retail`
    """
    if not math.isfinite(c):
        raise click.BadParameter(f"{c} is no number to weigh with", param_hint="--c")
    with place.open() as memory:
        found = memory.suggest(
            split_names(after),
            history=split_names(history) or (),
            state=state,
            tools=split_names(tools),
            k=k,
            policy=policy,
            c=c,
            namespace=place.namespace,
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
    """For people, one item per line."""
    if found.abstained is not None:
        warned = f"\n{found.prompt()}" if found.warnings else ""
        return on_one_line(f"no suggestion: {found.abstained}") + warned
    lines = [found.prompt()]
    for s in found:
        lines.append(on_one_line(f"  {s.tool}  score {s.score:.2f}: {s.reason}"))
        if s.runs:
            lines.append(on_one_line(f"    runs: {', '.join(s.runs)}"))
    return "\n".join(lines)


def search(
    place: Place,
    text: Annotated[str, Argument(help="What the agent knows now, in a few lines.")],
    k: Annotated[int, Option("-k", min=1, help="Maximum number.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Find the states most similar to a text, over all tools, and what agents did next.

    Example: `hepm search "wants to return two items" --namespace retail`
    """
    with place.open() as memory:
        found = memory.search(text, k=k, namespace=place.namespace)
    if as_json:
        print_json({"found": [asdict(one) for one in found]})
        return
    for one in found:
        way = f"{', '.join(one.after)} → {', '.join(one.before)}"
        print(on_one_line(f"{one.similarity:.2f}  {way}  ({one.count}×, run {one.run})"))
        for line in one.summary.splitlines():
            print(on_one_line(f"      {line}"))
    if not found:
        print("nothing is remembered here")


def prompt(
    place: Place,
    messages: Annotated[
        Path | None, Option(help="The conversation so far: a file with OpenAI chat messages; - reads stdin.")
    ] = None,
    state: Annotated[str, Option(help="What the agent knows now, if there are no messages.")] = "",
    after: Annotated[str | None, Option(help="Tool of the last turn, or several, comma-separated.")] = None,
    history: Annotated[str | None, Option(help="All calls so far, oldest first, comma-separated.")] = None,
    tools: Annotated[str | None, Option(help="Tools the agent has, comma-separated. Default: all.")] = None,
    user: Annotated[str, Option(help="The user whose notes to include.")] = "",
    environment: Annotated[str, Option(help="Leave out lessons of other environments.")] = "",
    run: Annotated[str, Option(help="Id of the run; the lessons shown are credited with its outcome.")] = "",
    budget: Annotated[int, Option(min=1, help="Maximum number of tokens, approximately.")] = 1_000,
    k: Annotated[int, Option("-k", min=0, help="Maximum number of tools.")] = 2,
    experiences: Annotated[int, Option(min=0, help="Maximum number of experiences.")] = 3,
    principles: Annotated[int, Option(min=0, help="Maximum number of principles.")] = 3,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what memory adds to a prompt now: notes, principles, experiences by zone, the next tools.

    With a model, it chooses which experiences apply, and which lines of the user's notes matter now.

    Example: `hepm prompt --state "wants to return two items" --after get_order_details --user alice`
    """
    if messages is not None and (state or after or history):
        raise click.BadParameter("--state, --after and --history are read from --messages: give either")
    from hepm.experience.prompt import PromptOptions

    with place.open() as memory:
        # With a user, answers hold their words: kept where they are forgotten with the user.
        client = ModelChoice(model).client(memory, place.namespace, "user" if user else "lesson")
        told = memory.prompt(
            None if messages is None else read_messages_file(messages),
            state=state,
            after=split_names(after),
            history=split_names(history) or (),
            tools=split_names(tools),
            user=user,
            environment=environment,
            run=run,
            budget=budget,
            options=PromptOptions(
                suggestions=k,
                experiences=experiences,
                principles=principles,
                model=client,
            ),
            namespace=place.namespace,
        )
        if not as_json:
            silent = "there was no room: raise --budget" if told.left_out else "memory has nothing to say"
            print(told.text or silent)
            if told.text and told.left_out:
                print(f"no room for {', '.join(told.left_out)}: raise --budget", file=sys.stderr)
        else:
            print_json(
                {
                    "stable": told.stable,
                    "present": told.present,
                    "tokens": told.tokens,
                    "lessons": list(told.lessons),
                    "left_out": list(told.left_out),
                    "runs": list(told.runs),
                    "suggestions": to_json(told.suggestions),
                    "cost": cost_of(client),
                }
            )
    tell_cost(client)
