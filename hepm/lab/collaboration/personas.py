"""Who simulated users are: personas of our own, in place of those of Persona Hub (MultiSessionCollab 3.2)."""

from __future__ import annotations

from itertools import cycle, islice, product
from random import Random

from hepm.lab.collaboration.data import WRITTEN


def personas(number: int, *, seed: int = 0) -> list[str]:
    """Different personas, up to 512; the first ones do not depend on how many there are."""
    parts = WRITTEN["personas"]
    every = [*product(parts["work"], parts["manner"], parts["knows"])]
    Random(f"{seed}/personas").shuffle(every)
    drawn: list[str] = []
    for work, manner, knows in islice(cycle(every), number):
        drawn.append(f"The user is {work}, {manner}, and {knows}.")
    return drawn
