"""The situation of an agent in words: what an experience begins with, and what one is looked for by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hepm.experience.distilling.transcript import listed, plain
from hepm.types import StateSummary

SITUATION_CHARS: Final = 600
ENVIRONMENT_CHARS: Final = 48
_MESSAGE_CHARS: Final = 300  # of one message, so that the next ones, where users name themselves, have room


def situation_text(environment: str, known: StateSummary) -> str:
    """Where, what the user wants in the user's words, and what had been called by then; one line of bounded length.

    What tools returned is left out: measured, it finds nothing more, and it is where others may write.
    An agent's own summary stands for what the user said.
    """
    place = f"In {plain(environment, ENVIRONMENT_CHARS)}. " if environment else ""
    after = f" Before: {listed(dict.fromkeys(known.tools))}." if known.tools else ""
    if known.tools and known.failed:
        after += " The last result was an error."
    words = _words((known.own,) if known.own else known.said, SITUATION_CHARS - len(place) - len(after) - 8)
    said = f'{"Known" if known.own else "User"} "{words}"' if words else "No user spoke."
    return f"{place}{said}{after}"


def _words(said: Iterable[str], limit: int) -> str:
    """What was said, oldest first, cut."""
    messages = dict.fromkeys(plain(text, _MESSAGE_CHARS).replace('"', "'") for text in said)
    return plain(" / ".join(message for message in messages if message), limit)
