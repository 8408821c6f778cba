"""Two namespaces with the same tool names never see each other, in any method of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hepm import START, Tool
from hepm.embed import HashingEmbedder
from hepm.experience.lessons import Notes, Principle
from hepm.graph.delta import steps_in
from hepm.graph.lessons.rows import Answer, Source, StoredLesson, Triple
from hepm.graph.lessons.store import LessonStore
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.rows import RunFilter, Selection, StateBatch, ToolRow
from hepm.graph.store import Store
from tests.runs import Shelf, trajectory

OURS, THEIRS, NOBODYS = "ours", "theirs", "nobody's"

MINE = Shelf(trajectory("r1", "a", "b", goal="mine", task="t", user="u"), trajectory("r2", "a", success=False))
OTHERS = Shelf(
    trajectory("r1", "a", "b", goal="not mine", task="t", user="u"),
    trajectory("r3", "a", "b", "a", goal="not mine either", task="t", user="u"),
    trajectory("r4", "b", success=None),
)
PLACES = [
    place
    for shelf in (MINE, OTHERS)
    for run in shelf.runs()
    for *_, place in steps_in(run.columns["sequence"], success=bool(run.success))
]
VECTOR = HashingEmbedder().embed(["mine"])[0]

READS: dict[str, Callable[[Store, str], Any]] = {
    "totals": lambda store, ns: store.totals(namespace=ns),
    "find_known": lambda store, ns: store.find_known(["r1", "r2", "r3", "r4"], namespace=ns),
    "iter_records": lambda store, ns: list(store.iter_records(namespace=ns)),
    "runs_by_task": lambda store, ns: store.runs_by_task(namespace=ns),
    "records_of": lambda store, ns: store.records_of(["r1", "r2", "r3"], namespace=ns),
    "edges": lambda store, ns: (store.edges(namespace=ns), store.edges(namespace=ns, sources=["a", START])),
    "tools": lambda store, ns: store.tools(namespace=ns),
    "states_after": lambda store, ns: (
        plain(store.states_after("a", namespace=ns)),
        plain(store.states_after("a", namespace=ns, newer_than=1)),
    ),
    "vectors_of_states": lambda store, ns: sorted(store.vectors_of_states(list(range(100)), namespace=ns)),
    "search_states": lambda store, ns: [
        (row, round(cosine, 3)) for row, cosine in store.search_states(VECTOR, namespace=ns, limit=9)
    ],
    "iter_runs": lambda store, ns: [(*one[:3], one.vector) for one in store.iter_runs(namespace=ns)],
    "iter_states": lambda store, ns: list(store.iter_states(namespace=ns)),
    "evidence": lambda store, ns: [
        told
        for behind in store.evidence([(START, "a")], namespace=ns, runs=9, summaries=9)
        for told in (*behind.runs, *behind.summaries)
    ],
    "runs_after": lambda store, ns: [
        (*row[:4], None if row.vector is None else row.vector.tolist()) for row in store.runs_after(0, namespace=ns)
    ],
    "latest_runs": lambda store, ns: [row[:4] for row in store.latest_runs(namespace=ns, before=1 << 62, most=9)],
    "spread_runs": lambda store, ns: [row[:4] for row in store.spread_runs(namespace=ns, before=1 << 60, most=9)],
    "runs_at": lambda store, ns: [row[:4] for row in store.runs_at(range(9), namespace=ns)],
    "latest_on_edges": lambda store, ns: [row[:4] for row in store.latest_on_edges({(START, "a"): 9}, namespace=ns)],
    "states_at": lambda store, ns: store.states_at(PLACES, namespace=ns)[0],
    "called_tools": lambda store, ns: sorted(store.called_tools(namespace=ns)),
    "selected": lambda store, ns: store.selected(Selection(), namespace=ns),
    "outcomes_by_level": lambda store, ns: [
        counts for counts in store.outcomes_by_level(["", "silent"], namespace=ns, most=9).values() if any(counts)
    ],
    "latest_outcomes": lambda store, ns: [
        one for one in store.latest_outcomes(["a", "b"], namespace=ns).values() if one
    ],
    "trial_sessions": lambda store, ns: store.trial_sessions(namespace=ns),
    "refusals": lambda store, ns: sorted(store.refusals(namespace=ns).items()),
    "tokens_of": lambda store, ns: sorted(store.tokens_of(["r1", "r2", "r3"], namespace=ns).items()),
    "about_runs": lambda store, ns: [one[1:] for one in store.about_runs(["r1", "r2", "r3"], namespace=ns).values()],
    "runs_found": lambda store, ns: [
        one[1:] for one in store.runs_found(RunFilter(), namespace=ns, before=1 << 62, limit=9)
    ],
    "outcomes_by_day": lambda store, ns: sorted(store.outcomes_by_day(namespace=ns).items()),
    "models": lambda store, ns: store.models(namespace=ns, most=9),
    "latest_records": lambda store, ns: store.latest_records(namespace=ns, before=1 << 62, limit=9),
    "near": lambda store, ns: [row[:10] for row in store.near(VECTOR, ns, 9)],
    "drifts": lambda store, ns: [one for one in store.drifts(["a", "b"], namespace=ns).values() if one],
    "marks": lambda store, ns: [one for part in store.marks(namespace=ns) for one in sorted(part)],
}
WRITES: dict[str, Callable[[Store, str], Any]] = {
    "add": lambda store, ns: [
        store.add(OTHERS.runs(), OTHERS.vectors(OTHERS.runs()), namespace=ns, replay=OTHERS.replay, relabel=relabel)
        for relabel in (False, True)
    ],
    "add_alias": lambda store, ns: store.add_alias("b", "a", namespace=ns, replay=OTHERS.replay),
    "remove_alias": lambda store, ns: [
        store.add_alias("b", "a", namespace=ns, replay=OTHERS.replay),
        store.remove_alias("b", namespace=ns, replay=OTHERS.replay),
    ],
    "retire": lambda store, ns: store.retire("a", namespace=ns),
    "copy_tools": lambda store, ns: store.copy_tools(
        [ToolRow("a", "theirs", "{}", 0, 0, retired=True)], namespace=ns, replay=OTHERS.replay
    ),
    "describe": lambda store, ns: store.describe([Tool("a", "theirs"), Tool("z", "theirs")], namespace=ns),
    "put_vectors": lambda store, ns: [
        store.put_vectors("state", dict.fromkeys(range(1, 9), VECTOR), namespace=ns),
        store.put_vectors("run", dict.fromkeys(range(1, 9), VECTOR), namespace=ns),
        store.put_vectors("lesson", {LESSON.id: OTHER_VECTOR}, namespace=ns),
    ],
    "restate": lambda store, ns: store.restate(namespace=ns, replay=OTHERS.replay),
    "rebuild": lambda store, ns: store.rebuild(namespace=ns, replay=OTHERS.replay),
    "forget": lambda store, ns: (
        store.forget(Selection(task="t"), namespace=ns, replay=OTHERS.replay),
        store.forget(Selection(user="u"), namespace=ns, replay=OTHERS.replay),
        store.forget(Selection(environment="shop"), namespace=ns, replay=OTHERS.replay),
        store.forget(Selection(trajectory="r1"), namespace=ns, replay=OTHERS.replay),
    ),
}
LESSON_READS: dict[str, Callable[[LessonStore, str], Any]] = {
    "list": lambda lessons, ns: [told(one) for one in lessons.list(namespace=ns)],
    "get": lambda lessons, ns: [told(one) for one in lessons.get([LESSON.id, NOTES.id, CHILD.id], namespace=ns)],
    "exposures": lambda lessons, ns: lessons.exposures(namespace=ns),
    "outcomes": lambda lessons, ns: list(lessons.outcomes(namespace=ns).items()),
    "all_answers": lambda lessons, ns: lessons.all_answers(namespace=ns),
    "answers": lambda lessons, ns: lessons.answers(["k", "other"], namespace=ns),
    "live_and_shown": lambda lessons, ns: [count for count in lessons.live_and_shown(namespace=ns) if count],
    "answered_runs": lambda lessons, ns: sorted(lessons.answered_runs("distill", namespace=ns)),
}
LESSON_WRITES: dict[str, Callable[[LessonStore, str], Any]] = {
    "change": lambda lessons, ns: lessons.change(
        LessonChange(put=[CHILD], retire={LESSON.id: "superseded"}, drop=[NOTES.id], imported=True),
        {LESSON.text: VECTOR},
        namespace=ns,
    ),
    "carry": lambda lessons, ns: lessons.carry([CHILD], {CHILD.text: VECTOR}, namespace=ns),
    "show": lambda lessons, ns: lessons.show("r2", [LESSON.id], namespace=ns),
    "report_outcomes": lambda lessons, ns: lessons.report_outcomes({"r1": False, "elsewhere": True}, namespace=ns),
    "put_answers": lambda lessons, ns: lessons.put_answers([Answer("other", "distill", "r1", "", "")], namespace=ns),
    "forget_user": lambda lessons, ns: lessons.forget_user("u", namespace=ns),
}
LESSON = Principle(
    "guiding", "mine: look before you buy", triples=(Triple("a", "followed by", "b"),), sources=(Source("r1"),)
).row()
CHILD = Principle("guiding", "theirs: look", sources=(Source("r1"),)).row()
NOTES = Notes("u", "- mine").row()
OTHER_VECTOR = HashingEmbedder().embed(["other"])[0]
OF_THE_WHOLE_STORE = {
    "secret",
    "lessons",
    "ask",
    "header",
    "namespaces",
    "set_embedder",
    "changes_since",
    "close",
    "write",
    "read",
    "iterate",
    "reembed",
    "remote",
    "runs_a_batch",
    "read_only",
    "damage",
    "read_rewards",
    "settle_upgrade",
    "upgraded_from",
}


def plain(batch: StateBatch) -> object:
    return list(batch.rows), np.round(batch.vectors_ND, 3).tolist()


def told(one: StoredLesson) -> object:
    return one.seq, one.row, one.uses, None if one.vector is None else np.round(one.vector, 3).tolist()


def everything(store: Store, namespace: str) -> dict[str, object]:
    of_runs = {name: read(store, namespace) for name, read in READS.items()}
    return of_runs | {f"lessons.{name}": read(store.lessons, namespace) for name, read in LESSON_READS.items()}


def learn(store: Store, namespace: str) -> None:
    store.lessons.change(
        LessonChange(put=[LESSON, NOTES]), {LESSON.text: VECTOR, NOTES.text: VECTOR}, namespace=namespace
    )
    store.lessons.show("r1", [LESSON.id], namespace=namespace)
    store.lessons.report_outcomes({"another run": True}, namespace=namespace)
    store.lessons.put_answers([Answer("k", "distill", "r1", "", "")], namespace=namespace)


def test_every_method_of_a_store_is_tried_here() -> None:
    methods = {name for name in vars(Store) if not name.startswith("_")} | {"remote", "runs_a_batch"}
    assert methods == READS.keys() | WRITES.keys() | OF_THE_WHOLE_STORE
    assert {
        name for name in vars(LessonStore) if not name.startswith("_")
    } == LESSON_READS.keys() | LESSON_WRITES.keys()


def test_what_is_written_in_one_namespace_changes_nothing_in_another(store: Store) -> None:
    store.add(MINE.runs(), MINE.vectors(MINE.runs()), namespace=OURS, replay=MINE.replay)
    learn(store, OURS)
    before, nothing = everything(store, OURS), everything(store, NOBODYS)
    assert not any(value for value in nothing.values() if isinstance(value, list | dict))
    lesson_writes = {f"lessons.{name}": write for name, write in LESSON_WRITES.items()}
    writes = [*WRITES, *lesson_writes]
    for number, name in enumerate(writes):
        theirs = f"{THEIRS} {number}"
        if name != "add":
            WRITES["add"](store, theirs)
        learn(store, theirs)
        if name in WRITES:
            WRITES[name](store, theirs)
        else:
            lesson_writes[name](store.lessons, theirs)
        if not store.remote or name == writes[-1]:  # a server takes a second to read everything
            assert everything(store, OURS) == before, name
    assert everything(store, NOBODYS) == nothing


def test_a_crowded_namespace_does_not_starve_the_search_in_a_small_one(store: Store) -> None:
    crowd = Shelf(*(trajectory(f"r{i}", "a", goal=f"mine {chr(97 + i % 26)}{chr(97 + i // 26)}") for i in range(300)))
    store.add(crowd.runs(), crowd.vectors(crowd.runs()), namespace=THEIRS, replay=crowd.replay)
    store.add(MINE.runs(), MINE.vectors(MINE.runs()), namespace=OURS, replay=MINE.replay)
    found = store.search_states(VECTOR, namespace=OURS, limit=2)
    assert [row.trajectory for row, _ in found] == ["r1", "r1"]
