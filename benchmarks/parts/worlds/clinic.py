"""The hidden world: a clinic's front desk. Nothing is tuned on it; look at its sums alone.

Results are tables, callers say more when they are asked, and what decides is a number of rows, which of two dates is
the later one, a cell that is missing, or the caller's second message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from . import noise
from .world import Step, Task, World

LOOKUPS = frozenset(
    ("search_patient", "list_slots", "view_referral", "view_coverage", "read_result", "view_chart", "list_rooms")
)
ACTS = (
    "book_slot", "add_to_waitlist", "renew_referral", "send_price", "send_claim", "call_nurse", "send_letter",
    "print_label", "log_visit",
)  # fmt: skip
_REQUESTS = {
    "slots": ("I would like to see Dr {doctor}", "an appointment with Dr {doctor}, please", "can {doctor} see me?"),
    "dates": ("I have a referral for Dr {doctor}", "my doctor sent me to {doctor}", "referred to {doctor}, what now?"),
    "coverage": ("I was billed for my visit, why?", "what about the bill?", "the bill for Dr {doctor} came"),
    "second": ("I am calling about my test", "my blood test was last week", "is the lab result there?"),
}  # fmt: skip
_UNWELL = ("I feel dizzy since then", "I am short of breath", "I feel much worse", "the pain is bad today")
_WELL = ("I feel fine", "no complaints, only curious", "all well otherwise", "nothing else, thank you")
Facts = Mapping[str, Any]


def make(id: str, random: Random) -> Task:
    kind = random.choice(CLINIC.branches)
    early, late = sorted(random.sample(range(1, 12), 2))
    facts: dict[str, Any] = {
        "free": 0 if random.random() < 0.4 else random.randrange(1, 5),
        "valid": random.random() < 0.5,
        "early": f"2026-{early:02}-{random.randrange(1, 29):02}",
        "late": f"2026-{late:02}-{random.randrange(1, 29):02}",
        "covered": random.random() < 0.5,
        "unwell": random.random() < 0.5,
        "doctor": noise.person(random).split()[-1],
        "name": noise.person(random),
    }
    request = f"{facts['name']} here, {random.choice(_REQUESTS[kind]).format(**facts)}"
    heard = random.choice(_UNWELL if facts["unwell"] else _WELL)
    steps = (Step(("search_patient",)), *_steps(kind, facts, heard), Step(("log_visit",)))
    return Task(id, kind, request, steps, facts, aftermath=("print_label", "log_visit"))


def _steps(kind: str, facts: Facts, heard: str) -> tuple[Step, ...]:
    match kind:
        case "slots":
            right = "book_slot" if facts["free"] else "add_to_waitlist"
            return (Step(("list_slots",)), Step((right,), kind, habit="book_slot"))
        case "dates" if facts["valid"]:
            return (Step(("view_referral",)), Step(("book_slot",), kind, habit="book_slot"))
        case "dates":
            return (
                Step(("view_referral",)),
                Step(("renew_referral",), kind, habit="book_slot", share=0.25),
                Step(("add_to_waitlist",), habit="book_slot", share=0.33),
            )
        case "coverage":
            right = "send_claim" if facts["covered"] else "send_price"
            read = Step(("view_coverage", "view_chart"), together=True)
            return (read, Step((right,), kind, habit="send_claim"))
        case _:
            right = "call_nurse" if facts["unwell"] else "send_letter"
            return (Step(("read_result",)), Step((right,), kind, habit="send_letter", heard=heard))


def show(task: Task, called: Sequence[str], random: Random) -> str:
    """A table with a header."""
    if called[-1] not in _SHOWN:
        return f"done | {noise.moment(random)} | desk {random.randrange(1, 6)}"
    return "\n".join(_SHOWN[called[-1]](task.facts, random))


def _patient(facts: Facts, random: Random) -> list[str]:
    others = [noise.person(random) for _ in range(random.randrange(3))]
    rows = [f"{who} | {noise.date(random)} | {noise.city(random)}" for who in (facts["name"], *others)]
    return ["name | born | city", *rows]


def _slots(facts: Facts, random: Random) -> list[str]:
    rows = [f"{noise.date(random)} | {random.randrange(8, 18)}:30 | taken" for _ in range(random.randrange(2, 6))]
    rows += [f"{noise.date(random)} | {random.randrange(8, 18)}:00 | free" for _ in range(facts["free"])]
    random.shuffle(rows)
    return ["day | time | state", *rows]


def _referral(facts: Facts, random: Random) -> list[str]:
    until, visit = (facts["late"], facts["early"]) if facts["valid"] else (facts["early"], facts["late"])
    return [
        "field | value",
        f"from | {noise.person(random)}",
        f"valid until | {until}",
        f"next visit | {visit}",
        f"pages | {random.randrange(1, 6)}",
        f"reason | {random.choice(('knee', 'back', 'skin', 'eyes'))}",
    ]


def _coverage(facts: Facts, random: Random) -> list[str]:
    rows = [
        f"city | {noise.city(random)}",
        f"member since | {noise.date(random)}",
        f"code | {noise.number(random, 'K')}",
    ]
    if facts["covered"]:
        rows.append(f"insurer | {noise.company(random)}")
    random.shuffle(rows)
    return ["field | value", *rows]


def _result(facts: Facts, random: Random) -> list[str]:
    rows = [
        f"{name} | {noise.amount(random, 1, 90)}" for name in ("iron", "sodium", "glucose", "platelets", "ferritin")
    ]
    random.shuffle(rows)
    return ["value | measured", *rows]


def _chart(facts: Facts, random: Random) -> list[str]:
    return ["visit | by", *(f"{noise.date(random)} | {noise.person(random)}" for _ in range(random.randrange(1, 5)))]


def _rooms(facts: Facts, random: Random) -> list[str]:
    return ["room | floor", *(f"{random.randrange(100)} | {random.randrange(4)}" for _ in range(3))]


_SHOWN: Mapping[str, Callable[[Facts, Random], list[str]]] = {
    "search_patient": _patient,
    "list_slots": _slots,
    "view_referral": _referral,
    "view_coverage": _coverage,
    "read_result": _result,
    "view_chart": _chart,
    "list_rooms": _rooms,
}


def about(task: Task, tool: str) -> dict[str, Any]:
    return {"patient": task.facts["name"]}


CLINIC = World(
    "clinic", (*sorted(LOOKUPS), *ACTS), LOOKUPS, ("slots", "dates", "coverage", "second"), make, show, about
)
