"""Do lessons point the right way where it matters? What they name where a failed run left a successful one.

usage: python benchmarks/lessons_at_divergences.py [RUNS] [--seed 0] [--markdown] [--tasks ids|alike|none] [--seen]
           [--every]

RUNS as for lessons.py; with `--every` AgentDojo's and BFCL's too. At each divergence (see hepm.evals.metrics) a memory
without the task's family, five folds, is asked for its top 3 lessons; with `--seen` one without the run alone, ten
folds. As in hepm.evals.metrics they *rescue* when they name a tool of the successful way and none of the failed one,
and *mislead* the other way round; *harm* is how often they name tools and not the one that a good run called next, and
*silent* how often they name none there. Beside them: the top 2 of the hybrid policy, and of plain counts of what came
next.
An experience names the tools that its lesson tells of as right; `next` takes of a whole way only what follows the last
tool. A principle names what its triples say follows the last tool.
With `--tasks alike` memory is not told the tasks' ids and groups like requests; with `none` each run stands alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from lessons import EMBEDDER, TOP, Array, Place, cosines, machine, parse, read_places, told_of, weights_of

from hepm.evals.baselines import Hint, Ranking, Training
from hepm.evals.domains import DomainRun, Event, by_family, by_run
from hepm.evals.methods import find_methods
from hepm.evals.metrics import POINTINGS, Bootstrap, DivergencePoint, find_divergences
from hepm.evidence.decisions import LabelledRun
from hepm.evidence.nearest import Requests
from hepm.experience.comparison import place_in_words as place_of
from hepm.experience.experiences import ABOUT_HERE, CANDIDATES
from hepm.experience.extractive import distill, distill_principles
from hepm.experience.lesson_bank import LEXICAL_FLOOR
from hepm.experience.lessons import Experience, Principle
from hepm.experience.likeness import likeness
from hepm.experience.principle_advice import LEAST_RUNS
from hepm.experience.principle_advice import PrincipleAdvice as Here
from hepm.experience.transcript import Tools, situation_text
from hepm.graph.delta import request_of, said_text, words_of
from hepm.ingest.transitions import agent_state, transitions
from hepm.types import START, ToolName, Trajectory

_NAME = re.compile(r"\w+")


def main() -> None:
    arguments = parse()
    asked = [
        moment
        for place in read_places(arguments.runs, every=arguments.every)
        for moment in moments_of(place, arguments.tasks, seen=arguments.seen)
    ]
    lost = [moment for moment in asked if moment.divergence]
    good = [moment for moment in asked if moment.divergence is None]
    families = [moment.family for moment in lost]
    names = [moment.environment for moment in lost]
    draws = Bootstrap(families, seed=arguments.seed)
    found: dict[str, dict[str, object]] = {}
    for name in asked[0].named:
        shares_P4 = np.array(
            [moment.divergence.judge(Hint(tuple(moment.named[name])))[:4] for moment in lost if moment.divergence]
        )
        gain_P = shares_P4[:, 0] - shares_P4[:, 1]
        spoken = [moment.event.next not in moment.named[name] for moment in good if moment.named[name]]
        found[name] = {
            **dict(zip(POINTINGS, shares_P4.mean(axis=0).round(4).tolist(), strict=True)),
            "tools": round(float(np.mean([len(moment.named[name]) for moment in lost])), 2),
            "gain": told_of(gain_P.mean(), draws.means(gain_P)),
            **{f"gain in {p}": told_in(gain_P, families, names, p, arguments.seed) for p in dict.fromkeys(names)},
            "harm": round(float(np.mean(spoken)), 4),
            "silent": round(1 - len(spoken) / len(good), 4),
        }
    if arguments.markdown:
        print("\n".join(markdown(found, len(lost), draws.families, len(good))))
        return
    told = {
        "benchmark": "lessons at divergences",
        "divergences": len(lost),
        "families": draws.families,
        "good": len(good),
    }
    print(
        json.dumps(
            {**told, "seen": arguments.seen, **machine(), "seed": arguments.seed, "pointed": found}, ensure_ascii=False
        )
    )


def told_in(gain_P: Array, families: Sequence[str], places: Sequence[str], place: str, seed: int) -> list[float]:
    chosen = [number for number, name in enumerate(places) if name == place]
    draws = Bootstrap([families[number] for number in chosen], seed=seed)
    return told_of(gain_P[chosen].mean(), draws.means(gain_P[chosen]))


@dataclass(frozen=True)
class Memory:
    """Lessons of some runs of an environment.

    Attributes:
        tools: All that the environment's runs call.
        said: What users asked for, by run.
    """

    experiences: Sequence[Experience]
    principles: Sequence[Principle]
    tools: Tools
    texts_ND: Array
    weights_D: Array
    said: Mapping[str, LabelledRun]

    @classmethod
    def of(cls, place: Place, runs: Sequence[DomainRun], tools: Tools, how: str) -> Memory:
        alike = how == "alike"
        tasks = place.tasks([run for run in runs if run.success is not None], how).values()
        experiences = list({one.id: one for task in tasks for one in distill(task, alike=alike)}.values())
        principles: dict[str, Principle] = {}
        for one in (one for task in tasks for one in distill_principles(task, alike=alike)):
            known = principles.get(one.id)
            principles[one.id] = replace(known, sources=(*known.sources, *one.sources)) if known else one
        vectors_ND = EMBEDDER.embed([one.text for one in experiences])
        weights_D = weights_of(vectors_ND)
        said = {run.id: labelled(place.stored[run.id]) for run in runs}
        return cls(experiences, [*principles.values()], tools, vectors_ND * weights_D, weights_D, said)


def labelled(run: Trajectory) -> LabelledRun:
    """A run with the words of its request, as a store keeps it."""
    passed = transitions(run)
    said = said_text(passed[-1].state) if passed else ""
    return LabelledRun(0, run.id, True, "", "", words_of(request_of(said)), ())


@dataclass
class Moment:
    """A call of a successful run, or a divergence, with what memory knows, and what the hybrid policy says."""

    environment: str
    event: Event
    divergence: DivergencePoint | None
    memory: Memory
    hybrid: Ranking
    counts: Ranking
    query: str
    said: str
    last: tuple[ToolName, ...]

    @property
    def family(self) -> str:
        return f"{self.environment}/{self.event.run.family}"

    @cached_property
    def named(self) -> dict[str, set[ToolName]]:
        """Tools named by each method."""
        memory = self.memory
        query_D = EMBEDDER.embed([self.query])[0] * memory.weights_D
        cosines_N = cosines(memory.texts_ND, query_D)
        order = np.argsort(-cosines_N, kind="stable")
        ranked = [memory.experiences[number] for number in order]
        top, here = ranked[:TOP], [one for one in ranked if self.is_about_here(one)][:TOP]
        about = [one for one in memory.principles if self.following(one) or self.failing(one)]
        rules = sorted(about, key=lambda one: (-len(one.sources), one.text))[:TOP]
        several = [one for one in about if len(one.sources) >= LEAST_RUNS]
        known = Here(memory.principles, self.last)
        alike = [at for at in order[:CANDIDATES] if cosines_N[at] >= LEXICAL_FLOOR]
        near = {at: cosines_N[at] + ABOUT_HERE * known.concerns(memory.experiences[at]) for at in alike}
        chosen = {
            "above the floor": alike[:TOP],
            "above the floor, those of the place before, as in a prompt": sorted(alike, key=lambda at: -near[at])[:TOP],
        }
        requests = Requests.of([memory.said[run] for run in known.sources])
        weighed = known.weighed(likeness(requests, self.said))
        named_at = {
            "of two runs or more": sorted(several, key=lambda one: (-len(one.sources), one.text)),
            "undisputed": known.best(TOP, least_runs=1),
            "each run counts one": known.best(TOP),
            "runs of like requests count most, as in a prompt": weighed.best(TOP),
        }
        hybrid = {tool for tool, _ in self.hybrid[:2]}
        wrong = set().union(*map(self.failing, rules))
        right = set().union(*map(self.following, rules))
        order_of = sorted(
            (tool for tool, _ in self.hybrid), key=lambda tool: (tool not in right - wrong) + (tool in wrong - right)
        )
        return {
            "hybrid, top 2": hybrid,
            "first-order counts, top 2": {tool for tool, _ in self.counts[:2]},
            "experiences": set().union(*map(self.right, top)),
            "experiences, next": set().union(*map(self.next, top)),
            **{
                f"experiences {which}, next": set().union(*(self.next(memory.experiences[at]) for at in found))
                for which, found in chosen.items()
            },
            "experiences of the place": set().union(*map(self.right, here)),
            "experiences of the place, next": set().union(*map(self.next, here)),
            "principles of the place": right,
            **{
                f"principles of the place, {which}": set().union(*map(self.following, found[:TOP]))
                for which, found in named_at.items()
            },
            "first principle of the place": set().union(*map(self.following, rules[:1])),
            "hybrid and experiences": hybrid.union(*map(self.right, top)),
            "hybrid and principles": hybrid | right,
            "hybrid, in the order of principles": set(order_of[:2]),
        }

    def right(self, lesson: Experience) -> set[ToolName]:
        """What it tells of as right: "called a; runs that failed called b" or "led to success: a, then b"."""
        parts = [part for part in lesson.lesson.split(";") if "succe" in part]
        words = [word for part in parts for word in _NAME.findall(re.split(r"called |: ", part, maxsplit=1)[-1])]
        return self.memory.tools.intersection(words)

    def next(self, lesson: Experience) -> set[ToolName]:
        """Of a whole way what follows the last tool."""
        if "led to success: " not in lesson.lesson:
            return self.right(lesson) if lesson.conditions.preconditions[0] == place_of(self.last) else set()
        way = [set(_NAME.findall(step)) for step in lesson.lesson.split(": ", 1)[1].split(", then ")]
        after = [way[0]] if not self.last else [b for a, b in pairwise(way) if a & set(self.last)]
        return set(self.memory.tools.intersection(set().union(*after)))

    def is_about_here(self, lesson: Experience) -> bool:
        """Whether it contrasts ways from this place, or tells a way that leads through it."""
        if "led to success: " in lesson.lesson:
            return bool(self.next(lesson))
        return lesson.conditions.preconditions[0] == place_of(self.last) and "; " in lesson.lesson

    def following(self, principle: Principle) -> set[ToolName]:
        """What it says follows the last tools."""
        last = self.last or (START,)
        return {to.object for to in principle.triples if to.predicate == "followed_by" and to.subject in last}

    def failing(self, principle: Principle) -> set[ToolName]:
        """What it says fails after them."""
        last = self.last or (START,)
        return {to.subject for to in principle.triples if to.predicate == "fails_after" and to.object in last}


def moments_of(place: Place, how: str, *, seen: bool) -> Iterator[Moment]:
    """Every divergence and every later call of a successful run, with a memory that lacks its family, or itself."""
    methods = find_methods(["hybrid", "first-order"])
    tools = Tools(call.name for run in place.runs for call in run.trajectory.calls())
    divergences, _ = find_divergences(place.runs)
    for split in (by_run if seen else by_family)(place.runs):
        tested = set(split.test)
        here: list[tuple[Event, DivergencePoint | None]] = [(p.event, p) for p in divergences if p.event.run in tested]
        here += [(event, None) for run in split.test if run.success for event in run.events]
        memory = Memory.of(place, split.train, tools, how)
        training = Training(split.train)
        rankings = [method.fit(training).rank([event for event, _ in here]) for method in methods]
        for (event, divergence), hybrid, counts in zip(here, *rankings, strict=True):
            stored = place.stored[event.run.id]
            now = agent_state(stored.turns[: event.turn])
            last = now.last if now.history else ()
            query, said = situation_text(stored.environment, now.state()), said_text(now.state())
            yield Moment(place.name, event, divergence, memory, hybrid, counts, query, said, tuple(sorted(set(last))))


def markdown(found: dict[str, dict[str, object]], divergences: int, families: int, good: int) -> Iterator[str]:
    yield f"{divergences} divergences of {families} families, {good} calls of successful runs:\n"
    places = [name for name in next(iter(found.values())) if name.startswith("gain in ")]
    plain = (*POINTINGS, "tools", "harm", "silent")
    yield f"| named by | {' | '.join([*plain, 'gain', *places])} |"
    yield "|---" * (len(plain) + len(places) + 2) + "|"
    for name, row in found.items():
        shares = [f"{row[key]:.3f}" for key in plain]
        gains = ["{:+.3f} [{:+.3f}, {:+.3f}]".format(*row[key]) for key in ("gain", *places)]
        yield f"| {name} | {' | '.join([*shares, *gains])} |"


if __name__ == "__main__":
    main()
