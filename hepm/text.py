"""Format numbers and untrusted texts for messages, tables and prompts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import ValidationError

CUT: Final = "…"
NAME_CHARS: Final = 400
"""Maximum length of a quoted tool name in a prompt."""

_PLACE_CHARS: Final = 80
_OBJECT: Final = re.compile(r"a valid dictionary(?: or instance of \w+)?")  # as pydantic calls it
_NEARLY_SURE: Final = 0.95
_TOOL_NAME: Final = re.compile(r"[\w./-]{1,128}")
# What models' chat templates read as the end of a text or the start of a message.
_STEERING: Final = re.compile(r"[<>\[\]|`]|(?:system|user|assistant|human|tool|developer)\s*:", re.IGNORECASE)
# Invisible characters that Python calls printable: fillers, and variation selectors, which can carry any text.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)

# What begins HTML in Markdown, a link or its definition, a comment, and an address that runs code.
_MARKDOWN: Final = re.compile(
    r"<(?=[A-Za-z/?]|![A-Za-z\[])|<!(?=--)|--(?=>)|\](?=[(:\[])|\b(?:javascript|vbscript|data)(?=\s*:\S)", re.IGNORECASE
)
_MARKDOWN_CHARS: Final = 2_000

# The marks around what memory says and the beginnings of its lines, as a model may read them: in any case, with signs
# or invisible characters between. The bounds keep a search linear.
_NAME_OF_MARK: Final = r"[\W_]{0,8}" + r"[\W_]{0,8}".join("hepmmemory")
_OWN_MARKS: Final = {
    opened: re.compile(f"({re.escape(opened)})(?={_NAME_OF_MARK})", re.IGNORECASE)
    for opened in ("<", "\uff1c", "\ufe64", "&lt;", "\\u003c", "\\x3c")
}
_OWN_LINES: Final = {
    words[0]: re.compile("(" + r"[\W_]{1,8}".join(words) + r")(?=[\W_]{0,8}:)", re.IGNORECASE)
    for words in (("suggested", "next", "tools"), ("ways", "that", "failed", "from", "here"))
}
# English alone.
_FUNCTION_WORDS: Final = """
a about all also am an and any appreciate are as at be been but by bye can cheers could dear did do does for from get
give go good greetings had has have he hello help hey hi how if in is it its just know let like make many me more
morning much my need no not now of off ok okay on one or our out please regards right she should so some sure tell
thank thanks that the their them then there they this thx to too up us use very want was we well were what when where
which who why will with would yes you your
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""Words that say nothing of what a text is about."""


def count_of(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 run", "1,204 runs"; `many` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float) -> str:
    """A share in [0, 1] as "59 %"."""
    return f"{100 * share:.0f} %"


def on_one_line(text: str) -> str:
    """A text with line ends, control characters and the like as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def cut_off(text: str, limit: int) -> str:
    """A text cut to so many characters, the mark of it included."""
    return text if len(text) <= limit else text[: limit - 1] + CUT


def cut(text: str, limit: int) -> str:
    """A text with single blanks, cut to so many characters."""
    return cut_off(" ".join(text.split()), limit)


def in_markdown(text: str) -> str:
    """A text of others on one line of Markdown, in which nothing is HTML, a link, a comment or invisible; it is cut.

    A blank in the right place disarms each of these, so that people and agents read the same words.
    """
    line = " ".join(text[:_MARKDOWN_CHARS].split())
    if len(text) > _MARKDOWN_CHARS:
        line += CUT
    line = _UNSEEN.sub(lambda match: _escaped(match[0]), _MARKDOWN.sub(r"\g<0> ", line))
    return on_one_line(line)


def quoted(text: str, limit: int) -> str:
    """A text as a JSON string on one line, in which nothing can end the quotation, hide, or start a chat message."""
    cut = text if len(text) <= limit else text[: limit - 1].rstrip() + CUT
    line = json.dumps(" ".join(cut.split()), ensure_ascii=False)
    # Escapes stay JSON: decoding the string gives the original text.
    line = _STEERING.sub(lambda match: "".join(_escaped(c) if c in "<>[]|`:" else c for c in match[0]), line)
    line = _UNSEEN.sub(lambda match: _escaped(match[0]), line)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else _escaped(c) for c in line)


def disarmed(text: str) -> str:
    """A text of others, in which nothing has the form of what memory says; it stays readable, and is said to be quoted.

    `text` itself if nothing has. Models trust what stands between memory's marks, so no tool result may bring its own.
    """
    lower = text.lower()  # of most texts this is all
    for opened, mark in _OWN_MARKS.items():
        if opened in lower:
            text = mark.sub(r"\1quoted ", text)
    for word, line in _OWN_LINES.items():
        if word in lower:
            text = line.sub(r"\1 (quoted)", text)
    return text


def tool_in_prompt(name: str) -> str:
    """A tool's name in a prompt: unchanged if valid, otherwise quoted and cut."""
    plain = _TOOL_NAME.fullmatch(name) and not _UNSEEN.search(name)  # Hangul fillers are letters, and invisible
    return name if plain else quoted(name, NAME_CHARS)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))


def in_words(chance: float) -> str:
    """The chance that a hint is right, as an agent can weigh it: "9 of 10 such successful runs did so"."""
    if chance >= _NEARLY_SURE:
        return "19 of 20 such successful runs did so"
    if chance < 1 - _NEARLY_SURE:
        return "hardly any such successful run did so"
    return f"{round(chance * 10)} of 10 such successful runs did so"


def day_of(ended_at: float | None) -> str | None:
    """The day of a time in UTC, as "2026-11-21"; None where unknown or beyond the calendar."""
    if ended_at is None:
        return None
    try:
        return datetime.fromtimestamp(ended_at, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return None


def what_is_wrong(error: ValidationError, most: int = 10) -> str:
    """The first things that are wrong in values, each with its place."""
    wrong: list[str] = []
    # Without the values: they may be private, and errors end up in logs.
    for one in error.errors(include_url=False, include_context=False, include_input=False)[:most]:
        where = ".".join(map(str, one["loc"])) or "the object"
        said = _OBJECT.sub("an object", one["msg"].removeprefix("Value error, "))
        wrong.append(f"{where[:_PLACE_CHARS]}: {said}")
    return "; ".join(wrong)
