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
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from . import noise
from .cases import Case, Rare, world_of

HEAVY_KG = 20
MANY = 100
ZONES = ("north", "south", "east", "west")
ACTS = (
    "pick_lines", "back_order", "release_goods", "request_approval", "ship_batch", "discard_batch", "book_post",
    "call_courier", "pack_one", "split_order", "plan_normal", "plan_express", "confirm", "ask_manager", "close_order",
)  # fmt: skip
CASES = {
    "stock": Case(
        ("get_order", "list_lines"), "pick_lines", "back_order",
        ("pick {order}", "{order} is to be picked", "please get {order} ready"),
    ),
    "approval": Case(
        ("get_order",), "release_goods", "request_approval",
        ("release {order} for {name}", "{name} waits for the goods of {order}", "may {order} leave?"),
    ),
    "expiry": Case(
        ("get_order", "get_batch"), "ship_batch", "discard_batch",
        ("send the batch of {order}", "{order}: next batch please", "the batch for {name} ({order})"),
    ),
    "courier": Case(
        ("get_parcel",), "book_post", "call_courier",
        ("post the parcel of {order}", "the parcel of {name} has to go, {order}", "{order} is packed, send it"),
    ),
    "zone": Case(
        ("get_order", "get_address"), "send_north", "send_{zone}",
        ("which depot takes {order}?", "forward {order} of {name}", "route {order}"), always=True,
    ),
    "boxes": Case(
        ("list_lines",), "pack_one", "split_order",
        ("pack {order}", "{order} in a box", "packing for {name}, {order}"),
    ),
    "words": Case(
        ("read_note",), "plan_normal", "plan_express",
        ("plane {order} ein", "{order} für {name} bitte", "{order} kann diese Woche raus"),
        ("plane {order} dringend ein", "{order} für {name}, eilig bitte", "{order} muss heute noch raus, dringend"),
    ),
    "amount": Case(
        ("get_order",), "confirm", "ask_manager",
        ("{pieces} boxes of screws, order {order}", "{name} wants {pieces} pieces ({order})", "{pieces} units"),
    ),
}  # fmt: skip


def facts(random: Random, rare: bool) -> dict[str, Any]:
    return {
        "order": noise.number(random, "O"),
        "zone": random.choice(ZONES),
        "pieces": random.randrange(MANY + 1, 4 * MANY) if rare else random.randrange(5, MANY),
    }


def result(tool: str, facts: Mapping[str, Any], rare: Rare, random: Random) -> str:
    """JSON objects with details that decide nothing."""
    about = {"ref": noise.number(random, "R"), "at": noise.moment(random)}
    return json.dumps(about | _details(tool, facts, rare, random))


def _details(tool: str, facts: Mapping[str, Any], rare: Rare, random: Random) -> dict[str, Any]:
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
            return {"city": noise.city(random), "zone": facts["zone"]}
        case _:
            return {"done": True}


DEPOT = world_of(
    "depot",
    CASES,
    lookups=("get_order", "list_lines", "get_parcel", "get_batch", "get_address", "read_note"),
    acts=(*ACTS, *(f"send_{zone}" for zone in ZONES)),
    closing="close_order",
    facts=facts,
    result=result,
    about=lambda facts, tool: {"order": facts["order"]},
)
