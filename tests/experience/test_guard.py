"""Children are measured on held-out tasks before they take a place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hepm.errors import InputError
from hepm.experience.evolution import Evolution, EvolutionSettings, held_out_runs
from hepm.experience.experiences import Experiences
from hepm.experience.lessons import Conditions, Experience
from hepm.experience.library import Library
from hepm.graph.lessons.rows import Source
from hepm.graph.lessons.transaction import LessonChange
from hepm.llm import Client, Endpoint
from tests.experience.shelves import NS, open_library, remember
from tests.loopback import Loopback, completion, loopback  # noqa: F401
from tests.runs import trajectory

MUTATE = EvolutionSettings(mutation=1, generalisation=0, crossover=0, prune_after=1000)


def experience(goal: str, run: str) -> Experience:
    return Experience(
        situation=f'In shop. User "{goal}"',
        action="Called look(id).",
        outcome="",
        lesson=f"look first, {goal}",
        zone="golden",
        stage="exploration",
        reward=1.0,
        conditions=Conditions(("shop",)),
        sources=(Source(run, 1.0),),
        tools=("look",),
    )


REFUND = experience("refund the broken kettle", "kettle1")
FLIGHT = experience("book a flight to rome", "flight1")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    made = open_library(tmp_path / "runs.hepm")
    remember(
        made,
        trajectory("kettle1", "look", "pay", task="kettle", goal="refund the broken kettle"),
        trajectory("kettle2", "look", task="kettle", goal="please refund my broken kettle", success=False),
        trajectory("flight1", "look", "pay", task="flight", goal="book a flight to rome"),
        trajectory("flight2", "look", "pay", task="flight", goal="i want to book a flight to rome"),
        trajectory("lamp1", "look", "drop", task="lamp", goal="a lamp", success=False),
    )
    made.change(LessonChange(put=[REFUND.row(), FLIGHT.row()]), namespace=NS)
    for run in ("kettle1", "lamp1"):
        made.store.lessons.show(run, [REFUND.id], namespace=NS)
    yield made
    made.store.close()


@pytest.fixture
def evolve(library: Library, loopback: Loopback) -> Iterator[Callable[..., Any]]:  # noqa: F811
    """Lets a model write the child of the one experience that is due."""
    with Client(Endpoint("small", loopback.url)) as client:

        def evolve(situation: str, **more: Any) -> Any:
            told = {"situation": situation, "action": "look", "lesson": "look first", "preconditions": []}
            loopback.script = lambda _: completion(json.dumps(told))
            report = Experiences(library).evolve(namespace=NS, settings=MUTATE, model=client, iterations=1, **more)
            (step,) = report.plan
            assert step.of == (REFUND.id,)
            return report, step

        yield evolve


def living(library: Library) -> set[str]:
    return {one.row.id for one in library.lessons(NS).all("experience")}


def test_a_child_that_runs_of_its_task_find_worse_than_its_parent_is_not_kept(
    library: Library, evolve: Callable[..., Any]
) -> None:
    report, step = evolve("zebras sleep standing", held_out=["kettle"])
    assert step.became == "rejected"
    assert "of their task worse: mean 1/rank" in step.note
    assert report.id == ""
    assert living(library) == {REFUND.id, FLIGHT.id}


def test_without_held_out_tasks_the_same_child_is_kept(library: Library, evolve: Callable[..., Any]) -> None:
    _, step = evolve("zebras sleep standing")
    assert step.became == "kept"
    assert REFUND.id not in living(library)


def test_a_child_that_is_found_as_well_as_its_parent_is_kept(library: Library, evolve: Callable[..., Any]) -> None:
    _, step = evolve("the user wants a refund of a broken kettle", held_out=["kettle", "flight"])
    assert step.became == "kept"


def test_a_child_that_stands_before_experiences_of_other_tasks_is_not_kept(
    library: Library, evolve: Callable[..., Any]
) -> None:
    _, step = evolve('In shop. User "i want to book a flight to rome"', held_out=["flight"])
    assert step.became == "rejected"
    assert step.note == "held-out runs find experiences of their task worse: mean 1/rank 0.750 instead of 1.000"


def test_runs_of_held_out_tasks_teach_no_child(
    library: Library,
    loopback: Loopback,  # noqa: F811
    evolve: Callable[..., Any],
) -> None:
    evolve("the user wants a refund of a broken kettle", held_out=["lamp"])
    assert "succeeded called" in loopback.requests[0].said
    assert "failed called" not in loopback.requests[0].said


def test_vectors_are_compared_as_a_search_compares_them(library: Library) -> None:
    said = ("broken kettle", "kettle of fish", "rome", "a flight home", "refund", "cancel a flight")
    library.change(LessonChange(put=[experience(goal, "lamp1").row() for goal in said]), namespace=NS)
    evolution = Evolution(library, NS, 0, EvolutionSettings())
    for text in ("refund a kettle", "fly to rome"):
        found = library.search(text, "experience", namespace=NS, limit=20, floor=-1.0)
        query_D = evolution.comparable(library.vectors([text]))[0]
        told = {one.id: float(one.vector @ query_D) for one in evolution.members.values() if one.vector is not None}
        assert {one.row.id: cosine for one, cosine in found} == pytest.approx(told, abs=2e-3)


def test_a_share_holds_out_whole_tasks_by_the_seed_alone() -> None:
    places = {f"run{i}": ("shop", f"task{i // 2}") for i in range(400)}
    chosen = held_out_runs(0.25, places, seed=1)
    assert chosen == held_out_runs(0.25, dict(reversed(places.items())), seed=1)
    assert chosen != held_out_runs(0.25, places, seed=2)
    assert 60 < len(chosen) < 140
    tasks = {places[run][1] for run in chosen}
    assert len(chosen) == 2 * len(tasks)
    assert held_out_runs(None, places, seed=1) == []
    assert held_out_runs("task7", places, seed=1) == ["run14", "run15"]


@pytest.mark.parametrize("wrong", [0.0, 1.0, -1, 2, ["task0", "gone"]])
def test_a_share_of_nothing_or_all_and_unknown_tasks_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"held.out"):
        held_out_runs(wrong, {"r": ("shop", "task0")}, seed=0)
