"""What every store of the tool graph must answer, whichever it is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hepm import START, Tool, Trajectory
from hepm.embed import HashingEmbedder
from hepm.errors import InputError
from hepm.graph.rows import Added, Selection
from hepm.graph.store import Store
from hepm.graph.weights import INVERSE_STEPS_UNIT
from hepm.ingest.formats.hepm import parse_run, write_run
from hepm.ingest.pipeline import replay_with
from hepm.ingest.prepare import exclude
from hepm.types import ToolCall, Turn
from tests.neo4j_server import ON_SERVER
from tests.runs import Shelf, trajectory

MakeStore = Callable[..., Store]
NS = "team"


def add(store: Store, shelf: Shelf, names: Sequence[str] | None = None, namespace: str = NS) -> None:
    runs = shelf.runs(names)
    store.add(runs, shelf.vectors(runs), namespace=namespace, replay=shelf.replay)


def everything(store: Store, namespace: str = NS) -> object:
    """All a namespace holds but row numbers, to compare two stores."""
    states = sorted(
        (row.sources, row.targets, row.summary, row.count, row.seen, row.trajectory, row.step)
        for row in store.iter_states(namespace=namespace)
    )
    tools = [row for row in store.tools(namespace=namespace) if row.calls]
    vectors = sorted(
        (row.summary, tuple(np.round(vector, 3)))
        for tool in tools
        for batch in [store.states_after(tool.name, namespace=namespace)]
        for row, vector in zip(batch.rows, batch.vectors_ND, strict=True)
    )
    return store.edges(namespace=namespace), tools, states, vectors


def test_a_transition_counts_once_per_run_however_often_the_run_took_it(store: Store) -> None:
    add(store, Shelf(trajectory("r", "look", "look", "look", "buy")))
    counts = {(row[0], row[1]): row[2:] for row in store.edges(namespace=NS)}
    assert counts["look", "look"] == (1, INVERSE_STEPS_UNIT // 4, 0, 0)


def test_parallel_calls_make_every_pair_across_two_turns_and_none_inside_one(store: Store) -> None:
    add(store, Shelf(trajectory("r", "a+b", "c+d")))
    pairs = {(row[0], row[1]) for row in store.edges(namespace=NS)}
    assert pairs == {(START, "a"), (START, "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")}


def test_a_refused_call_is_kept_in_its_record_and_is_no_transition_and_no_call_of_its_tool(store: Store) -> None:
    run = trajectory("r", "look", "make", "buy")
    turns = list(run.turns)
    turns[2] = Turn("assistant", "", (ToolCall("make", result="no", refused=True),))
    shelf = Shelf(replace(run, turns=tuple(turns)))
    add(store, shelf)
    assert {(row[0], row[1]) for row in store.edges(namespace=NS)} == {(START, "look"), ("look", "buy")}
    assert [row.name for row in store.tools(namespace=NS) if row.calls] == ["buy", "look"]
    (record,) = store.records_of(["r"], namespace=NS).values()
    assert parse_run(record).turns[2].refused == ("make",)
    assert store.refusals(namespace=NS) == {"look": {"make": 1}}
    assert store.refusals(namespace="another") == {}
    store.add_alias("look", "find", namespace=NS, replay=shelf.replay, rename=True)
    assert store.refusals(namespace=NS) == {"find": {"make": 1}}


def test_failed_and_unlabelled_runs_are_told_apart_and_add_nothing_to_support(store: Store) -> None:
    add(
        store,
        Shelf(trajectory("won", "a"), trajectory("lost", "a", success=False), trajectory("open", "a", success=None)),
    )
    assert store.edges(namespace=NS) == [(START, "a", 1, INVERSE_STEPS_UNIT, 1, 1)]


def test_a_run_stored_twice_is_a_duplicate_and_changes_nothing(store: Store) -> None:
    shelf = Shelf(trajectory("r", "a", "b"))
    add(store, shelf)
    before = everything(store), store.header.revision
    added = store.add(shelf.runs(), {}, namespace=NS, replay=shelf.replay)
    assert added.duplicates == ("r",)
    assert (everything(store), store.header.revision) == before


def test_two_runs_under_one_id_are_a_conflict_and_the_first_stays(store: Store) -> None:
    add(store, Shelf(trajectory("r", "a")))
    other = Shelf(trajectory("r", "b")).run("r")
    changed = other._replace(digest="other digest")
    added = store.add([changed], {}, namespace=NS, replay=Shelf().replay)
    assert [run.id for run in added.conflicts] == ["r"]
    assert [row.name for row in store.tools(namespace=NS)] == ["a"]


def test_a_run_that_is_joined_counts_as_the_whole_alone_and_its_part_again_changes_nothing(
    make_two_stores: MakeStore,
) -> None:
    replay = replay_with(HashingEmbedder())
    joined, direct = make_two_stores("joined"), make_two_stores("direct")
    first, later, whole = [write_run(trajectory("r", *calls)) for calls in ("a", "b", "ab")]
    results: list[Added] = []
    for store, record in ((direct, whole), (joined, first), (joined, later), (joined, later)):
        runs, vectors = replay([record])
        results.append(store.add(runs, vectors, namespace=NS, replay=replay, join=lambda run, known, stored: whole))
    assert [(len(result.stored), result.joined, result.duplicates) for result in results] == [
        (1, (), ()), (1, (), ()), (1, ("r",), ()), (0, (), ("r",)),
    ]  # fmt: skip
    assert everything(joined) == everything(direct)


@pytest.mark.parametrize("before", [None, False])
def test_a_run_whose_outcome_becomes_known_or_is_corrected_counts_with_it_and_only_once(
    make_two_stores: MakeStore, before: bool | None
) -> None:
    late, known = make_two_stores("late"), make_two_stores("known")
    add(late, Shelf(trajectory("r", "a", "b", success=before)))
    labelled = Shelf(trajectory("r", "a", "b"))
    for store in (late, known):
        add(store, labelled)
    assert everything(late) == everything(known)


def test_a_run_that_is_trusted_no_more_counts_as_if_it_had_never_had_a_label(make_two_stores: MakeStore) -> None:
    late, never = make_two_stores("late"), make_two_stores("never")
    other = trajectory("other", "a", "c", goal="something else")
    labelled = Shelf(trajectory("r", "a", "b"), other)
    aside = exclude(trajectory("r", "a", "b"))
    distrusted = Shelf(aside, other)
    add(late, labelled)
    for store in (late, never):
        add(store, distrusted)
    assert everything(late) == everything(never)
    assert late.add([distrusted.run("r")], {}, namespace=NS, replay=distrusted.replay).duplicates == ("r",)
    late.add([labelled.run("r")], labelled.vectors(labelled.runs()), namespace=NS, replay=labelled.replay)
    assert late.totals(namespace=NS).successes == 2


def test_near_identical_summaries_merge_with_a_count(store: Store) -> None:
    add(store, Shelf(*(trajectory(f"r{i}", "a", goal=f"Order  #{i} please") for i in range(3))))
    (state,) = store.iter_states(namespace=NS)
    assert (state.count, state.trajectory) == (3, "r2")


def test_a_move_keeps_no_more_states_than_its_bound_and_the_latest_stay(make_store: MakeStore) -> None:
    store = make_store(states_per_move=2)
    goals = ["alpha", "beta", "gamma", "delta"]
    add(store, Shelf(*(trajectory(g, "a", goal=g, ended_at=float(i)) for i, g in enumerate(goals))))
    assert [row.trajectory for row in store.iter_states(namespace=NS)] == ["gamma", "delta"]


def test_evidence_tells_each_wording_once_and_none_of_states_over_the_bound(make_store: MakeStore) -> None:
    store = make_store(states_per_move=2)
    goals = ["alpha", "alpha", "alpha", "beta", "gamma"]
    add(store, Shelf(*(trajectory(f"r{i}", "a", goal=g, ended_at=float(i)) for i, g in enumerate(goals))))
    add(store, Shelf(trajectory("beside", "a+b", goal="gamma", ended_at=9.0)))
    (found,) = store.evidence([(START, "a")], namespace=NS, runs=9, summaries=9)
    assert [text.splitlines()[0] for text in found.summaries] == ["U: gamma", "U: beta"]


def test_forgetting_without_saying_what_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="nothing is selected"):
        store.forget(Selection(), namespace=NS, replay=Shelf().replay)


def test_of_a_tasks_successes_the_shortest_alone_counts_when_asked(make_two_stores: MakeStore) -> None:
    shelf = Shelf(
        trajectory("long", "a", "b", "c", task="t"),
        trajectory("short", "a", "c", task="t"),
        trajectory("lost", "a", task="t", success=False),
    )
    store, other = make_two_stores(counting="shortest"), make_two_stores("other", counting="shortest")
    for name in ("long", "short", "lost"):
        add(store, shelf, [name])
    add(other, shelf, ["lost", "short"])
    assert store.edges(namespace=NS) == other.edges(namespace=NS)
    store.forget(Selection(trajectory="short"), namespace=NS, replay=shelf.replay)
    assert ("b", "c") in {(row[0], row[1]) for row in store.edges(namespace=NS)}


def test_a_store_does_not_change_which_runs_count_behind_ones_back(make_store: MakeStore) -> None:
    make_store(counting="all")
    with pytest.raises(InputError, match="counts 'all' runs"):
        make_store(counting="shortest")


def test_evidence_comes_edge_by_edge_in_the_order_asked(store: Store) -> None:
    add(store, Shelf(*(trajectory(f"r{i}", "a", "b", "c" if i else "d", task=f"t{i}") for i in range(4))))
    edges = [("b", "c"), ("a", "b"), ("b", "x"), ("b", "d"), ("a", "b")]
    found = store.evidence(edges, namespace=NS, runs=2, summaries=1)
    assert [one.runs for one in found] == [("r3", "r2"), ("r3", "r2"), (), ("r0",), ("r3", "r2")]
    assert [len(one.summaries) for one in found] == [1, 1, 0, 1, 1]
    assert store.evidence([], namespace=NS, runs=2, summaries=1) == []


def test_the_journal_names_what_each_revision_touched(store: Store) -> None:
    start = store.header.revision
    add(store, Shelf(trajectory("r", "a", "b")))
    changes = store.changes_since(start)
    assert changes is not None
    assert [(change.namespace, change.sources, change.rewritten) for change in changes] == [(NS, (START, "a"), False)]
    assert store.changes_since(store.header.revision) == []


def test_a_description_given_by_hand_replaces_the_records_own(store: Store) -> None:
    add(store, Shelf(trajectory("r", "a")))
    store.describe([Tool("a", "does it", {"type": "object"})], namespace=NS)
    (tool,) = store.tools(namespace=NS)
    assert (tool.description, tool.parameters, tool.calls) == ("does it", '{"type": "object"}', 1)


@pytest.mark.parametrize("name", ["it's", 'quo"te', "new\nline", "日本 🛠", "`tick`) DETACH DELETE n //", "x" * 10_000])
def test_hostile_names_are_stored_as_they_are(store: Store, name: str) -> None:
    add(store, Shelf(trajectory(name, name, task=name, user=name, goal=name)), namespace=name)
    assert [row.name for row in store.tools(namespace=name)] == [name]
    assert [one.runs for one in store.evidence([(START, name)], namespace=name, runs=1, summaries=0)] == [(name,)]
    assert store.forget(
        Selection(user=name), namespace=name, replay=Shelf(trajectory(name, name, goal=name)).replay
    ) == [name]


def test_writers_on_several_threads_count_every_run_once(store: Store) -> None:
    shelf = Shelf(*(trajectory(f"r{i}", "a", "b") for i in range(40)))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: add(store, shelf, [f"r{i % 40}"]), range(80)))
    assert {row[2] for row in store.edges(namespace=NS)} == {40}


def test_changing_the_embedder_drops_every_vector_and_keeps_the_states(store: Store) -> None:
    add(store, Shelf(trajectory("r", "a", "b")))
    store.set_embedder("other", 512)
    assert [row[-1] for row in store.iterate("held_states", namespace=NS)] == [None, None]
    assert store.header.embedder == "other"


Drawn = list[tuple[list[str], bool | None, str, str, float | None]]
runs = st.lists(
    st.builds(
        lambda turns, success, task, goal, ended: (turns, success, task, goal, ended),
        st.lists(st.sampled_from(["a", "b", "a+b", "c+a", "b+b"]), max_size=4),
        st.sampled_from([True, True, False, None]),
        st.sampled_from(["t1", "t2", ""]),
        st.sampled_from(["alpha 1", "Alpha 2", "beta", "gamma", "delta"]),
        st.sampled_from([None, 1.0, 2.0]),
    ),
    min_size=1,
    max_size=8,
)


def shelf_of(drawn: Drawn) -> list[Trajectory]:
    return [
        trajectory(f"r{i}", *turns, success=success, task=task, goal=goal, ended_at=ended)
        for i, (turns, success, task, goal, ended) in enumerate(drawn)
    ]


SHARED_STORES = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@pytest.mark.parametrize("counting", ["all", "shortest"])
@pytest.mark.parametrize("make_two_stores", ["sqlite"], indirect=True)
@settings(suppress_health_check=SHARED_STORES)
@given(drawn=runs, data=st.data())
def test_runs_in_any_order_and_any_batches_make_the_same_graph_as_a_rebuild(
    make_two_stores: MakeStore, counting: str, drawn: Drawn, data: st.DataObject
) -> None:
    check_order(make_two_stores, counting, drawn, data)


@ON_SERVER
@pytest.mark.parametrize("counting", ["all", pytest.param("shortest", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "make_two_stores",
    ["neo4j and sqlite", pytest.param("sqlite and neo4j", marks=pytest.mark.exhaustive)],
    indirect=True,
)
@settings(suppress_health_check=SHARED_STORES, max_examples=settings().max_examples // 5)
@given(drawn=runs, data=st.data())
def test_a_server_makes_the_same_graph_of_runs_in_any_order_as_a_file(
    make_two_stores: MakeStore, counting: str, drawn: Drawn, data: st.DataObject
) -> None:
    check_order(make_two_stores, counting, drawn, data)


def check_order(make_two_stores: MakeStore, counting: str, drawn: Drawn, data: st.DataObject) -> None:
    trajectories = shelf_of(drawn)
    shelf = Shelf(*trajectories)
    order = data.draw(st.permutations([t.id for t in trajectories]))
    cut = data.draw(st.integers(0, len(order)))
    namespace = uuid.uuid4().hex  # the stores outlive one example
    one, other = (make_two_stores(f"{counting}{i}", counting=counting, states_per_move=2) for i in range(2))
    add(one, shelf, namespace=namespace)
    for part in (order[:cut], order[cut:]):
        add(other, shelf, part, namespace=namespace)
    assert everything(other, namespace) == everything(one, namespace)
    other.rebuild(namespace=namespace, replay=shelf.replay)
    assert everything(other, namespace) == everything(one, namespace)
    gone = data.draw(st.sampled_from(order))
    other.forget(Selection(trajectory=gone), namespace=namespace, replay=shelf.replay)
    fresh = f"{namespace}-fresh"
    add(one, shelf, [name for name in order if name != gone], namespace=fresh)
    assert everything(other, namespace) == everything(one, fresh)


def test_runs_are_told_by_task_and_their_records_are_found_by_id(store: Store) -> None:
    shelf = Shelf(trajectory("b", "a", task="t2"), trajectory("a", "a", task="t2"), trajectory("c", "a"))
    add(store, shelf)
    add(store, Shelf(trajectory("without outcome", "a", task="t2", success=None)))
    assert store.runs_by_task(namespace=NS) == [("shop", "", "c"), ("shop", "t2", "a"), ("shop", "t2", "b")]
    found = store.records_of(["a", "gone", "c"], namespace=NS)
    assert found == {name: record for name, record, _ in store.iter_records(namespace=NS) if name in ("a", "c")}
