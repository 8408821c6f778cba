"""Who simulated users are: personas of our own, in place of those of Persona Hub (MultiSessionCollab 3.2)."""

from __future__ import annotations

from itertools import cycle, islice, product
from random import Random
from typing import Final

_WORK: Final = (
    "a nurse on night shifts", "a retired carpenter", "a student of law", "a train driver", "a farmer with two sons",
    "a shop assistant", "a violinist", "a teacher of chemistry", "a plumber", "an accountant", "a chess coach",
    "a translator", "a sailor", "a midwife", "a builder of boats", "a librarian",
)  # fmt: skip
_MANNER: Final = (
    "is impatient and types in haste", "is careful and reads everything twice", "is shy to admit what is unclear",
    "likes to joke", "thinks in pictures", "wants to understand why before how", "is easily distracted",
    "is proud of finding things out alone",
)  # fmt: skip
_KNOWS: Final = (
    "has forgotten most of school", "knows a lot about numbers and little about words",
    "reads much and calculates little", "has learned the subject once and wants to refresh it",
)  # fmt: skip


def personas(number: int, *, seed: int = 0) -> list[str]:
    """Different personas, up to 512; the first ones do not depend on how many there are."""
    every = [*product(_WORK, _MANNER, _KNOWS)]
    Random(f"{seed}/personas").shuffle(every)
    drawn: list[str] = []
    for work, manner, knows in islice(cycle(every), number):
        drawn.append(f"The user is {work}, {manner}, and {knows}.")
    return drawn
