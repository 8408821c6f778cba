"""Made-up sessions of a coding agent in one repository with traps that recur, as transcripts and as hook events.

Traps: the client is generated, so that edits of it are lost (make generate); tests need a database (docker compose up
-d db); a changed model needs a migration (python manage.py makemigrations); a new package is not installed (uv sync).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

PROJECT = "shop"
CLIENT = "src/api/client.py"
GENERATE = "make generate"
REFUSED = (
    "E   psycopg.OperationalError: connection to server at 127.0.0.1, port {port} failed: Connection refused\n"
    "{n} failed in 3.1s"
)
NO_COLUMN = "django.db.utils.ProgrammingError: no such column: order_{n}\nERROR: models changed without a migration"
NO_MODULE = (
    'Traceback (most recent call last):\n  File "/home/u{n}/shop/src/a.py", line {n}\n'
    "ModuleNotFoundError: No module named 'httpx'"
)
REPAIRS = {
    "db": ("pytest tests/{file}", REFUSED, "docker compose up -d db"),
    "migration": ("pytest tests/{file}", NO_COLUMN, "python manage.py makemigrations"),
    "package": ("python -m shop.{file}", NO_MODULE, "uv sync"),
}
FILES = ("cart", "order", "stock", "mail", "login", "report", "search", "price")
OTHER = (
    ("git status", "nothing to commit"), ("ls src", "api\nshop"), ("cat README.md", "# Shop"), ("git diff", ""),
    ("ruff check .", "All checks passed!"), ("python -m shop.seed", "done"),
)  # fmt: skip
ASKED = {
    "client": ("Add a timeout to the API client's requests.", "The API client should send a timeout header.",
               "Add retries to the requests of the API client."),
    "db": ("Fix the failing {file} test.", "The test of {file} is red, please fix it."),
    "migration": ("Add a field to the {file} model.", "The {file} model needs another field."),
    "package": ("Call the {file} service over HTTP.", "Fetch {file} data from the service."),
}  # fmt: skip


@dataclass
class Happened:
    """One call, what came of it, and the answer that it should have got, "" for none."""

    tool: str
    given: dict[str, str]
    result: str
    failed: bool = False
    after: str = ""


@dataclass
class Session:
    id: str
    asked: str
    kind: str
    calls: list[Happened]
    success: bool
    day: int


def bash(command: str, result: str = "", **more: Any) -> Happened:
    return Happened("Bash", {"command": command}, result, **more)


def edit(path: str, number: int, **more: Any) -> Happened:
    home = f"/home/u{number % 3}/{PROJECT}"
    return Happened("Edit", {"file_path": f"{home}/{path}", "old_string": "a", "new_string": str(number)}, "ok", **more)


def sessions(number: int, seed: int) -> Iterator[Session]:
    """Sessions of all kinds in turn; of each kind every other one goes well."""
    random = Random(seed)
    for at in range(number):
        kind = tuple(ASKED)[at % len(ASKED)]
        well = (at // len(ASKED)) % 2 == 0
        file = random.choice(FILES)
        calls = [bash(*random.choice(OTHER)), edit(f"src/shop/{file}.py", at)]
        if kind == "client":
            if well:
                calls += [
                    edit("openapi.yaml", at),
                    bash(GENERATE, "generated"),
                    bash("pytest tests/test_api.py", "5 passed"),
                ]
            else:
                calls += [edit(CLIENT, at), bash("git commit -am client", "1 file changed")]
        else:
            command, error, repair = REPAIRS[kind]
            command = command.format(file=f"test_{file}.py" if "pytest" in command else file)
            error = error.format(port=5000 + at, n=at + 2)
            calls.append(bash(command, error, failed=True, after=repair))
            calls += [bash(repair, "done"), bash(command, "8 passed")] if well else [bash("git stash", "Saved")]
        calls += [bash(*random.choice(OTHER))]
        asked = random.choice(ASKED[kind]).format(file=file)
        yield Session(f"00000000-0000-4000-8000-{seed:04}{at:08}", asked, kind, calls, well, day=at % 7)


def write_transcripts(folder: Path, made: list[Session]) -> None:
    """As Claude Code keeps them."""
    folder.mkdir(exist_ok=True)
    for session in made:
        lines = [_record(session, 0, "user", session.asked)]
        for number, call in enumerate(session.calls):
            use = {"type": "tool_use", "id": f"t{number}", "name": call.tool, "input": call.given}
            lines.append(_record(session, 2 * number + 1, "assistant", [use]))
            result = {
                "type": "tool_result",
                "tool_use_id": f"t{number}",
                "content": call.result,
                "is_error": call.failed,
            }
            lines.append(_record(session, 2 * number + 2, "user", [result]))
        (folder / f"{session.id}.jsonl").write_text("\n".join(map(json.dumps, lines)))


def _record(session: Session, number: int, role: str, content: Any) -> dict[str, Any]:
    about = {"type": role, "uuid": f"{session.id}-{number}", "sessionId": session.id, "cwd": f"/home/u1/{PROJECT}"}
    message = {"role": role, "content": content, "id": f"m{number}"}
    return {**about, "timestamp": f"2026-11-{session.day + 1:02}T10:00:{number:02}.000Z", "message": message}
