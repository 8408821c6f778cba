from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.shell.command_names import command_name

PROGRAMS = [
    ("FOO=1 sudo -u me /usr/bin/pytest -q", "pytest"),
    (["bash", "-lc", "cd a && make test"], "make"),
    ("cd /w && uv run --with x python3 -m pytest | tail", "pytest"),
    (".venv/bin/python3.11 a.py", "python"),
    ("npm run build", "npm"),
    ("echo hi", "echo"),
    ("# look first\necho hi && git diff", "git"),
    ("cd x\npython - <<'EOF'\nprint('a b')\nEOF", "python"),
    ("for f in *.py; do ruff check $f; done", "ruff"),
    ("git commit -m 'a && b; c", "git"),
    ('"" make', ""),
    ("cat > a.sh <<EOF\ngo test\nEOF\n/bin/bash -c 'ruff check'", "cat"),
    ("a=$(curl x); echo $a", "curl"),
    ("ghp_0123456789abcdefghijABCDEFGHIJ456789", ""),
    (None, ""),
]


def test_the_program_of_a_command_is_part_of_the_tools_name() -> None:
    for command, program in PROGRAMS:
        assert command_name("Bash", {"command": command}) == f"Bash {program}".strip()


def test_only_shells_are_named_by_their_programs() -> None:
    assert command_name("run_sql", {"command": "git status"}) == "run_sql"
    assert command_name("shell", {"commands": ["cd x", "git status"]}) == "shell git"
    assert command_name("PowerShell", {"command": r"C:\tools\git.exe status"}) == "PowerShell git"


@given(st.text(alphabet="abc'\"\\$(){}[]<>|&;# =\n-./", max_size=60))
def test_any_command_has_a_name(command: str) -> None:
    name = command_name("Bash", {"command": command})
    assert name.startswith("Bash")
    assert name.isprintable()
