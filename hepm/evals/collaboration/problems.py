"""Problems that users bring: 60 of our own, or files in the formats of MultiSessionCollab's five benchmarks (5)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from hepm.errors import InputError

PROBLEMS: Final[Mapping[str, str]] = {
    "A train covers 180 km in 2.5 hours. What is its speed in km per hour?": "72",
    "A shirt of 60 dollars is sold at 15 % off. What does it cost, in dollars?": "51",
    "How many diagonals does a polygon with 12 sides have?": "54",
    "What is the sum of all whole numbers from 1 to 25?": "325",
    "Two numbers differ by 6, and their sum is 40. What is the larger one?": "23",
    "A tank holds 240 litres, and a pump moves 8 litres a minute. In how many minutes is it empty?": "30",
    "What is the greatest common divisor of 84 and 126?": "42",
    "A rectangle is 17 cm long and 9 cm wide. What is its area in square cm?": "153",
    "How many ways are there to choose 3 of 9 books?": "84",
    "What is 35 % of 260?": "91",
    "Which number follows in 3, 6, 12, 24?": "48",
    "A recipe for 4 people takes 300 g of rice. How many grams do 10 people need?": "750",
    "The angles of a triangle are in the ratio 2 : 3 : 4. How many degrees has the largest?": "80",
    "What is the least common multiple of 12 and 18?": "36",
    "Anna is 3 times as old as Ben. In 8 years she is twice as old. How many years old is Anna now?": "24",
    "A clock shows 9:40. How many minutes are left until noon?": "140",
    "What is the square root of 1,369?": "37",
    "How many edges does a cube have that lost one corner to a plane cut?": "15",
    "A car uses 6 litres for 100 km. How many litres does it use for 450 km?": "27",
    "How many handshakes are there if 11 people all shake hands with each other once?": "55",
    "What is 2 to the power of 9?": "512",
    "The mean of five numbers is 14. Four of them are 10, 12, 15 and 16. What is the fifth?": "17",
    "A ladder of 13 m leans on a wall, its foot 5 m away. How many metres high does it reach?": "12",
    "How many hours do 4 workers need for what 6 workers do in 14 hours?": "21",
    "How many two-digit numbers are multiples of 7?": "13",
    "A bill of 96 euros is split so that Kim pays three times what Lou pays. How many euros does Kim pay?": "72",
    "A bus leaves every 12 minutes, the first at 6:00. How many buses leave before 8:00?": "10",
    "A square has a perimeter of 52 cm. How large is it, in square cm?": "169",
    "A jar holds 5 red and 7 blue marbles. In how many ways can one of each be taken?": "35",
    "What is the remainder of 1,000 divided by 7?": "6",
    "A phone costs 400 dollars plus 19 % tax. What is its price with tax, in dollars?": "476",
    "Three friends share 87 sweets equally. How many does each of them get?": "29",
    "A cyclist rides 45 minutes at 24 km per hour. How far does she get, in km?": "18",
    "A cube has a volume of 216 cubic cm. What is the length of its edge in cm?": "6",
    "The sum of three consecutive whole numbers is 96. Which is the smallest of them?": "31",
    "A field of 3 hectares gives 5 tonnes of wheat a hectare. How many tonnes does it give?": "15",
    "A book of 336 pages is read at 24 pages a day. For how many days does it last?": "14",
    "What is 17 times 23?": "391",
    "Two dice are thrown. In how many of the 36 cases is their sum 7?": "6",
    "A room is 6 m long, 4 m wide and 2.5 m high. What is its volume in cubic m?": "60",
    "A loan of 2,000 dollars has 4 % interest a year. How many dollars of interest fall due in a year?": "80",
    "What is the next prime number after 89?": "97",
    "A tap fills a bath of 200 litres in 12 minutes and 30 seconds. How many litres run in a minute?": "16",
    "A class of 28 has 4 boys for every 3 girls. How many boys are there?": "16",
    "How many degrees do the hands of a clock enclose at 4:00?": "120",
    "A plane flies 2,160 km in 2 hours and 24 minutes. What is its mean speed in km per hour?": "900",
    "A number doubled and then lowered by 9 is 33. Which number is it?": "21",
    "How many seconds does a quarter of an hour have?": "900",
    "A rope of 9.6 m is cut into pieces of 80 cm. How many pieces are there?": "12",
    "In a sale, 3 shirts cost what 2 did before, 54 dollars. What does one cost now, in dollars?": "18",
    "What is the median of 3, 9, 4 and 20?": "6.5",
    "A farmer has 22 hens and cows with 62 feet in all. How many cows has he?": "9",
    "The side of a square grows from 10 to 12 cm. By how many per cent does its area grow?": "44",
    "How many different words can be made of the letters of TREE?": "12",
    "A car loses a fifth of its value of 15,000 dollars. What is it still worth, in dollars?": "12,000",
    "Two trains start 300 km apart and meet at 70 and 80 km per hour. After how many hours do they meet?": "2",
    "What is the sum of the angles of a hexagon, in degrees?": "720",
    "A baker sells 3 of 8 loaves before noon and has 45 left. How many had he baked?": "72",
    "A map has a scale of 1 to 50,000. How many km are 8 cm on it?": "4",
    "What is 0.125 as a percentage?": "12.5",
}
"""Problems and their answers, which no problem contains."""

_LETTERS: Final = "ABCDEFGHIJ"
# "B. A mitral stenosis": the letter and the text of an option.
_CHOICE: Final = re.compile(r"([A-J])\. (.+)", re.DOTALL)
# The comma of "12,000", which others write without.
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def is_answered(answer: str, message: str) -> bool:
    """Whether a message contains the answer, not as a part of a longer number or word.

    Of a choice, which is "B. its text", the message must call the letter or the text its answer.
    """
    text = _THOUSANDS.sub("", message.replace("**", " ")).strip()
    choice = _CHOICE.fullmatch(answer)
    if choice is None:
        # Not the 5 of "25", "2.5", "5.3" or "−5"; "5.0" and "5." are 5.
        return bool(re.search(rf"(?<![\w.,−-]){re.escape(_THOUSANDS.sub('', answer))}(?!\w|,\d|\.0*[1-9])", text))
    letter = choice[1]
    option = re.escape(_THOUSANDS.sub("", choice[2]).strip())
    # The message is the option and nothing else: "B", "(B) mitral stenosis".
    if re.fullmatch(rf"\(?{letter}[).]?(?:\s*(?i:{option}))?\.?|(?i:{option})\.?", text):
        return True
    # "The answer is B", "\boxed{\text{B}}".
    named = rf"(?:\(?{letter}\b|(?i:{option})(?!\w))"
    return bool(re.search(rf"(?i:\banswer(?: is)?(?: option)?)\W*{named}|\\boxed\{{(?:\\text\{{)?{named}", text))


def problem_of(user: str, session: int, *, seed: int = 0, problems: Mapping[str, str] = PROBLEMS) -> str:
    """The problem of a session, numbered from 1, the same for all memories; none comes again before all came."""
    # Of a user: arms and models get the same problems in the same sessions.
    order = [*problems]
    Random(f"{seed}/{user}/problems").shuffle(order)
    return order[(session - 1) % len(order)]


def steps_of(problem: str) -> list[str]:
    """A problem as a user tells it: first what is asked, then the rest, a sentence at a time, the options at once."""
    text, has_options, options = problem.partition("\nA. ")
    sentences = [part.strip() for part in re.split(r"(?<=[.?!])\s+(?=[A-Z\d])", text) if part.strip()]
    asked = len(sentences) - 1  # of several questions the last one, without one the last sentence
    for number, sentence in enumerate(sentences):
        if "?" in sentence:
            asked = number
    question = sentences.pop(asked)
    steps = [question, *sentences]
    if has_options:
        steps.append(f"A. {options}")
    return steps


def read_problems(files: Iterable[Path]) -> dict[str, str]:
    """Problems and answers of files, in their order.

    JSON or JSON lines as MATH-500, MATH-Hard (the answer is the last box of the solution) and MedQA have them, CSV
    without a header as MMLU, and the text files of LogiQA. An answer to choose is "B. its text".

    Raises:
        InputError: a file cannot be read, or has another form.
    """
    problems: dict[str, str] = {}
    for file in files:
        try:
            text = file.read_text("utf-8-sig")
            read = _READERS.get(file.suffix.lower(), _of_json)
            problems |= dict(read(text))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise InputError(
                f"{file} holds no problems in the form of MATH-500, MATH-Hard, MedQA (.json, .jsonl), MMLU (.csv) or "
                f"LogiQA (.txt): {type(error).__name__}: {error}."
            ) from error
    if not problems:
        raise InputError("the files hold no problem.")
    return problems


def _choice(context: str, question: str, options: Sequence[str], right: int) -> tuple[str, str]:
    """A problem with options, and the right one, counted from 0."""
    listed = [f"{letter}. {option.strip()}" for letter, option in zip(_LETTERS, options, strict=False)]
    asked = " ".join(filter(None, (context.strip(), question.strip())))
    return "\n".join((asked, *listed)), listed[right]


def _of_json(text: str) -> list[tuple[str, str]]:
    """One record, a list of them, or one a line."""
    if text.lstrip().startswith("["):
        return [_of_record(record) for record in json.loads(text)]
    # Records may stand on several lines each, so that a split by lines would cut them.
    listed = re.sub(r"(?<=})\s*\n\s*(?={)", ",", text)
    return [_of_record(record) for record in json.loads(f"[{listed}]")]


def _of_record(record: Mapping[str, Any]) -> tuple[str, str]:
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


def _of_mmlu(text: str) -> list[tuple[str, str]]:
    """Lines of: question, four options, letter."""
    problems: list[tuple[str, str]] = []
    for row in csv.reader(text.splitlines(keepends=True)):
        if row:
            question, *options, right = row
            problems.append(_choice("", question, options, _LETTERS.index(right)))
    return problems


def _of_logiqa(text: str) -> list[tuple[str, str]]:
    """Groups of lines: letter, context, question, four options "A.text"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # An answer letter, a context, a question and four options.
    if len(lines) % 7:
        raise ValueError("its lines are not groups of seven")
    problems: list[tuple[str, str]] = []
    for start in range(0, len(lines), 7):
        right, context, question, *marked = lines[start : start + 7]
        options = [option.partition(".")[2] for option in marked]
        problems.append(_choice(context, question, options, _LETTERS.index(right.upper())))
    return problems


_READERS: Final = {".csv": _of_mmlu, ".txt": _of_logiqa}
