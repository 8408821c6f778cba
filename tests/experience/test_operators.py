"""What evolution does without a model, by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hepm.experience.conditions import Conditions
from hepm.experience.lessons import Experience
from hepm.experience.operators import (
    FIELD_CHARS,
    crossed,
    generalised,
    joined,
    sharpened,
    without_particulars,
)
from hepm.graph.lessons.rows import Source
from tests.runs import trajectory

SHOWN = (
    [trajectory(f"w{i}", "look", "ask") for i in range(2)],
    [trajectory(f"l{i}", "look", "drop", success=False) for i in range(2)],
)


def experience(**changes: object) -> Experience:
    told: dict[str, object] = {
        "situation": "s", "action": "a", "outcome": "o", "lesson": "l", "zone": "golden", "stage": "exploration",
        "reward": 1.0, "sources": (Source("r", 1.0),), "tools": ("look",), "conditions": Conditions(("shop",), 2, 9),
    }  # fmt: skip
    return Experience(**(told | changes))  # type: ignore[arg-type]


PARTICULAR = [
    ('User: "refund #W12, zip 19122."', 'User: "refund … zip …"'),
    ("In retail, ask first.", "Ask first."),
    ("ask in the retail shop", "ask shop"),
    ("retail users", "this environment users"),
    ("retailers want more", "retailers want more"),
    ("call check_2fa, not id 7", "call check_2fa, not id …"),
    ("a flight from New York to Newark please. Sure, I will", "a flight from … to … please. Sure, I will"),
    ("ich will das über Éva wissen, bitte sehr", "ich will das über … wissen, bitte sehr"),
    ("der Kunde will das Geld für die Bestellung", "der Kunde will das Geld für die Bestellung"),
]


def test_what_is_particular_goes_and_the_rest_stays() -> None:
    for text, expected in PARTICULAR:
        assert without_particulars(text, ["retail"], keep=["check_2fa"]) == expected


def test_an_experience_without_anything_particular_is_not_generalised() -> None:
    assert generalised(experience()) is None


def test_a_second_narrowing_replaces_what_the_first_one_said() -> None:
    once = sharpened(experience(lesson="look first."), SHOWN)
    assert once
    twice = sharpened(once, (SHOWN[0], SHOWN[1][:1] * 3))
    assert twice
    assert twice.lesson == "look first. It helped in 2 of 5 runs: with calls of ask, without calls of drop."
    assert twice.generation == 2


def test_environments_never_become_all_by_narrowing() -> None:
    won = [trajectory(f"w{i}", "look", environment="bank") for i in range(2)]
    assert sharpened(experience(), (won, [trajectory(f"l{i}", "look", success=False) for i in range(2)])) is None


def test_an_experience_that_holds_the_other_is_not_crossed_with_it() -> None:
    assert crossed(experience(lesson="look"), experience(lesson="look first")) is None


def test_a_cross_applies_where_either_does() -> None:
    assert joined(Conditions(("a",), 2, 4, ("x",)), Conditions(("b",), 1, 3, ("x", "y"))) == Conditions(
        ("a", "b"), 1, 4, ("x", "y")
    )
    assert joined(Conditions(("a",), 2, 4), Conditions()) == Conditions()


@given(st.lists(st.text(max_size=1500), min_size=4, max_size=4))
def test_children_are_short_and_plain_whatever_their_parents_say(words: list[str]) -> None:
    parent = experience(situation=words[0], action=words[1], lesson=words[2])
    other = experience(situation=words[3], lesson="another lesson")
    for child in (sharpened(parent, SHOWN), generalised(parent), crossed(parent, other)):
        if child is not None:
            for text in (child.situation, child.action, child.outcome, child.lesson):
                assert len(text) <= FIELD_CHARS
                assert text.isprintable()
