"""What a bench came to, or would take, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
        usage: What it would take; None for what was played.
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
        piloting: Whether each makes a pilot only, and says what the rest takes.
        stand_ins: The stores that small rounds filled, by those that the rounds of a dry run or pilot would fill.
    """

    limits: tuple[Budget, Prices | None]
    scratch: Path
    many: bool = False
    judge: str = ""
    piloting: bool = False
    stand_ins: dict[str, str] = field(default_factory=dict[str, str])


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


def estimated(
    number: int, usage: Usage, what: str, place: Path, prices: Prices | None, *, again: int = 0
) -> PlayOutcome:
    """What a dry run or pilot came to, with the cost where prices are known.

    Args:
        again: How many of the runs broke off before, and are made anew.
    """
    cost = prices and prices.cost_usd(usage)
    document: Object = {"dry_run": True, f"{what}s": number, "calls": usage.calls, "tokens": usage.tokens}
    if cost is not None:
        document["cost_usd"] = cost
    made = count_of(number, what)
    if again:
        document["again"] = again
        made += f" ({again:,} broke off before)"
    return PlayOutcome(document, [f"{made} would take {about_usage(usage, cost)}, in {place}"], usage=usage)


def about_usage(usage: Usage, cost_usd: float | None) -> str:
    """ "about 12 calls and 4,567 tokens ($0.12)"."""
    about = f"about {count_of(usage.calls, 'call')} and {count_of(usage.tokens, 'token')}"
    if cost_usd is not None:
        about += f" (${cost_usd:,.2f})"
    return about
