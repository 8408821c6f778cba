"""An island that does not exist: 120 paragraphs of an encyclopedia on it, and questions that need several of them.

No model has read of it, so that a right answer was found by searching. All of it is in `data/island.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A title and a text."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its right answers, and the searches that lead there, in order.

    Attributes:
        kind: What kind of question it is; "" if unknown.
        split: "train", "test", or "" where nothing is published.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str = ""
    split: str = ""
    searches: tuple[str, ...] = ()


@cache
def _island() -> Mapping[str, Any]:
    return json.loads((Path(__file__).parent / "data" / "island.json").read_text("utf-8"))


def paragraphs() -> list[Paragraph]:
    """24 towns, people, bridges, novels and firms."""
    return [Paragraph(title, text) for title, text in _island()["paragraphs"]]


def questions() -> list[AskedQuestion]:
    """40 questions of five kinds, over two paragraphs each; of each kind the last three are the test split."""
    asked: list[AskedQuestion] = []
    for record in _island()["questions"]:
        # Tuples, as questions are hashed.
        lists = {"answers": tuple(record["answers"]), "searches": tuple(record["searches"])}
        asked.append(AskedQuestion(**record | lists))
    return asked
