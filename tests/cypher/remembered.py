"""A small memory of a shop: two models, three months, a loop, a retry, parallel calls, a run without an outcome.

And what was learned there: lessons of every kind, evolved, merged, retired, shown, credited and in dispute.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

from hepm import Tool, ToolCall, Trajectory, Turn
from hepm.experience.conditions import Conditions
from hepm.experience.lessons import Experience, Notes, Principle, Stage, Zone
from hepm.graph.lessons.rows import Parent, Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.store import Store
from tests.runs import trajectory

WAYS = {
    "return": ("find_user", "get_order", "return_items"),
    "detour": ("find_user", "get_order", "get_product", "get_order", "get_order", "return_items"),
    "both": ("find_user+get_order", "return_items"),
    "lost": ("find_user", "get_order", "cancel_order", "give_up"),
    "short": ("find_user", "give_up"),
    "mail": ("find_user", "send_mail"),
}


def _ended(month: int, day: int) -> float:
    return datetime(2026, month, day, tzinfo=UTC).timestamp()


USERS = {"r1": "ann", "r3": "ann", "r5": "ann", "r2": "bob"}


def _run(name: str, way: str, *, success: bool | None, model: str, month: int | None, task: str) -> Trajectory:
    user = USERS.get(name, "")
    made = trajectory(name, *WAYS[way], success=success, task=task, user=user, goal=f"Please {way} order {task}.")
    ended_at = None if month is None else _ended(month, 1 + len(name))
    return replace(made, model=model, ended_at=ended_at, source="runs.json")


def shop() -> list[Trajectory]:
    """Runs in order of arrival; `failing` holds a call that the record says failed."""
    runs = [
        _run("r1", "return", success=True, model="one", month=9, task="a"),
        _run("r2", "return", success=True, model="other", month=10, task="a"),
        _run("r3", "detour", success=True, model="one", month=10, task="a"),
        _run("r4", "both", success=True, model="other", month=11, task="b"),
        _run("r5", "lost", success=False, model="other", month=10, task="b"),
        _run("r6", "lost", success=False, model="one", month=11, task="c"),
        _run("r7", "short", success=False, model="one", month=None, task="c"),
        _run("r8", "mail", success=None, model="one", month=None, task=""),
        _run("r'9`\n$x", "mail", success=True, model="one", month=9, task="d"),
    ]
    failed = Turn("assistant", "", (ToolCall("get_order", result="error: no such order", error=True),))
    runs[4] = replace(runs[4], turns=(*runs[4].turns[:2], failed, *runs[4].turns[2:]))
    runs[0] = replace(runs[0], tools=(Tool("never_called", "Nobody calls this."), Tool("get_order", "Looks it up.")))
    return runs


def random_shop(chance: random.Random) -> list[Trajectory]:
    """Twelve runs over the shop's tools that loop, repeat, call in parallel, and end as chance has it."""
    tools = sorted({tool for way in WAYS.values() for turn in way for tool in turn.split("+")})[: chance.randint(3, 7)]

    def turn() -> str:
        return "+".join(chance.sample(tools, 2 if chance.random() < 0.2 else 1))

    runs = [
        trajectory(
            f"r{number}",
            *(turn() for _ in range(chance.randint(0, 8))),
            success=chance.choice([True, True, False, None]),
            task=chance.choice(["a", "b", ""]),
            user=chance.choice(["ann", "bob", ""]),
            environment=chance.choice(["shop", "air", ""]),
            ended_at=chance.choice([None, _ended(9, 3), _ended(10, 4), _ended(11, 5)]),
            goal=chance.choice(["Please help.", "Ünï€𝄞 'quoted'\n\tand more", "Look it up."]),
        )
        for number in range(1, 13)
    ]
    idle = (Tool("never_called", "Nobody calls this."),)
    return [
        replace(
            run,
            model=chance.choice(["one", "other", ""]),
            tools=idle if chance.random() < 0.3 else (),
            turns=tuple(
                replace(turn, calls=tuple(replace(call, error=chance.random() < 0.2) for call in turn.calls))
                for turn in run.turns
            ),
        )
        for run in runs
    ]


def _experience(lesson: str, zone: Zone, stage: Stage, *runs: str, tools: tuple[str, ...], place: str = "shop"):
    return Experience(
        situation=f'In {place}. User "{lesson.lower()}"',
        action="Called get_order(order_id).",
        outcome="It ended.",
        lesson=lesson,
        zone=zone,
        stage=stage,
        reward={"golden": 1.0, "warning": 0.0, "preference": 0.5}[zone],
        conditions=Conditions((place,) if place else (), 1, 2, ("no tool was called yet",)),
        sources=tuple(Source(run, 1.0, words=not number) for number, run in enumerate(runs)),
        tools=tools,
    )


def _evolved(lesson: str, operator: str, *parents: Experience) -> Experience:
    child = replace(
        _experience(lesson, "golden", "exploration", tools=("get_order",)),
        parents=tuple(Parent(parent.id, operator) for parent in parents),
        generation=1 + max(parent.generation for parent in parents),
    )
    return replace(child, sources=tuple(s._replace(words=False) for p in parents for s in p.sources))


LOOK = _experience("Look the order up first.", "golden", "exploration", "r1", "r2", tools=("find_user", "get_order"))
GIVE_UP = _experience("Cancelling lost it.", "warning", "verification", "r5", tools=("get_order", "cancel_order"))
ANYWHERE = _experience("Both at once saves a turn.", "preference", "completion", "r4", tools=("get_order",), place="")
LOOK_TWICE = _evolved("Look the order up, then the product.", "mutation", LOOK)
LOOK_WELL = _evolved("Look up, and never cancel.", "crossover", LOOK_TWICE, GIVE_UP)
FROM_ELSEWHERE = _experience("Taught in another store.", "golden", "completion", "not-here", tools=("find_user",))

RETURN = Principle(
    "guiding",
    "In shop, after get_order, calling return_items rather than cancel_order led to success.",
    triples=(Triple("get_order", "followed_by", "return_items"), Triple("cancel_order", "fails_after", "get_order")),
    sources=(Source("r1", 1.0), Source("r3", 1.0, words=False)),
    tools=("return_items", "cancel_order", "get_order"),
    conditions=Conditions(("shop",)),
)
GO_ON = Principle(
    "guiding",
    "In shop, calling find_user, then get_order led to success.",
    triples=(Triple("find_user", "followed_by", "get_order"),),
    sources=(Source("r2", 1.0),),
    tools=("find_user", "get_order"),
    conditions=Conditions(("shop",)),
)
DO_NOT_RETURN = Principle(
    "cautionary",
    "In shop, after get_order, return_items gave an error and the run ended in failure.",
    triples=(Triple("return_items", "fails_after", "get_order"),),
    sources=(Source("r6", 0.0),),
    tools=("return_items", "get_order"),
    conditions=Conditions(("shop",)),
)
PRUNED = Principle(
    "cautionary",
    "In shop, after find_user, get_order gave an error and the run ended in failure.",
    triples=(Triple("get_order", "fails_after", "find_user"),),
    sources=(Source("r5", 0.0),),
    tools=("get_order",),
    conditions=Conditions(("shop",)),
)
NOTES = (
    Notes("ann", "- answers in one line", 1, session="r1"),
    Notes("ann", "- answers in one line\n- no small talk", 2, session="r3"),
    Notes("bob", "- the order before the price", 1, session="not-here"),
)


def learn(store: Store, namespace: str) -> None:
    """Put the lessons, show some, and let runs end; the same in every store."""
    lessons = store.lessons
    for experiences in ((LOOK, GIVE_UP, ANYWHERE), (LOOK_TWICE,), (LOOK_WELL,)):
        evolution = f"evolution-{experiences[0].generation}" if experiences[0].generation else ""
        rows = [replace(one.row(), made_by=evolution) for one in experiences]
        lessons.change(LessonChange(put=rows), {}, namespace=namespace)
    principles = [one.row() for one in (RETURN, GO_ON, DO_NOT_RETURN, PRUNED)]
    lessons.change(LessonChange(put=principles), {}, namespace=namespace)
    for notes in NOTES:
        lessons.change(LessonChange(put=[notes.row()], imported=True), {}, namespace=namespace)
    lessons.change(LessonChange(put=[FROM_ELSEWHERE.row()], imported=True), {}, namespace=namespace)
    lessons.change(LessonChange(retire={LOOK.id: "superseded"}, by="evolution-1"), {}, namespace=namespace)
    lessons.change(LessonChange(retire={PRUNED.id: "pruned"}), {}, namespace=namespace)
    lessons.show("r3", [LOOK_TWICE.id, RETURN.id], namespace=namespace)
    lessons.show("r5", [LOOK_TWICE.id, GIVE_UP.id, DO_NOT_RETURN.id], namespace=namespace)
    lessons.show("r6", [GIVE_UP.id, RETURN.id], namespace=namespace)
    lessons.show("under way", [GO_ON.id, RETURN.id], namespace=namespace)
    lessons.show("elsewhere", [RETURN.id], namespace=namespace)
    lessons.show("elsewhere too", [RETURN.id], namespace=namespace)
    lessons.report_outcomes({"elsewhere": True, "elsewhere too": True, "told before": False}, namespace=namespace)


VALUES = {
    "tool": "get_order",
    "after": "find_user",
    "from": "find_user",
    "to": "return_items",
    "trajectory": "r3",
    "task": "a",
    "runs": 1,
    "calls": 1,
    "support": 1,
    "least": 1,
    "uses": 1,
    "user": "ann",
    "lesson": LOOK_TWICE.id,
}
"""What the library's questions are asked about, so that each has an answer in the shop."""

BY_QUESTION = {
    "models_after_tool": {"one": "one", "other": "other", "tool": "get_order"},
    "months_after_tool": {"one": "2026-10", "other": "2026-11", "tool": "get_order"},
    "known_before_failure": {"after": "find_user", "tool": "get_order"},
    "known_on_edge": {"after": "find_user", "tool": "get_order"},
    "runs_through_edge": {"after": "find_user", "tool": "get_order"},
}
