"""Wordings: whether what was said last is in the words that go with one call, or with its failure.

Users and long results say one thing in many words, so that no single one says it: "deceased", "funeral" and "estate"
each stand in few requests. Here the log-odds of all words are added up, as in naive Bayes (of the words that are there
alone). What those of a decision sum to is judged without its own family and without texts in the same words, so that
the information gain of such a test is that of a new text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from hepm.evidence.decisions import BoolArray, FloatArray, IndexArray, Labels
from hepm.evidence.facts import FactTest, KnownFacts, TestedRows, cost_of_test, gains
from hepm.types import SAID, SAID_LAST

_MOST_TOOLS: Final = 6
_LIMITS: Final = np.linspace(0, 1, 13)[1:-1]  # shares of the decisions below a limit
_PRIOR: Final = 2.0  # groups with a word, and as many without it, that are added to each side


def with_wordings(found: TestedRows, known: KnownFacts, label_N: Labels, family_N: IndexArray) -> TestedRows:
    """These tests of N decisions, and those of what the user or the last result said that tell their labels apart.

    Args:
        label_N: Twice the number of the tool, and one more in won runs.
        family_N: What repeats itself counts once.
    """
    once = np.unique(np.stack([family_N, label_N]), axis=1, return_index=True)[1]
    # Two nats more than another test: it has many weights.
    cost = 2 + cost_of_test(2 * _MOST_TOOLS * len(_LIMITS), len(np.unique(label_N)))
    seen = {column.tobytes() for column in found.true_NF.T}
    tests, columns = list(found.tests), [found.true_NF]
    for source in (SAID_LAST, SAID, known.decisions[0].place.tool):
        words, has_NV = _words_of(known, source)
        row_E, word_E = np.nonzero(has_NV)
        group_N = _groups(has_NV, family_N)
        for one_N, other_N in _contrasts(label_N):
            # Of fewer texts on a side nothing is learned.
            if min(len(np.unique(group_N[side_N])) for side_N in (one_N, other_N)) < 6:
                continue
            one_V, one_E = _log_shares(one_N, group_N, row_E, word_E, len(words))
            other_V, other_E = _log_shares(other_N, group_N, row_E, word_E, len(words))
            score_N = np.bincount(row_E, one_E - other_E, len(label_N))
            limit_L = np.unique(np.quantile(score_N[one_N | other_N], _LIMITS))
            true_NL = score_N[:, None] > limit_L
            gain_L = gains(true_NL[once], label_N[once])
            # Where a few wordings come again and again, those of the other decisions tell the opposite of a decision.
            gain_L[true_NL[one_N].mean(axis=0) <= true_NL[other_N].mean(axis=0)] = 0
            limit = float(limit_L[gain_L.argmax()])
            sign = 1 if limit >= 0 else -1  # so that some word speaks for it
            column = sign * score_N > sign * limit
            if gain_L.max() < cost or column.tobytes() in seen:
                continue
            seen.add(column.tobytes())
            columns.append(column[:, None])
            weights = zip(words, (sign * (one_V - other_V)).round(2).tolist(), strict=True)
            ordered = tuple(sorted(weights, key=lambda weight: -weight[1]))
            tests.append(FactTest(source, "~", round(sign * limit, 3), weights=ordered))
    return TestedRows(tuple(tests), np.hstack(columns))


def _words_of(known: KnownFacts, source: str) -> tuple[list[str], BoolArray]:
    """The words of a source in three decisions or more, at most 300, and which decisions knew them, shape (N, V)."""
    words: list[int] = []
    for number, rows in known.most_known(3):
        if len(words) == 300:
            break
        name = known.names[number]
        if name.source == source and "~" in name.fact and 2 * rows <= len(known.decisions):
            words.append(number)
    column_F = np.full(len(known.names), -1)
    column_F[words] = np.arange(len(words))
    is_word_E = column_F[known.fact_E] >= 0
    has_NV = np.zeros((len(known.decisions), len(words)), dtype=np.bool_)
    has_NV[known.row_E[is_word_E], column_F[known.fact_E[is_word_E]]] = True
    return [known.names[word].fact for word in words], has_NV


def _contrasts(label_N: Labels) -> Iterator[tuple[BoolArray, BoolArray]]:
    """The decisions of each frequent tool and all others; those that it lost and those that it won."""
    tools, count_T = np.unique(label_N // 2, return_counts=True)
    for tool in tools[np.argsort(-count_T, kind="stable")[:_MOST_TOOLS]].tolist():
        yield label_N // 2 == tool, label_N // 2 != tool
        yield label_N == 2 * tool, label_N == 2 * tool + 1


def _groups(has_NV: BoolArray, family_N: IndexArray) -> IndexArray:
    """The numbers of groups: decisions of one family, or in the same words, are in one."""
    wording_N = np.unique(np.packbits(has_NV, axis=1), axis=0, return_inverse=True)[1].ravel()
    group_N = family_N
    for same_N in (wording_N, family_N, wording_N):
        least_S = np.full(int(same_N.max()) + 1, len(same_N))
        np.minimum.at(least_S, same_N, group_N)
        group_N = least_S[same_N]
    return np.unique(group_N, return_inverse=True)[1]


def _log_shares(
    side_N: BoolArray, group_N: IndexArray, row_E: IndexArray, word_E: IndexArray, words: int
) -> tuple[FloatArray, FloatArray]:
    """The logs of the shares of a side's groups that have each word, and the same without a decision's own group.

    Args:
        row_E, word_E: Which decisions have which words; the second result has their shape.
    """
    is_side_G = np.bincount(group_N[side_N], minlength=int(group_N.max()) + 1) > 0
    has_GV = np.zeros((len(is_side_G), words), dtype=np.bool_)
    group_E, of_side_E = group_N[row_E], side_N[row_E]
    has_GV[group_E[of_side_E], word_E[of_side_E]] = True
    with_V, groups = has_GV.sum(axis=0) + _PRIOR, is_side_G.sum() + 2 * _PRIOR
    others_E = (with_V[word_E] - has_GV[group_E, word_E]) / (groups - is_side_G[group_E])
    return np.log(with_V / groups), np.log(others_E)
