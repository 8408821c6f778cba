"""A claims office of an insurer of parcels: long, nested JSON, and one to three branches a run.

| branch | decided by |
|---|---|
| closure | a word deep inside a list of the last result: a parcel that was closed again goes to the adjuster |
| assessed | a nested sum of the last result above a limit |
| customs | whether a list of events has a code, wherever in the list it stands |
| basis | a word of a result two calls before the last one |
| company | what the user wrote in words of their own: companies get a credit note |
| bank | the last state of a list: the bank returned the payment |
| cover | a sum of the last result above another sum of it |

A memory that compares values with constants cannot know `cover`: silence is right there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from . import noise
from .cases import decide, rare_kinds
from .world import Step, Task, World

MOST = 1500
LOOKUPS = ("find_claim", "get_policy", "get_inspection", "get_tracking", "get_payments")
ACTS = (
    "assess_damage", "start_trace", "request_documents", "refer_to_adjuster", "approve_claim", "cap_to_limit",
    "transfer_payout", "issue_credit_note", "close_claim",
)  # fmt: skip
BRANCHES = ("closure", "assessed", "customs", "basis", "company", "bank", "cover")
_REQUESTS = {
    "damage": (
        "my {item} came out of the box in pieces, claim {claim}.",
        "{claim}: the {item} arrived broken, please handle it.",
        "I'd like to know what happens with the damaged {item} ({claim}).",
        "the {item} has a big crack, I filed {claim} last week.", "please settle {claim}, a smashed {item}.",
        "the parcel was dented and the {item} inside does not work any more. Reference {claim}.",
    ),
    "lost": (
        "my {item} never arrived, the claim is {claim}.", "{claim} is about a lost parcel with a {item}.",
        "where is the {item}? It has been missing for weeks ({claim}).",
        "the parcel with the {item} vanished somewhere. {claim}.",
        "I am still waiting for the {item}; I reported it as lost under {claim}.",
        "please look into {claim}, the {item} got lost on the way.",
    ),
    "late": (
        "you promised to pay for the {item} but no money came, {claim}.", "when do I get the money for {claim}?",
        "the payout for {claim} has not reached the bank.", "{claim} was accepted, but the payment is missing.",
        "still no payment for the {item} ({claim}), what is going on?",
    ),
    "decision": (
        "can you decide on {claim} now? It's the {item}.", "your colleague said {claim} only needs a decision.",
        "all papers for {claim} are in, please finish it.", "what will I get for the {item}? {claim}, all was sent.",
        "the {item} claim {claim} has been open for ages, please decide.",
    ),
}  # fmt: skip
_HOW_MANY = (35, 30, 15, 20)
BY_COMPANIES = (
    "We run a small {shop} in {city}.", "It was ordered by our company, {firm}.",
    "I'm writing for the purchasing department at {firm}.", "It is for our office, our VAT number is on file.",
    "This goes through the business account of {firm}.", "We are a company customer, by the way.",
    "I work for {firm} and the firm paid for it.", "It belongs to our shop's business account.",
)  # fmt: skip
_BY_PEOPLE = (
    "", "", "", "It was a birthday present for my {relative}.", "I paid for it out of my own pocket.",
    "My {relative} sent it to me.", "I'm just a private person, not a lawyer.", "I had saved up for it for months.",
    "I wanted it for my flat in {city}.",
)  # fmt: skip
_OPENERS = ("", "", "Hi! ", "Hello, ", "Good morning. ", "Hey there, ", "Dear team, ", "Sorry to bother you. ")
_ENDINGS = (*[""] * 12, "Thanks!", "Regards, {name}", "It is rather urgent.", "The weather here is awful, too.")
_ITEMS = ("lamp", "guitar", "vase", "monitor", "camera lens", "record player", "mirror", "telescope", "printer")
_SHOPS = ("bakery", "bookshop", "hair salon", "dental practice", "cafe", "print studio")
_RELATIVES = ("sister", "father", "grandmother", "best friend", "nephew", "wife")
_CODES = ("SORTED", "DEPARTED", "ARRIVED", "LOADED", "SCAN_MISSING", "REROUTED", "OUT_FOR_DELIVERY", "ATTEMPTED")
_CLOSING = Step(("close_claim",))


def make(id: str, random: Random) -> Task:
    kind = random.choices(tuple(_REQUESTS), _HOW_MANY)[0]
    rare = rare_kinds(BRANCHES, random)
    limit = random.choice((500, 1000, 2500, 5000))
    share = random.uniform(1.05, 1.7) if rare["cover"] else random.uniform(0.15, 0.96)
    facts: dict[str, Any] = {
        "rare": rare,
        "limit": limit,
        "claimed": round(limit * share, 2),
        "assessed": noise.amount(random, MOST + 20, 4200) if rare["assessed"] else noise.amount(random, 35, MOST - 20),
        "claim": noise.number(random, "CL"),
        "policy": noise.number(random, "P"),
        "tracking": noise.number(random, random.choice(("RX", "CP", "LM"))),
        "name": noise.person(random),
        "item": random.choice(_ITEMS),
    }
    return Task(id, kind, _request(kind, facts, random), _steps(kind, rare), facts, aftermath=("close_claim",))


def _request(kind: str, facts: Mapping[str, Any], random: Random) -> str:
    said = [
        random.choice(_OPENERS) + random.choice(_REQUESTS[kind]),
        random.choice(BY_COMPANIES if facts["rare"]["company"] else _BY_PEOPLE),
    ]
    if random.random() < 0.3:
        said.reverse()
    about = {"firm": noise.company(random), "city": noise.city(random)}
    about |= {"shop": random.choice(_SHOPS), "relative": random.choice(_RELATIVES)}
    return " ".join(filter(None, (*said, random.choice(_ENDINGS)))).format(**facts, **about)


def _steps(kind: str, rare: Mapping[str, bool]) -> tuple[Step, ...]:
    def branch(of: str, usual: str, unusual: str) -> Step:
        return decide(of, usual, unusual, rare=rare[of])

    paid = (branch("company", "transfer_payout", "issue_credit_note"), _CLOSING)
    found = Step(("find_claim",))
    match kind:
        case "damage":
            opened = (found, Step(("get_inspection",)), branch("closure", "assess_damage", "refer_to_adjuster"))
            if rare["closure"]:
                return (*opened, _CLOSING)
            assessed = branch("assessed", "approve_claim", "refer_to_adjuster")
            return (*opened, assessed, *((_CLOSING,) if rare["assessed"] else paid))
        case "lost":
            traced = branch("customs", "start_trace", "request_documents")
            read = (found, Step(("get_tracking",)), traced, Step(("get_policy",)), Step(("get_payments",)))
            worth = branch("basis", "approve_claim", "refer_to_adjuster")
            return (*read, worth, *((_CLOSING,) if rare["basis"] else paid))
        case "late":
            again = branch("bank", "transfer_payout", "request_documents")
            return (found, Step(("get_payments",)), again, _CLOSING)
        case _:
            return (found, Step(("get_policy",)), branch("cover", "approve_claim", "cap_to_limit"), *paid)


def show(task: Task, called: Sequence[str], random: Random) -> str:
    return json.dumps(_reply(called[-1], task, random) | {"trace": _hex(random), "node": f"n{random.randrange(9)}"})


def _hex(random: Random) -> str:
    return f"{random.getrandbits(48):012x}"


def _euros(value: float) -> dict[str, Any]:
    return {"value": value, "currency": "EUR"}


def _reply(tool: str, task: Task, random: Random) -> dict[str, Any]:
    match tool:
        case "find_claim":
            return {"claim": _claim(task.facts, random), "took_ms": random.randrange(5, 220)}
        case "get_policy":
            return _policy(task.facts, random)
        case "get_inspection":
            return {"inspection": _inspection(task.facts, random)}
        case "get_tracking":
            return _tracking(task.facts, random)
        case "get_payments":
            return _payments(task, random)
        case _:
            return _done(tool, task.facts, random)


def _claim(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    mail = f"{facts['name'].split()[0].lower()}{random.randrange(99)}@mail.example"
    return {
        "id": facts["claim"],
        "uuid": _hex(random),
        "opened": noise.moment(random),
        "holder": {"name": facts["name"], "city": noise.city(random), "contact": {"mail": mail}},
        "subject": facts["item"],
        "policy_no": facts["policy"],
        "tracking": facts["tracking"],
        "channel": random.choice(("web", "phone", "app", "letter")),
    }


def _policy(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    coverage = {
        "limit": _euros(facts["limit"]),
        "excess": random.choice((0, 25, 50)),
        "basis": "current_value" if facts["rare"]["basis"] else "replacement",
        "options": random.sample(("theft", "glass", "weather", "express", "weekend"), random.randrange(1, 4)),
    }
    policy = {
        "no": facts["policy"],
        "product": random.choice(("Parcel Plus", "Parcel Basic", "SendSafe", "SendSafe Pro")),
        "since": noise.date(random),
        "coverage": coverage,
        "agent": {"id": random.randrange(100, 1000), "office": noise.city(random)},
    }
    claimed = {"id": facts["claim"], "claimed": _euros(facts["claimed"]), "items": random.randrange(1, 5)}
    return {"policy": policy, "open_claim": claimed}


def _inspection(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    outer = {
        "material": random.choice(("carton", "foil", "crate")),
        "condition": random.choice(("dented", "wet", "torn", "undamaged", "scuffed")),
    }
    closure = {
        "type": random.choice(("tape", "strap", "staples")),
        "state": "resealed" if facts["rare"]["closure"] else "original",
        "width_mm": random.choice((38, 50, 75)),
    }
    filling = random.choice(("paper", "foam", "none", "air cushions"))
    parcel = {
        "tracking": facts["tracking"],
        "weight_g": random.randrange(300, 9000),
        "packaging": {"outer": outer, "filling": filling, "closure": closure},
    }
    return {
        "id": random.randrange(10**6, 10**7),
        "at": noise.moment(random),
        "inspector": {"id": noise.number(random, "I"), "depot": noise.city(random)},
        "parcels": [parcel],
        "photos": [f"img/{_hex(random)}.jpg" for _ in range(random.randrange(1, 4))],
    }


def _tracking(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    codes = ["PICKED_UP", *random.choices(_CODES, k=random.randrange(3, 8))]
    if facts["rare"]["customs"]:
        codes.insert(random.randrange(1, len(codes) + 1), "CUSTOMS_HOLD")
    events = [
        {"ts": noise.moment(random), "code": code, "place": noise.city(random), "terminal": random.randrange(40)}
        for code in codes
    ]
    carrier = {
        "code": random.choice(("DPX", "GLZ", "PNL")),
        "service": random.choice(("economy", "standard", "express")),
    }
    return {"tracking": facts["tracking"], "carrier": carrier, "events": events, "next_page": None}


def _payments(task: Task, random: Random) -> dict[str, Any]:
    returned, held = ("RELEASED", "RETURNED_BY_BANK"), ("RELEASED", "ON_HOLD")
    states = ["CREATED"]
    for _ in range(random.randrange(3)):
        states += random.choice((returned, held, held))
    usual = random.choice((("RELEASED",), ("ON_HOLD",), ("QUEUED",), ("RELEASED", "QUEUED")))
    states += returned if task.facts["rare"]["bank"] else usual
    history = [{"at": noise.moment(random), "state": state, "by": noise.number(random, "U")} for state in states]
    return {
        "account": {"iban_end": f"{random.randrange(1000, 10_000)}", "checked": random.random() < 0.5},
        "history": [] if task.kind == "lost" else history,
    }


def _done(tool: str, facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    ref = {"id": _hex(random), "at": noise.moment(random)}
    match tool:
        case "assess_damage":
            excess = random.choice((0, 25, 50))
            line = {"part": random.choice(("housing", "glass", "frame", "motor")), "repairable": random.random() < 0.5}
            gross = _euros(round(facts["assessed"] + excess, 2))
            totals = {"gross": gross, "excess": excess, "net": _euros(facts["assessed"])}
            return {"assessment": ref | {"lines": [line], "totals": totals}, "model": random.choice(("v3", "v3.1"))}
        case "start_trace":
            return {"trace_order": ref | {"depots_asked": random.randrange(2, 10), "result": "not_found"}}
        case "request_documents":
            return {"letter": ref | {"template": "docs"}}
        case _:
            return {"ok": True} | ref


def about(task: Task, tool: str) -> dict[str, Any]:
    number = "tracking" if tool == "get_tracking" else "claim"
    return {number: task.facts[number]}


CLAIMS = World("claims", (*LOOKUPS, *ACTS), frozenset(LOOKUPS), BRANCHES, make, show, about)
