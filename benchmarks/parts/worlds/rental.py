"""A car rental counter: at each branch one thing decides, most cases need the usual call, and agents mostly make it.

| branch | decided by |
|---|---|
| status | a word of the last result, a JSON object: a car in the garage is exchanged |
| distance | a number of the last result above a limit: the car is serviced |
| report | a word of the last result, free text: a cracked windscreen needs the glazier |
| licence | a word of a result two calls before the last one: foreign licences are checked |
| words | what the user wrote: a change of plan, or none |
| error | whether the last call ended in an error: then the desk is called |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from . import noise
from .cases import Case, Rare, world_of

MOST_KM = 15_000
CASES = {
    "status": Case(
        ("find_booking", "get_car"), "hand_over", "exchange_car",
        ("{name} is here for {car}", "pick-up of {booking}", "{name} wants to collect the car, {booking}"),
    ),
    "distance": Case(
        ("get_car", "read_meter"), "release_car", "service_car",
        ("{car} was parked, make it ready", "{car} is back", "the next driver waits for {car}"),
    ),
    "report": Case(
        ("get_car", "inspect_car"), "clean_car", "book_glazier",
        ("please look over {car}", "{car} was returned by {name}, is all well?", "check the body of {car}"),
    ),
    "licence": Case(
        ("get_driver", "list_offers", "quote_price"), "sign_contract", "check_licence",
        ("{name} has no booking and wants a small car", "walk-in: {name}", "a car for {name}, from today"),
    ),
    "words": Case(
        ("find_booking",), "end_booking", "extend_booking",
        ("{name} brings the car of {booking} today", "{booking} is over, {name}", "{name} hands the keys back"),
        ("{name} keeps the car of {booking} two days longer", "two more days for {booking}", "{booking} goes on"),
    ),
    "error": Case(
        ("find_booking", "charge_card"), "send_receipt", "call_desk",
        ("{name} pays {booking}", "please take the payment of {booking}", "{booking}: {name} would like to pay"),
    ),
}  # fmt: skip


def result(tool: str, facts: Mapping[str, Any], rare: Rare, random: Random) -> str:
    """JSON objects, a report in words, and the error of a card."""
    if tool == "charge_card" and rare("error"):
        return f"Error: the terminal of {noise.city(random)} does not answer ({noise.number(random, 'E')})"
    if tool == "inspect_car":
        found = ["tyres at {n} mm", "a scratch on door {n}", "tank at {n} litres", "seat {n} is stained", "{n} keys"]
        found = random.sample(found, 3) + (["a crack runs over the windscreen"] if rare("report") else [])
        random.shuffle(found)
        return f"Seen by {noise.person(random)}: " + ", ".join(found).format(n=random.randrange(1, 9))
    about = {"id": noise.number(random, "R"), "at": noise.moment(random), "by": noise.person(random)}
    return json.dumps(about | _details(tool, rare, random))


def _details(tool: str, rare: Rare, random: Random) -> dict[str, Any]:
    match tool:
        case "get_car":
            state = "garage" if rare("status") else "ready"
            return {"state": state, "colour": random.choice(("red", "grey", "white")), "doors": random.choice((3, 5))}
        case "read_meter":
            km = random.randrange(MOST_KM + 1, 30_000) if rare("distance") else random.randrange(900, MOST_KM)
            return {"since_service_km": km, "tank": random.randrange(5, 60), "trips": random.randrange(40)}
        case "get_driver":
            return {"licence": "foreign" if rare("licence") else "local", "age": random.randrange(21, 70)}
        case "list_offers" | "quote_price":
            return {"price": noise.amount(random), "days": random.randrange(1, 9), "class": random.choice("ABC")}
        case _:
            return {"done": True, "city": noise.city(random)}


RENTAL = world_of(
    "rental",
    CASES,
    lookups=(
        "find_booking", "get_car", "read_meter", "inspect_car", "get_driver", "list_offers", "quote_price",
        "charge_card",
    ),
    acts=(
        "hand_over", "exchange_car", "release_car", "service_car", "clean_car", "book_glazier", "sign_contract",
        "check_licence", "extend_booking", "end_booking", "send_receipt", "call_desk", "close_case",
    ),
    facts=lambda random, rare: {"booking": noise.number(random, "B"), "car": noise.number(random, "K")},
    result=result,
    about=lambda facts, tool: {"name": facts["name"]} if tool == "get_driver" else {"booking": facts["booking"]},
    endings=("", ".", ". Thanks", ", please"),
)  # fmt: skip
