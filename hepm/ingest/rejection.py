"""What a reader says of a record that it could not read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """Something that could not be read, and why.

    Attributes:
        file: As shown to people; a member of an archive reads "runs.tar.xz!a/b.json".
        record: Number of the record from 1 (in JSON lines: the line); None for a whole file.
        reason: One sentence.
    """

    file: str
    record: int | str | None
    reason: str
