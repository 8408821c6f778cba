"""Lessons in Neo4j."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hepm.graph.lessons.rows import (
    Answer,
    HeldLesson,
    LessonRow,
    Showing,
    StoredLesson,
    Uses,
    showings_of,
    stored_lessons,
    to_record,
)
from hepm.graph.neo4j.connection import VECTOR_ROWS, Connection, Sender, lesson_uid, run_uid, tool_uid, uid
from hepm.graph.store import FloatArray
from hepm.graph.stored_vectors import from_bytes, to_bytes, to_floats
from hepm.graph.writes import LessonStore, Write


class Neo4jLessons(LessonStore):
    """See `hepm.graph.writes.LessonStore` for what each method promises."""

    def __init__(self, connection: Connection, write: Write) -> None:
        def read(name: str, namespace: str, /, **values: Any) -> list[tuple[Any, ...]]:
            space = uid(namespace)
            if "ids" in values:
                values["uids"] = [lesson_uid(space, name) for name in dict.fromkeys(values.pop("ids"))]
            if "keys" in values:
                values["uids"] = [_answer_uid(space, key) for key in dict.fromkeys(values.pop("keys"))]
            return connection.read(name, space=space, **values)

        super().__init__(write, read)
        self._connection = connection

    def held(self, *, namespace: str) -> Sequence[HeldLesson]:
        return [_held(*row) for row in self._connection.iterate("held_lessons", space=uid(namespace))]

    def told_of(self, row: LessonRow, *, namespace: str) -> Mapping[str, object]:
        return _told_of(row, namespace)

    def search(self, vector: FloatArray, *, namespace: str, limit: int) -> Sequence[tuple[str, float]]:
        space = uid(namespace)
        # The index knows neither namespaces nor what is retired: it is asked for more (see Neo4jStore.search_states).
        asked = {"vector": to_floats(vector), "candidates": 20 * limit, "space": space}
        rows = self._connection.read("nearest_lessons", **asked)
        if len(rows) < limit:
            rows = self._connection.read("embedded_lessons", space=space)
        found = sorted((-float(from_bytes(stored) @ vector), seq, name) for name, seq, stored in rows)
        return [(name, -cosine) for cosine, _, name in found[:limit]]


class Neo4jLessonTransaction:
    """See `hepm.graph.lessons.store.LessonTransaction` for what each method promises.

    Args:
        shown: Whether anything was shown in the namespace: else an ingest need not wait for the answer that says so.
    """

    def __init__(self, write: Sender, *, shown: bool) -> None:
        self._shown = shown
        self._write = write
        self._namespace = write.namespace
        self._space = write.space
        self._untied: list[dict[str, object]] = []

    def get(self, ids: Iterable[str]) -> dict[str, StoredLesson]:
        uids = [self._lesson(name) for name in dict.fromkeys(ids)]
        rows = self._write.run("find_lessons", uids=uids) if uids else []
        return {one.row.id: one for one in stored_lessons(rows)}

    def from_runs(self, runs: Sequence[str]) -> list[LessonRow]:
        rows = self._write.run("lessons_from", space=self._space, runs=list(runs))
        return [one.row for one in stored_lessons(rows, damaged=runs)]

    def of_user(self, user: str) -> list[str]:
        return [name for (name,) in self._write.run("lessons_of_user", space=self._space, user=user)]

    def stored_outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        rows = self._write.run("find_runs", uids=[run_uid(self._space, run) for run in runs])
        return {run: success for run, _, success in rows}

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, FloatArray]) -> None:
        if not rows:
            return
        ((seq,),) = self._write.run("last_lesson", space=self._space)
        known = self.get(row.id for row in rows)
        told: list[dict[str, object]] = []
        for row in rows:
            if row.id not in known:
                seq += 1
            told.append(self._told(row, seq, vectors.get(row.text)))
        self._write.put("put_lessons", told, size=VECTOR_ROWS, changed=self._write.header.revision + 1)
        self._where("set_last_lesson", seq=seq)
        self._link(rows)

    def _told(self, row: LessonRow, seq: int, vector: FloatArray | None) -> dict[str, object]:
        return {
            "uid": self._lesson(row.id),
            "kind": row.kind,
            "first": {"seq": seq, **row.prior._asdict(), "score": row.prior.score},
            "properties": {**_told_of(row, self._namespace), "record": to_record(row)},
            "embedding": None if vector is None else to_floats(vector),
            "vector": None if vector is None else to_bytes(vector),
        }

    def _link(self, rows: Sequence[LessonRow]) -> None:
        self._write.put("unlink_lesson_runs", [self._lesson(row.id) for row in rows], key="uids")
        links = [
            {"lesson": self._lesson(row.id), "run": run_uid(self._space, s.run), "reward": s.reward, "words": s.words}
            for row in rows
            for s in row.sources
        ]
        self._write.put("link_lesson_runs", links)
        tools = [{"lesson": self._lesson(row.id), "tool": tool_uid(self._space, t)} for row in rows for t in row.tools]
        self._write.put("link_lesson_tools", tools)
        parents = [
            {"lesson": self._lesson(row.id), "parent": self._lesson(parent.id), "operator": parent.operator}
            for row in rows
            for parent in row.parents
            if row.kind != "notes"
        ]
        self._write.put("link_lesson_parents", parents)
        notes = [
            {
                "lesson": self._lesson(row.id),
                "parent": self._lesson(row.parents[0].id) if row.parents else "",
                "user": self._user(row.user),
                "id": row.user,
            }
            for row in rows
            if row.kind == "notes"
        ]
        self._where("link_notes", rows=notes)
        self._where("link_triples", rows=[triple for row in rows for triple in self._triples(row)])

    def _triples(self, row: LessonRow) -> list[dict[str, object]]:
        return [
            {
                "lesson": self._lesson(row.id),
                "id": row.id,
                "subject_uid": self._concept(subject),
                "subject": subject,
                "predicate": predicate,
                "object_uid": self._concept(object),
                "object": object,
            }
            for subject, predicate, object in row.triples
        ]

    def drop(self, ids: Sequence[str]) -> None:
        if ids:
            self._write.put("drop_lessons", [self._lesson(name) for name in ids], key="uids")
            self._write.send("count_removal")

    def put_vectors(self, vectors: Mapping[str, FloatArray]) -> None:
        rows = [
            {"uid": self._lesson(name), "embedding": to_floats(vector), "vector": to_bytes(vector)}
            for name, vector in vectors.items()
        ]
        self._write.put("put_lesson_vectors", rows, size=VECTOR_ROWS, changed=self._write.header.revision + 1)

    def put_answers(self, answers: Sequence[Answer]) -> None:
        rows: list[dict[str, object]] = []
        for answer in answers:
            links = {
                "run_uid": run_uid(self._space, answer.run) if answer.run else None,
                "user_uid": self._user(answer.user) if answer.user else None,
            }
            name = _answer_uid(self._space, answer.key)
            told = {"uid": name, "space": self._space, "namespace": self._namespace, **answer._asdict(), **links}
            rows.append({"uid": name, **links, "properties": told})
        self._write.put("put_answers", rows)

    def drop_vectors(self) -> None:
        self._write.send("drop_lesson_vectors", space=self._space)
        self._write.send("count_removal")

    def drop_orphans(self) -> None:
        self._write.send("drop_orphan_answers", space=self._space)

    def held(self) -> list[HeldLesson]:
        return [_held(*row) for row in self._write.run("held_lessons", space=self._space)]

    def all_showings(self) -> list[Showing]:
        return showings_of(self._write.run("showings", space=self._space))

    def credit(self, more: Mapping[str, Uses]) -> None:
        rows = [{"uid": self._lesson(name), **uses._asdict()} for name, uses in more.items()]
        self._write.put("credit_lessons", rows, changed=self._write.header.revision + 1)

    def showings(self, runs: Sequence[str]) -> list[Showing]:
        return showings_of(self._ask("showings_in", runs)) if self._shown else []

    def put_showings(self, showings: Sequence[Showing]) -> None:
        rows = [
            {
                "uid": self._showing(showing.run),
                "run": showing.run,
                "lesson": self._lesson(showing.lesson),
                "success": showing.success,
            }
            for showing in showings
        ]
        self._where("put_showings", rows=rows)

    def told_outcomes(self, runs: Sequence[str]) -> dict[str, bool]:
        return dict(self._ask("told_outcomes_of", runs))

    def put_outcomes(self, outcomes: Mapping[str, bool]) -> None:
        rows = [{"uid": self._showing(run), "run": run, "told": told} for run, told in outcomes.items()]
        self._where("put_told_outcomes", rows=rows)

    def drop_answers_of(self, user: str) -> None:
        self._write.send("drop_answers_of", uid=self._user(user))

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        self._write.put("drop_answers_about", [run_uid(self._space, run) for run in runs], key="uids")

    def drop_runs(self, runs: Sequence[str]) -> None:
        self._write.put("drop_showings", [self._showing(run) for run in runs], key="uids")
        self.drop_answers_about(runs)

    def untie(self, runs: Sequence[str]) -> None:
        rows = self._write.run("lessons_tied_to", uids=[run_uid(self._space, run) for run in runs])
        names = ("lesson", "run", "reward", "words")
        self._untied.extend(dict(zip(names, row, strict=True)) for row in rows)

    def tie(self) -> None:
        self._write.put("link_lesson_runs", self._untied)
        self._untied = []

    def _ask(self, name: str, runs: Sequence[str]) -> list[tuple[Any, ...]]:
        return self._write.run(name, uids=[self._showing(run) for run in runs])

    def _where(self, name: str, /, **values: object) -> None:
        if values.get("rows") != []:
            self._write.send(name, space=self._space, namespace=self._namespace, **values)

    def _lesson(self, name: str) -> str:
        return lesson_uid(self._space, name)

    def _user(self, name: str) -> str:
        return uid(self._space, "user", name)

    def _concept(self, name: str) -> str:
        return uid(self._space, "concept", name)

    def _showing(self, run: str) -> str:
        return uid(self._space, "showing", run)


def _answer_uid(space: str, key: str) -> str:
    return uid(space, "answer", key)


def _told_of(row: LessonRow, namespace: str) -> dict[str, object]:
    """What a lesson's node tells of its record."""
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
