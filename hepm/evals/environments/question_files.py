"""Questions and corpora in the formats in which they are published: Natural Questions, HotpotQA, TriviaQA, PopQA,
2WikiMultiHopQA, MuSiQue and Bamboogle, and the corpora of DPR, HotpotQA and Search-R1."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from hepm.errors import InputError
from hepm.evals.environments.island import AskedQuestion, Paragraph

Record: TypeAlias = Mapping[str, Any]

_TEXT: Final = ("question", "Question")
_ID: Final = ("id", "_id", "question_id", "QuestionId")
_ANSWERS: Final = ("golden_answers", "answers", "answer", "Answer", "possible_answers")
_ALIASES: Final = ("aliases", "Aliases", "answer_aliases")
_FORMATS: Final = "JSON, JSON lines, CSV or TSV, as published (docs/reference/environments.md)"

csv.field_size_limit(2**24)


def read_questions(file: Path) -> tuple[list[AskedQuestion], list[Paragraph]]:
    """The questions of a file, in order, and the paragraphs that it gives with them; none for most formats.

    A file is of the train split if its name says so ("hotpot_train_v1.1.json"), else of the test split.

    Raises:
        InputError: it cannot be read, or a record has no question or no answer.
    """
    split = "train" if "train" in file.name.lower() else "test"
    questions: list[AskedQuestion] = []
    given: list[Paragraph] = []
    for number, record in enumerate(_records(file), 1):
        text, answers = str(_first(record, _TEXT) or ""), _answers(record)
        if not text.strip() or not answers:
            raise InputError(f"record {number} of {file} has no question or no answer: expected {_FORMATS}.")
        id = f"{file.stem}-{_first(record, _ID) or number}"
        questions.append(AskedQuestion(id, text.strip(), answers, str(record.get("type") or ""), split))
        given += _paragraphs_of(record)
    return questions, given


def read_corpus(file: Path) -> list[Paragraph]:
    """The paragraphs of a corpus: records with title and text, or with `contents` whose first line is the title."""
    found: list[Paragraph] = []
    for number, record in enumerate(_records(file), 1):
        title, text = str(record.get("title") or ""), record.get("text") or record.get("paragraph_text")
        contents = record.get("contents")
        if text is None and isinstance(contents, str):
            title, _, text = contents.partition("\n")
        if not text:
            raise InputError(f"record {number} of {file} has no text: expected title and text, or contents.")
        found.append(Paragraph(title.strip('"'), _joined(text)))
    return found


def _records(file: Path) -> Iterator[Record]:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            if file.suffix == ".jsonl":
                yield from (json.loads(line) for line in lines if line.strip())
            elif file.suffix in (".csv", ".tsv"):
                yield from _rows(lines.read().splitlines(keepends=True))
            else:
                whole: Any = json.load(lines)
                yield from whole["Data"] if isinstance(whole, dict) else whole
    except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read: {error}. Expected {_FORMATS}.") from error


def _rows(lines: Sequence[str]) -> Iterator[Record]:
    """Rows by their header. A file without one has a question and a list of answers in each (DPR's of NQ)."""
    mark = "\t" if lines and "\t" in lines[0] else ","
    named = csv.DictReader(lines, delimiter=mark)
    if {*(named.fieldnames or ())} & {*_TEXT, "text"}:
        yield from named
        return
    for question, answers, *_ in csv.reader(lines, delimiter=mark):
        yield {"question": question, "answers": ast.literal_eval(answers)}


def _first(record: Record, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def _answers(record: Record) -> tuple[str, ...]:
    found: Any = _first(record, _ANSWERS)
    aliases: list[Any] = list(_first(record, _ALIASES) or ())
    if isinstance(found, Mapping):  # TriviaQA
        known = cast("Record", found)
        aliases += _first(known, _ALIASES) or ()
        found = known.get("value") or known.get("Value")
    if isinstance(found, str) and found.startswith("["):  # PopQA
        found = json.loads(found)
    values = cast("list[Any]", found) if isinstance(found, list) else [found or ""]
    return tuple(dict.fromkeys(str(value) for value in (*values, *aliases) if str(value).strip()))


def _paragraphs_of(record: Record) -> Iterator[Paragraph]:
    """The paragraphs beside a question of HotpotQA, 2WikiMultiHopQA or MuSiQue."""
    context: Any = record.get("context") or ()
    if isinstance(context, Mapping):  # as Hugging Face's datasets have it
        known = cast("Record", context)
        context = zip(known["title"], known.get("sentences") or known.get("content") or (), strict=True)
    if not isinstance(context, str):
        yield from (Paragraph(str(title), _joined(texts)) for title, texts in context)
    paragraphs: Any = record.get("paragraphs") or ()
    for one in paragraphs:
        yield Paragraph(str(one["title"]), str(one["paragraph_text"]))


def _joined(text: object) -> str:
    parts = cast("list[object]", text) if isinstance(text, list) else [text]
    return " ".join(str(part).strip() for part in parts)
