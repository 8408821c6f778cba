"""Which runs have similar requests, where task ids do not repeat.

Requests are grouped by their first words: each wording joins the most similar leader, from a cosine of .75 on, else it
leads; wordings of most runs come first, so that the order of runs does not matter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np

from hepm.embed import HashingEmbedder
from hepm.graph.mirror.lesson_mirror import rarity, weighted
from hepm.graph.rows import Float32Array
from hepm.ingest.transitions import request_of
from hepm.types import Trajectory

LIKE: Final = 0.75
"""Least cosine of like requests; measured in benchmarks/LOG.md, "Requests grouped by likeness"."""

_AT_ONCE: Final = 256  # rows of a block: with 100,000 leaders its cosines take 100 MB
# Words, and the marks that end a sentence.
_WORD: Final = re.compile(r"[\w#@'’.+-]+|[!?\n]")
_DIGIT: Final = re.compile(r"[\d@#]")
Words: TypeAlias = list[tuple[str, bool | None]]
"""Words, each with whether it begins with a capital letter; None where that means nothing."""
_CAPITALS: Final = 1 / 4
"""Where more of the words inside sentences than this begin with a capital letter, as in German, it marks no names."""


def group_by_request(runs: Iterable[Trajectory]) -> dict[str, str]:
    """The group of each run of one environment, by id; a group is named by the id of a run in it."""
    return group_requests({run.id: request_of(run) for run in runs})


def group_requests(requests: Mapping[str, str]) -> dict[str, str]:
    """The group of each request, by its run's id, likewise. O(N · G · D) for N wordings and G groups, in blocks."""
    words_of_run = dict(zip(requests, map(_words, requests.values()), strict=True))
    # Over all of them: a few requests tell nothing of what capitals mean in their language.
    named = _capitals_mark_names(words_of_run.values())
    group_of: dict[str, str] = {}
    by_wording: defaultdict[str, list[str]] = defaultdict(list)
    for run in sorted(requests):
        # Lower-cased; without names where capital letters mark them.
        wording = " ".join(word.lower() for word, capital in words_of_run[run] if not (named and capital))
        if wording:
            by_wording[wording].append(run)
        else:
            group_of[run] = run  # nothing to compare: alone
    texts = sorted(by_wording, key=lambda text: (-len(by_wording[text]), text))
    vectors_ND = HashingEmbedder().embed(texts)
    vectors_ND = weighted(vectors_ND, rarity(vectors_ND.astype(np.float16)))
    for text, leader in zip(texts, _lead(vectors_ND), strict=True):
        group_of.update(dict.fromkeys(by_wording[text], by_wording[texts[leader]][0]))
    return group_of


def _lead(vectors_ND: Float32Array) -> list[int]:
    """The position of each text's leader."""
    joined: list[int] = []
    leaders: list[int] = []
    for start in range(0, len(vectors_ND), _AT_ONCE):
        block_BD = vectors_ND[start : start + _AT_ONCE]
        # Of the rows of this block that lead, the columns are filled as it goes.
        cosines_BL = np.full((len(block_BD), len(leaders) + len(block_BD)), -1.0, dtype=np.float32)
        cosines_BL[:, : len(leaders)] = block_BD @ vectors_ND[leaders].T
        among_BB = block_BD @ block_BD.T
        for row, cosines_L in enumerate(cosines_BL):
            best = int(cosines_L.argmax())
            if cosines_L[best] < LIKE:
                best = len(leaders)
                cosines_BL[:, best] = among_BB[:, row]
                leaders.append(start + row)
            joined.append(leaders[best])
    return joined


def _capitals_mark_names(texts: Iterable[Words]) -> bool:
    inside = Counter[bool]()
    for words in texts:
        inside.update(capital for _, capital in words if capital is not None)
    return inside[True] <= _CAPITALS * max(inside.total(), 1)


def _words(text: str) -> Words:
    """Words without a digit, each with whether it begins with a capital letter; None at the beginning of a sentence."""
    words: Words = []
    begins = True
    for token in _WORD.findall(text):
        word = token.strip(".'’+-")
        if len(word) > 1 and not _DIGIT.search(word):
            # "I'm" and the like are no names.
            unclear = begins or "'" in word or "’" in word
            words.append((word, None if unclear else word[0].isupper()))
        # "Hello. - Yes": what is stripped away whole does not end the beginning.
        begins = token[-1] in ".!?\n" or (begins and not word)
    return words
