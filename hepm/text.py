"""Format numbers and untrusted texts for messages, tables and prompts."""

from __future__ import annotations

import json
import re
from typing import Final

CUT: Final = "…"
NAME_CHARS: Final = 400
"""Maximum length of a quoted tool name in a prompt."""

_TOOL_NAME: Final = re.compile(r"[\w./-]{1,128}")
# What models' chat templates read as the end of a text or the start of a message.
_STEERING: Final = re.compile(r"[<>\[\]|`]|(?:system|user|assistant|human|tool|developer)\s*:", re.IGNORECASE)
# Invisible characters that Python calls printable: fillers, and variation selectors, which can carry any text.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def count_of(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 run", "1,204 runs"; `many` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def on_one_line(text: str) -> str:
    """A text with line ends, control characters and the like as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quoted(text: str, limit: int) -> str:
    """A text as a JSON string on one line, in which nothing can end the quotation, hide, or start a chat message."""
    cut = text if len(text) <= limit else text[: limit - 1].rstrip() + CUT
    line = json.dumps(" ".join(cut.split()), ensure_ascii=False)
    # Escapes stay JSON: decoding the string gives the original text.
    line = _STEERING.sub(lambda match: "".join(_escaped(c) if c in "<>[]|`:" else c for c in match[0]), line)
    line = _UNSEEN.sub(lambda match: _escaped(match[0]), line)
    return "".join(c if c.isprintable() else _escaped(c) for c in line)


def tool_in_prompt(name: str) -> str:
    """A tool's name in a prompt: unchanged if valid, otherwise quoted and cut."""
    plain = _TOOL_NAME.fullmatch(name) and not _UNSEEN.search(name)  # Hangul fillers are letters, and invisible
    return name if plain else quoted(name, NAME_CHARS)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
