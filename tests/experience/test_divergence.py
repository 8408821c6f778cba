from __future__ import annotations

from hepm.experience.comparison import RunDivergence, ToolSequence, divergences_of
from hepm.experience.transcript import Tools


def way(*turns: str) -> ToolSequence:
    return [Tools(turn) for turn in turns]


def sides(theirs: str, own: str, *, ended: bool = False) -> RunDivergence:
    return RunDivergence(1, Tools(theirs), Tools(own), ended, Tools("a"))


def test_a_way_parts_at_the_first_turn_that_differs_from_those_followed_longest() -> None:
    assert list(divergences_of(way("a", "b", "c"), [way("a", "x", "c")])) == [sides("x", "b")]
    several = divergences_of(way("a", "b"), [way("x"), way("a", "c"), way("a", "d")])
    assert list(several) == [sides("c", "b"), sides("d", "b")]
    assert list(divergences_of(way("a"), [])) == []


def test_a_way_that_ends_has_an_empty_side() -> None:
    short, long = way("a"), way("a", "b")
    assert list(divergences_of(short, [long, way("z")])) == [sides("b", "", ended=True)]
    assert list(divergences_of(long, [short])) == [sides("", "b", ended=True)]
