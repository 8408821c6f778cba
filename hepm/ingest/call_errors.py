"""What went wrong in a call: the lines of its result that say so, in the words that runs share."""

from __future__ import annotations

import re
from itertools import filterfalse
from typing import Final

from hepm.ingest.redact import Redactor
from hepm.types import ToolCall

ERROR_CHARS: Final = 90
_LINES_READ: Final = 400  # of one result: the first and the last half
_MOST_ERRORS: Final = 6  # of one call

# A line that says what went wrong; the others of a failed call are progress and stack frames.
_TELLING: Final = re.compile(
    r"error|exception|fail|refused|not found|denied|cannot|can't|could not|no such|unable|missing|invalid|required"
    r"|conflict|not (?:installed|allowed|defined|permitted|supported)|unknown|undefined|expired|locked|timed? ?out",
    re.IGNORECASE,
)
# "Found 0 errors" says that nothing went wrong.
_EMPTY: Final = re.compile(r"\b(?:0 errors?|no errors?|errors?: 0)\b", re.IGNORECASE)
# The last line of an error of pydantic, whose address says "missing" or "invalid".
_FOOTER: Final = re.compile(r"^\s*For further information visit http")
_INPUT: Final = re.compile(r"\[type=\w+, input_value=.*")  # of pydantic, too: what was wrong about it stands before
# Escape sequences of terminals: "\x1b[31m".
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# "2025-03-01T12:00:00Z ", "src/app.py:17:3: ", "E       ", "sqlite3.": what comes before the message itself.
_STAMP: Final = re.compile(r"^\W*\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\W*")
_LOCATION: Final = re.compile(r"^(?:[\w./\\~-]+[/\\])?[\w.-]+\.\w{1,4}:\d+(?::\d+)?:?\s*")
_PREFIX: Final = re.compile(r"^(?:E\s{2,}|(?:error|fatal|err)\b\W*:\s*)+", re.IGNORECASE)
_MODULES: Final = re.compile(r"^(?:\w+\.)+(?=\w*(?:Error|Exception)\b)")
# Hashes and UUIDs, paths, and numbers such as #12, A320 or the 7 of page_7: they differ between runs.
_LONG_ID: Final = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-fA-F]{6,}(?:-[0-9a-fA-F]{2,})*\b")
_ANY_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]+)+[/\\]?")
_NUMBER: Final = re.compile(r"#?\b[A-Z]{0,3}\d[\w.]*|(?<=_)\d+")


def errors_of(call: ToolCall) -> list[str]:
    """The telling lines of a failed call's result, normalised: without numbers, ids, paths and secrets."""
    text = _COLOUR.sub("", call.result or "")
    lines = list(filterfalse(_FOOTER.match, text.splitlines()))
    del lines[_LINES_READ // 2 : -_LINES_READ // 2]
    telling = list(filter(_TELLING.search, filterfalse(_EMPTY.search, lines)))
    if not telling:
        telling = list(filter(str.strip, lines))[-1:]
    # The last one first: programs end with what made them fail.
    errors = dict.fromkeys(map(normal_error, reversed(telling)))
    errors.pop("", None)
    return [*errors][:_MOST_ERRORS]


def normal_error(line: str) -> str:
    """An error as runs share it: "/srv/a.py:3: no table 17" gives "no table …"."""
    text = Redactor().text(line[:400]).strip()
    for needless in (_INPUT, _STAMP, _LOCATION, _PREFIX, _MODULES):
        text = needless.sub("", text)
    # Paths before ids and numbers: these are parts of paths.
    for pattern in (_ANY_PATH, _LONG_ID, _NUMBER):
        text = pattern.sub("…", text)
    text = re.sub(r"[\s<>\[\]`|{}]+", " ", text).strip(" -*=:>\t")
    text = re.sub(r"(?:… ?){2,}", "… ", text).strip()
    if len(text) > ERROR_CHARS:
        text = text[:ERROR_CHARS].rpartition(" ")[0] or text[:ERROR_CHARS]
    words = text.split()
    cut = sum("…" in word for word in words)
    # It says something if it has two words, and most of its words are whole.
    says_something = len(re.findall(r"[^\W\d_]{2,}", text)) > 1 and 2 * cut < len(words)
    return text if text.isprintable() and says_something else ""


def went_wrong(call: ToolCall) -> bool:
    """Whether a call failed, by its record or by how its result begins."""
    return call.error is True or (call.result or "").lstrip()[:5].lower() == "error"
