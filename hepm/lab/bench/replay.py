"""Would hints change an agent's calls? Recorded runs, asked again at their points, with memory and without.

No environment is needed: what is judged is whether the model's next call is that of a successful run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain, product
from typing import ClassVar, TypeAlias

from hepm.agents.wire import Object, objects, resolved, with_hint
from hepm.errors import InputError
from hepm.evals.domains import Domain, by_family
from hepm.experience.prompt import Prompt
from hepm.lab.bench.arms import OFF, Arm, find_arms, scratch_memory
from hepm.lab.bench.folder import Ended, Facts, Key
from hepm.lab.bench.play import Bench, Stream, move_of
from hepm.lab.bench.scores import CHANGED
from hepm.lab.environments.recorded import Point
from hepm.lab.rl.sft import plain_messages
from hepm.memory.messages import as_messages
from hepm.types import Outcome, Trajectory, Turn

HintsAt: TypeAlias = dict[tuple[str, str], Prompt]
"""By point and arm, from a memory of the other task families; nothing for an arm that does not remember."""


def hints_at(domains: Sequence[Domain], points: Sequence[Point], arms: Sequence[Arm]) -> HintsAt:
    """What a memory of the other task families of its domain says at each point, in each arm that remembers."""
    remembering = [arm for arm in arms if arm.remembers]
    distill = any(arm.lessons for arm in remembering)
    hints: HintsAt = {}
    for split in chain.from_iterable(by_family(domain.runs) for domain in domains):
        tested = set(split.test)
        points_of_fold = [point for point in points if point.event.run in tested]
        if not points_of_fold:
            continue
        with scratch_memory() as memory:
            memory.learn([run.trajectory for run in split.train], distill=distill)
            for point, arm in product(points_of_fold, remembering):
                hints[point.key, arm.name] = memory.prompt(
                    list(as_messages(point.event.turns)),
                    tools=[spec["function"]["name"] for spec in point.tools],
                    environment=point.event.run.trajectory.environment,
                    options=arm.prompt,
                )
    return hints


@dataclass(eq=False)
class ReplayBench(Bench):
    """Asks a model at points of recorded runs, in each arm; an arm that says nothing there calls what "off" calls."""

    _: KW_ONLY
    at_once: ClassVar = True
    points: Sequence[Point]
    hints: HintsAt

    def __post_init__(self) -> None:
        super().__post_init__()
        self.families = {point.key: point.family for point in self.points}
        self._points = {point.key: point for point in self.points}

    def _body(self, point: Point, prompt: Prompt) -> Object:
        """The request for the next call, with what memory says."""
        messages = plain_messages(point.event.turns)
        # As an endpoint takes them: with arguments as text.
        for call in chain.from_iterable(message.get("tool_calls", ()) for message in messages):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        body = {**self.options.options, "model": self.endpoint.model, "messages": messages, "tools": point.tools}
        return with_hint(
            "chat",
            body,
            stable=prompt.stable,
            present=prompt.present,
            placement=resolved("auto", self.endpoint.base_url),  # as the proxy places it for this endpoint
        )

    def _chain_of(self, key: Key) -> object:
        # A point without memory first: the other arms are compared with that.
        return key.task

    def _run(self, key: Key, stream: Stream) -> Ended:
        """Ask at one point, and note the answer as a run."""
        point = self._points[key.task]
        prompt = self.hints.get((key.task, key.arm)) or Prompt()
        # Where memory is silent, the request is that of "off", whose answer is not paid for twice.
        asked = key if prompt.text else key._replace(arm=OFF)
        completion = self._model.recorded(asked, point.task)(self._body(point, prompt))
        message = completion["choices"][0]["message"]
        tools = sorted({call["function"]["name"] for call in objects(message.get("tool_calls"))})
        right = not point.right.isdisjoint(tools)
        called = json.dumps(tools)
        off = self.ended.get(key._replace(arm=OFF))
        facts = Facts(
            reward=float(right),
            success=right,
            turns=1,
            calls=len(tools),
            errors=0,
            moves=(move_of(message),),
            hints=(prompt.text,),
            memory_s=(),
            usage=self.folder.usage(key),
            scores={CHANGED: float(off is not None and called != off.run.tags["called"])},
        )
        # The conversation up to the point, and the answer; the tools that it called stand in a tag.
        turns = (*point.event.turns, Turn("assistant", str(message.get("content") or "")))
        run = Trajectory(
            f"{self.environment.name}/{self.endpoint.model}/{key}",
            turns,
            Outcome(float(right), right),
            environment=point.event.run.trajectory.environment,
            task=key.task,
            model=self.endpoint.model,
            tags={"arm": key.arm, "called": called},
        )
        return Ended(key, facts, run)


def point_arms(names: Sequence[str]) -> list[Arm]:
    """The arms of these names, that without memory first; InputError for one that needs more than a point of a run."""
    arms = find_arms(dict.fromkeys([OFF, *names]), trials=1)
    unfit = [
        arm.name
        for arm in arms[1:]
        # One point of a run has no room for summaries, searches or plans of the agent.
        if arm.strategy in ("implicit", "explicit", "always")
        or arm.searches
        or arm.plans
        or not (arm.prompt.suggestions or arm.lessons)
    ]
    if unfit:
        raise InputError(f"{', '.join(unfit)} cannot be shown at one point of a run.")
    return arms
