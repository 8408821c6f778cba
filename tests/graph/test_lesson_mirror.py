"""The lessons in memory say what the store holds, whoever wrote it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest

from hepm.embed import HashingEmbedder
from hepm.experience.lessons import Principle
from hepm.graph.lessons.rows import LessonRow, StoredLesson
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.mirror.lesson_mirror import LessonMirror
from hepm.graph.sqlite import SQLiteStore

NS = "team"
EMBEDDER = HashingEmbedder()
TEXTS = ["returns need the order", "flights go by city", "ask before an order is cancelled", "the order is unknown"]


def row(text: str) -> LessonRow:
    return Principle("guiding", text).row()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(tmp_path / "lessons.hepm")
    made.set_embedder(EMBEDDER.name, EMBEDDER.dimensions)
    yield made
    made.close()


def put(store: SQLiteStore, *texts: str) -> None:
    vectors = {text: EMBEDDER.embed([text])[0] for text in texts}
    store.lessons.change(LessonChange(put=[row(text) for text in texts]), vectors, namespace=NS)


def found(mirror: LessonMirror, text: str, limit: int = 4) -> list[str]:
    return [one.row.text for one, _ in mirror.search(EMBEDDER.embed([text])[0], "principle", limit=limit)]


def test_a_mirror_that_followed_every_change_answers_as_one_that_reads_afresh(store: SQLiteStore) -> None:
    followed = LessonMirror(store, NS)
    rng = np.random.default_rng(3)
    for step in range(40):
        text = f"{TEXTS[step % 4]} {step // 4}"
        put(store, text)
        name = row(text).id
        match rng.integers(6):
            case 0:
                store.lessons.change(LessonChange(retire={name: "pruned"}), {}, namespace=NS)
            case 1:
                store.lessons.change(LessonChange(drop=[name]), {}, namespace=NS)
            case 2:
                store.lessons.show(f"run {step}", [name], namespace=NS)
            case 3:
                store.lessons.change(LessonChange(revive=[row(f"{TEXTS[0]} 0").id]), {}, namespace=NS)
        if rng.integers(3):
            followed.follow(store.header)
    followed.follow(store.header)
    fresh = LessonMirror(store, NS)
    assert followed.all("principle", retired=True) == fresh.all("principle", retired=True)
    for text in TEXTS:
        query = EMBEDDER.embed([text])[0]
        mine, theirs = (mirror.search(query, "principle", limit=9) for mirror in (followed, fresh))
        assert [one for one, _ in mine] == [one for one, _ in theirs]
        assert [cosine for _, cosine in mine] == pytest.approx([cosine for _, cosine in theirs], abs=1e-5)


def test_a_word_that_all_lessons_hold_decides_nothing_and_a_rare_one_does(store: SQLiteStore) -> None:
    put(store, *(f"order order order order {word}" for word in ("refund", "exchange", "cancel")), "flight order")
    assert found(LessonMirror(store, NS), "order flight")[0] == "flight order"
    assert found(LessonMirror(store, NS), "order order order exchange")[0].endswith("exchange")


def test_a_filter_does_not_starve_the_search(store: SQLiteStore) -> None:
    put(store, *(f"ask for the order {number}" for number in range(100)), "ask nothing")
    mirror = LessonMirror(store, NS)
    vector = EMBEDDER.embed(["ask for the order"])[0]
    kept = mirror.search(vector, "principle", limit=1, keep=lambda one: one.row.text == "ask nothing")
    assert [one.row.text for one, _ in kept] == ["ask nothing"]


def test_other_kinds_and_lessons_without_a_vector_are_passed_over(store: SQLiteStore) -> None:
    mirror = LessonMirror(store, NS)
    assert found(mirror, "anything") == []
    store.lessons.change(LessonChange(put=[row("no vector yet")]), {}, namespace=NS)
    mirror.follow(store.header)
    assert found(mirror, "no vector yet") == []
    assert mirror.get(row("no vector yet").id) is not None
    store.put_vectors("lesson", {row("no vector yet").id: EMBEDDER.embed(["no vector yet"])[0]}, namespace=NS)
    mirror.follow(store.header)
    assert found(mirror, "no vector yet") == ["no vector yet"]
    assert mirror.search(EMBEDDER.embed(["no vector yet"])[0], "experience", limit=1) == []


def test_what_is_worked_out_of_lessons_is_not_made_again_for_their_uses(store: SQLiteStore) -> None:
    mirror = LessonMirror(store, NS)
    made: list[int] = []

    def count(lessons: Collection[StoredLesson]) -> int:
        made.append(len(lessons))
        return len(lessons)

    put(store, *TEXTS)
    mirror.follow(store.header)
    assert mirror.cached(count, "principle") == 4
    store.lessons.show("run", [row(TEXTS[0]).id], namespace=NS)
    mirror.follow(store.header)
    assert mirror.get(row(TEXTS[0]).id).uses.shown == 1
    assert (mirror.cached(count, "principle"), made) == (4, [4])


def test_what_an_interrupted_change_left_half_made_is_read_again(store: SQLiteStore) -> None:
    mirror = LessonMirror(store, NS)
    broken = [True]

    def count(lessons: Collection[StoredLesson]) -> int:
        if lessons and broken.pop():
            raise KeyboardInterrupt
        return len(lessons)

    assert mirror.cached(count, "principle") == 0
    put(store, *TEXTS)
    with pytest.raises(KeyboardInterrupt):
        mirror.follow(store.header)
    broken.append(False)
    mirror.follow(store.header)
    assert mirror.cached(count, "principle") == 4
    assert found(mirror, TEXTS[0])[0] == TEXTS[0]
