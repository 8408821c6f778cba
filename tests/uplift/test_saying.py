"""One sentence for what was measured, whoever measured it."""

from __future__ import annotations

from math import inf

from hepm.uplift.effect_text import effect_sentence
from hepm.uplift.sequence import Effect


def test_a_sentence_says_what_is_counted_and_foretells_no_wait_where_none_is_known() -> None:
    better, unclear = Effect(0.06, 0.02, 0.1, 40, inf), Effect(0.03, -0.02, 0.08, 40, inf)
    assert effect_sentence(better, 40, of="task") == "Memory raised success by 6 points (2 to 10) in 40 tasks."
    said = "Not yet known: success differed by 3 points (−2 to 8) in 40 tasks."
    assert effect_sentence(unclear, 40, of="task") == said
    assert effect_sentence(None, 9, of="turn") == "Not yet known: 9 turns are too few."
    assert effect_sentence(None, 1) == "Not yet known: 1 session with an outcome is too few."
