"""What every store must answer about lessons, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hepm import Memory, Tool, from_messages
from hepm.embed import HashingEmbedder
from hepm.errors import InputError
from hepm.experience.conditions import Conditions
from hepm.experience.lessons import Experience, Notes, Principle
from hepm.graph.examination import differences
from hepm.graph.lessons.rows import OUTDATED, PENDING, Answer, LessonRow, Parent, Source, Triple, Uses
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.rows import Selection
from hepm.graph.store import Store
from hepm.ingest.copying import copy_store
from hepm.ingest.formats.hepm import parse_run
from hepm.ingest.prepare import IngestOptions, exclude
from hepm.ingest.records import ReadOptions
from tests.runs import Shelf, trajectory

NS = "team"
EMBEDDER = HashingEmbedder()
RUNS = Shelf(
    trajectory("won", "look", "buy", user="ann", task="t"),
    trajectory("lost", "look", "drop", success=False, user="ann", task="t"),
    trajectory("open", "look", success=None, user="bob", task="u"),
)


def experience(lesson: str, *runs: str, **changes: object) -> Experience:
    made = Experience(
        situation="a user wants a refund",
        action="called look, then buy",
        outcome="it went well",
        lesson=lesson,
        zone="golden",
        stage="exploration",
        reward=1.0,
        conditions=Conditions(("shop",), 1, 2, ("the order is known",)),
        sources=tuple(Source(run, 1.0) for run in runs or ("won",)),
        tools=("look", "buy"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def principle(text: str, *runs: str) -> Principle:
    triples = (Triple("look", "followed by", "buy"), Triple("drop", "fails after", "look"))
    sources = tuple(Source(run) for run in runs or ("won",))
    return Principle(
        "guiding", text, triples=triples, sources=sources, tools=("look",), conditions=Conditions(("shop",))
    )


def put(store: Store, *rows: LessonRow, namespace: str = NS, **more: object) -> None:
    vectors = {row.text: EMBEDDER.embed([row.text])[0] for row in rows}
    store.lessons.change(
        LessonChange(put=rows, **more),
        vectors,
        namespace=namespace,
        embedder=EMBEDDER.name,  # type: ignore[arg-type]
    )


@pytest.fixture
def filled(store: Store) -> Store:
    runs = RUNS.runs()
    store.add(runs, RUNS.vectors(runs), namespace=NS, replay=RUNS.replay)
    return store


def names(store: Store) -> list[str]:
    return [one.row.id for one in store.lessons.list(namespace=NS)]


def uses(store: Store, row: LessonRow) -> Uses:
    (stored,) = store.lessons.get([row.id], namespace=NS)
    return stored.uses


def test_a_lesson_of_each_kind_comes_back_as_it_was_put_with_its_vector(filled: Store) -> None:
    made = [
        replace(experience("ask first 'quoted' ☃").row(), made_by="evolution-1", prior=Uses(3, 2, 1)),
        principle("Look before you buy.").row(),
        Notes("ann", "- short answers", session="won").row(),
    ]
    put(filled, *made)
    stored = filled.lessons.list(namespace=NS)
    assert [one.row for one in stored] == made
    assert [one.seq for one in stored] == [1, 2, 3]
    assert [one.uses for one in stored] == [Uses(3, 2, 1), Uses(), Uses()]
    assert Experience.of(stored[0].row) == experience("ask first 'quoted' ☃")
    assert Principle.of(stored[1].row) == principle("Look before you buy.")
    assert Notes.of(stored[2].row) == Notes("ann", "- short answers", session="won")
    for one in stored:
        assert one.vector is not None
        assert np.allclose(one.vector, EMBEDDER.embed([one.row.text])[0], atol=1e-3)


def test_the_same_lesson_from_another_run_is_stored_once_and_stands_on_both_runs(filled: Store) -> None:
    put(filled, experience("ask", "won").row())
    put(filled, experience("ask", "lost").row(), experience("ask", "lost").row())
    (stored,) = filled.lessons.list(namespace=NS)
    assert [source.run for source in stored.row.sources] == ["won", "lost"]


def test_a_lesson_in_the_words_of_a_run_that_is_gone_is_refused_unless_it_is_imported(filled: Store) -> None:
    row = experience("ask", "nobody's run").row()
    changed = filled.lessons.change(LessonChange(put=[row]), {}, namespace=NS)
    assert changed.refused == (row.id,)
    assert names(filled) == []
    assert filled.lessons.change(LessonChange(put=[row], imported=True), {}, namespace=NS).new == (row.id,)


def test_a_child_of_a_lesson_that_is_gone_is_refused(filled: Store) -> None:
    child = experience("ask twice", parents=(Parent("e-gone", "mutation"),)).row()
    assert filled.lessons.change(LessonChange(put=[child]), {}, namespace=NS).refused == (child.id,)


def test_of_two_writers_of_one_version_of_notes_the_second_is_refused(filled: Store) -> None:
    put(filled, Notes("ann", "- one").row())
    second = Notes("ann", "- two", 2).row()
    put(filled, second)
    other = Notes("ann", "- another two", 2).row()
    assert filled.lessons.change(LessonChange(put=[other]), {}, namespace=NS).refused == (other.id,)
    assert [one.row.text for one in filled.lessons.list(namespace=NS)] == ["- one", "- two"]


def test_a_retired_lesson_stays_to_be_looked_at_is_not_found_and_may_be_revived(filled: Store) -> None:
    row, other = experience("ask").row(), experience("ask again").row()
    put(filled, row, other)
    filled.lessons.change(LessonChange(retire={row.id: "superseded"}, by="evolution-1"), {}, namespace=NS)
    (retired, _) = filled.lessons.list(namespace=NS)
    assert (retired.row.retired, retired.row.retired_by, retired.row.live) == ("superseded", "evolution-1", False)
    assert filled.totals(namespace=NS).experiences == 1
    filled.lessons.change(LessonChange(revive=[row.id]), {}, namespace=NS)
    assert [one.row.live for one in filled.lessons.list(namespace=NS)] == [True, True]


def test_what_needs_no_approval_replaces_a_pending_lesson_of_its_words_and_a_pending_one_adds_runs_alone(
    filled: Store,
) -> None:
    counted = replace(principle("Look before you buy.", "won"), tried=3, worked=2)
    forged = replace(principle(counted.text, "lost"), triples=(Triple("buy", "followed_by", "wire"),), tried=9)
    put(filled, replace(forged.row(), retired=PENDING))
    assert filled.totals(namespace=NS).principles == 0
    put(filled, counted.row())
    (stored,) = filled.lessons.list(namespace=NS)
    assert (stored.row, filled.totals(namespace=NS).principles) == (counted.row(), 1)
    put(filled, replace(forged.row(), retired=PENDING))
    (stored,) = filled.lessons.list(namespace=NS)
    assert stored.row == counted.row().with_sources(forged.sources)


def test_a_pending_lesson_is_approved_or_rejected_and_a_rejected_one_may_be_pending_again(filled: Store) -> None:
    row = replace(experience("ask").row(), retired=PENDING)
    put(filled, row)
    states: list[str] = []
    for change in (
        LessonChange(retire={row.id: "deleted"}),
        LessonChange(put=[row]),
        LessonChange(retire={row.id: PENDING}),
        LessonChange(revive=[row.id]),
    ):
        filled.lessons.change(change, {}, namespace=NS)
        states += [one.row.retired for one in filled.lessons.list(namespace=NS)]
    assert states == ["deleted", "deleted", PENDING, ""]


def test_only_what_a_later_revision_touched_is_listed_as_newer(filled: Store) -> None:
    row, other = experience("ask").row(), experience("ask again").row()
    put(filled, row, other)
    revision = filled.header.revision
    assert filled.lessons.list(namespace=NS, newer_than=revision) == []
    filled.lessons.show("run", [other.id], namespace=NS)
    assert filled.header.revision == revision + 1
    assert [one.row.id for one in filled.lessons.list(namespace=NS, newer_than=revision)] == [other.id]


def test_a_change_of_embedder_takes_the_vectors_of_lessons_away_until_they_are_put_again(filled: Store) -> None:
    row = experience("ask").row()
    put(filled, row)
    filled.set_embedder("another", 512)
    assert [one.vector for one in filled.lessons.list(namespace=NS)] == [None]
    vector = EMBEDDER.embed(["anything"])[0]
    filled.put_vectors("lesson", {row.id: vector, "e-gone": vector}, namespace=NS)
    (stored,) = filled.lessons.list(namespace=NS)
    assert stored.vector is not None
    assert np.allclose(stored.vector, vector, atol=1e-3)


# Credit


def test_what_was_shown_is_credited_when_the_run_is_stored_with_its_outcome(filled: Store) -> None:
    row, other = experience("ask").row(), experience("ask again").row()
    put(filled, row, other)
    assert filled.lessons.show("later", [row.id, other.id, "e-gone"], namespace=NS) == 2
    assert filled.lessons.show("later", [row.id], namespace=NS) == 0
    assert uses(filled, row) == Uses(1, 0, 0)
    later = Shelf(trajectory("later", "look", "buy"))
    for _ in range(2):
        filled.add(later.runs(), {}, namespace=NS, replay=later.replay)
    assert uses(filled, row) == Uses(1, 1, 1)


def test_an_outcome_counts_once_whenever_and_however_often_it_is_told_and_a_correction_replaces_it(
    filled: Store,
) -> None:
    row = experience("ask").row()
    put(filled, row)
    filled.lessons.report_outcomes({"early": True}, namespace=NS)
    filled.lessons.show("early", [row.id], namespace=NS)
    filled.lessons.show("late", [row.id], namespace=NS)
    for _ in range(3):
        filled.lessons.report_outcomes({"early": True, "late": False, "never shown": True}, namespace=NS)
    assert uses(filled, row) == Uses(2, 2, 1)
    filled.lessons.report_outcomes({"late": True}, namespace=NS)
    assert uses(filled, row) == Uses(2, 2, 2)
    assert filled.lessons.outcomes(namespace=NS) == {"early": True, "late": True, "never shown": True}


def counted(text: str, *triples: Triple, tried: int = 6) -> LessonRow:
    sources = tuple(Source(run, words=False) for run in ("won", "lost"))
    return Principle(
        "guiding", text, triples=triples, sources=sources, tools=("look", "buy"), tried=tried, worked=tried
    ).row()


def test_a_counted_lesson_that_its_run_ignored_is_credited_with_nothing(filled: Store) -> None:
    advice = counted("Call buy.", Triple("look", "followed_by", "buy"))
    warning = counted("Runs that called drop failed.", Triple("drop", "fails_after", "look"))
    written = counted("A model says: call buy.", Triple("look", "followed_by", "buy"), tried=0)
    put(filled, advice, warning, written)
    for run in ("won", "lost", "later"):
        filled.lessons.show(run, [advice.id, warning.id, written.id], namespace=NS)
    later = Shelf(trajectory("later", "look", "drop", success=False))
    filled.add(later.runs(), {}, namespace=NS, replay=later.replay)
    for _ in range(2):
        # "lost" and "later" called drop after look, "won" bought.
        assert [uses(filled, row) for row in (advice, warning)] == [Uses(3, 1, 1), Uses(3, 1, 1)]
        assert uses(filled, written) == Uses(3, 3, 1)  # as in EvolveR
        filled.rebuild(namespace=NS, replay=RUNS.replay, embedder=EMBEDDER)


def test_a_corrected_label_of_a_stored_run_corrects_what_was_credited_and_loses_no_lesson(filled: Store) -> None:
    row = experience("ask", "open").row()
    put(filled, row)
    filled.lessons.show("open", [row.id], namespace=NS)
    for success, expected in ((False, Uses(1, 1, 0)), (True, Uses(1, 1, 1))):
        shelf = Shelf(trajectory("open", "look", success=success, user="bob", task="u"))
        filled.add(shelf.runs(), {}, namespace=NS, replay=shelf.replay)
        assert uses(filled, row) == expected


# Forgetting


def test_forgetting_a_run_takes_what_it_taught_what_it_was_shown_and_what_was_asked_about_it(filled: Store) -> None:
    own, shared = experience("ask", "won").row(), experience("wait", "lost", "won").row()
    merged = replace(shared, sources=(Source("lost", 0.0), Source("won", 1.0, words=False)))
    put(filled, own, merged, principle("Look.", "won").row())
    filled.lessons.show("won", [merged.id, own.id], namespace=NS)
    answers = [Answer("k1", "distill", "won", "{}", "{}"), Answer("k2", "distill", "lost", "{}", "{}")]
    filled.lessons.put_answers(answers, namespace=NS)
    filled.forget(Selection(trajectory="won"), namespace=NS, replay=RUNS.replay)
    (stored,) = filled.lessons.list(namespace=NS)
    assert stored.row == replace(merged, sources=(Source("lost", 0.0),))
    assert stored.uses == Uses()
    assert filled.lessons.exposures(namespace=NS) == []
    assert [answer.key for answer in filled.lessons.answers(["k1", "k2"], namespace=NS)] == ["k2"]


def test_a_run_that_is_trusted_no_more_takes_what_it_taught_and_credited_and_stays(filled: Store) -> None:
    shared = replace(principle("Look.").row(), sources=(Source("won", words=False), Source("lost", words=False)))
    put(filled, experience("ask", "won").row(), shared)
    filled.lessons.show("won", [shared.id], namespace=NS)
    shelf = Shelf(exclude(trajectory("won", "look", "buy", user="ann", task="t")))
    assert filled.add(shelf.runs(), {}, namespace=NS, replay=shelf.replay).stored == ("won",)
    (stored,) = filled.lessons.list(namespace=NS)
    assert ([source.run for source in stored.row.sources], stored.uses) == (["lost"], Uses())
    assert filled.totals(namespace=NS).unlabelled == 2


def test_a_run_that_is_labelled_late_is_to_be_looked_at_again(filled: Store) -> None:
    filled.lessons.put_answers([Answer(f"k {run}", "distill", run, "", "") for run in ("won", "open")], namespace=NS)
    shelf = Shelf(trajectory("open", "look", user="bob", task="u"))
    filled.add(shelf.runs(), {}, namespace=NS, replay=shelf.replay)
    assert filled.lessons.answered_runs("distill", namespace=NS) == {"won"}


def test_a_lesson_made_of_a_forgotten_runs_words_goes_and_its_other_parent_is_found_again(filled: Store) -> None:
    one, two = experience("ask", "won").row(), experience("wait", "lost").row()
    put(filled, one, two)
    child = experience(
        "ask and wait", "won", "lost", parents=(Parent(one.id, "crossover"), Parent(two.id, "crossover"))
    )
    change = LessonChange(
        put=[replace(child.row(), made_by="v1")], retire={one.id: "superseded", two.id: "superseded"}, by="v1"
    )
    filled.lessons.change(change, {}, namespace=NS)
    filled.forget(Selection(trajectory="won"), namespace=NS, replay=RUNS.replay)
    (stored,) = filled.lessons.list(namespace=NS)
    assert stored.row == two


def test_forgetting_a_user_takes_runs_lessons_from_them_and_every_version_of_their_notes(filled: Store) -> None:
    put(filled, Notes("ann", "- one").row(), Notes("bob", "- his").row())
    put(filled, Notes("ann", "- two", 2).row(), experience("ask", "won").row())
    filled.forget(Selection(user="ann"), namespace=NS, replay=RUNS.replay)
    assert [one.row.text for one in filled.lessons.list(namespace=NS)] == ["- his"]
    assert filled.lessons.forget_user("ann", namespace=NS) == []
    late = Notes("ann", "- three", 3).row()
    assert filled.lessons.change(LessonChange(put=[late]), {}, namespace=NS).refused == (late.id,)
    put(filled, Notes("carl", "- no runs").row())
    filled.forget(Selection(user="carl"), namespace=NS, replay=RUNS.replay)
    assert filled.totals(namespace=NS).notes == 1


def test_a_removal_is_told_in_the_header_so_that_mirrors_read_again(filled: Store) -> None:
    row = experience("ask").row()
    put(filled, row)
    before = filled.header.lessons_removed
    filled.lessons.change(LessonChange(drop=[row.id]), {}, namespace=NS)
    assert filled.header.lessons_removed == before + 1
    assert names(filled) == []


def test_the_last_answer_under_a_key_is_kept_and_none_about_a_run_that_is_gone(filled: Store) -> None:
    filled.lessons.put_answers([Answer("k", "distill", "won", "first", "{}")], namespace=NS)
    filled.lessons.put_answers(
        [
            Answer("k", "distill", "won", "second", "{}"),
            Answer("g", "distill", "gone", "", "{}"),
            Answer("n", "judge", "", "yes", "{}"),
        ],
        namespace=NS,
    )
    found = filled.lessons.answers(["k", "g", "n"], namespace=NS)
    assert [(answer.key, answer.text) for answer in found] == [("k", "second"), ("n", "yes")]
    assert filled.lessons.answered_runs("distill", namespace=NS) == {"won"}


def test_answers_about_a_user_are_kept_while_there_are_notes_and_go_with_them(filled: Store) -> None:
    answer = Answer("k", "reflect", "", "- one", "{}", user="ann")
    filled.lessons.put_answers([answer], namespace=NS)
    assert filled.lessons.answers(["k"], namespace=NS) == []
    put(filled, Notes("ann", "- one").row())
    filled.lessons.put_answers([answer], namespace=NS)
    assert filled.lessons.answers(["k"], namespace=NS) == [answer]
    filled.lessons.forget_user("ann", namespace=NS)
    assert filled.lessons.answers(["k"], namespace=NS) == []


def test_a_copy_holds_every_lesson_with_what_was_shown_and_paid_for(make_two_stores: Callable[..., Store]) -> None:
    source, target = make_two_stores("source"), make_two_stores("target")
    runs = RUNS.runs()
    source.add(runs, RUNS.vectors(runs), namespace=NS, replay=RUNS.replay)
    first, second = replace(experience("ask", "won").row(), prior=Uses(4, 3, 2)), principle("Look.", "lost").row()
    put(source, first, second, Notes("ann", "- one").row())
    made = experience("ask twice", "won", situation="a user wants two", parents=(Parent(first.id, "mutation"),))
    child = replace(made.row(), made_by="v1")
    source.lessons.change(LessonChange(put=[child], retire={first.id: "superseded"}, by="v1"), {}, namespace=NS)
    source.lessons.show("won", [first.id, second.id], namespace=NS)
    source.lessons.show("elsewhere", [second.id], namespace=NS)
    source.lessons.report_outcomes({"elsewhere": False, "never shown": True}, namespace=NS)
    source.lessons.put_answers([Answer("k", "distill", "won", "{}", "{}", "ann")], namespace=NS)
    for _ in range(2):
        (copied,) = copy_store(source, target, namespaces=[NS])
        assert copied.differences == ()
    assert target.lessons.all_answers(namespace=NS) == source.lessons.all_answers(namespace=NS)


TAUGHT = (
    replace(experience("ask", "won").row(), prior=Uses(4, 3, 2)),
    principle("Look.", "lost", "elsewhere").row(),
    Notes("ann", "- one", session="won").row(),
    Notes("ann", "- one\n- two", version=2).row(),
    replace(experience("wähle\n\u2028", "open", parents=(Parent("e-gone", "mutation"),)).row(), made_by="v1"),
)
ACTS = st.one_of(
    st.tuples(st.just("ingest"), st.sampled_from(RUNS.runs()).map(lambda run: run.id)),
    st.tuples(st.just("put"), st.sampled_from(TAUGHT)),
    st.tuples(st.just("retire"), st.sampled_from(TAUGHT)),
    st.tuples(st.sampled_from(["show won", "show open", "show elsewhere"]), st.sampled_from(TAUGHT)),
    st.tuples(st.sampled_from(["settle won", "settle elsewhere"]), st.booleans()),
    st.tuples(st.just("answer"), st.sampled_from(["won", "open", ""])),
    st.tuples(st.just("describe"), st.sampled_from(["looks", "looks it up", ""])),
    st.tuples(st.just("alias"), st.sampled_from(["peek", "watch"])),
    st.tuples(st.just("give"), st.sampled_from(["open", "lost"])),
)


def act(memory: Memory, what: str, about: Any, namespace: str) -> None:
    verb, _, run = what.partition(" ")
    lessons, at = memory.lessons.store.lessons, {"namespace": namespace}
    match verb:
        case "ingest":
            memory.ingest(parse_run(RUNS.run(about).record), tools=[Tool("look", "looks")], **at)
        case "put":
            vectors = {about.text: EMBEDDER.embed([about.text])[0]}
            lessons.change(LessonChange(put=[about], imported=True), vectors, **at)
        case "retire":
            lessons.change(LessonChange(retire={about.id: "superseded"}, by="v2"), {}, **at)
        case "show":
            lessons.show(run, [about.id], **at)
        case "settle":
            lessons.report_outcomes({run: about}, **at)
        case "answer":
            lessons.put_answers([Answer(f"k{about}", "distill", about, "{}", "")], **at)
        case "describe":
            memory.ingest(from_messages([{"role": "user", "content": about}]), tools=[Tool("look", about)], **at)
        case "give" if memory.run(about, **at):
            memory.label(about, success=True, **at)
        case "alias" if memory.tools.list(**at):
            with suppress(InputError):
                memory.tools.add_alias(about, "look", **at)
        case _:
            pass


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=settings().max_examples * 2 // 5,  # on a server too
)
@given(acts=st.lists(ACTS, min_size=1, max_size=12))
def test_an_export_read_into_another_store_makes_an_equal_one(
    make_two_stores: Callable[..., Store], tmp_path: Path, acts: Sequence[tuple[str, Any]]
) -> None:
    namespace = uuid4().hex  # of an example's own
    source, target = (Memory(make_two_stores(name)) for name in ("source", "target"))
    for what, about in acts:
        act(source, what, about, namespace)
    file = tmp_path / f"{namespace}.jsonl"
    file.write_text("".join(f"{line}\n" for line in source.export(namespace=namespace)), "utf-8", newline="\n")
    for _ in range(2):  # the second time changes nothing
        report = target.ingest(
            file, reading=ReadOptions("hepm"), options=IngestOptions(redactor=None), namespace=namespace
        )
        assert [one.reason for one in report.rejected if file.stat().st_size] == []
        stores = source.lessons.store, target.lessons.store
        assert differences(*stores, namespace=namespace) == []
        mine, theirs = (store.lessons.all_answers(namespace=namespace) for store in stores)
        assert mine == theirs
    assert list(target.export(namespace=namespace)) == list(source.export(namespace=namespace))
    assert target.examine(namespace=namespace) == []


def test_lessons_from_a_run_that_the_store_never_held_are_forgotten_by_its_name(filled: Store) -> None:
    own, other = experience("ask", "elsewhere").row(), experience("wait", "won").row()
    filled.lessons.change(LessonChange(put=[own, other], imported=True), {}, namespace=NS)
    assert filled.forget(Selection(trajectory="elsewhere"), namespace=NS, replay=RUNS.replay) == []
    assert names(filled) == [other.id]


def test_behind_a_counted_lesson_stand_the_runs_that_were_counted_last_unless_it_is_imported(filled: Store) -> None:
    row = replace(principle("Look."), tried=1, sources=(Source("won", 1.0, words=False),)).row()
    put(filled, row)
    again = replace(row, sources=(Source("lost", 0.0, words=False),))
    for imported, runs in ((True, {"won", "lost"}), (False, {"lost"})):
        filled.lessons.change(LessonChange(put=[again], imported=imported), {}, namespace=NS)
        (stored,) = filled.lessons.get([row.id], namespace=NS)
        assert stored.row.run_ids == runs


def test_an_outdated_lesson_is_live_again_by_the_runs_that_teach_it_and_not_by_an_import(filled: Store) -> None:
    row = principle("Look.", "won").row()
    again = replace(row, sources=(Source("lost", 0.0, words=False),))
    filled.lessons.change(
        LessonChange(put=[replace(row, sources=(Source("won", 1.0, words=False),))]), {}, namespace=NS
    )
    filled.lessons.change(LessonChange(retire={row.id: OUTDATED}), {}, namespace=NS)
    for imported, retired, runs in ((True, OUTDATED, {"won", "lost"}), (False, "", {"lost"})):
        filled.lessons.change(LessonChange(put=[again], imported=imported), {}, namespace=NS)
        (stored,) = filled.lessons.get([row.id], namespace=NS)
        assert (stored.row.retired, stored.row.run_ids) == (retired, runs)
