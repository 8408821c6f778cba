"""Which lines of notes matter now, without a model: by similarity with what was said last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hepm.experience.library import Library
from hepm.experience.notes.lines import telling

LEXICAL_FLOOR: Final = 0.18
DENSE_FLOOR: Final = 0.38
"""Least cosine of a line that matters, for vectors of words and for those of a sentence model.

Of eleven wishes beside nine requests, of which eight pairs belong together, five of these pass by words, and four by
all-MiniLM-L6-v2; of the others one and none.
"""

_SENTENCES: Final = 20
_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")


def recalled(library: Library, lines: Sequence[str], context: str, *, k: int, floor: float | None) -> list[str]:
    """The k lines most similar to the context, or to one of its last sentences; ties in the order of the notes.

    A line is so short that a whole context would be far from all. Of words only those are compared that tell something:
    "please" and "the" are in most wishes and in most sentences. A sentence model reads both whole.
    """
    seen = _told if library.lexical else str
    parts = [context, *_END.split(context)[-_SENTENCES:]]
    asked = [part for part in dict.fromkeys(map(seen, parts)) if part.strip()]
    wishes = [(told, line) for line in lines if (told := seen(line))]
    if not asked or not wishes:
        return []
    vectors_ND = library.vectors([*asked, *(told for told, _ in wishes)])
    cosines_L = (vectors_ND[len(asked) :] @ vectors_ND[: len(asked)].T).max(axis=1)
    least = (LEXICAL_FLOOR if library.lexical else DENSE_FLOOR) if floor is None else floor
    ranked = sorted(range(len(wishes)), key=lambda at: -float(cosines_L[at]))
    return [wishes[at][1] for at in ranked if cosines_L[at] >= least][:k]


def _told(text: str) -> str:
    """The words that tell something."""
    return " ".join(sorted(telling(text)))
