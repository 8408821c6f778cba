"""Questions and corpora in the formats in which they are published: Natural Questions, HotpotQA, TriviaQA, PopQA,
2WikiMultiHopQA, MuSiQue and Bamboogle, and the corpora of DPR, HotpotQA and Search-R1."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias, cast

from hepm.errors import InputError
from hepm.lab.environments.island import AskedQuestion, Paragraph

Record: TypeAlias = Mapping[str, Any]

# The names of a field in the formats above; the first that a record has counts.
_TEXT: Final = ("question", "Question")
_ID: Final = ("id", "_id", "question_id", "QuestionId")
_ANSWERS: Final = ("golden_answers", "answers", "answer", "Answer", "possible_answers", "value", "Value")
_ALIASES: Final = ("aliases", "Aliases", "answer_aliases")
_PARAGRAPH: Final = ("text", "paragraph_text")
_FORMATS: Final = "JSON, JSON lines, CSV or TSV, as published (docs/reference/environments.md)"

csv.field_size_limit(2**24)  # characters; a cell of paragraphs is longer than the usual 131,072


def read_questions(file: Path) -> tuple[list[AskedQuestion], list[Paragraph]]:
    """The questions of a file, in order, and the paragraphs that it gives with them; none for most formats.

    A file is of the train split if its name says so ("hotpot_train_v1.1.json"), else of the test split.

    Raises:
        InputError: it cannot be read, or a record has no question or no answer.
    """
    # The formats do not say it in the records.
    split = "train" if "train" in file.name.lower() else "test"
    questions: list[AskedQuestion] = []
    given: list[Paragraph] = []
    for number, record in enumerate(_records(file), 1):
        text = str(_first(record, _TEXT) or "").strip()
        answers = tuple(dict.fromkeys(_answers(record)))
        if not text or not answers:
            raise InputError(f"record {number} of {file} has no question or no answer: expected {_FORMATS}.")
        # With the name of the file: several files may number their questions from 1.
        id = f"{file.stem}-{_first(record, _ID) or number}"
        questions.append(AskedQuestion(id, text, answers, str(record.get("type") or ""), split))
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
    mark = ","
    if "\t" in lines.readline():
        mark = "\t"
    lines.seek(0)
    # The reader splits at line ends alone: a question of TriviaQA has other marks that `str.splitlines` splits at.
    rows = filter(None, csv.reader(lines, delimiter=mark))
    header = next(rows, list[str]())
    if {*header} & {*_TEXT, *_PARAGRAPH}:
        for row in rows:
            yield dict(zip(header, row, strict=False))
        return
    # A list as Python writes it: "['Paris', 'paris']".
    for question, answers, *_ in chain([header], rows):
        yield {"question": question, "answers": ast.literal_eval(answers)}


def _first(record: Record, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def _answers(record: Record) -> Iterator[str]:
    """The answers and their aliases."""
    given: Any = _first(record, _ANSWERS)
    if isinstance(given, str) and given.startswith("["):  # PopQA: a list as text
        given = json.loads(given)
    if isinstance(given, dict):  # TriviaQA: {"Value": "Paris", "Aliases": [...]}
        yield from _answers(cast("Record", given))
        given = None
    values: list[Any] = [given]
    if isinstance(given, list):
        values = cast("list[Any]", given)
    for answer in (*values, *(_first(record, _ALIASES) or ())):
        if str(answer or "").strip():
            yield str(answer)


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
