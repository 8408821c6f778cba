"""What evolution is told and what it tells: settings, the steps it took, and their sum (PRIME 3.2, appendix A)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from hepm.errors import InputError
from hepm.experience.lessons import Experience

Operator: TypeAlias = Literal["mutation", "generalisation", "crossover"]
OPERATORS: Final[tuple[Operator, ...]] = ("mutation", "generalisation", "crossover")

Became: TypeAlias = Literal["kept", "rejected", "nothing", "failed", "unasked", "refused", "pruned"]
"""What became of a step.

- kept: the child is in the library.
- rejected: it is found worse than its parent on held-out tasks.
- nothing: the operator had nothing to change, or said what another experience says.
- failed: the model gave no usable answer.
- unasked: the budget had no room for the question.
- refused: its run was forgotten meanwhile.
- pruned: the experience is found no more.
"""


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """How experiences evolve; the numbers are those of PRIME, table 3, where it has one.

    Attributes:
        mutation, generalisation, crossover: Probability per experience, iteration, and degree of temperature.
        hottest, coldest: Meta-temperature of the first and of the last iteration; linear between. It is the model's
            temperature, and scales the probabilities: so the first iteration has those of the paper, and later ones
            change less and less.
        general_from: Experiences that succeed at least so often are generalised.
        proven: Runs with a known outcome that make such a share worth believing; ours. Success in two environments
            does too, as the paper has it.
        related: Cosines above this are too alike to cross: the two say the same; ours. From below, the floor of
            searches holds.
        prune_every: Iterations.
        prune_shown: Experiences shown in fewer runs are pruned,
        prune_after: once there were so many runs that could have shown them: N of "not retrieved in last N episodes",
            which the paper leaves open.
        prune_success: Experiences that succeed less often are pruned, once `proven`.
        at_once: Questions to a model under way at the same time.
    """

    mutation: float = 0.10
    generalisation: float = 0.05
    crossover: float = 0.02
    hottest: float = 1.0
    coldest: float = 0.1
    general_from: float = 0.7
    proven: int = 3
    related: float = 0.95
    prune_every: int = 2
    prune_shown: int = 2
    prune_after: int = 20
    prune_success: float = 0.3
    at_once: int = 4

    def __post_init__(self) -> None:
        for name in (*OPERATORS, "general_from", "prune_success", "related"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}: it must lie between 0 and 1.")
        if not 0 <= self.coldest <= self.hottest <= 2:
            raise InputError(f"temperatures fall from {self.hottest} to {self.coldest}: give 2 >= hottest >= coldest.")
        if min(self.proven, self.prune_every, self.at_once) < 1:
            raise InputError("proven, prune_every and at_once are 1 or more.")

    def temperature(self, iteration: int, iterations: int) -> float:
        """Of an iteration, from 1."""
        if iterations == 1:
            return self.hottest
        return round(self.hottest + (self.coldest - self.hottest) * (iteration - 1) / (iterations - 1), 3)


@dataclass(frozen=True, slots=True)
class EvolutionStep:
    """One thing that evolution did, or tried.

    Attributes:
        iteration: From 1.
        of: Ids of the experiences that it was done to.
        reason: Why to them.
        child: What came of it; None where nothing did.
        note: Why that is not kept; "" where it is.
    """

    iteration: int
    operator: Operator | Literal["pruning"]
    of: tuple[str, ...]
    reason: str
    became: Became
    child: Experience | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class EvolutionReport:
    """What became of an evolution.

    Attributes:
        id: What it can be undone by; "" where nothing changed. Of a dry run, what it would have been.
        plan: All steps in order.
        queries: Situations of held-out tasks that children were measured by; 0 for no guard.
    """

    id: str
    plan: tuple[EvolutionStep, ...]
    queries: int = 0
    dry_run: bool = False

    @property
    def kept(self) -> Mapping[str, int]:
        """Children kept, by operator."""
        return Counter(step.operator for step in self.plan if step.became == "kept")

    def count(self, became: Became) -> int:
        """How many steps became so."""
        return sum(step.became == became for step in self.plan)
