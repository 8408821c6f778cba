"""Lessons in Neo4j."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from hepm.graph.lessons.rows import Answer, HeldLesson, LessonRow, Showing, Uses, to_record
from hepm.graph.lessons.transaction import LessonTransaction
from hepm.graph.neo4j.connection import VECTOR_ROWS, Connection, Sender, lesson_uid, run_uid, tool_uid, uid
from hepm.graph.store import FloatArray, Store
from hepm.graph.stored_vectors import to_bytes, to_floats
from hepm.graph.writes import LessonStore


def _answer_uid(space: str, key: str) -> str:
    return uid(space, "answer", key)


def _showing_uid(space: str, run: str) -> str:
    return uid(space, "showing", run)


_BY_UID: Final[Mapping[str, tuple[str, Callable[[str, str], str]]]] = {
    "find_lessons": ("ids", lesson_uid),
    "find_answers": ("keys", _answer_uid),
    "showings_in": ("runs", _showing_uid),
    "told_outcomes_of": ("runs", _showing_uid),
}
"""Statements whose only parameter is a list of uids, with the names that these are hashed from."""


def _bound(name: str, space: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if name not in _BY_UID:
        return {"space": space, **values}
    key, make = _BY_UID[name]
    return {"uids": [make(space, one) for one in dict.fromkeys(values[key])]}


class Neo4jLessons(LessonStore):
    """See `hepm.graph.writes.LessonStore` for what each method promises."""

    def __init__(self, store: Store, connection: Connection) -> None:
        super().__init__(store)
        self._connection = connection

    def _read(self, name: str, namespace: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self._connection.read(name, **_bound(name, uid(namespace), values))

    def held(self, *, namespace: str) -> Sequence[HeldLesson]:
        return [_held(*row) for row in self._connection.iterate("held_lessons", space=uid(namespace))]

    def told_of(self, row: LessonRow, *, namespace: str) -> Mapping[str, object]:
        return _told_of(row, namespace)


class Neo4jLessonTransaction(LessonTransaction):
    """See `hepm.graph.lessons.transaction.LessonTransaction` for what each method promises.

    Args:
        shown: Whether anything was shown in the namespace; if not, an ingest does not wait for the server to say so.
    """

    def __init__(self, write: Sender, *, shown: bool) -> None:
        self._shown = shown
        self._write = write
        self._space = write.space
        self._untied: list[dict[str, object]] = []

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self._write.run(name, **_bound(name, self._space, values))

    def held(self) -> list[HeldLesson]:
        return [_held(*row) for row in self.rows("held_lessons")]

    def stored_outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        rows = self._write.run("find_runs", uids=[run_uid(self._space, run) for run in runs])
        return {run: success for run, _, success in rows}

    def showings(self, runs: Sequence[str]) -> list[Showing]:
        return super().showings(runs) if self._shown else []

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, FloatArray]) -> None:
        if not rows:
            return
        ((seq,),) = self.rows("last_lesson")
        known = self.get(row.id for row in rows)
        nodes: list[dict[str, object]] = []
        for row in rows:
            seq += row.id not in known
            vector = vectors.get(row.text)
            nodes.append(
                {
                    "uid": self._lesson(row.id),
                    "kind": row.kind,
                    "first": {"seq": seq, **row.prior._asdict(), "score": row.prior.score},
                    "properties": {**_told_of(row, self._write.namespace), "record": to_record(row)},
                    "embedding": None if vector is None else to_floats(vector),
                    "vector": None if vector is None else to_bytes(vector),
                }
            )
        self._write.put("put_lessons", nodes, size=VECTOR_ROWS, changed=self._changed)
        self._send("set_last_lesson", seq=seq)
        self._link(rows)

    def _link(self, rows: Sequence[LessonRow]) -> None:
        lesson, space = self._lesson, self._space
        self._write.put("unlink_lesson_runs", [lesson(row.id) for row in rows], key="uids")
        runs = [
            {
                "lesson": lesson(row.id),
                "run": run_uid(space, source.run),
                "reward": source.reward,
                "words": source.words,
            }
            for row in rows
            for source in row.sources
        ]
        tools = [{"lesson": lesson(row.id), "tool": tool_uid(space, tool)} for row in rows for tool in row.tools]
        parents = [
            {"lesson": lesson(row.id), "parent": lesson(parent.id), "operator": parent.operator}
            for row in rows
            for parent in row.parents
            if row.kind != "notes"
        ]
        notes = [
            {
                "lesson": lesson(row.id),
                "parent": lesson(row.parents[0].id) if row.parents else "",
                "user": self._user(row.user),
                "id": row.user,
            }
            for row in rows
            if row.kind == "notes"
        ]
        triples = [
            {
                "lesson": lesson(row.id),
                "id": row.id,
                "subject_uid": uid(space, "concept", subject),
                "subject": subject,
                "predicate": predicate,
                "object_uid": uid(space, "concept", object),
                "object": object,
            }
            for row in rows
            for subject, predicate, object in row.triples
        ]
        self._write.put("link_lesson_runs", runs)
        self._write.put("link_lesson_tools", tools)
        self._write.put("link_lesson_parents", parents)
        self._send_rows("link_notes", notes)
        self._send_rows("link_triples", triples)

    def put_vectors(self, vectors: Mapping[str, FloatArray]) -> None:
        rows = [
            {"uid": self._lesson(name), "embedding": to_floats(vector), "vector": to_bytes(vector)}
            for name, vector in vectors.items()
        ]
        self._write.put("put_lesson_vectors", rows, size=VECTOR_ROWS, changed=self._changed)

    def put_answers(self, answers: Sequence[Answer]) -> None:
        rows: list[dict[str, object]] = []
        for answer in answers:
            name = _answer_uid(self._space, answer.key)
            links = {
                "run_uid": run_uid(self._space, answer.run) if answer.run else None,
                "user_uid": self._user(answer.user) if answer.user else None,
            }
            node = {"uid": name, "space": self._space, "namespace": self._write.namespace, **answer._asdict(), **links}
            rows.append({"uid": name, **links, "properties": node})
        self._write.put("put_answers", rows)

    def put_showings(self, showings: Sequence[Showing]) -> None:
        rows = [
            {"uid": _showing_uid(self._space, run), "run": run, "lesson": self._lesson(lesson), "success": success}
            for run, lesson, success in showings
        ]
        self._send_rows("put_showings", rows)

    def put_outcomes(self, outcomes: Mapping[str, bool]) -> None:
        rows = [{"uid": _showing_uid(self._space, run), "run": run, "told": told} for run, told in outcomes.items()]
        self._send_rows("put_told_outcomes", rows)

    def credit(self, more: Mapping[str, Uses]) -> None:
        rows = [{"uid": self._lesson(name), **uses._asdict()} for name, uses in more.items()]
        self._write.put("credit_lessons", rows, changed=self._changed)

    def drop(self, ids: Sequence[str]) -> None:
        if ids:
            self._write.put("drop_lessons", [self._lesson(name) for name in ids], key="uids")
            self._write.send("count_removal")

    def drop_vectors(self) -> None:
        self._write.send("drop_lesson_vectors", space=self._space)
        self._write.send("count_removal")

    def drop_orphans(self) -> None:
        self._write.send("drop_orphan_answers", space=self._space)

    def drop_answers_of(self, user: str) -> None:
        self._write.send("drop_answers_of", uid=self._user(user))

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        self._write.put("drop_answers_about", [run_uid(self._space, run) for run in runs], key="uids")

    def drop_runs(self, runs: Sequence[str]) -> None:
        self._write.put("drop_showings", [_showing_uid(self._space, run) for run in runs], key="uids")
        self.drop_answers_about(runs)

    def untie(self, runs: Sequence[str]) -> None:
        rows = self._write.run("lessons_tied_to", uids=[run_uid(self._space, run) for run in runs])
        self._untied.extend(dict(zip(("lesson", "run", "reward", "words"), row, strict=True)) for row in rows)

    def tie(self) -> None:
        self._write.put("link_lesson_runs", self._untied)
        self._untied = []

    @property
    def _changed(self) -> int:
        return self._write.header.revision + 1

    def _send(self, name: str, /, **values: object) -> None:
        self._write.send(name, space=self._space, namespace=self._write.namespace, **values)

    def _send_rows(self, name: str, rows: Sequence[object]) -> None:
        if rows:
            self._send(name, rows=rows)

    def _lesson(self, name: str) -> str:
        return lesson_uid(self._space, name)

    def _user(self, name: str) -> str:
        return uid(self._space, "user", name)


def _told_of(row: LessonRow, namespace: str) -> dict[str, object]:
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in row.properties.items()}
    return {
        **values,
        "namespace": namespace,
        "space": uid(namespace),
        "id": row.id,
        "text": row.text,
        "user": row.user,
        "runs": [source.run for source in row.sources],
        "tools": list(row.tools),
        "live": row.live,
        "retired": row.retired,
        "made_by": row.made_by,
    }


def _held(told: dict[str, Any]) -> HeldLesson:
    uses = Uses(*(told.get(name) or 0 for name in Uses._fields))
    return HeldLesson(told.get("id", ""), told.get("record", ""), told, uses, told.get("vector"))
