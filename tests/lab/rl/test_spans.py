"""Rows and masks of hand-made spans (H-EPM C.5, EvolveR 5.3)."""

from __future__ import annotations

from hepm.lab.rl.spans import SpanKind, TokenSpan, row_of


def spans(*parts: tuple[SpanKind, int]) -> list[TokenSpan]:
    """Spans of these lengths, with tokens 0, 1, 2 and so on."""
    found: list[TokenSpan] = []
    for kind, length in parts:
        start = sum(len(span.ids) for span in found)
        found.append(TokenSpan(kind, tuple(range(start, start + length))))
    return found


GUIDED = spans(("model", 5), ("hint", 4), ("summary", 6), ("tool", 3), ("model", 5))


def test_masked_are_hints_summaries_and_results_and_the_row_stays_whole():
    row = row_of(GUIDED)
    assert row.prompt == ()
    assert row.completion == tuple(range(23))
    assert row.mask == (1,) * 5 + (0,) * 13 + (1,) * 5


def test_discarded_are_hints_and_summaries_alone_and_the_loss_has_the_same_tokens():
    row = row_of(GUIDED, added="discard")
    assert row.completion == (*range(5), *range(15, 23))
    assert sum(row.mask) == 10
    assert [token for token, trained in zip(row.completion, row.mask, strict=True) if trained] == [
        *range(5),
        *range(18, 23),
    ]


def test_the_prompt_is_all_before_the_first_token_of_the_model_with_its_hint_unless_that_is_absorbed():
    opening = spans(("user", 2), ("hint", 2), ("user", 1), ("model", 2))
    assert row_of(opening).prompt == (0, 1, 2, 3, 4)
    assert row_of(opening, added="discard").prompt == (0, 1, 4)
    assert row_of(opening, absorb=True).prompt == (0, 1)


def test_with_discard_a_summary_is_no_beginning_of_the_completion():
    first = spans(("user", 2), ("summary", 3), ("user", 1), ("model", 2))
    assert row_of(first, added="discard").prompt == (0, 1, 5)
    assert row_of(first).prompt == (0, 1)


def test_log_probabilities_are_those_of_sampled_tokens_and_unknown_if_a_message_has_none():
    known = [TokenSpan("model", (1, 2), (-0.5, -0.25)), TokenSpan("tool", (3,)), TokenSpan("model", (4,), (-1.0,))]
    assert row_of(known).logprobs == (-0.5, -0.25, 0.0, -1.0)
    assert row_of([*known, TokenSpan("model", (5,))]).logprobs is None
