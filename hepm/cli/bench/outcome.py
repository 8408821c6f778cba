"""What a bench came to, or would take, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hepm.cli.options import print_json, print_table, tell
from hepm.types import Object

if TYPE_CHECKING:
    from rich.table import Table

    from hepm.llm import Budget, Prices


@dataclass(frozen=True, slots=True)
class PlayOutcome:
    """What a bench came to, or would take.

    Attributes:
        document: As --json prints it.
        parts: The same for people: tables and lines.
        ending: What ended it early, to be raised after the report.
    """

    document: Object
    parts: Sequence[Table | str]
    ending: Exception | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """What the benches of `hepm papers` share, which prints what they come to.

    Attributes:
        limits: The budget, and what tokens cost.
        judge: Model that labels runs, where it is another than the agent's; else "".
    """

    limits: tuple[Budget, Prices | None]
    judge: str = ""


def print_outcome(outcome: PlayOutcome, *, as_json: bool) -> None:
    """Print a report, then raise what ended it early."""
    if as_json:
        print_json(outcome.document)
    else:
        print_parts(outcome.parts)
    if outcome.ending is not None:
        raise outcome.ending


def print_parts(parts: Sequence[Table | str]) -> None:
    """Print the parts of a report."""
    for part in parts:
        if isinstance(part, str):
            tell(part)
        else:
            print_table(part)
