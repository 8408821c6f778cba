"""An index of an agent's tools: which of them the words of a request name. BM25 over fields, and vectors of a model.

BM25F is by Robertson, Zaragoza & Taylor 2004 ("Simple BM25 extension to multiple weighted fields"); its fields here are
a tool's name, its description, the names of its parameters, and what the schema says of these. The weights were chosen
on MCPToolBench++ and on half of BFCL (benchmarks/LOG.md, "tool shortlists").
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np

from hepm.errors import InputError
from hepm.evidence.decisions import FloatArray
from hepm.evidence.engine import stem
from hepm.ingest.fields import is_object
from hepm.ingest.records import RecordError, decoded_text, is_record, json_of
from hepm.ingest.tools import read_tools
from hepm.text import FUNCTION_WORDS
from hepm.types import Tool

if TYPE_CHECKING:
    from hepm.embed import Embedder

Postings: TypeAlias = dict[str, tuple[list[int], FloatArray]]
"""By stem: the numbers of the tools that hold it, and what it says for each, shape (H,)."""

_WEIGHTS: Final = (2.0, 1.0, 0.7, 0.3)
"""Of the fields: name, description, names of parameters, what the schema says of them."""
_LENGTH: Final = 0.4  # how much a long field loses (b)
_SATURATION: Final = 1.2  # of a word that comes often (k1)
_OF_CLAUSE: Final = 0.5
"""Of the best clause of a request, where the whole has 1: a request that needs five tools names each in a clause."""
_OF_WORDS: Final = 0.5
"""Of words, where a model's cosines with the whole and with the best clause have 1 each."""

# "getUserID2" is get, User, ID, 2; what has no blanks between words (Chinese, Japanese, Korean) is taken in pairs.
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W\d_]+")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class ToolIndex:
    """The tools of an agent, made ready to be searched. Make it with `index_of`.

    Attributes:
        tools_N: The tools; None for what is no function, as a tool that the provider runs, or hepm's own.
        tokens_N: Tokens of each in a prompt, approximately.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from hepm.llm.usage import estimate_tokens

        self.tools_N = [_tool_in(text) for text in texts]
        self.tokens_N = [estimate_tokens(text) for text in texts]
        self.names_N = [tool.name if tool is not None else "" for tool in self.tools_N]
        self._held = self._postings()
        # Schemas are large, and read no more.
        self.tools_N = [tool and replace(tool, parameters={}) for tool in self.tools_N]

    def _postings(self) -> Postings:
        """What each stem says for the tools that hold it."""
        fields_N = [_fields_of(tool) for tool in self.tools_N]
        mean_F = [sum(map(len, fields)) / len(fields_N) for fields in zip(*fields_N, strict=True)]
        held: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for number, fields in enumerate(fields_N):
            times = defaultdict[str, float](float)
            for weight, mean, field in zip(_WEIGHTS, mean_F, fields, strict=True):
                for word in field:
                    times[word] += weight / (1 - _LENGTH + _LENGTH * len(field) / mean)
            for word, amount in times.items():
                held[word][number] = amount / (_SATURATION + amount)
        postings: Postings = {}
        for word, rows in held.items():
            rarity = math.log(1 + (len(fields_N) - len(rows) + 0.5) / (len(rows) + 0.5))
            postings[word] = list(rows), rarity * np.array(list(rows.values()))
        return postings

    def scores(self, text: str, embedder: Embedder | None = None) -> FloatArray:
        """How well each tool fits the words of a request, shape (N,); 0 where nothing does.

        Args:
            embedder: A model whose vectors count, too; None for words alone.
        """
        ends = r"[.!?;:,\n。；、，！？]+|\b(?:and|then|also|after|before)\b"
        clauses = [clause.strip() for clause in re.split(ends, text)]
        # Those with three words or more; of texts without blanks all.
        clauses = [clause for clause in clauses if len(clause.split()) >= 3 or _UNSPACED.search(clause)][:12]
        words_N = _of_best(self._bm25(text))
        by_clause = [self._bm25(clause) for clause in clauses]
        if by_clause:
            words_N = _of_best(words_N + _OF_CLAUSE * _of_best(np.max(by_clause, axis=0)))
        if embedder is None or not self.tools_N or not text.strip():
            return words_N
        asked_CD = embedder.embed([text, *(clauses or [text])])
        # The memory's embedder keeps the vectors of texts that it knows.
        cosine_NC = embedder.embed(list(map(_prose_of, self.tools_N))) @ asked_CD.T
        return _OF_WORDS * words_N + cosine_NC[:, 0] + cosine_NC[:, 1:].max(axis=1)

    def _bm25(self, text: str) -> FloatArray:
        scores_N = np.zeros(len(self.tools_N))
        for word in set(_stems(text)):
            if word in self._held:
                numbers, amounts = self._held[word]
                scores_N[numbers] += amounts
        return scores_N


def listed(tools: object) -> list[object]:
    """The tools of a list; InputError for a text or one object, which could be iterated over, too."""
    if isinstance(tools, str) or is_record(tools) or not isinstance(tools, Iterable):
        raise InputError(f"tools is a {type(tools).__name__}: give a list of tools")
    return list(cast("Iterable[object]", tools))


def index_of(tools: Sequence[object]) -> ToolIndex:
    """The index of an agent's tools in any form that `read_tools` takes; kept for the next request with the same ones.

    Raises:
        InputError: one of them is no tool.
    """
    texts: list[str] = []
    for tool in tools:
        try:
            texts.append(json_of(tool))
        except (
            RecordError
        ):  # an object of an SDK that is no data: `read_tools` takes its attributes, or says what is wrong
            texts += map(json_of, read_tools((tool,)))
    return _index(tuple(texts))


_index: Final = lru_cache(maxsize=4)(ToolIndex)


def _tool_in(text: str) -> Tool | None:
    try:
        definition = decoded_text(text)
    except RecursionError as error:
        raise InputError("tools holds a tool that is nested too deeply") from error
    # Tools of other types, such as "web_search", the provider runs.
    if is_object(definition) and definition.get("type") not in ("function", "custom", None):
        return None
    return next(iter(read_tools((definition,))), None)


def _fields_of(tool: Tool | None) -> tuple[list[str], ...]:
    if tool is None:
        return [], [], [], []
    names: list[str] = []
    texts: list[str] = []
    # The parameters in the schema; the list grows by those inside objects and lists.
    schemas: list[object] = [tool.parameters]
    for schema in schemas:
        properties = schema.get("properties") if is_object(schema) else None
        for name, inner in properties.items() if is_object(properties) else ():
            if is_object(inner):
                names.append(name)
                texts += [str(inner.get("description", "")), str(inner.get("enum", ""))]
                schemas += [inner, inner.get("items")]
    return _stems(tool.name), _stems(tool.description), _stems(" ".join(names)), _stems(" ".join(texts))


def _stems(text: str) -> list[str]:
    """The words of a text or a name, as they are compared, but for those that say nothing."""
    found: list[str] = []
    for match in _PIECE.finditer(text):
        if len(found) >= 2_000:  # a description of megabytes must not hold others up
            break
        piece = match[0]
        if _UNSPACED.match(piece):
            found += [piece[at : at + 2] for at in range(max(len(piece) - 1, 1))]
        elif piece.lower() not in FUNCTION_WORDS:
            found.append(stem(piece.lower()))
    return found


def _prose_of(tool: Tool | None) -> str:
    """A tool as a model for sentences reads it: "get user id: Look up a user"."""
    if tool is None:
        return ""
    return f"{' '.join(_PIECE.findall(tool.name)).lower()}: {tool.description}"[:600]


def _of_best(scores_N: FloatArray) -> FloatArray:
    """Scores in [0, 1], as parts of the best."""
    return scores_N / max(float(scores_N.max(initial=0.0)), 1e-9)
