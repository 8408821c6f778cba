"""Synthetic archives with the shape of recorded runs, as hepm's own JSON lines.

The same seed gives the same runs, and a longer archive begins with the shorter one.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

Lengths = tuple[float, float, int]
"""Of a text: median in characters, deviation of the logarithm, and the most."""


@dataclass(frozen=True)
class Shape:
    """Parameters of the generator; the defaults are fitted to recorded runs (benchmarks/LOG.md).

    Attributes:
        domain_tools: Tools of one environment; a run calls those of one environment, and common ones.
        common_tools, common: Tools that all environments have, and the share of steps that call one.
        domain_exponent, tool_exponent, successor_exponent: Zipf exponents of environments by runs, of an environment's
            tools by calls, and of the tools after one tool.
        popular: Share of steps that go to a tool by its popularity, not by the tool before it.
        task_exponent: s of P(rank of a task ≥ k) = k^-s; n runs of an environment have about n^(1 / (1 + s)) tasks.
        turns, turns_sigma: Median and log-scale deviation of the turns with calls (lognormal).
        idle: Share of runs without a call. parallel: Share of turns with a further call.
        astray: Probability that a run leaves its task's usual path, a step. fresh: Probability that a result is new.
        reworded: Share of runs whose user says the task in other words.
        errors: Share of failed calls. success: Share of successes among runs that keep to the path.
        lost: Factor on the chance of success for each step off the path.
        said, argument, result, answer: Lengths of the user's task, of arguments, of results and of the agent's words.
        runs_a_user: Runs of one user. models: Number of models.
    """

    domain_tools: int = 22
    common_tools: int = 10
    common: float = 0.05
    domain_exponent: float = 0.3
    tool_exponent: float = 2.0
    successor_exponent: float = 2.2
    popular: float = 0.65
    task_exponent: float = 0.7
    turns: float = 2.65
    turns_sigma: float = 0.68
    idle: float = 0.08
    parallel: float = 0.1
    astray: float = 0.15
    fresh: float = 0.1
    reworded: float = 0.06
    errors: float = 0.05
    success: float = 0.57
    lost: float = 0.75
    said: Lengths = (200, 0.85, 600)
    argument: Lengths = (23, 1.6, 400)
    result: Lengths = (165, 1.3, 600)
    answer: Lengths = (900, 0.7, 1000)
    runs_a_user: int = 12
    models: int = 28


VERBS = ("get", "list", "search", "create", "update", "delete", "send", "check", "book", "cancel", "count", "share")
START_S, SECONDS_A_RUN = 1_700_000_000, 30
PHRASES, MOST_TASKS, ACTIVE_USERS = 20_000, 4_000, 50

Call = tuple[int, str, str]
"""A tool, the start of the call's JSON, and its usual result."""


@dataclass
class Task:
    """A task of an environment: what its user says, the usual path, and the calls of it and of runs that left it."""

    said: str
    path: list[list[int]]
    calls: dict[int, Call] = field(default_factory=dict[int, Call])


class Archive:
    """Runs of a made-up organisation with this many tools, one by one."""

    def __init__(self, tools: int, *, seed: int = 7, shape: Shape | None = None) -> None:
        self.shape = shape = shape or Shape()
        self._seed = seed
        own = random.Random(seed)
        syllables = ["".join(two) for two in itertools.product("bdfgklmnprstv", "aeiou")]
        words = ["".join(own.choices(syllables, k=own.randint(1, 3))) for _ in range(4000)]
        common = list(itertools.accumulate(rank**-0.8 for rank in range(1, len(words) + 1)))
        self._phrases = [" ".join(own.choices(words, cum_weights=common, k=4)) + " " for _ in range(PHRASES)]
        nouns = ["".join(three) for three in itertools.product(syllables, repeat=3)]
        names = (f"{verb}_{noun}" for noun in own.sample(nouns, tools // len(VERBS) + 1) for verb in VERBS)
        self.tools = list(itertools.islice(names, tools))
        self._common = min(shape.common_tools, tools // 2)
        self._size = min(shape.domain_tools, tools - self._common)
        self._by_domain = _zipf((tools - self._common) // self._size, shape.domain_exponent)
        self._by_common = _zipf(self._common, shape.tool_exponent)
        self._by_tool = _zipf(self._size, shape.tool_exponent)
        self._by_successor = _zipf(self._size, shape.successor_exponent)
        self._task = lru_cache(maxsize=MOST_TASKS)(self._make_task)

    def lines(self, runs: int, *, first: int = 0) -> Iterator[str]:
        """So many runs from number `first` on, a line each. The first one of an environment lists its tools."""
        described: set[int] = set()
        for number in range(first, first + runs):
            own = random.Random(self._seed << 40 | number)
            domain = bisect(self._by_domain, own.random())
            rank = int(min((1 - own.random()) ** (-1 / self.shape.task_exponent), 1e12))
            tools = "" if domain in described else f'"tools":{json.dumps(self._descriptions(domain))},'
            described.add(domain)
            yield self._line(number, domain, rank, own, tools)

    def _line(self, number: int, domain: int, rank: int, own: random.Random, tools: str) -> str:
        shape, task, chance = self.shape, self._task(domain, rank), self.shape.success
        said = self._text(own, shape.said) if own.random() < shape.reworded else task.said
        turns: list[str] = []
        for path in task.path if own.random() >= shape.idle else ():
            calls: list[str] = []
            for tool in path:
                if own.random() < shape.astray:
                    chance *= shape.lost
                    tool = self._successor(domain, tool, own)  # noqa: PLW2901
                _, start, usual = task.calls.get(tool) or self._call(task, domain, rank, tool)
                failed = own.random() < shape.errors
                text = self._text(own, shape.result) if failed or own.random() < shape.fresh else usual
                result = f"Error: {text}" if failed else f"{text} {own.randrange(10**6)}"
                calls.append(f'{start},"result":"{result}","error":{"true" if failed else "false"}}}')
            turns.append(f'{{"role":"assistant","calls":[{",".join(calls)}]}},')
        user = number // (ACTIVE_USERS * shape.runs_a_user) * ACTIVE_USERS + own.randrange(ACTIVE_USERS)
        return (
            f'{{"hepm":1,"id":"{own.getrandbits(96):024x}","environment":"domain-{domain}","task":"task-{domain}-{rank}",'
            f'"model":"model-{own.randrange(shape.models)}","user":"user-{user}",'
            f'"success":{"true" if own.random() < chance else "false"},'
            f'"ended_at":{START_S + SECONDS_A_RUN * number}.0,{tools}"turns":[{{"role":"user","text":"{said}"}},'
            f'{"".join(turns)}{{"role":"assistant","text":"{self._text(own, shape.answer)}"}}]}}\n'
        )

    def _make_task(self, domain: int, rank: int) -> Task:
        own, shape = random.Random(f"{self._seed} {domain} {rank}"), self.shape
        path: list[list[int]] = []
        tool = self._first(domain) + bisect(self._by_tool, own.random())
        for _ in range(max(1, round(own.lognormvariate(math.log(shape.turns), shape.turns_sigma)))):
            path.append([tool])
            while own.random() < shape.parallel:
                path[-1].append(self._successor(domain, path[-1][-1], own))
            tool = self._successor(domain, path[-1][-1], own)
        return Task(self._text(own, shape.said), path)

    def _call(self, task: Task, domain: int, rank: int, tool: int) -> Call:
        own = random.Random(f"{self._seed} {domain} {rank} {tool}")
        argument, result = self._text(own, self.shape.argument), self._text(own, self.shape.result)
        task.calls[tool] = tool, f'{{"name":"{self.tools[tool]}","arguments":{{"query":"{argument}"}}', result
        return task.calls[tool]

    def _first(self, domain: int) -> int:
        return self._common + domain * self._size

    def _successor(self, domain: int, tool: int, own: random.Random) -> int:
        if own.random() < self.shape.common:
            return bisect(self._by_common, own.random())
        if own.random() < self.shape.popular:
            return self._first(domain) + bisect(self._by_tool, own.random())
        # Each tool ranks its successors in an order of its own.
        return self._first(domain) + (tool * 7 + 3 * bisect(self._by_successor, own.random())) % self._size

    def _descriptions(self, domain: int) -> list[dict[str, object]]:
        own = random.Random(f"{self._seed} {domain}")
        numbers = [*range(self._common), *range(self._first(domain), self._first(domain) + self._size)]
        parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
        return [
            {
                "name": self.tools[number],
                "description": f"{self.tools[number].replace('_', ' ')}: {own.choice(self._phrases).strip()}",
                "parameters": parameters,
            }
            for number in numbers
        ]

    def _text(self, own: random.Random, lengths: Lengths) -> str:
        median, sigma, most = lengths
        chars = min(most, round(own.lognormvariate(math.log(median), sigma)))
        return "".join(own.choices(self._phrases, k=chars // 20 + 1))[:chars]


def _zipf(count: int, exponent: float) -> list[float]:
    """Cumulated probabilities of the ranks, for `bisect`; the last one is above any random number."""
    sums = list(itertools.accumulate(rank**-exponent for rank in range(1, count + 1)))
    return [*(one / sums[-1] for one in sums[:-1]), 1.0]
