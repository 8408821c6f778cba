"""`hepm suggest`, `hepm search` and `hepm prompt`: what memory says now."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.lessons import read_messages_file
from hepm.cli.model import ModelChoice, ModelOption, cost_of, tell_cost
from hepm.cli.options import JsonOption, Place, split_names
from hepm.cli.output import print_json
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.types import Suggestions


@dataclass(frozen=True, slots=True)
class Calls:
    """The options about what was called, and what can be."""

    after: Annotated[
        str | None,
        Option(help="Tool of the last turn; several parallel ones comma-separated. Default: the start."),
    ] = None
    history: Annotated[str | None, Option(help="All calls so far, oldest first, comma-separated.")] = None
    tools: Annotated[str | None, Option(help="Tools the agent has, comma-separated. Default: all.")] = None

    def names(self) -> dict[str, Any]:
        """The arguments of `Memory.suggest` and `Memory.prompt`."""
        return {
            "after": split_names(self.after),
            "history": split_names(self.history) or (),
            "tools": split_names(self.tools),
        }


def suggest(
    place: Place,
    calls: Calls,
    state: Annotated[str | None, Option(help="What the agent knows now, in a few lines.")] = None,
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
        found = memory.suggest(state=state, k=k, policy=policy, c=c, namespace=place.namespace, **calls.names())
        if as_json:
            print_json(to_json(found))
        else:
            print(to_text(found))


def to_json(found: Suggestions) -> dict[str, object]:
    """The JSON of `hepm suggest`."""
    names = ("tool", "score", "support", "failure_share", "similarity", "reason", "runs", "summaries")
    values = [{name: getattr(one, name) for name in names} for one in found]
    tools = [{name: round(v, 6) if isinstance(v, float) else v for name, v in one.items()} for one in values]
    warnings = [asdict(way) for way in found.warnings]
    return {"tools": tools, "warnings": warnings, "abstained": found.abstained, "prompt": found.prompt()}


def to_text(found: Suggestions) -> str:
    """The lines of `hepm suggest`."""
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
    calls: Calls,
    messages: Annotated[
        Path | None, Option(help="The conversation so far: a file with OpenAI chat messages; - reads stdin.")
    ] = None,
    state: Annotated[str, Option(help="What the agent knows now, if there are no messages.")] = "",
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
    if messages is not None and (state or calls.after or calls.history):
        raise click.BadParameter("--state, --after and --history are read from --messages: give either")
    from hepm.experience.prompt import PromptOptions

    with place.open() as memory:
        # With a user, answers contain the user's words: they are stored to be forgotten with the user.
        client = ModelChoice(model).client(memory, place.namespace, "user" if user else "lesson")
        found = memory.prompt(
            None if messages is None else read_messages_file(messages),
            state=state,
            user=user,
            environment=environment,
            run=run,
            budget=budget,
            options=PromptOptions(suggestions=k, experiences=experiences, principles=principles, model=client),
            namespace=place.namespace,
            **calls.names(),
        )
        if as_json:
            parts = {name: getattr(found, name) for name in ("stable", "present", "tokens")}
            parts |= {name: list(getattr(found, name)) for name in ("lessons", "left_out", "runs")}
            print_json({**parts, "suggestions": to_json(found.suggestions), "cost": cost_of(client)})
        else:
            silent = "there was no room: raise --budget" if found.left_out else "memory has nothing to say"
            print(found.text or silent)
            if found.text and found.left_out:
                print(f"no room for {', '.join(found.left_out)}: raise --budget", file=sys.stderr)
    tell_cost(client)
