from __future__ import annotations

from hepm.experience.transcript import SITUATION_CHARS, situation_text
from hepm.types import StateSummary


def test_a_situation_tells_where_what_is_wanted_and_what_was_called() -> None:
    known = StateSummary(said=("Cancel it", "I am Mia"), tools=("find", "look", "look"), failed=True)
    assert situation_text("retail", known) == (
        'In retail. User "Cancel it / I am Mia" Before: find and look. The last result was an error.'
    )


def test_the_agents_own_summary_stands_for_what_was_said() -> None:
    assert situation_text("", StateSummary(own="Order is paid", said=("Hi",))) == 'Known "Order is paid"'


def test_long_words_are_cut_message_by_message() -> None:
    text = situation_text("e" * 100, StateSummary(said=("x" * 9000, "I am Mia", "y" * 9000), tools=("t" * 99,) * 3))
    assert len(text) <= SITUATION_CHARS
    assert "I am Mia" in text
