"""Lessons in Neo4j."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from hepm.graph.lessons.changes import change_lessons, forget_user, show, tell
from hepm.graph.lessons.rows import Answer, LessonRow, Showing, StoredLesson, Uses, from_record, to_record
from hepm.graph.lessons.store import Changed, LessonChange
from hepm.graph.neo4j.names import lesson_uid, run_uid, tool_uid, uid
from hepm.graph.store import FloatArray
from hepm.graph.stored_vectors import from_bytes, to_bytes, to_floats

if TYPE_CHECKING:
    from hepm.graph.neo4j.connection import Connection
    from hepm.graph.neo4j.writing import Neo4jTransaction

T = TypeVar("T")

_ROWS: Final = 500


class Write(Protocol):
    """Runs work in a write transaction, once the embedder is the store's own."""

    def __call__(
        self,
        namespace: str,
        work: Callable[[Neo4jTransaction], T],
        *,
        embedder: str | None = None,
        vectors: Iterable[FloatArray] = (),
    ) -> T:
        """What the work gives."""
        ...


class Neo4jLessons:
    """See `hepm.graph.lessons.store.LessonStore` for what each method promises."""

    def __init__(self, connection: Connection, write: Write) -> None:
        self._connection = connection
        self._write = write

    # Writing

    def change(
        self,
        change: LessonChange,
        vectors: Mapping[str, FloatArray],
        *,
        namespace: str,
        embedder: str | None = None,
    ) -> Changed:
        """Carry out a change."""

        def work(write: Neo4jTransaction) -> Changed:
            changed = change_lessons(write.lessons, change, vectors)
            write.note_change()
            return changed

        return self._write(namespace, work, embedder=embedder, vectors=vectors.values())

    def put_vectors(self, vectors: Mapping[str, FloatArray], *, namespace: str, embedder: str | None = None) -> None:
        """Attach vectors to lessons by id."""
        space = uid(namespace)
        rows = [
            {"uid": lesson_uid(space, name), "embedding": to_floats(vector), "vector": to_bytes(vector)}
            for name, vector in vectors.items()
        ]

        def work(write: Neo4jTransaction) -> None:
            write.put("put_lesson_vectors", rows, size=_ROWS, changed=write.books.revision + 1)
            write.note_change()

        self._write(namespace, work, embedder=embedder, vectors=vectors.values())

    def show(self, run: str, lessons: Sequence[str], *, namespace: str) -> int:
        """Remember that lessons were shown in a run."""
        return self._count(namespace, lambda write: show(write.lessons, run, lessons))

    def settle(self, outcomes: Mapping[str, bool], *, namespace: str) -> int:
        """Credit what was shown in runs with how these ended."""
        return self._count(namespace, lambda write: tell(write.lessons, outcomes))

    def _count(self, namespace: str, work: Callable[[Neo4jTransaction], int]) -> int:
        def counted(write: Neo4jTransaction) -> int:
            if count := work(write):
                write.note_change()
            return count

        return self._write(namespace, counted)

    def put_answers(self, answers: Sequence[Answer], *, namespace: str) -> None:
        """Keep answers."""
        space = uid(namespace)
        rows: list[dict[str, object]] = []
        for answer in answers:
            links = {
                "run_uid": run_uid(space, answer.run) if answer.run else None,
                "user_uid": _user_uid(space, answer.user) if answer.user else None,
            }
            told = {"space": space, "namespace": namespace, **answer._asdict(), **links}
            name = _answer_uid(space, answer.key)
            rows.append({"uid": name, **links, "properties": {"uid": name, **told}})
        self._write(namespace, lambda write: write.put("put_answers", rows))

    def forget_user(self, user: str, *, namespace: str) -> list[str]:
        """Remove every lesson of a user's own."""

        def work(write: Neo4jTransaction) -> Sequence[str]:
            if names := forget_user(write.lessons, user):
                write.note_change()
            return names

        return [*self._write(namespace, work)]

    # Reading

    def list(self, *, namespace: str, newer_than: int = 0) -> list[StoredLesson]:
        """Lessons that a revision above `newer_than` touched."""
        return [_stored(row) for row in self._connection.read("lessons", space=uid(namespace), newer_than=newer_than)]

    def get(self, ids: Sequence[str], *, namespace: str) -> list[StoredLesson]:
        """Those of the ids that are stored."""
        uids = [lesson_uid(uid(namespace), name) for name in dict.fromkeys(ids)]
        return [_stored(row) for row in self._connection.read("find_lessons", uids=uids)]

    def from_runs(self, runs: Sequence[str], *, namespace: str) -> list[LessonRow]:
        """Lessons that name one of the runs."""
        rows = self._connection.read("lessons_from", space=uid(namespace), runs=list(runs))
        return [from_record(record) for _, record in rows]

    def search(self, vector: FloatArray, *, namespace: str, limit: int) -> list[tuple[str, float]]:
        """Ids of the live lessons most similar to a vector, with their cosines."""
        space = uid(namespace)
        # The index knows neither namespaces nor what is retired: it is asked for more (see Neo4jStore.search_states).
        asked = {"vector": to_floats(vector), "candidates": 20 * limit, "space": space}
        rows = self._connection.read("nearest_lessons", **asked)
        if len(rows) < limit:
            rows = self._connection.read("embedded_lessons", space=space)
        found = sorted((-float(from_bytes(stored) @ vector), seq, name) for name, seq, stored in rows)
        return [(name, -cosine) for cosine, _, name in found[:limit]]

    def showings(self, *, namespace: str) -> list[Showing]:
        """All that was shown, by run and lesson."""
        return sorted(
            (Showing(*row) for row in self._connection.read("showings", space=uid(namespace))), key=lambda one: one[:2]
        )

    def outcomes(self, *, namespace: str) -> dict[str, bool]:
        """Outcomes that were told of runs."""
        return dict(sorted(self._connection.read("told_outcomes", space=uid(namespace))))

    def answers(self, keys: Sequence[str], *, namespace: str) -> list[Answer]:
        """What is known under those of the keys that are."""
        uids = [_answer_uid(uid(namespace), key) for key in dict.fromkeys(keys)]
        return sorted(Answer(*row) for row in self._connection.read("find_answers", uids=uids))

    def all_answers(self, *, namespace: str) -> list[Answer]:
        """Every answer, by key."""
        return sorted(Answer(*row) for row in self._connection.read("all_answers", space=uid(namespace)))

    def answered_runs(self, step: str, *, namespace: str) -> set[str]:
        """Runs that a step has an answer about."""
        return {run for (run,) in self._connection.read("answered_runs", space=uid(namespace), step=step)}


class Neo4jLessonTransaction:
    """See `hepm.graph.lessons.store.LessonTransaction` for what each method promises.

    Args:
        shown: Whether anything was shown in the namespace: else an ingest need not wait for the answer that says so.
    """

    def __init__(self, write: Neo4jTransaction, namespace: str, *, shown: bool) -> None:
        self._shown = shown
        self._write = write
        self._namespace = namespace
        self._space = uid(namespace)
        self._untied: list[dict[str, object]] = []

    def get(self, ids: Iterable[str]) -> dict[str, StoredLesson]:
        """Stored lessons by id."""
        uids = [self._lesson(name) for name in dict.fromkeys(ids)]
        return {one.row.id: one for one in map(_stored, self._write.run("find_lessons", uids=uids))} if uids else {}

    def from_runs(self, runs: Sequence[str]) -> list[LessonRow]:
        """Lessons that name one of the runs."""
        rows = self._write.run("lessons_from", space=self._space, runs=list(runs))
        return [from_record(record) for _, record in rows]

    def of_user(self, user: str) -> list[LessonRow]:
        """A user's own lessons."""
        return [from_record(record) for _, record in self._write.run("lessons_of_user", uid=self._user(user))]

    def stored_outcomes(self, runs: Iterable[str]) -> dict[str, bool | None]:
        """How stored runs ended."""
        rows = self._write.run("find_runs", uids=[run_uid(self._space, run) for run in runs])
        return {run: success for run, _, success in rows}

    def put(self, rows: Sequence[LessonRow], vectors: Mapping[str, FloatArray]) -> None:
        """Insert rows, or write known ones anew."""
        if not rows:
            return
        ((seq,),) = self._write.run("last_lesson", space=self._space)
        known = self.get(row.id for row in rows)
        told: list[dict[str, object]] = []
        for row in rows:
            if row.id not in known:
                seq += 1
            told.append(self._told(row, seq, vectors.get(row.text)))
        self._write.put("put_lessons", told, size=_ROWS, changed=self._write.books.revision + 1)
        self._where("set_last_lesson", seq=seq)
        self._link(rows)

    def _told(self, row: LessonRow, seq: int, vector: FloatArray | None) -> dict[str, object]:
        properties = {
            name: list(value) if isinstance(value, tuple) else value for name, value in row.properties.items()
        }
        return {
            "uid": self._lesson(row.id),
            "kind": row.kind,
            "live": row.live,
            "first": {
                "space": self._space,
                "namespace": self._namespace,
                "id": row.id,
                "seq": seq,
                **row.prior._asdict(),
                "score": row.prior.score,
            },
            "properties": {
                **properties,
                "text": row.text,
                "user": row.user,
                "runs": [source.run for source in row.sources],
                "tools": list(row.tools),
                "retired": row.retired,
                "made_by": row.made_by,
                "record": to_record(row),
            },
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
        """Delete lessons with all their links and showings."""
        if ids:
            self._write.put("drop_lessons", [self._lesson(name) for name in ids], key="uids")
            self._write.send("count_removal")

    def everything(self) -> tuple[list[StoredLesson], list[Showing]]:
        """All lessons of the namespace, and all that was shown."""
        lessons = self._write.run("lessons", space=self._space, newer_than=0)
        showings = self._write.run("showings", space=self._space)
        return [_stored(row) for row in lessons], [Showing(*row) for row in showings]

    def credit(self, more: Mapping[str, Uses]) -> None:
        """Add to the uses of lessons."""
        rows = [{"uid": self._lesson(name), **uses._asdict()} for name, uses in more.items()]
        self._write.put("credit_lessons", rows, changed=self._write.books.revision + 1)

    def showings(self, runs: Sequence[str]) -> list[Showing]:
        """What was shown in runs."""
        rows = self._ask("showings_in", runs) if self._shown else []
        return sorted((Showing(*row) for row in rows), key=lambda one: one[:2])

    def put_showings(self, showings: Sequence[Showing]) -> None:
        """Write showings."""
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
        """Outcomes that were told of runs."""
        return dict(self._ask("told_outcomes_of", runs))

    def put_outcomes(self, outcomes: Mapping[str, bool]) -> None:
        """Write outcomes of runs."""
        rows = [{"uid": self._showing(run), "run": run, "told": told} for run, told in outcomes.items()]
        self._where("put_told_outcomes", rows=rows)

    def drop_answers_of(self, user: str) -> None:
        """Delete answers about a user."""
        self._write.send("drop_answers_of", uid=self._user(user))

    def drop_answers_about(self, runs: Sequence[str]) -> None:
        """Delete answers about runs, and so that a step has seen them."""
        self._write.put("drop_answers_about", [run_uid(self._space, run) for run in runs], key="uids")

    def drop_runs(self, runs: Sequence[str]) -> None:
        """Delete what was shown in runs, what was told of them, and answers about them."""
        self._write.put("drop_showings", [self._showing(run) for run in runs], key="uids")
        self.drop_answers_about(runs)

    def untie(self, runs: Sequence[str]) -> None:
        """Remember which lessons are tied to runs whose nodes are about to go, and perhaps to come again."""
        rows = self._write.run("lessons_tied_to", uids=[run_uid(self._space, run) for run in runs])
        names = ("lesson", "run", "reward", "words")
        self._untied.extend(dict(zip(names, row, strict=True)) for row in rows)

    def tie(self) -> None:
        """Tie them again to those that came."""
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
        return _user_uid(self._space, name)

    def _concept(self, name: str) -> str:
        return uid(self._space, "concept", name)

    def _showing(self, run: str) -> str:
        return uid(self._space, "showing", run)


def _user_uid(space: str, name: str) -> str:
    return uid(space, "user", name)


def _answer_uid(space: str, key: str) -> str:
    return uid(space, "answer", key)


def _stored(row: Sequence[Any]) -> StoredLesson:
    seq, record, shown, uses, successes, vector = row
    return StoredLesson(
        seq, from_record(record), Uses(shown, uses, successes), None if vector is None else from_bytes(vector)
    )
