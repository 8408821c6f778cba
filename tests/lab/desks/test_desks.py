from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

from hepm.lab.desks.service_desk import ACTS, CHECKS, LOOKUPS, Desk, DeskRun, make_desk
from hepm.types import Suggestion, Suggestions, ToolName, Trajectory

DESKS = [make_desk(seed) for seed in range(3)]


@dataclass(frozen=True)
class Says:
    """A hint that is always the same."""

    answer: Suggestions

    def hint(self, episode: DeskRun, calls: Sequence[ToolName]) -> Suggestions:
        """The answer, whatever is asked."""
        return self.answer


def words_of(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall("[a-z]+", text.lower())}


def hint(*tools: ToolName) -> Suggestions:
    return Suggestions(tuple(Suggestion(tool, 1.0, 1, 0.0, None, "fixed") for tool in tools))


def log_of(desk: Desk, runs: int) -> list[Trajectory]:
    return [desk.record(episode, *desk.run(episode)) for episode in desk.training(runs)]


def test_a_seed_gives_the_same_desk_and_the_same_runs_again_and_another_seed_another_desk():
    assert make_desk(3) == make_desk(3)
    assert log_of(make_desk(3), 20) == log_of(make_desk(3), 20)
    assert make_desk(3).held_out() == make_desk(3).held_out()
    assert make_desk(3).kinds != make_desk(4).kinds


@pytest.mark.parametrize("desk", DESKS)
def test_no_trouble_of_the_exam_was_ever_worded_so_in_a_log(desk: Desk):
    logged = {frozenset(words_of([episode.trouble])) for episode in desk.training(1000)}

    assert not any(frozenset(words_of([episode.trouble])) in logged for episode in desk.held_out())


@pytest.mark.parametrize("desk", DESKS)
def test_agents_of_the_logs_go_each_way_as_often_as_the_desk_says(desk: Desk):
    for kind in desk.kinds:
        episodes = [desk.episode(f"draw {number}", kind, seen=True) for number in range(400)]
        gone = Counter(desk.run(episode) for episode in episodes)
        for way in kind.ways:
            assert gone[way.tools, way.works] / 400 == pytest.approx(way.share, abs=0.09)
        assert sum(gone[way.tools, way.works] for way in kind.ways) == 400


@pytest.mark.parametrize("desk", DESKS)
def test_an_agent_that_is_told_what_works_settles_every_trouble(desk: Desk):
    def told(episode: DeskRun, calls: Sequence[ToolName]) -> Suggestions:
        ahead = [way.next_tool(calls) for way in episode.kind.ways if way.works]
        return hint(*(tool for tool in ahead if tool is not None))

    assert all(desk.run(episode, told, follow=1.0)[1] for episode in desk.held_out())


def test_an_act_for_other_trouble_spoils_a_run_and_a_lookup_does_not():
    kind = DESKS[0].kinds[0]
    look, act, closing = kind.ways[0].tools
    foreign = next(tool for tool in DESKS[0].tools if tool in ACTS and tool != act)
    harmless = next(tool for tool in DESKS[0].tools if tool in CHECKS)

    assert kind.outcome((look, act)) is None
    assert kind.outcome((look, harmless, act, closing)) is True
    assert kind.outcome((look, foreign, act, closing)) is False


def test_a_run_that_never_closes_fails_after_eight_calls():
    desk = DESKS[0]
    calls, success = desk.run(desk.held_out()[0], Says(hint(LOOKUPS[0])).hint, follow=1.0)

    assert (len(calls), success) == (8, False)
