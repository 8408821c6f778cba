"""One sentence for what was measured, whoever measured it."""

from __future__ import annotations

from math import inf

from hepm.uplift.effect_text import COLUMNS, MeasuredInBothArms, effect_sentence
from hepm.uplift.sequence import Effect


def test_a_sentence_says_what_is_counted_and_foretells_no_wait_where_none_is_known() -> None:
    better, unclear = Effect(0.06, 0.02, 0.1, 40, inf), Effect(0.03, -0.02, 0.08, 40, inf)
    assert effect_sentence(better, 40, of="task") == "Memory raised success by 6 points (2 to 10) in 40 tasks."
    said = "Not yet known: success differed by 3 points (−2 to 8) in 40 tasks."
    assert effect_sentence(unclear, 40, of="task") == said
    assert effect_sentence(None, 9, of="turn") == "Not yet known: 9 turns are too few."
    assert effect_sentence(None, 1) == "Not yet known: 1 session with an outcome is too few."


def test_a_row_shows_the_difference_of_the_two_means_that_it_shows_and_the_adjusted_one_under_its_name() -> None:
    turns = MeasuredInBothArms("turns", 31.004, 31.396, Effect(-0.8, -5.1, 3.4, 60, 1.0))
    assert dict(zip(("", *COLUMNS), turns.cells, strict=True)) == {
        "": "turns",
        "without": "31.00",
        "with": "31.40",
        "difference": "+0.40",
        "adjusted, 95 %": "−0.8 (−5.1 to 3.4)",
    }
    tokens = MeasuredInBothArms("tokens", 0, 342.95, Effect(286.0, 195.0, 377.0, 260, 1.0))
    assert tokens.cells == ("tokens", "0.00", "342.95", "+342.95", "+286 (195 to 377)")
    # 51.25 % and 90.34 % read 51.2 % and 90.3 %: the difference is that of what is read.
    success = MeasuredInBothArms("success", 0.51249, 0.9034, None, share=True)
    assert success.cells == ("success", "51.2 %", "90.3 %", "+39.1", "–")
    assert MeasuredInBothArms("x", 0.5, 0.25, None, share=True).cells[3] == "−25.0"
