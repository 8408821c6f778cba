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
_ANSWERS: Final = ("golden_answers", "answers", "answer", "Answer", "possible_answers")
_ALIASES: Final = ("aliases", "Aliases", "answer_aliases")
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
        text = str(_first(record, _TEXT) or "")
        answers = _answers(record)
        if not text.strip() or not answers:
            raise InputError(f"record {number} of {file} has no question or no answer: expected {_FORMATS}.")
        # With the name of the file: several files may number their questions from 1.
        id = f"{file.stem}-{_first(record, _ID) or number}"
        questions.append(AskedQuestion(id, text.strip(), answers, str(record.get("type") or ""), split))
        given += _paragraphs_of(record)
    return questions, given


def read_corpus(file: Path) -> Iterator[Paragraph]:
    """The paragraphs of a corpus: records with title and text, or with `contents` whose first line is the title."""
    for number, record in enumerate(_records(file), 1):
        title = str(record.get("title") or "")
        text = record.get("text") or record.get("paragraph_text")
        contents = record.get("contents")
        if text is None and isinstance(contents, str):
            title, _, text = contents.partition("\n")
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
    if {*header} & {*_TEXT, "text"}:
        for row in rows:
            yield dict(zip(header, row, strict=False))
        return
    # A list as Python writes it: "['Paris', 'paris']".
    for question, answers, *_ in chain([header], rows):
        yield {"question": question, "answers": ast.literal_eval(answers)}


def _first(record: Record, names: Sequence[str]) -> Any:
    for name in names:
        if record.get(name) not in (None, ""):
            return record[name]
    return None


def _answers(record: Record) -> tuple[str, ...]:
    """The answers and their aliases, each once."""
    given: Any = _first(record, _ANSWERS)
    aliases: list[Any] = list(_first(record, _ALIASES) or ())
    if isinstance(given, Mapping):  # TriviaQA: {"Value": "Paris", "Aliases": [...]}
        answer = cast("Record", given)
        aliases += _first(answer, _ALIASES) or ()
        given = answer.get("value") or answer.get("Value")
    if isinstance(given, str) and given.startswith("["):  # PopQA: a list as text
        given = json.loads(given)
    values: list[Any] = [given or ""]
    if isinstance(given, list):
        values = cast("list[Any]", given)
    texts = [str(value) for value in (*values, *aliases)]
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


def _paragraphs_of(record: Record) -> Iterator[Paragraph]:
    """The paragraphs beside a question of HotpotQA, 2WikiMultiHopQA or MuSiQue."""
    context: Any = record.get("context") or ()
    if isinstance(context, Mapping):  # as Hugging Face's datasets have it
        columns = cast("Record", context)
        sentences = columns.get("sentences") or columns.get("content") or ()
        context = zip(columns["title"], sentences, strict=True)
    if not isinstance(context, str):
        for title, texts in context:
            yield Paragraph(str(title), _joined(texts))
    paragraphs: Any = record.get("paragraphs") or ()
    for paragraph in paragraphs:  # MuSiQue
        yield Paragraph(str(paragraph["title"]), str(paragraph["paragraph_text"]))


def _joined(text: object) -> str:
    """A text, or a list of its sentences."""
    parts = [text]
    if isinstance(text, list):
        parts = cast("list[object]", text)
    return " ".join(str(part).strip() for part in parts)
