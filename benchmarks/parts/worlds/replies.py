"""A help desk whose tools answer in the forms that programs and protocols of tools use.

What decides is a plain value, but seldom one of a JSON object. Nothing was tuned on it before its first figures.

| branch | what its lookup returns |
|---|---|
| lines | lines of "Key: value" |
| printed | an object as Python prints it |
| wrapped | JSON inside a string of JSON, as protocols of tools wrap it |
| markup | XML |
| table | a table in Markdown |
| unit | JSON with a number and its unit in a string: "31.5 kg" |
| money | JSON with a sum in a string: "$1,250.00" |
| largest | a list in which one number above a limit is enough, wherever it stands |
| code | an id whose letters say of what kind a thing is: "FRZ-12345" |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from . import noise
from .cases import Case, Rare, world_of


def _either(random: Random) -> str:
    return random.choice(("yes", "no"))


def _lines(rare: bool, ref: str, random: Random) -> str:
    paid = "no" if rare else "yes"
    about = f"Created: {noise.moment(random)}\nShipped: {_either(random)}\nPaid: {paid}\nArchived: {_either(random)}"
    return f"Invoice {ref}\n{about}\nCustomer: {noise.person(random)}"


def _printed(rare: bool, ref: str, random: Random) -> str:
    trial = random.random() < 0.5
    return repr({"ref": ref, "locked": rare, "trial": trial, "seen": None, "city": noise.city(random)})


def _wrapped(rare: bool, ref: str, random: Random) -> str:
    tier = "enterprise" if rare else random.choice(("basic", "plus"))
    inner = {"ref": ref, "tier": tier, "auto_renew": random.random() < 0.5, "at": noise.moment(random)}
    return json.dumps({"content": [{"type": "text", "text": json.dumps(inner)}], "isError": False})


def _markup(rare: bool, ref: str, random: Random) -> str:
    before = f"<history><status>{random.choice(('open', 'closed'))}</status></history>"
    now = f"<status>{'closed' if rare else 'open'}</status>"
    return f"<ticket><ref>{ref}</ref>{now}{before}<urgent>{_either(random)}</urgent></ticket>"


def _table(rare: bool, ref: str, random: Random) -> str:
    licence, warranty = random.choice(("expired", "valid")), "expired" if rare else "valid"
    rows = {"serial": ref, "licence": licence, "warranty": warranty, "owner": noise.person(random)}
    return "| field | value |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def _unit(rare: bool, ref: str, random: Random) -> str:
    weight = random.uniform(20.5, 60) if rare else random.uniform(1, 19.5)
    return json.dumps({"ref": ref, "weight": f"{weight:.1f} kg", "size": f"{random.randrange(10, 90)} cm"})


def _money(rare: bool, ref: str, random: Random) -> str:
    total = random.uniform(510, 4000) if rare else random.uniform(20, 490)
    return json.dumps({"ref": ref, "total": f"${total:,.2f}", "fee": f"${random.uniform(1, 40):.2f}"})


def _largest(rare: bool, ref: str, random: Random) -> str:
    values = [round(random.uniform(10, 70), 1) for _ in range(random.randrange(4, 11))]
    if rare:
        values[random.randrange(len(values))] = round(random.uniform(80, 99), 1)
    readings = [{"at": noise.moment(random), "value": value} for value in values]
    return json.dumps({"sensor": ref, "readings": readings})


def _code(rare: bool, ref: str, random: Random) -> str:
    kind = "FRZ" if rare else random.choice(("DRY", "TIN"))
    return json.dumps({"ref": ref, "item": noise.number(random, kind), "pieces": random.randrange(1, 40)})


CASES = {
    "lines": Case(
        ("show_invoice",), "send_receipt", "send_reminder",
        ("about invoice {ref}", "{name} asks what is with {ref}", "invoice {ref} please"),
    ),
    "printed": Case(
        ("show_account",), "reset_password", "unlock_account",
        ("{name} cannot log in", "login of {name} fails", "no access for {name}, {ref}"),
    ),
    "wrapped": Case(
        ("show_plan",), "offer_upgrade", "call_manager",
        ("{name} wants more from the plan", "plan of {name}", "subscription {ref} is too small"),
    ),
    "markup": Case(
        ("show_ticket",), "answer_ticket", "reopen_ticket",
        ("ticket {ref}", "{name} wrote again in {ref}", "look at the ticket of {name}"),
    ),
    "table": Case(
        ("show_device",), "order_repair", "quote_price",
        ("the device of {name} is broken", "device {ref} does not start", "broken device, {ref}"),
    ),
    "unit": Case(
        ("show_parcel",), "book_post", "book_courier",
        ("ship {ref}", "{name} waits for the parcel {ref}", "parcel for {name}"),
    ),
    "money": Case(
        ("show_claim",), "pay_claim", "inspect_claim",
        ("claim {ref} of {name}", "{name} claims a loss", "loss, claim {ref}"),
    ),
    "largest": Case(
        ("list_readings",), "log_normal", "raise_alarm",
        ("check the sensor {ref}", "readings of {ref}", "sensor of {name}"),
    ),
    "code": Case(
        ("show_item",), "store_dry", "store_cold",
        ("goods have come: {ref}", "{name} delivered {ref}", "delivery {ref} to the store"),
    ),
}  # fmt: skip
_REPLIES = (_lines, _printed, _wrapped, _markup, _table, _unit, _money, _largest, _code)
_OF_LOOKUP = {case.lookups[0]: (kind, reply) for (kind, case), reply in zip(CASES.items(), _REPLIES, strict=True)}


def result(tool: str, facts: Mapping[str, Any], rare: Rare, random: Random) -> str:
    if tool not in _OF_LOOKUP:
        return json.dumps({"done": True, "at": noise.moment(random)})
    kind, reply = _OF_LOOKUP[tool]
    return reply(rare(kind), noise.number(random, "N"), random)


REPLIES = world_of(
    "replies",
    CASES,
    lookups=tuple(_OF_LOOKUP),
    acts=(*(act for case in CASES.values() for act in (case.usual, case.unusual)), "close_case"),
    facts=lambda random, rare: {"ref": noise.number(random, "R")},
    result=result,
    about=lambda facts, tool: {"ref": facts["ref"]},
)
