"""Experiences evolve, with a model that is played by a real server, over a real store."""

# ruff: noqa: F811, as fixtures are arguments

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hepm.experience.conditions import Conditions
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Experience
from hepm.graph.lessons.rows import Parent, Source, StoredLesson
from hepm.graph.lessons.transaction import LessonChange
from hepm.lab.evolution import ITERATIONS, Evolution, EvolutionReport, EvolutionSettings, EvolutionStep
from hepm.lab.operators import joined
from hepm.llm import Budget, Client
from tests.experience.conftest import bank, open_client  # noqa: F401
from tests.experience.shelves import NS, forget, remember
from tests.loopback import Loopback, Reply, Request, completion
from tests.runs import trajectory

MUTATE = EvolutionSettings(mutation=1, generalisation=0, crossover=0, prune_after=1000)
GENERALISE = EvolutionSettings(mutation=0, generalisation=1, crossover=0, prune_after=1000)
CROSS = EvolutionSettings(mutation=0, generalisation=0, crossover=1, prune_after=1000)
PRUNE = EvolutionSettings(mutation=0, generalisation=0, crossover=0)


def experience(lesson: str, run: str = "r0", **changes: Any) -> Experience:
    made = Experience(
        situation=f'In shop. User "refund order #W1234, {lesson.split(maxsplit=1)[0]}" Before: look.',
        action="Called look(id), then buy(id).",
        outcome="It succeeded, with reward 1. No call failed.",
        lesson=lesson,
        zone="golden",
        stage="exploration",
        reward=1.0,
        conditions=Conditions(("shop",), 1, 3, ("after look",)),
        sources=(Source(run, 1.0),),
        tools=("look", "buy"),
    )
    return replace(made, **changes)


class Bench:
    """A bank, and what is needed to feed and to look at it."""

    def __init__(self, bank: LessonBank, server: Loopback, open_client: Callable[..., Client]) -> None:
        self.bank, self.server, self.open_client = bank, server, open_client
        self.model = open_client()

    def put(self, *lessons: Experience) -> None:
        changed = self.bank.change(LessonChange(put=[one.row() for one in lessons]), namespace=NS)
        assert changed.refused == ()

    def show(self, one: Experience, *runs: str) -> None:
        for run in runs:
            self.bank.store.lessons.show(run, [one.id], namespace=NS)
        self.bank.lessons(NS).follow(self.bank.store.header)

    def all(self) -> list[StoredLesson]:
        return self.bank.store.lessons.list(namespace=NS)

    def living(self) -> list[Experience]:
        return [Experience.of(one.row) for one in self.all() if one.row.live]

    def evolve(
        self, settings: EvolutionSettings, iterations: int = ITERATIONS, *, dry_run: bool = False, **more: Any
    ) -> EvolutionReport:
        evolution = Evolution(self.bank, namespace=NS, settings=settings, **{"model": self.model, **more})
        return evolution.run(iterations, dry_run=dry_run)


WON = [trajectory(f"w{i}", "look", "ask", "buy", task=f"t{i}") for i in range(3)]
LOST = [trajectory(f"l{i}", "look", "drop", "buy", task=f"t{i}", success=False) for i in range(3)]
AWAY = [trajectory(f"a{i}", "look", "buy", task=f"t{i}", environment="bank") for i in range(3)]


def rewording(request: Request) -> Reply:
    about = request.said.split('lesson: "')[1].split('"')[0]
    told = {
        "situation": f"someone buys, {about}",
        "action": "look, then buy",
        "lesson": f"better: {about}",
        "preconditions": ["an order", "an order", " "],
    }
    return completion(json.dumps(told)).after(0.03 * (len(request.said) % 3))


@pytest.fixture
def bench(loopback: Loopback, bank: LessonBank, open_client: Callable[..., Client]) -> Bench:
    loopback.script = rewording
    remember(bank, trajectory("r0", "look", "buy", task="r"), trajectory("r1", "look", "buy", task="s"))
    remember(bank, *WON, *LOST, *AWAY)
    return Bench(bank, loopback, open_client)


def one_step(report: EvolutionReport) -> EvolutionStep:
    (step,) = report.plan
    return step


# When, and of what


def test_success_in_two_environments_is_proof_enough_and_in_two_runs_of_one_is_not(bench: Bench) -> None:
    both, one = experience("ask before you buy"), experience("wait before you buy")
    bench.put(both, one)
    bench.show(both, "w0", "a0")
    bench.show(one, "w0", "w1")
    step = one_step(bench.evolve(GENERALISE))
    assert step.of == (both.id,)
    assert step.reason == "2 of 2 runs with it succeeded, in bank and shop"


def test_related_experiences_are_crossed_and_both_parents_stay(bench: Bench) -> None:
    one, other = experience("ask before you buy", "r0"), experience("wait before you pay", "r1")
    bench.put(one, other)
    step = one_step(report := bench.evolve(CROSS, iterations=1))
    assert (step.operator, step.became, set(step.of)) == ("crossover", "kept", {one.id, other.id})
    assert step.reason.startswith("alike by 0.")
    child = next(found for found in bench.living() if found.generation == 1)
    assert sorted(child.sources) == [Source("r0", 1.0), Source("r1", 1.0)]
    assert {parent.operator for parent in child.parents} == {"crossover"}
    assert len(bench.living()) == 3
    assert report.kept == {"crossover": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "completion"},
        {"conditions": Conditions(("bank",))},
        {"situation": "nothing alike", "action": "", "lesson": "zebras sleep standing"},
    ],
)
def test_experiences_that_are_not_related_are_not_crossed(bench: Bench, change: dict[str, Any]) -> None:
    bench.put(experience("ask before you buy"), replace(experience("wait before you pay"), **change))
    assert bench.evolve(CROSS).plan == ()


def test_without_a_model_experiences_are_only_pruned(bench: Bench) -> None:
    parent, bad = experience("ask before you buy"), experience("bad lesson")
    bench.put(parent, bad)
    bench.show(parent, "w0", "w1", "l0", "l1")
    bench.show(bad, "l0", "l1", "l2")
    report = bench.evolve(EvolutionSettings(mutation=1, generalisation=1, crossover=1), model=None)
    assert [(step.operator, step.of) for step in report.plan] == [("pruning", (bad.id,))]


# Pruning


def test_what_many_runs_could_have_shown_and_hardly_any_did_is_pruned(bench: Bench) -> None:
    idle, once, busy = experience("idle lesson"), experience("once shown"), experience("busy lesson")
    far = experience("far away", conditions=Conditions(("bank",)))
    bench.put(idle, once, far, busy)
    late = experience("late lesson")
    bench.put(late)
    bench.show(once, "x0")
    remember(bench.bank, *(trajectory(f"x{i}", "look", "buy", task=f"x{i}") for i in range(20)))
    bench.show(busy, *(f"x{i}" for i in range(20)))
    assert bench.evolve(PRUNE, iterations=1).plan == ()  # every second iteration
    report = bench.evolve(PRUNE)
    assert [(step.of, step.became) for step in report.plan] == [((i,), "pruned") for i in sorted([idle.id, once.id])]
    assert report.plan[0].reason.endswith("of at least 20 runs that could have shown it")
    assert bench.living() == [far, busy, late]
    assert {one.row.retired for one in bench.all() if not one.row.live} == {"pruned"}


def test_what_fails_in_enough_runs_is_pruned_and_what_failed_in_too_few_is_not(bench: Bench) -> None:
    bad, few = experience("bad lesson"), experience("few outcomes")
    bench.put(bad, few)
    bench.show(bad, "l0", "l1", "l2")
    bench.show(few, "l0", "l1")
    step = one_step(bench.evolve(PRUNE))
    assert (step.of, step.reason) == ((bad.id,), "0 of 3 runs with it succeeded")


# Dice and plans


def many(bench: Bench, number: int = 30) -> list[Experience]:
    lessons: list[Experience] = []
    for i in range(number):
        # Words, as lessons that differ in digits alone are one to a search.
        thing = f"{'abcdef'[i % 6]}{'uvwxy'[i // 6]}-thing"
        situation = f'In shop. User "refund a {thing} of {"abcdef"[i % 6] * 3}kind" Before: look.'
        lessons.append(experience(f"{thing} is for buying", "r0", situation=situation))
    bench.put(*lessons)
    for one in lessons[: number // 2]:
        bench.show(one, "w0", "w1", "l0", "l1")
    for one in lessons[number // 2 :]:
        bench.show(one, "w0", "w1", "w2", "a0")
    return lessons


SOME = EvolutionSettings(mutation=0.3, generalisation=0.3, crossover=0.2)


def test_equal_seeds_give_equal_evolutions_and_others_other_ones(bench: Bench) -> None:
    many(bench)
    plans = [bench.evolve(SOME, seed=seed, dry_run=True) for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0].plan != plans[2].plan
    assert len(plans[0].plan) > 5
    assert {step.operator for step in plans[0].plan} == {"mutation", "generalisation", "crossover"}


def test_temperature_falls_evenly_from_the_first_to_the_last_iteration() -> None:
    settings = EvolutionSettings()
    assert [settings.temperature(i, 5) for i in range(1, 6)] == [1.0, 0.775, 0.55, 0.325, 0.1]
    assert settings.temperature(1, 1) == 1.0


# What the model is asked, and answers


def test_a_model_writes_the_child_and_is_told_how_runs_went_in_names_of_tools_alone(bench: Bench) -> None:
    parent = experience("ask before you buy")
    bench.put(parent)
    remember(bench.bank, trajectory("said", "look", "pay", task="t7", goal="my secret wish"))
    bench.show(parent, "said", "l0")
    report = bench.evolve(MUTATE, iterations=1)
    assert report.kept == {"mutation": 1}
    (child,) = bench.living()
    assert child.lesson == "better: ask before you buy"
    assert child.conditions == Conditions(("shop",), 1, 3, ("an order",))
    assert (child.distilled_by, child.sources) == ("small", parent.sources)
    assert (child.parents, child.generation) == ((Parent(parent.id, "mutation"),), 1)
    rows = {one.row.id: one.row for one in bench.all()}
    assert (rows[parent.id].retired, rows[parent.id].retired_by) == ("superseded", report.id)
    assert rows[child.id].made_by == report.id
    body = bench.server.requests[0].body
    assert body["temperature"] == 1.0
    assert 'succeeded called: "look, then pay"' in bench.server.requests[0].said
    assert 'failed called: "look, then drop, then buy"' in bench.server.requests[0].said
    assert "secret" not in json.dumps(body)


def test_a_parent_stays_until_somebody_approves_what_a_model_made_of_it(bench: Bench) -> None:
    bench.bank = replace(bench.bank, review=True)
    parent = experience("ask before you buy")
    bench.put(parent)
    bench.show(parent, "l0")
    bench.evolve(MUTATE, iterations=1)
    assert bench.living() == [parent]
    (child,) = bench.bank.pending(namespace=NS)
    assert child.row.properties["lesson"] == "better: ask before you buy"
    bench.bank.revive(child.row.id, namespace=NS)
    assert [one.id for one in bench.living()] == [child.row.id]


def test_a_generalisation_that_still_names_the_environment_is_not_kept(bench: Bench) -> None:
    parent = experience("ask in the SHOP first")
    bench.put(parent)
    bench.show(parent, "w0", "w1", "w2")
    step = one_step(bench.evolve(GENERALISE, iterations=1))
    assert (step.became, step.note) == ("failed", "it still names the environment 'shop'")
    assert bench.living() == [parent]


def test_a_spent_budget_keeps_what_was_answered_and_a_second_call_goes_on(bench: Bench) -> None:
    lessons = [experience(f"lesson{i} about buying") for i in range(6)]
    bench.put(*lessons)
    for one in lessons:
        bench.show(one, "w0", "w1", "l0", "l1")
    settings = replace(MUTATE, prune_every=9)
    first = bench.evolve(settings, model=bench.open_client(budget=Budget(calls=2)), iterations=1)
    assert (first.count("kept"), first.count("unasked")) == (2, 4)
    second = bench.evolve(settings, iterations=1)
    assert (second.count("kept"), second.count("unasked")) == (4, 0)
    assert len(bench.server.requests) == 6
    assert all(one.generation == 1 for one in bench.living())


def test_what_was_answered_in_a_dry_run_is_not_paid_for_again_while_its_words_are_one_runs(bench: Bench) -> None:
    lessons = [experience(f"lesson{i} about buying", "r0") for i in range(3)]
    bench.put(*lessons)
    for one in lessons:
        bench.show(one, "w0", "w1", "l0", "l1")
    dry = bench.evolve(MUTATE, iterations=1, dry_run=True)
    assert bench.evolve(MUTATE, iterations=1).plan == dry.plan
    assert len(bench.server.requests) == 3
    forget(bench.bank, "r0")
    assert bench.bank.store.lessons.answered_runs("evolve", namespace=NS) == set()


def test_a_malformed_answer_is_a_step_that_failed_and_the_others_are_kept(bench: Bench) -> None:
    one, other = experience("ask before you buy"), experience("wait before you pay")
    bench.put(one, other)
    bench.show(one, "w0", "w1", "l0", "l1")
    bench.show(other, "w0", "w1", "l0", "l1")
    bench.server.script = lambda request: (
        completion("{}") if "wait before" in json.dumps(request.body) else rewording(request)
    )
    report = bench.evolve(MUTATE, iterations=1)
    failed = {step.of[0]: step.note for step in report.plan if step.became == "failed"}
    assert list(failed) == [other.id]
    assert "situation" in failed[other.id]
    assert other in bench.living()


def test_a_child_whose_run_is_forgotten_while_the_model_writes_is_refused(bench: Bench) -> None:
    parent, other = experience("ask before you buy", "r1"), experience("wait before you pay", "r0")
    bench.put(parent, other)
    bench.show(parent, "w0", "w1", "l0", "l1")
    bench.show(other, "w0", "w1", "l0", "l1")

    def script(request: Request) -> Reply:
        forget(bench.bank, "r1")
        return rewording(request)

    bench.server.script = script
    bench.evolve(MUTATE, iterations=1)
    assert [one.lesson for one in bench.living()] == ["better: wait before you pay"]


def test_experiences_evolve_in_five_iterations_and_are_pruned_in_every_second_one() -> None:
    assert (ITERATIONS, EvolutionSettings().prune_every) == (5, 2)  # PRIME, table 3


def test_a_cross_applies_where_either_does() -> None:
    assert joined(Conditions(("a",), 2, 4, ("x",)), Conditions(("b",), 1, 3, ("x", "y"))) == Conditions(
        ("a", "b"), 1, 4, ("x", "y")
    )
    assert joined(Conditions(("a",), 2, 4), Conditions()) == Conditions()
