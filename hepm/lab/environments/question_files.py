"""Questions and corpora in the formats in which they are published: Natural Questions, HotpotQA, TriviaQA, PopQA,
2WikiMultiHopQA, MuSiQue and Bamboogle, and the corpora of DPR, HotpotQA and Search-R1."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias, cast

from hepm.errors import InputError

Record: TypeAlias = Mapping[str, Any]

# The names of a field in the formats above; the first that a record has counts.
_TEXT: Final = ("question", "Question")
_ID: Final = ("id", "_id", "question_id", "QuestionId")
_ANSWERS: Final = ("golden_answers", "answers", "answer", "Answer", "possible_answers", "value", "Value")
_ALIASES: Final = ("aliases", "Aliases", "answer_aliases")
_PARAGRAPH: Final = ("text", "paragraph_text")
_FORMATS: Final = "JSON, JSON lines, CSV or TSV, as published (docs/reference/environments.md)"
CORPUS: Final = "corpus="
"""Marks the files of a corpus among those of questions."""

csv.field_size_limit(2**24)  # characters; a cell of paragraphs is longer than the usual 131,072


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A title and a text."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its right answers.

    Attributes:
        kind: What kind of question it is; "" if unknown.
        split: "train" or "test".
        searches: Those that lead to the answer, in order; only our own questions have them.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str
    split: str
    searches: tuple[str, ...]


def read_files(source: str) -> tuple[list[AskedQuestion], list[Paragraph]]:
    """The questions of files, separated by commas, and the paragraphs to search: those of a corpus, "corpus=FILE", or
    else the questions' own.

    Raises:
        InputError: no file of questions is named, or one cannot be read.
    """
    asked: list[AskedQuestion] = []
    given: list[Paragraph] = []
    corpus: list[Paragraph] = []
    for name in filter(None, source.split(",")):
        if name.startswith(CORPUS):
            corpus += read_corpus(Path(name.removeprefix(CORPUS)))
        else:
            of_file, beside = read_questions(Path(name))
            asked += of_file
            given += beside
    if not asked:
        raise InputError(
            "questions-files needs files of questions: name them by --source, separated by commas, and a corpus to "
            f"search as {CORPUS}FILE."
        )
    return asked, corpus or given


def read_questions(file: Path) -> tuple[list[AskedQuestion], list[Paragraph]]:
    """The questions of a file, in order, and the paragraphs that it gives with them; none for most formats.

    A record without a split is of the train split if the file's name says so ("hotpot_train_v1.1.json"), else of the
    test split.

    Raises:
        InputError: it cannot be read, or a record has no question or no answer.
    """
    of_file = "train" if "train" in file.name.lower() else "test"
    questions: list[AskedQuestion] = []
    given: list[Paragraph] = []
    for number, record in enumerate(_records(file), 1):
        text = str(_first(record, _TEXT) or "").strip()
        answers = tuple(dict.fromkeys(_answers(record)))
        if not text or not answers:
            raise InputError(f"record {number} of {file} has no question or no answer: expected {_FORMATS}.")
        # With the name of the file: several files may number their questions from 1.
        id = f"{file.stem}-{_first(record, _ID) or number}"
        kind, split = str(record.get("type") or ""), record.get("split") or of_file
        questions.append(AskedQuestion(id, text, answers, kind, split, tuple(record.get("searches") or ())))
        given += _paragraphs_of(record)
    return questions, given


def read_corpus(file: Path) -> Iterator[Paragraph]:
    """The paragraphs of a corpus: records with title and text, or with `contents` whose first line is the title."""
    for number, record in enumerate(_records(file), 1):
        title, text = str(record.get("title") or ""), _first(record, _PARAGRAPH)
        if not text:
            title, _, text = str(record.get("contents") or "").partition("\n")
        if not text:
            raise InputError(f"record {number} of {file} has no text: expected title and text, or contents.")
        yield Paragraph(title.strip('"'), _joined(text))


def _records(file: Path) -> Iterator[Record]:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            if file.suffix == ".jsonl":
                yield from (json.loads(line) for line in lines if line.strip())
            elif file.suffix in (".csv", ".tsv", ".txt"):
                yield from _rows(lines)
            else:
                whole: Any = json.load(lines)
                if isinstance(whole, dict):  # TriviaQA
                    whole = cast("Record", whole)["Data"]
                yield from whole
    except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read: {error}. Expected {_FORMATS}.") from error


def _rows(lines: TextIO) -> Iterator[Record]:
    """Rows by their header. A file without one has a question and a list of answers in each (DPR's of NQ)."""
    first = lines.readline()
    lines.seek(0)
    mark = "\t" if "\t" in first else ","
    names = None
    if not {*next(csv.reader([first], delimiter=mark))} & {*_TEXT, *_PARAGRAPH}:
        names = ("question", "answers")
    # The reader splits at line ends alone: a question of TriviaQA has other marks that `str.splitlines` splits at.
    yield from csv.DictReader(lines, names, delimiter=mark)


def _first(record: Record, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def _answers(record: Record) -> list[str]:
    """The answers and their aliases."""
    given: Any = _first(record, _ANSWERS)
    if isinstance(given, dict):  # TriviaQA: {"Value": "Paris", "Aliases": [...]}
        return _answers(cast("Record", given))
    if isinstance(given, str) and given.startswith("["):
        try:
            given = json.loads(given)  # PopQA
        except ValueError:
            given = ast.literal_eval(given)  # DPR: "['Paris', 'paris']"
    values = cast("list[Any]", given) if isinstance(given, list) else [given]
    return [str(answer) for answer in (*values, *(_first(record, _ALIASES) or ())) if str(answer or "").strip()]


def _paragraphs_of(record: Record) -> Iterator[Paragraph]:
    """The paragraphs beside a question of HotpotQA, 2WikiMultiHopQA or MuSiQue."""
    context: Any = record.get("context") or ()
    if isinstance(context, dict):  # as Hugging Face's datasets have it
        columns = cast("Record", context)
        context = zip(columns["title"], columns.get("sentences") or columns["content"], strict=True)
    if not isinstance(context, str):
        for title, texts in context:
            yield Paragraph(str(title), _joined(texts))
    for paragraph in record.get("paragraphs") or ():  # MuSiQue
        yield Paragraph(str(paragraph["title"]), str(paragraph["paragraph_text"]))


def _joined(text: object) -> str:
    """A text, or a list of its sentences."""
    parts = cast("list[object]", text) if isinstance(text, list) else [text]
    return " ".join(str(part).strip() for part in parts)
