"""Exact match and F1 of short answers, as SQuAD, HotpotQA and EvolveR (equation 3) score them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

_CLOSED: Final = ("yes", "no", "noanswer")


def plain_answer(answer: str) -> str:
    """An answer in lower case, without punctuation and articles, as in the scripts of SQuAD and HotpotQA."""
    kept = "".join(character for character in answer.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", kept).split())


def exact_match(predicted: str, gold: Sequence[str]) -> float:
    """1 if the answer is one of the gold ones, else 0, without case, punctuation and articles."""
    return float(plain_answer(predicted) in map(plain_answer, gold))


def f1(predicted: str, gold: Sequence[str]) -> float:
    """The best F1 over the gold answers: 2PR / (P + R), with precision and recall of the words they share.

    An answer of yes or no shares nothing with another one (HotpotQA's evaluation).
    """
    answer = plain_answer(predicted)
    return max((_f1(answer, plain_answer(right)) for right in gold), default=0.0)


def _f1(predicted: str, gold: str) -> float:
    # "no" and "no answer" share a word, and say different things.
    if predicted != gold and (predicted in _CLOSED or gold in _CLOSED):
        return 0.0
    predicted_words = Counter(predicted.split())
    gold_words = Counter(gold.split())
    common = (predicted_words & gold_words).total()
    # Two empty answers are equal.
    if not common:
        return float(predicted == gold)
    precision = common / predicted_words.total()
    recall = common / gold_words.total()
    return 2 * precision * recall / (precision + recall)
