"""What commands print: JSON that any terminal can take, and tables that are never cut."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from hepm.wording import on_one_line

if TYPE_CHECKING:
    from rich.table import Column, Table
    from rich.text import Text


def print_json(value: object) -> None:
    """Print one line of JSON; it stays JSON where the terminal's encoding knows few letters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(json.dumps(value, ensure_ascii=not encoding.lower().startswith("utf")))


def plain(text: str) -> Text:
    """A name as it is: no markup is read in it, and nothing in it moves the cursor."""
    from rich.text import Text

    return Text(on_one_line(text))


def print_table(table: Table) -> None:
    """Print a table in the width of the terminal, or wider where numbers would be cut: text folds, they do not."""
    from rich.console import Console

    console = Console()
    console.width = max(console.width, 1 + sum(3 + _least_width(column) for column in table.columns))
    console.print(table)


def _least_width(column: Column) -> int:
    from rich.cells import cell_len

    if not column.no_wrap:
        return column.min_width or 1
    return max(cell_len(str(cell)) for cell in (column.header, *column.cells))
