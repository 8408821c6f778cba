"""Problems of simulated users, from files in the five published formats."""

import json

import pytest

from hepm.errors import InputError
from hepm.lab.collaboration.problems import read_problems

MATH_500 = {"problem": "What is $1+1$?", "solution": "It is $\\boxed{2}$.", "answer": "2", "subject": "Algebra"}
MATH_HARD = {
    "problem": "Halve $\\frac{1}{2}$.",
    "level": "Level 5",
    "solution": "First \\boxed{1}, so $\\boxed{\\frac{1}{4}}$.",
}
MEDQA = {
    "question": "He coughs. What is it?",
    "answer": "Asthma",
    "options": {"A": "Gout", "B": "Asthma"},
    "answer_idx": "B",
}
MMLU = 'Which is even?,1,3,"4, of course",5,C\n'
LOGIQA = "\nb\nAll cats sleep. Tom is a cat.\nWhat follows?\nA.Tom runs.\nB.Tom sleeps.\nC.No cat runs.\nD.Tom eats.\n"


@pytest.mark.parametrize(
    ("name", "text", "problem", "answer"),
    [
        ("math500.jsonl", json.dumps(MATH_500), "What is $1+1$?", "2"),
        ("1.json", json.dumps(MATH_HARD, indent=1), "Halve $\\frac{1}{2}$.", "\\frac{1}{4}"),
        ("medqa.jsonl", json.dumps(MEDQA), "He coughs. What is it?\nA. Gout\nB. Asthma", "B. Asthma"),
        ("mmlu.csv", MMLU, "Which is even?\nA. 1\nB. 3\nC. 4, of course\nD. 5", "C. 4, of course"),
        (
            "logiqa.txt",
            LOGIQA,
            "All cats sleep. Tom is a cat. What follows?\nA. Tom runs.\nB. Tom sleeps.\nC. No cat runs.\nD. Tom eats.",
            "B. Tom sleeps.",
        ),
    ],
)
def test_each_published_format_gives_problem_and_answer(tmp_path, name, text, problem, answer):
    (tmp_path / name).write_text(text)
    assert read_problems(tmp_path / name) == {problem: answer}


def test_lines_and_lists_of_records_are_read(tmp_path):
    (tmp_path / "lines.jsonl").write_text(f"{json.dumps(MATH_500)}\n{json.dumps(MEDQA)}\n")
    (tmp_path / "list.json").write_text(json.dumps([MATH_HARD, MATH_500, MATH_500]))
    assert [len(read_problems(tmp_path / name)) for name in ("lines.jsonl", "list.json")] == [2, 2]


@pytest.mark.parametrize(
    ("name", "text"), [("a.jsonl", '{"text": 1}'), ("a.txt", "one\ntwo"), ("a.csv", "x"), ("a.json", "[]")]
)
def test_a_file_of_another_form_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError):
        read_problems(tmp_path / name)
