"""What went wrong in a call: the lines of its result that say so, in the words that runs share."""

from __future__ import annotations

import re
from typing import Final

from hepm.ingest.redact import Redactor
from hepm.types import ToolCall

ERROR_CHARS: Final = 90

# A line that says what went wrong; the others of a failed call are progress and stack frames.
_TELLING: Final = re.compile(
    r"error|exception|fail|refused|not found|denied|cannot|can't|could not|no such|unable|missing|invalid|required"
    r"|conflict|not (?:installed|allowed|defined|permitted|supported)|unknown|undefined|expired|locked|timed? ?out",
    re.IGNORECASE,
)
_NEEDLESS: Final = (
    r"\[type=\w+, input_value=.*",  # of pydantic: what was wrong about it stands before
    r"^\W*\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\W*",  # "2025-03-01T12:00:00Z "
    r"^(?:[\w./\\~-]+[/\\])?[\w.-]+\.\w{1,4}:\d+(?::\d+)?:?\s*",  # "src/app.py:17:3: "
    r"(?i)^(?:E\s{2,}|(?:error|fatal|err)\b\W*:\s*)+",  # "E       "
    r"^(?:\w+\.)+(?=\w*(?:Error|Exception)\b)",  # "sqlite3."
)
"""What comes before and behind the message itself."""
_DIFFERING: Final = (
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]+)+[/\\]?",  # paths; ids and numbers are parts of them
    r"\b(?=[0-9a-f-]*\d)[0-9a-fA-F]{6,}(?:-[0-9a-fA-F]{2,})*\b",  # hashes and UUIDs
    r"#?\b[A-Z]{0,3}\d[\w.]*|(?<=_)\d+",  # numbers such as #12, A320 or the 7 of page_7
)
"""What differs between runs."""


def errors_of(call: ToolCall) -> list[str]:
    """The telling lines of a failed call's result, normalised: without numbers, ids, paths and secrets."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", call.result or "")  # the colours of terminals
    # The last line of an error of pydantic has an address that says "missing" or "invalid".
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("For further information visit http")]
    del lines[200:-200]
    # "Found 0 errors" says that nothing went wrong.
    no_error = r"(?i)\b(?:0 errors?|no errors?|errors?: 0)\b"
    telling = [line for line in lines if _TELLING.search(line) and not re.search(no_error, line)]
    telling = telling or list(filter(str.strip, lines))[-1:]
    # The last one first: programs end with what made them fail.
    errors = dict.fromkeys(map(normal_error, reversed(telling)))
    errors.pop("", None)
    return [*errors][:6]


def normal_error(line: str) -> str:
    """An error as runs share it: "/srv/a.py:3: no table 17" gives "no table …"."""
    text = Redactor().text(line[:400]).strip()
    for needless in _NEEDLESS:
        text = re.sub(needless, "", text)
    for differing in _DIFFERING:
        text = re.sub(differing, "…", text)
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
