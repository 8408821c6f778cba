"""A depot: what decides is seldom a word of a result. Nothing was tuned on it before its first figures.

| branch | decided by |
|---|---|
| stock | whether a line of a list is out of stock, wherever in the list it stands |
| approval | a value that is missing |
| expiry | a date of the last result: of the year before, or of the next ones |
| courier | a word and a number together: an urgent parcel above 20 kg |
| zone | a word with four values, each of which has a call of its own |
| boxes | how long a list is |
| words | German words of the user |
| amount | a number that the user wrote, of boxes, pieces or units |

Agents with habits make the usual call in seven of ten cases that need another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from . import noise
from .world import Step, Task, World

RARE_CASE = 0.3  # of the tasks of a kind need the unusual call
HABIT = 0.7
HEAVY_KG = 20
MANY = 100
ZONES = ("north", "south", "east", "west")
LOOKUPS = ("get_order", "list_lines", "get_parcel", "get_batch", "get_address", "read_note")
ACTS = (
    "pick_lines", "back_order", "release_goods", "request_approval", "ship_batch", "discard_batch", "book_post",
    "call_courier", "pack_one", "split_order", "plan_normal", "plan_express", "confirm", "ask_manager", "close_order",
    *(f"send_{zone}" for zone in ZONES),
)  # fmt: skip
# Of each kind: what is looked up before the branch, the usual call, the unusual one.
_WAYS = {
    "stock": (("get_order", "list_lines"), "pick_lines", "back_order"),
    "approval": (("get_order",), "release_goods", "request_approval"),
    "expiry": (("get_order", "get_batch"), "ship_batch", "discard_batch"),
    "courier": (("get_parcel",), "book_post", "call_courier"),
    "zone": (("get_order", "get_address"), "send_north", ""),
    "boxes": (("list_lines",), "pack_one", "split_order"),
    "words": (("read_note",), "plan_normal", "plan_express"),
    "amount": (("get_order",), "confirm", "ask_manager"),
}
_REQUESTS = {
    "stock": ("pick {order}", "{order} is to be picked", "please get {order} ready"),
    "approval": ("release {order} for {name}", "{name} waits for the goods of {order}", "may {order} leave?"),
    "expiry": ("send the batch of {order}", "{order}: next batch please", "the batch for {name} ({order})"),
    "courier": ("post the parcel of {order}", "the parcel of {name} has to go, {order}", "{order} is packed, send it"),
    "zone": ("which depot takes {order}?", "forward {order} of {name}", "route {order}"),
    "boxes": ("pack {order}", "{order} in a box", "packing for {name}, {order}"),
    "words": ("plane {order} ein", "{order} für {name} bitte", "{order} kann diese Woche raus"),
    "amount": ("{pieces} boxes of screws, order {order}", "{name} wants {pieces} pieces ({order})", "{pieces} units"),
}
_URGENT = ("plane {order} dringend ein", "{order} für {name}, eilig bitte", "{order} muss heute noch raus, dringend")


def make(id: str, random: Random) -> Task:
    kind = random.choice(tuple(_WAYS))
    rare = random.random() < RARE_CASE
    facts = {
        "kind": kind,
        "rare": rare,
        "name": noise.person(random),
        "order": noise.number(random, "O"),
        "zone": random.choice(ZONES),
        "pieces": random.randrange(MANY + 1, 4 * MANY) if rare else random.randrange(5, MANY),
    }
    wordings = _URGENT if rare and kind == "words" else _REQUESTS[kind]
    request = random.choice(wordings).format(**facts)
    lookups, usual, unusual = _WAYS[kind]
    right = unusual if rare else usual
    if kind == "zone":
        right = f"send_{facts['zone']}"
    steps = (*(Step((lookup,)) for lookup in lookups), Step((right,), kind, habit=usual, share=HABIT))
    return Task(id, kind, request, (*steps, Step(("close_order",))), facts, aftermath=("close_order",))


def show(task: Task, called: Sequence[str], random: Random) -> str:
    """JSON objects with details that decide nothing."""
    facts = task.facts

    def rare(kind: str) -> bool:
        """Whether this is the unusual case of a kind; in tasks of other kinds chance says so."""
        return bool(facts["rare"]) if facts["kind"] == kind else random.random() < RARE_CASE

    about = {"ref": noise.number(random, "R"), "at": noise.moment(random)}
    return json.dumps(about | _details(called[-1], task, rare, random))


def _details(tool: str, task: Task, rare: Any, random: Random) -> dict[str, Any]:
    match tool:
        case "list_lines":
            count = random.randrange(4, 9) if rare("boxes") else random.randrange(1, 4)
            lines = [{"pieces": random.randrange(1, 9), "in_stock": True} for _ in range(count)]
            if rare("stock"):
                random.choice(lines)["in_stock"] = False
            return {"lines": lines}
        case "get_order":
            approved = None if rare("approval") else noise.person(random)
            return {"important": random.random() < 0.2, "approved_by": approved, "total": noise.amount(random)}
        case "get_batch":
            year = 2025 if rare("expiry") else random.choice((2027, 2028))
            return {"batch": noise.number(random, "B"), "expires": noise.date(random).replace("2026", str(year))}
        case "get_parcel":
            weights = [("high", HEAVY_KG * 0.9), ("low", HEAVY_KG * 2), ("low", HEAVY_KG * 2)]
            urgency, most = random.choice(weights)
            weight = random.uniform(1, most)
            if rare("courier"):
                urgency, weight = "high", random.uniform(HEAVY_KG + 0.5, HEAVY_KG * 2)
            return {"priority": urgency, "weight_kg": round(weight, 1)}
        case "get_address":
            return {"city": noise.city(random), "zone": task.facts["zone"]}
        case _:
            return {"done": True}


def about(task: Task, tool: str) -> Mapping[str, Any]:
    return {"order": task.facts["order"]}


DEPOT = World("depot", (*LOOKUPS, *ACTS), frozenset(LOOKUPS), tuple(_WAYS), make, show, about)
