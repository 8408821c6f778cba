"""Asks questions with a ledger in a file, to be killed and started again: resumed.py URL LEDGER NUMBER."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from hepm.llm import Answered, Client, Endpoint, Message, PaidAnswer, Question, Usage


class FileLedger:
    """A ledger as JSON lines; a line that a kill has torn counts for nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers: dict[str, PaidAnswer] = {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else []:
            try:
                key, told = json.loads(line)
            except ValueError:
                continue
            self._answers[key] = PaidAnswer(**told | {"usage": Usage(**told["usage"])})

    def get(self, key: str) -> PaidAnswer | None:
        return self._answers.get(key)

    def put(self, key: str, answer: PaidAnswer) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, asdict(answer)]) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._answers[key] = answer


def main(url: str, ledger: str, number: int) -> None:
    with Client(Endpoint("small", url), ledger=FileLedger(Path(ledger))) as client:
        names = [f"run-{place}" for place in range(number)]
        questions = [Question("reflect", name, (Message("user", name),), str) for name in names]
        for result in client.ask_all(questions, concurrency=3):
            assert isinstance(result, Answered), result
            print(result.question.subject, flush=True)
        print(client.budget.line(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
