from __future__ import annotations

from hypothesis import strategies as st

from hepm.experience.comparison import CallDifference, ToolSequence, divergence_of
from hepm.experience.transcript import Tools


def way(*turns: str) -> ToolSequence:
    return [Tools(turn) for turn in turns]


def sides(theirs: str, own: str, *, ended: bool = False) -> CallDifference:
    return CallDifference(Tools(theirs), Tools(own), ended=ended)


ways = st.lists(st.frozensets(st.sampled_from("abc"), min_size=1), max_size=5)


def test_a_way_parts_at_the_first_turn_that_differs() -> None:
    found = divergence_of(way("a", "b", "c"), [way("a", "x", "c")])
    assert found
    assert (found.at, found.differences) == (1, (sides("x", "b"),))


def test_only_those_followed_longest_count() -> None:
    found = divergence_of(way("a", "b"), [way("x"), way("a", "c"), way("a", "d")])
    assert found
    assert (found.at, found.differences) == (1, (sides("c", "b"), sides("d", "b")))


def test_a_way_that_ends_has_an_empty_side() -> None:
    short, long = way("a"), way("a", "b")
    assert divergence_of(short, [long]) == divergence_of(short, [long, way("z")])
    ended, went_on = divergence_of(short, [long]), divergence_of(long, [short])
    assert ended
    assert went_on
    assert (ended.at, ended.differences) == (1, (sides("b", "", ended=True),))
    assert (went_on.at, went_on.differences) == (1, (sides("", "b", ended=True),))


def test_of_no_other_way_there_is_no_parting() -> None:
    assert divergence_of(way("a"), []) is None
