"""Generate service desks from a seed: kinds of trouble, ways that work and that fail, and agents' behaviour.

docs/reference/environments.md says what each kind of trouble stands for, and why its answer can be found in a log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hepm.ingest.formats.turns import read_messages
from hepm.types import Object, Outcome, Suggestions, ToolName, Trajectory

if TYPE_CHECKING:
    from hepm.memory import Memory

MOST_CALLS: Final = 8  # a run that has not closed by then has failed
NOISE: Final = 0.05  # share of wrong labels
_WRITTEN: Final[Mapping[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
WORDS: Final[Mapping[str, Sequence[str]]] = _WRITTEN["words"]
"""Names of tools, and what troubles are worded with."""
# Each desk has one look-up, one check and one closing call of these, and eight acts.
LOOKUPS: Final = WORDS["lookups"]
CHECKS: Final = WORDS["checks"]
CLOSINGS: Final = WORDS["closings"]
ACTS: Final = WORDS["acts"]

Calls: TypeAlias = tuple[ToolName, ...]
Hints: TypeAlias = "Callable[[DeskRun, Calls], Suggestions]"


@dataclass(frozen=True, slots=True)
class DeskWay:
    """A sequence of calls for a kind of trouble, and the share of the agents without hints that take it."""

    tools: Calls
    works: bool
    share: float

    def next_tool(self, calls: Sequence[ToolName]) -> ToolName | None:
        """The first tool of the way that `calls` lack, other calls between allowed; None if they lack none."""
        # `in` reads the iterator up to the tool: the next one is looked for behind it.
        rest = iter(calls)
        return next((tool for tool in self.tools if tool not in rest), None)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trouble. The result of the tool `named_by` names it, or the user if that is ""."""

    name: str
    ways: tuple[DeskWay, ...]
    nouns: tuple[str, ...]
    named_by: ToolName
    weight: int = 1

    def outcome(self, calls: Sequence[ToolName]) -> bool | None:
        """Whether a run with these calls succeeded; None before the closing call, with which every way ends."""
        if not any(calls[-1:] == way.tools[-1:] for way in self.ways):
            return None
        working = [way for way in self.ways if way.works]
        # An act that helps in no way does harm, whatever else was done.
        harmful = {*ACTS}.difference(*(way.tools for way in working))
        return harmful.isdisjoint(calls) and any(way.next_tool(calls) is None for way in working)


@dataclass(frozen=True, slots=True)
class DeskRun:
    """A trouble in the words of one run. Equal calls get equal results.

    Where its record is kept, "here" or "elsewhere", is a field of it, unless `kept` is "".
    """

    name: str
    kind: Kind
    user: str
    record: str
    trouble: str
    kept: str = ""

    def messages(self, calls: Sequence[ToolName]) -> list[Object]:
        """The conversation after these calls, as OpenAI chat messages."""
        messages: list[Object] = [{"role": "user", "content": self.user}]
        for number, tool in enumerate(calls):
            call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": self._result_of(tool)})
        return messages

    def _result_of(self, tool: ToolName) -> str:
        """What a call returns: "1234 kettle of Mei Costa: loose glass and lid"."""
        if tool not in (*LOOKUPS, *CHECKS):
            return "done"
        record = self.record
        if tool == self.kind.named_by:
            record += f": {self.trouble}"
        return json.dumps({"case": record, "kept": self.kept}) if self.kept else record


@dataclass(frozen=True, slots=True)
class Desk:
    """A service desk: its kinds of trouble, and the tools that every agent has.

    With `fields`, records are JSON, and a field of them says whether a case is kept elsewhere.
    """

    seed: int
    kinds: tuple[Kind, ...]
    tools: Calls
    fields: bool = False

    def episode(self, name: str, kind: Kind, *, seen: bool) -> DeskRun:
        """Word an episode. `seen` ones combine nouns and an adjective as logs do, others as no log does."""
        random = Random(f"{self.seed} {name}")
        left_out = random.randrange(len(kind.nouns))
        # Logs combine each pair of nouns with two thirds of the adjectives. Kinds share adjectives, but no noun.
        fitting = [number for number in range(len(WORDS["adjectives"])) if ((number + left_out) % 3 != 0) == seen]
        adjective = random.choice(fitting)
        nouns = [noun for number, noun in enumerate(kind.nouns) if number != left_out]
        random.shuffle(nouns)
        trouble = f"{WORDS['adjectives'][adjective]} {' and '.join(nouns)}"
        # Names and numbers differ in each run, so that no run repeats the words of another.
        about = {"item": random.choice(WORDS["items"]), "number": random.randrange(1000, 10000)}
        about["name"] = f"{random.choice(WORDS['first_names'])} {random.choice(WORDS['last_names'])}"
        user = random.choice(WORDS["openers"]).format(**about)
        ending = random.choice(WORDS["endings"]).format(**about)
        if not kind.named_by:
            user += f", {trouble}"
        record = random.choice(WORDS["records"]).format(**about)
        elsewhere = kind.named_by in CHECKS
        kept = ""
        if self.fields:
            kept = "elsewhere" if elsewhere else "here"
        elif elsewhere:
            record += ", kept elsewhere"
        return DeskRun(name, kind, f"{user}. {ending}".strip(), record, trouble, kept)

    def training(self, runs: int) -> Iterator[DeskRun]:
        """Episodes to learn from; kinds are drawn by weight."""
        kinds = Random(f"{self.seed} stream").choices(self.kinds, [kind.weight for kind in self.kinds], k=runs)
        for number, kind in enumerate(kinds):
            yield self.episode(f"run {number}", kind, seen=True)

    def held_out(self) -> list[DeskRun]:
        """Episodes to evaluate with, in wordings that no log holds; kinds in proportion to their weight."""
        return [
            self.episode(f"held out {kind.name} {number}", kind, seen=False)
            for kind in self.kinds
            for number in range(6 * kind.weight)
        ]

    def run(self, episode: DeskRun, hint: Hints | None = None, *, follow: float = 0.0) -> tuple[Calls, bool]:
        """The calls of one agent, and whether it succeeded: it calls the first tool of a hint that it reads."""
        calls: Calls = ()
        random = Random(f"{self.seed} {episode.name} agent")
        for _ in range(MOST_CALLS):
            reads = random.random() < follow
            said = hint(episode, calls) if hint is not None and reads else Suggestions()
            weights = self.behaviour(episode.kind, calls, [way.tool for way in said.warnings])
            # Drawn at each call, used or not: a hint changes none of the later draws.
            [own] = random.choices(list(weights), list(weights.values()))
            calls += (said[0].tool if said else own,)
            success = episode.kind.outcome(calls)
            if success is not None:
                return calls, success
        return calls, False

    def record(self, episode: DeskRun, calls: Sequence[ToolName], success: bool) -> Trajectory:
        """The run as it is stored, with a task id of its own and, with probability `NOISE`, the wrong label."""
        # A task of its own: no run is remembered as the same task.
        name = f"{self.seed} {episode.name}"
        label = success != (Random(f"{name} label").random() < NOISE)
        turns = read_messages(episode.messages(calls))
        return Trajectory(name, turns, Outcome(float(label), label), environment="service desk", task=name)

    def behaviour(self, kind: Kind, calls: Calls, avoided: Collection[ToolName]) -> dict[ToolName, float]:
        """Weights of an agent's own next tools; if it avoids all of those, every other tool weighs the same."""
        begun = [way for way in kind.ways if way.tools[: len(calls)] == calls]
        acts = {*ACTS}.intersection(calls)
        possible = [way for way in kind.ways if acts <= {*way.tools}]
        # The ways that the calls follow; else those that their acts allow; else all.
        for ways in (begun, possible, kind.ways):
            weights = _next_tools(ways, calls, avoided)
            if weights:
                return weights
        others = [tool for tool in self.tools if tool not in avoided and tool not in calls[-1:]]
        return dict.fromkeys(others, 1.0) or {calls[-1]: 1.0}


def _next_tools(ways: Sequence[DeskWay], calls: Calls, avoided: Collection[ToolName]) -> dict[ToolName, float]:
    """The next tools of some ways, by share; if agents take none of the ways, each counts the same."""
    tried = [way for way in ways if way.share]
    weights: dict[ToolName, float] = {}
    for way in tried or ways:
        tool = way.next_tool(calls)
        if tool is not None and tool not in avoided:
            weights[tool] = weights.get(tool, 0.0) + (way.share or 1.0)
    return weights


def make_desk(seed: int, *, fields: bool = False) -> Desk:
    """Generate a desk with eight kinds of trouble."""
    random = Random(f"desk {seed}")
    look = random.choice(LOOKUPS)
    check = random.choice(CHECKS)
    closing = random.choice(CLOSINGS)
    acts = random.sample(ACTS, 8)
    tools = {"look-up": look, "check": check, "user": ""}
    tools |= zip(("popular", "a", "b", "c", "d", "e", "untried"), acts, strict=False)
    # Dealt to the kinds, three each: a kind of trouble is known by its three nouns, which no other kind has.
    nouns = iter(random.sample(WORDS["nouns"], len(WORDS["nouns"])))
    kinds: list[Kind] = []
    for written in _WRITTEN["kinds"]:
        tellers: list[str] = written["told_by"]
        teller = random.choice(tellers) if len(tellers) > 1 else tellers[0]
        share: float = written["right"]  # of the agents that take a way that works
        if share:
            share += random.uniform(-0.1, 0.1)
        ways: list[DeskWay] = []
        for outcome, taken in (("works", share), ("fails", 1 - share)):
            for names in written[outcome]:
                called = (look, *map(tools.__getitem__, names), closing)
                ways.append(DeskWay(called, outcome == "works", taken / len(written[outcome])))
        weight: int = written.get("weight", 1)
        kinds.append(Kind(written["name"], tuple(ways), tuple(islice(nouns, 3)), tools[teller], weight))
    return Desk(seed, tuple(kinds), tuple(sorted((look, check, closing, *acts))), fields)


def hints_from(memory: Memory, desk: Desk, policy: str) -> Hints:
    """Hints of a policy from a memory that does not change meanwhile: equal queries are answered once."""

    @cache
    def ask(episode: DeskRun, calls: Calls) -> Suggestions:
        return memory.suggest(messages=episode.messages(calls), tools=desk.tools, policy=policy, speak="sure")

    return ask
