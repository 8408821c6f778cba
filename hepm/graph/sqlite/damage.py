"""Damage to the SQLite file: what its tables refuse and was written all the same, and text that is not UTF-8."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from hepm.graph.sqlite.connection import MADE_ANEW, SCHEMA_VERSION, run_script

_MOST: Final = 20  # sentences of SQLite's own check


def damage(db: sqlite3.Connection) -> list[str]:
    """Sentences on what is damaged; one pass over every row."""
    sentences = [f"the file is damaged: {line}" for (line,) in db.execute(f"PRAGMA quick_check({_MOST})")]
    if sentences == ["the file is damaged: ok"]:
        sentences = []
    for table, column, broken in _texts(db):
        ((number,),) = db.execute(f"SELECT count(*) FROM {table} WHERE {broken}")
        if number:
            sentences.append(f"{number} texts in {table}.{column} are not UTF-8")
    return sentences


def mend(db: sqlite3.Connection) -> None:
    """Reset what is damaged: a rebuild makes what derives from records. Records keep what is text in them."""
    for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {trigger}")
    for version in range(MADE_ANEW, SCHEMA_VERSION + 1):
        run_script(db, f"schema_{version}.sql")
    for table, column, broken in _texts(db):
        # OR REPLACE: another row may have the same name by then.
        db.execute(f"UPDATE OR REPLACE {table} SET {column} = whole(CAST({column} AS BLOB)) WHERE {broken}")


def _texts(db: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """Table, name and condition of every column of texts; the condition holds for a text that is not UTF-8."""
    db.create_function("whole", 1, _whole, deterministic=True)
    columns = """
        SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND c.type = 'TEXT' ORDER BY t.name, c.cid"""
    for table, column in db.execute(columns).fetchall():
        yield table, column, f"CAST(whole(CAST(ifnull({column}, '') AS BLOB)) AS BLOB) <> CAST({column} AS BLOB)"


def _whole(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")
