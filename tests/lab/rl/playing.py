"""Rollouts on a desk by an agent that knows what works, without a model."""

from __future__ import annotations

from random import Random

from hepm.lab.desks.service_desk import make_desk
from hepm.lab.rl.rollout import Generate, Sampled
from hepm.memory import Memory
from hepm.types import SUMMARY_TOOL
from notebooks.desk_training import DeskAgents, DeskEnvironment, WordDialect, desk_log

WORDS = WordDialect()


def desk(troubles: int = 1) -> DeskEnvironment:
    return DeskEnvironment(make_desk(0), troubles=troubles, train=24, test=4)


def written(*words: str) -> Sampled:
    """A message of these words, as if a model had sampled it."""
    return Sampled([WORDS.ids[word] for word in words] + [WORDS.end])


def solving(environment: DeskEnvironment, task: str = "", *, summarise: bool = False) -> Generate:
    """Calls what works in the first trouble of a task; "done" after that. With a summary before the second call."""

    def generate(streams: list[list[int]]) -> list[Sampled]:
        return [_next(stream) for stream in streams]

    def _next(stream: list[int]) -> Sampled:
        kind = environment.troubles_of(next(one for one in environment.tasks() if one.id == task))[0].kind
        way = next(way for way in kind.ways if way.works)
        called = [WORDS.words[id] for id in _after_agents(stream)]
        if summarise and len(called) == 1 and SUMMARY_TOOL not in called:
            return written(SUMMARY_TOOL, "lid")
        tool = way.next_tool([name for name in called if name != SUMMARY_TOOL])
        return written(tool or "done")

    return generate


def _after_agents(stream: list[int]) -> list[int]:
    agent = WORDS.ids["<agent>"]
    return [stream[at + 1] for at, id in enumerate(stream[:-1]) if id == agent]


def guessing(seed: int = 0) -> Generate:
    """Calls any tool, the same in the same stream of tokens; some messages are of nothing but a closing."""

    def generate(streams: list[list[int]]) -> list[Sampled]:
        tools = desk().desk.tools
        return [written(Random(f"{seed} {stream}").choice([*tools, "done"])) for stream in streams]

    return generate


def remembering(memory: Memory, environment: DeskEnvironment, runs: int = 60) -> Memory:
    """The memory with a log of skilled agents."""
    memory.ingest(desk_log(environment, DeskAgents(skill=0.8), runs=runs))
    memory.refresh()
    return memory
