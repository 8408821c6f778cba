"""Question answering over a corpus that the agent searches, as EvolveR measures it (4, A.2): exact match and F1.

The questions and the corpus come from files. Our own are about an island that does not exist, and need several of its
paragraphs: no model has read of it, so that a right answer was found by searching.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Final

from hepm.errors import InputError, MissingExtraError
from hepm.lab.environments import Environment, Schema, Task, ToolFailed, tool_schema
from hepm.lab.environments.answers import exact_match, f1
from hepm.lab.environments.question_files import CORPUS, AskedQuestion, Paragraph, read_files
from hepm.types import ToolCall, Turn

FOUND: Final = 3
"""k_d, the paragraphs that a search gives (EvolveR, A.2)."""
_DATA: Final = Path(__file__).parent / "data"
ISLAND: Final = f"{_DATA / 'island.jsonl'},{CORPUS}{_DATA / 'island-corpus.jsonl'}"
"""Our own: 40 questions of five kinds, of each kind the last three for testing, over 120 paragraphs."""
SEARCH: Final = "search"
_SYSTEM: Final = (
    "Answer the user's question. Search the corpus as often as you need: what you know by heart may be wrong there. A "
    "question may need several searches, each with a name that the last one gave. Your last message is the answer "
    "alone, in as few words as it takes, without a sentence around it."
)


class Corpus:
    """Paragraphs that are found by BM25. Threads may share it.

    Raises:
        InputError: there is no paragraph.
        MissingExtraError: bm25s is not installed.
    """

    def __init__(self, known: Sequence[Paragraph]) -> None:
        try:
            bm25s: Any = import_module("bm25s")  # it has no types
        except ImportError as error:
            raise MissingExtraError("searching a corpus needs bm25s: pip install 'hepm[questions]'") from error
        if not known:
            raise InputError(
                "there is no paragraph to search: the files of questions give none, so name a corpus: "
                f"--source QUESTIONS,{CORPUS}FILE"
            )
        # Each once: files of several questions repeat paragraphs.
        self.paragraphs = list(dict.fromkeys(known))
        self._tokens = bm25s.tokenize
        self._index = bm25s.BM25()
        texts = [f"{paragraph.title} {paragraph.text}" for paragraph in self.paragraphs]
        self._index.index(self._tokens(texts, show_progress=False), show_progress=False)

    def search(self, query: str, k: int = FOUND) -> list[Paragraph]:
        """The k best paragraphs that share a word with the query, best first, ties in the corpus' order."""
        (words,) = self._tokens([query], return_ids=False, show_progress=False)
        known = [word for word in words if word in self._index.vocab_dict]  # bm25s raises for others
        if not known:
            return []
        scores_N = self._index.get_scores(known)
        # Stable, so that ties keep the corpus' order.
        best = (-scores_N).argsort(kind="stable")[:k].tolist()
        return [self.paragraphs[number] for number in best if scores_N[number] > 0]

    def answer(self, query: str) -> str:
        """What a search returns, as an agent reads it."""
        found = enumerate(self.search(query), 1)
        lines = [f"[{number}] {paragraph.title}: {paragraph.text}" for number, paragraph in found]
        return "\n".join(lines) or "Nothing in the corpus has a word of this query."


class QuestionEpisode:
    """A run: the agent's first text without a call is its answer."""

    tools: Sequence[Schema] = (
        tool_schema(
            SEARCH,
            f"The {FOUND} paragraphs of the corpus that fit a query best",
            {"query": {"type": "string", "description": "Names and words to look for"}},
        ),
    )

    def __init__(self, corpus: Callable[[], Corpus], asked: AskedQuestion) -> None:
        self._corpus = corpus
        self._question = asked
        self._answer = ""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The paragraphs found; ToolFailed for anything but a search."""
        query = arguments.get("query")
        if tool != SEARCH or set(arguments) != {"query"} or not isinstance(query, str):
            raise ToolFailed(f"the only tool is {SEARCH}, with a query")
        return self._corpus().answer(query)

    def answer(self, text: str) -> str | None:
        """Keep the answer; None ends the run."""
        self._answer = text

    def reward(self) -> float:
        """1 for an exact match."""
        return exact_match(self._answer, self._question.answers)

    def scores(self) -> Mapping[str, float]:
        return {"f1": f1(self._answer, self._question.answers)}

    def close(self) -> None:
        """Nothing is held."""


class QuestionEnvironment(Environment):
    """Questions over a corpus. Both are read when they are first needed.

    Args:
        source: See `read_files`: "dev.json,corpus=wiki.jsonl".
    """

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self._source = source
        self._lock = Lock()

    @cached_property
    def _contents(self) -> tuple[Sequence[AskedQuestion], Sequence[Paragraph]]:
        return read_files(self._source)

    @cached_property
    def _corpus(self) -> Corpus:
        return Corpus(self._contents[1])

    def corpus(self) -> Corpus:
        """What is searched; indexed once."""
        with self._lock:
            return self._corpus

    def tasks(self) -> Sequence[Task]:
        """A task for each question, in their order; where its searches are known, they are the gold calls."""
        tasks: list[Task] = []
        for asked in self._contents[0]:
            # Questions of files have no known searches: a task without gold calls.
            calls = tuple(ToolCall(SEARCH, {"query": query}) for query in asked.searches)
            gold = (Turn("assistant", asked.answers[0], calls),)
            tasks.append(Task(asked.id, asked.text, _SYSTEM, asked.kind or asked.id, asked.split, gold=gold))
        return tasks

    def start(self, task: Task, *, seed: int = 0) -> QuestionEpisode:
        """A run; nothing in it is drawn."""
        del seed
        asked = next(asked for asked in self._contents[0] if asked.id == task.id)
        # The corpus as a function: indexing takes long and waits for the first search.
        return QuestionEpisode(self.corpus, asked)
