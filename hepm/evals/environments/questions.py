"""Question answering over a corpus that the agent searches, as EvolveR measures it (4, A.2): exact match and F1.

The questions and the corpus come from files, or are our own (`hepm.evals.environments.island`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Final

from hepm.errors import InputError, MissingExtraError
from hepm.evals.answers import exact_match, f1
from hepm.evals.environments import Call, GoldTurn, Schema, Task, ToolFailed
from hepm.evals.environments.island import AskedQuestion, Paragraph, paragraphs, questions
from hepm.evals.environments.question_files import read_corpus, read_questions

FOUND: Final = 3
"""k_d, the paragraphs that a search gives (EvolveR, A.2)."""
CORPUS: Final = "corpus="
"""Marks the files of a corpus among those of questions."""
SEARCH: Final = "search"
_SYSTEM: Final = (
    "Answer the user's question. Search the corpus as often as you need: what you know by heart may be wrong there. A "
    "question may need several searches, each with a name that the last one gave. Your last message is the answer "
    "alone, in as few words as it takes, without a sentence around it."
)


def search_tool(name: str) -> Schema:
    """The search, as endpoints take it."""
    properties = {"query": {"type": "string", "description": "Names and words to look for"}}
    parameters = {"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False}
    about = f"The {FOUND} paragraphs of the corpus that fit a query best"
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


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
        self.paragraphs = list(dict.fromkeys(known))
        self._tokens = bm25s.tokenize
        self._index = bm25s.BM25()
        texts = [f"{one.title} {one.text}" for one in self.paragraphs]
        self._index.index(self._tokens(texts, show_progress=False), show_progress=False)

    def search(self, query: str, k: int = FOUND) -> list[Paragraph]:
        """The k best paragraphs that share a word with the query, best first, ties in the corpus' order."""
        (words,) = self._tokens([query], return_ids=False, show_progress=False)
        known = [word for word in words if word in self._index.vocab_dict]
        if not known:
            return []
        scores_N = self._index.get_scores(known)
        best = (-scores_N).argsort(kind="stable")[:k].tolist()
        return [self.paragraphs[at] for at in best if scores_N[at] > 0]

    def told(self, query: str) -> str:
        """What a search returns, as an agent reads it."""
        found = self.search(query)
        lines = [f"[{number}] {one.title}: {one.text}" for number, one in enumerate(found, 1)]
        return "\n".join(lines) or "Nothing in the corpus has a word of this query."


class QuestionEpisode:
    """A run: the agent's first text without a call is its answer."""

    tools: Sequence[Schema] = (search_tool(SEARCH),)

    def __init__(self, corpus: Callable[[], Corpus], asked: AskedQuestion) -> None:
        self._corpus, self._asked, self._answer = corpus, asked, ""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        query = arguments.get("query")
        if tool != SEARCH or set(arguments) != {"query"} or not isinstance(query, str):
            raise ToolFailed(f"the only tool is {SEARCH}, with a query")
        return self._corpus().told(query)

    def answer(self, text: str) -> str | None:
        self._answer = text

    def reward(self) -> float:
        return exact_match(self._answer, self._asked.answers)

    def scores(self) -> Mapping[str, float]:
        return {"f1": f1(self._answer, self._asked.answers)}

    def close(self) -> None: ...


class QuestionEnvironment:
    """Questions over a corpus. Both are read when they are first needed."""

    def __init__(self, name: str, read: Callable[[], tuple[Sequence[AskedQuestion], Sequence[Paragraph]]]) -> None:
        self.name, self._read, self._lock = name, read, Lock()

    @cached_property
    def _known(self) -> tuple[Mapping[str, AskedQuestion], Sequence[Paragraph]]:
        asked, given = self._read()
        return {one.id: one for one in asked}, given

    @cached_property
    def _corpus(self) -> Corpus:
        return Corpus(self._known[1])

    def corpus(self) -> Corpus:
        """What is searched; indexed once."""
        with self._lock:
            return self._corpus

    def tasks(self) -> Sequence[Task]:
        return [question_task(one, _SYSTEM, SEARCH) for one in self._known[0].values()]

    def start(self, task: Task, *, seed: int = 0) -> QuestionEpisode:
        del seed
        return QuestionEpisode(self.corpus, self._known[0][task.id])

    def close(self) -> None: ...


def question_task(asked: AskedQuestion, system: str, tool: str) -> Task:
    """A question as a task; where its searches are known, they are the gold calls."""
    calls = tuple(Call(tool, {"query": query}) for query in asked.searches)
    gold = (GoldTurn(calls, asked.answers[0]),)
    return Task(asked.id, asked.text, system, family=asked.kind or asked.id, split=asked.split, gold=gold)


def island_questions() -> QuestionEnvironment:
    """40 questions of our own over 120 paragraphs."""
    return QuestionEnvironment("questions", lambda: (questions(), paragraphs()))


def file_questions(source: str) -> QuestionEnvironment:
    """Questions from files, separated by commas, over a corpus, or over their own paragraphs.

    Args:
        source: "dev.json,corpus=wiki.jsonl", say.
    """
    return QuestionEnvironment("questions-files", partial(_from_files, source))


def _from_files(source: str) -> tuple[Sequence[AskedQuestion], Sequence[Paragraph]]:
    asked: list[AskedQuestion] = []
    given: list[Paragraph] = []
    names = [name for name in source.split(",") if name]
    for name in names:
        if name.startswith(CORPUS):
            continue
        found, beside = read_questions(Path(name))
        asked, given = asked + found, given + beside
    if not asked:
        raise InputError(
            "questions-files needs files of questions: name them by --source, separated by commas, and a corpus to "
            f"search as {CORPUS}FILE."
        )
    corpus: list[Paragraph] = []
    for name in names:
        if name.startswith(CORPUS):
            corpus += read_corpus(Path(name.removeprefix(CORPUS)))
    return asked, corpus or given
