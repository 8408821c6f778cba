"""`hepm prompt`: what memory would put into an agent's prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hepm.cli.lessons import read_messages_file
from hepm.cli.model import ModelChoice, ModelOption, cost_of, tell_cost
from hepm.cli.options import NAMESPACE, STORE, JsonOption, NamespaceOption, StoreOption, open_existing, split_names
from hepm.cli.output import print_json
from hepm.cli.suggest import to_json


def prompt(
    messages: Annotated[
        Path | None, typer.Option(help="The conversation so far: a file with OpenAI chat messages; - reads stdin.")
    ] = None,
    state: Annotated[str, typer.Option(help="What the agent knows now, where there are no messages.")] = "",
    after: Annotated[str | None, typer.Option(help="Tool of the last turn, or several, comma-separated.")] = None,
    history: Annotated[str | None, typer.Option(help="All calls so far, oldest first, comma-separated.")] = None,
    tools: Annotated[str | None, typer.Option(help="Tools the agent has, comma-separated; left out: all.")] = None,
    user: Annotated[str, typer.Option(help="Whose notes to tell.")] = "",
    environment: Annotated[str, typer.Option(help="Leave out lessons of other environments.")] = "",
    run: Annotated[str, typer.Option(help="Id of the run: what is told is remembered and credited.")] = "",
    budget: Annotated[int, typer.Option(min=1, help="At most about so many tokens.")] = 1_000,
    k: Annotated[int, typer.Option("-k", min=0, help="At most so many tools.")] = 2,
    experiences: Annotated[int, typer.Option(min=0, help="At most so many experiences.")] = 3,
    principles: Annotated[int, typer.Option(min=0, help="At most so many principles.")] = 3,
    model: ModelOption = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Say what memory would tell an agent now: notes, principles, experiences by zone, the next tools.

    With a model, it chooses which experiences apply, and which lines of the user's notes matter now.

    Example: `hepm prompt --state "wants to return two items" --after get_order_details --user alice`
    """
    if messages is not None and (state or after or history):
        raise typer.BadParameter("--state, --after and --history are read from --messages: give either")
    from hepm.experience.prompt import PromptOptions

    with open_existing(store, namespace) as memory:
        # With a user, answers hold their words: kept where they are forgotten with the user.
        client = ModelChoice(model).client(memory, namespace, "user" if user else "lesson")
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
            namespace=namespace,
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
