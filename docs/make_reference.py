"""Write the parts of docs/settings.md that are made from the code: `python docs/make_reference.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hepm.cli.config import TABLES, ConfigFile, allowed_values, settings_of

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- made from the code: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def config_table() -> str:
    """The keys of `hepm.toml` as a table."""
    lines = ["| Key | | Value | Default |", "|---|---|---|---|"]
    for prefix, table in {"": ConfigFile, **TABLES}.items():
        defaults: Any = table()
        for name, (base, setting) in settings_of(table).items():
            default = getattr(defaults, name)
            shown = "" if default in (None, (), {}) else f"`{_toml(default)}`"
            key = f"`{prefix}.{name}`" if prefix else f"`{name}`"
            lines.append(f"| {key} | {setting.help} | {allowed_values(base, setting)} | {shown} |")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


PARTS = {"config": config_table}


def made(text: str) -> str:
    """A page with its marked parts made anew."""
    return BLOCK.sub(lambda block: block[1] + PARTS[block[2]]() + block[3], text)


def pages() -> dict[Path, str]:
    """Each page that has such parts, as it should be."""
    page = DOCS / "settings.md"
    return {page: made(page.read_text("utf-8"))}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, "utf-8")
