"""Problems that users bring: 60 of our own, or files in the formats of MultiSessionCollab's five benchmarks (5)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from hepm.errors import InputError
from hepm.lab.collaboration import WRITTEN

Problem: TypeAlias = tuple[str, str]
"""A problem and its answer."""
PROBLEMS: Final[Mapping[str, str]] = WRITTEN["problems"]
"""Problems and their answers."""

_LETTERS: Final = "ABCDEFGHIJ"


def problem_of(session: int, *, seed: int = 0, problems: Mapping[str, str] = PROBLEMS) -> str:
    """The problem of a session, numbered from 1, the same for all users; none comes again before all came.

    The paper does not say whether users share their problems. Four of five accuracies without a user (table 4, S1) are
    shares of 20 problems, the fifth is one of 19, and figure 3 is explained by what the problem of a session is.
    """
    order = [*problems]
    Random(f"{seed}/problems").shuffle(order)
    return order[(session - 1) % len(order)]


def read_problems(file: Path) -> dict[str, str]:
    """Problems and answers of a file, in their order.

    JSON or JSON lines as MATH-500, MATH-Hard (the answer is the last box of the solution) and MedQA have them, CSV
    without a header as MMLU, and the text files of LogiQA. An answer to choose is "B. its text".

    Raises:
        InputError: it cannot be read, or has another form or no problem.
    """
    try:
        read = {".csv": _of_mmlu, ".txt": _of_logiqa}.get(file.suffix.lower(), _of_json)
        problems = dict(read(file.read_text("utf-8-sig")))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{file} holds no problems in the form of MATH-500, MATH-Hard, MedQA (.json, .jsonl), MMLU (.csv) or "
            f"LogiQA (.txt): {type(error).__name__}: {error}."
        ) from error
    if not problems:
        raise InputError(f"{file} holds no problem.")
    return problems


def _choice(context: str, question: str, options: Sequence[str], right: int) -> Problem:
    """A problem with options, and the right one, counted from 0."""
    listed = [f"{letter}. {option.strip()}" for letter, option in zip(_LETTERS, options, strict=False)]
    asked = " ".join(filter(None, (context.strip(), question.strip())))
    return "\n".join((asked, *listed)), listed[right]


def _of_json(text: str) -> list[Problem]:
    """One record, a list of them, or one a line."""
    if not text.lstrip().startswith("["):
        # Records may stand on several lines each, so that a split by lines would cut them.
        text = "[" + re.sub(r"(?<=})\s*\n\s*(?={)", ",", text) + "]"
    return list(map(_of_record, json.loads(text)))


def _of_record(record: Mapping[str, Any]) -> Problem:
    if "options" in record:  # MedQA
        letters = sorted(record["options"])
        options = [str(record["options"][letter]) for letter in letters]
        return _choice("", record["question"], options, letters.index(record["answer_idx"]))
    if "answer" in record:  # MATH-500
        answer = record["answer"]
    else:  # MATH-Hard
        answer = _boxed(record["solution"])
    return str(record["problem"]).strip(), str(answer).strip()


def _boxed(solution: str) -> str:
    """What the last box of a solution holds, braces in braces included."""
    # The last box: solutions box steps on the way, too.
    begin = solution.rindex("\\boxed{") + len("\\boxed{")
    depth = 1
    for end in range(begin, len(solution)):
        if solution[end] == "{":
            depth += 1
        elif solution[end] == "}":
            depth -= 1
        if depth == 0:
            return solution[begin:end]
    raise ValueError("a box of a solution does not end")


def _of_mmlu(text: str) -> Iterator[Problem]:
    """Lines of: question, four options, letter."""
    for row in csv.reader(text.splitlines(keepends=True)):
        if row:
            question, *options, right = row
            yield _choice("", question, options, _LETTERS.index(right))


def _of_logiqa(text: str) -> Iterator[Problem]:
    """Groups of lines: letter, context, question, four options "A.text"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # An answer letter, a context, a question and four options.
    if len(lines) % 7:
        raise ValueError("its lines are not groups of seven")
    for start in range(0, len(lines), 7):
        right, context, question, *marked = lines[start : start + 7]
        yield _choice(context, question, [option.partition(".")[2] for option in marked], _LETTERS.index(right.upper()))
