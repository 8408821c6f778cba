"""When a lesson holds: the kind of request, facts that decide, and what was called before.

A lesson is shown where its condition holds, and counted there alone. A condition can be asked of what is known at any
moment of a run, and reads as a few words: 'when get_order says status is shipped'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from hepm.evidence.decisions import CALLED, FactName
from hepm.evidence.facts import FactTest
from hepm.experience.transcript import place_in_words
from hepm.graph.delta import Names
from hepm.types import START, Facts, ToolName

_NAME: Final = r'"(?:[^"\\]|\\.)*"|(?!").+?'
# 'not get_order: total > 200' and 'get_order: total > 0.0 above get_account: balance'; a name with blanks or colons is
# quoted as JSON.
_RECORD: Final = re.compile(
    rf"(?P<denied>not )?(?P<source>{_NAME}): (?P<fact>.+?)"
    rf"(?: > (?P<above>-?[\d.]+(?:e[+-]?\d+)?)(?: above (?P<than>{_NAME}): (?P<than_fact>.+))?)?",
    re.DOTALL,
)
_PRESENT: Final = 0.5  # what FactTest asks of a value or a word that is there, which counts 1
IN_PROJECT: Final = "the project is "
"""How a precondition begins that is read: the lesson is about one project, "the project is webshop"."""


class FactCondition(NamedTuple):
    """A test of what is known, and whether it must be true or false."""

    test: FactTest
    true: bool = True

    def holds(self, known: Facts) -> bool:
        """Whether it is met; what is denied must be known: a number, what a called tool returned."""
        if self.true:
            return self.test.holds(known)
        for name in self.test.names:
            if name.source != CALLED and not name.presence and name.fact not in known.get(name.source, {}):
                return False
        return not (self.test.is_unknown(known) or self.test.holds(known))

    def __str__(self) -> str:
        """In words: "get_order says status is shipped"."""
        return self.test.in_words(holds=self.true)

    @property
    def record(self) -> str:
        """As a store keeps it: "get_order: status=shipped", "not <CALLED>: refund", "get_return: amount > 200"."""
        test = self.test
        limit = f" > {test.above!r}"
        if test.than is not None:
            limit += f" above {_quoted(test.than.source)}: {test.than.fact}"
        elif test.above == _PRESENT and " > " not in test.fact:
            # Of a value that is there it goes without saying, unless the fact itself reads like one with a limit.
            limit = ""
        negation = "" if self.true else "not "
        return f"{negation}{_quoted(test.source)}: {test.fact}{limit}"

    @classmethod
    def read(cls, record: str) -> FactCondition:
        """What `record` gave; ValueError if it is none."""
        read = _RECORD.fullmatch(record)
        if read is None:
            raise ValueError(f"{record!r} is no condition: write `tool: key=value` or `tool: key > number`")
        denied, source, fact, above, other, other_fact = read.groups()
        than = None
        if other:
            than = FactName(_unquoted(other), other_fact)
        return cls(FactTest(_unquoted(source), fact, float(above or _PRESENT), than=than), not denied)


def _quoted(source: str) -> str:
    if re.fullmatch(r"[\w<>.-]+", source):
        return source
    return json.dumps(source, ensure_ascii=False)


def _unquoted(source: str) -> str:
    if source.startswith('"'):
        return json.loads(source)
    return source


@dataclass(frozen=True, slots=True)
class Conditions:
    """When a lesson holds (PRIME 3.1, equation 6); what is empty holds always.

    Attributes:
        first_turn, last_turn: The agent's turns it is about, from 1; 0 for all. They only say where it comes from.
        preconditions: In the words of a model or a person, which nothing checks.
        after: Tools of the turn before; START where none was called.
        facts: What must be known of results, of the user's words and of earlier calls; all of it.
    """

    environments: tuple[str, ...] = ()
    first_turn: int = 0
    last_turn: int = 0
    preconditions: tuple[str, ...] = ()
    after: Names = ()
    facts: tuple[FactCondition, ...] = ()

    def holds(self, known: Facts, after: Collection[ToolName], *, environment: str = "") -> bool:
        """Whether it holds now.

        Args:
            known: What is known, with the calls made (see `hepm.evidence.decisions.facts_of_calls`).
            after: Tools of the last turn; none before the first call.
            environment: "" for any.
        """
        if not allows(self.environments, environment):
            return False
        if not (set(after) or {START}).issuperset(self.after):
            return False
        return all(fact.holds(known) for fact in self.facts)

    @property
    def when(self) -> str:
        """In a few words: 'when the user says "cancel" and get_order says status is shipped'; "" if it always holds."""
        where = ""
        # "after get_order" goes without saying where get_order is said to have returned something.
        if self.after and not {fact.test.source for fact in self.facts}.intersection(self.after):
            where = place_in_words(set(self.after) - {START})
        when = f"when {' and '.join(map(str, self.facts))}" if self.facts else ""
        return ", ".join(filter(None, (where, when)))

    @property
    def record(self) -> dict[str, Any]:
        """Properties as stores keep them, with the words that describe it."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        kept["facts"] = tuple(fact.record for fact in self.facts)
        return {**kept, "says": (), "only_user": "", "condition": self.when}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Conditions:
        """What `record` gave."""
        kept = {field.name: record[field.name] for field in fields(cls)}
        kept["facts"] = tuple(map(FactCondition.read, kept["facts"]))
        return cls(**kept)


def allows(environments: Collection[str], environment: str) -> bool:
    """Whether what holds in some environments, in all if there are none, may hold in one, "" for any."""
    return not environment or not environments or environment in environments
