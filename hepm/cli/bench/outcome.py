"""What a bench came to, or would take, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hepm.cli.options import print_json, print_table
from hepm.text import count_of
from hepm.types import Object

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from hepm.llm import Budget, Prices, Usage


@dataclass(frozen=True, slots=True)
class PlayOutcome:
    """What a bench came to, or would take.

    Attributes:
        document: As --json prints it.
        parts: The same for people.
        ending: What ended it early, to be raised after the report.
        usage: What it would take; None for what was played, and where nothing is there to tell by.
    """

    document: Object
    parts: Sequence[Table | Text | str]
    ending: Exception | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """What the benches of one command share.

    Attributes:
        limits: The budget, and what tokens cost.
        scratch: A folder for what a dry run makes.
        many: Whether the command makes several benches, and prints what they come to.
        judge: Model that labels runs, where it is another than the agent's; else "".
    """

    limits: tuple[Budget, Prices | None]
    scratch: Path
    many: bool = False
    judge: str = ""


def print_outcome(outcome: PlayOutcome, *, as_json: bool) -> None:
    """Print a report, then raise what ended it early."""
    if as_json:
        print_json(outcome.document)
    else:
        print_parts(outcome.parts)
    if outcome.ending is not None:
        raise outcome.ending


def print_parts(parts: Sequence[Table | Text | str]) -> None:
    """Print the parts of a report; a str on one line of any length."""
    from rich.console import Console
    from rich.table import Table

    for part in parts:
        if isinstance(part, str):
            print(part)
        # A table that must not be cut; sentences and other tables fit any width.
        elif isinstance(part, Table) and part.columns[0].no_wrap:
            print_table(part)
        else:
            Console().print(part)


def estimated(number: int, usage: Usage | None, what: str, place: Path, prices: Prices | None) -> PlayOutcome:
    """What a dry run came to, with the cost where prices are known; no usage if nothing was played to tell by."""
    document: Object = {"dry_run": True, f"{what}s": number}
    made = count_of(number, what)
    if usage is None:
        takes = "be played; what that takes is known once some are: begin with a small --budget"
        return PlayOutcome(document, [f"{made} would {takes}, in {place}"])
    document |= {"calls": usage.calls, "tokens": usage.tokens}
    takes = f"about {count_of(usage.calls, 'call')} and {count_of(usage.tokens, 'token')}"
    if prices is not None:
        document["cost_usd"] = prices.cost_usd(usage)
        takes += f" (${document['cost_usd']:,.2f})"
    return PlayOutcome(document, [f"{made} would take {takes}, in {place}"], usage=usage)
