"""Where what evolution made of two experiences applies."""

from __future__ import annotations

from hepm.experience.conditions import Conditions
from hepm.experience.operators import joined


def test_a_cross_applies_where_either_does() -> None:
    assert joined(Conditions(("a",), 2, 4, ("x",)), Conditions(("b",), 1, 3, ("x", "y"))) == Conditions(
        ("a", "b"), 1, 4, ("x", "y")
    )
    assert joined(Conditions(("a",), 2, 4), Conditions()) == Conditions()
