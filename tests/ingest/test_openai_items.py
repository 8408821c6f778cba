from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.golden import source, values
from tests.ingest.samples import read, read_one, read_reason
from tests.ingest.test_faults import check

ITEMS: list[Any] = values("responses", "list.json")


def database(path: Path, *sessions: list[Any]) -> Path:
    """A file in the layout of the Agents SDK's SQLiteSession."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at, updated_at)")
        file.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data TEXT, created_at)")
        for number, items in enumerate(sessions, 1):
            rows = [(f"s{number}", item if isinstance(item, str) else json.dumps(item)) for item in items]
            query = (
                "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, '2026-01-01 00:00:00')"
            )
            file.executemany(query, rows)
    return path


def test_a_database_gives_its_sessions_and_names_broken_messages(tmp_path: Path):
    path = database(tmp_path / "a.db", ITEMS, ["{torn", ITEMS[0]])
    runs, rejected = read(path)
    assert [(run.id, len(list(run.calls()))) for run in runs] == [("s1", 5), ("s2", 0)]
    assert runs[0].turns == read_one(source("responses", "list.json")).turns
    assert [one.record for one in rejected] == ["s2, message 1"]


def test_other_and_damaged_databases_are_rejected_in_a_sentence(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as file, file:
        file.execute("CREATE TABLE a (b)")
    assert "without the messages of agents" in read_reason(tmp_path / "other.db")
    path = database(tmp_path / "a.db", ITEMS)
    path.write_bytes(path.read_bytes()[:5000])
    assert "the database cannot be read" in read_reason(path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(database(tmp_path / "b.db", ITEMS), "b.json")
    assert "unpack that first" in read_reason(tmp_path / "a.zip")


@pytest.mark.parametrize("cut", range(0, 16384, 997))
def test_a_truncated_database_is_read_or_rejected(tmp_path: Path, cut: int):
    path = database(tmp_path / "a.db", ITEMS)
    path.write_bytes(path.read_bytes()[:cut])
    check(path)
