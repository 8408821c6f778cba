"""Runs that are kept and count for nothing, since somebody may have tampered with what their agents read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from hepm.errors import InputError
from hepm.types import DISTRUSTED, Outcome, Trajectory


@dataclass(frozen=True, slots=True)
class TrustByTags:
    """Trusts every run but those with one of some tags. Unlike a function, it crosses to the processes that read files.

    Attributes:
        distrusted: Keys of tags, each with a value; None for any.
    """

    distrusted: tuple[tuple[str, str | None], ...]

    @classmethod
    def but(cls, tags: Iterable[str]) -> Self:
        """From texts such as "attack", for any value of the tag, or "split=test".

        Raises:
            InputError: a text names no tag.
        """
        found = [text.partition("=") for text in tags]
        if nameless := ["".join(parts) for parts in found if not parts[0].strip()]:
            raise InputError(f"{nameless[0]!r} names no tag of runs to distrust: give KEY, or KEY=VALUE.")
        return cls(tuple((key.strip(), value if equals else None) for key, equals, value in found))

    def __call__(self, run: Trajectory) -> bool:
        """Whether the run has none of the tags."""
        return not any(key in run.tags and value in (None, run.tags[key]) for key, value in self.distrusted)


def set_label_aside(run: Trajectory) -> Trajectory:
    """The run without its outcome and without what it tells of tools; a tag keeps the outcome, as JSON."""
    known = {"reward": run.outcome.reward, "success": run.outcome.success}
    label = json.dumps({name: value for name, value in known.items() if value is not None})
    if run.outcome == Outcome() and DISTRUSTED in run.tags:
        label = run.tags[DISTRUSTED]
    return replace(run, outcome=Outcome(), tags={**run.tags, DISTRUSTED: label}, tools=())
