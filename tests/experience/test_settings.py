"""The numbers of PRIME's and EvolveR's tables are the defaults."""

from __future__ import annotations

from hepm.experience import experiences, lesson_bank, matching


def test_three_experiences_of_twenty_candidates_are_kept_from_a_cosine_of_06_on() -> None:
    assert (experiences.RETRIEVED, experiences.CANDIDATES) == (3, 20)  # PRIME, table 2
    assert lesson_bank.FLOOR == 0.6
    assert lesson_bank.LEXICAL_FLOOR == 0.4  # ours: cosines of lexical vectors are lower


def test_principles_are_compared_from_a_cosine_of_085_on() -> None:
    assert (matching.SIMILARITY, matching.NEAREST) == (0.85, 3)  # EvolveR, A.2
