"""Numbers and other people's texts in a sentence: in messages, tables and prompts."""

from __future__ import annotations

import json
import re
from typing import Final

CUT: Final = "…"
"""Ends a text that went on."""

NAME_CHARS: Final = 400
"""So much of a tool's name is told where it is none."""

# Calls may hold any text in place of a name.
_TOOL_NAME: Final = re.compile(r"[\w./-]{1,128}")
# What chat templates of models read as the end of a text or the beginning of a message.
_STEERING: Final = re.compile(r"[<>\[\]|`]|(?:system|user|assistant|human|tool|developer)\s*:", re.IGNORECASE)
# Characters that nobody sees and Python calls printable: fillers, and selectors of variants, which can carry any text.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def count_of(number: int, one: str, many: str = "") -> str:
    """A number with its noun, for people: "1 run", "1,204 runs"; `many` where an "s" does not make the plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def on_one_line(text: str) -> str:
    """A text with escapes in place of what would break or steer a line: line ends, control characters and the like."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quoted(text: str, limit: int) -> str:
    """A text as a JSON string on one line: nothing in it ends the quotation, hides, moves a cursor, opens a message."""
    cut = text if len(text) <= limit else text[: limit - 1].rstrip() + CUT
    line = json.dumps(" ".join(cut.split()), ensure_ascii=False)
    # Escapes stay JSON: who decodes the string reads the text as it was.
    line = _STEERING.sub(lambda match: "".join(_escaped(c) if c in "<>[]|`:" else c for c in match[0]), line)
    line = _UNSEEN.sub(lambda match: _escaped(match[0]), line)
    return "".join(c if c.isprintable() else _escaped(c) for c in line)


def tool_in_prompt(name: str) -> str:
    """A tool's name as a prompt tells it: as it is, or quoted and cut where no tool can be called so."""
    return name if _TOOL_NAME.fullmatch(name) else quoted(name, NAME_CHARS)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
