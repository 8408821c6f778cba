"""A mail-order desk of a pharmacy chain: prescriptions, claims, parcels, and people who write in the middle of a run.

| branch | decided by |
|---|---|
| early | a date of the last result against the date of the system prompt: too early for a refill |
| claim | whether the last call ended in a rejection of the payer, which has many wordings |
| allergy | whether an ingredient of one result is among the allergies that another result lists |
| storage | a nested number of a result two or three calls back against a limit: what must be cool is not mailed |
| carrier | free text of a carrier's mail: the goods are lost or spoilt, or still come |
| returns | two things of the last result: days since the delivery, and whether it is sold on prescription alone |
| pickup | what the user writes in the middle of the run: mail it, or have it ready in a shop |
| caller | who the user is, a role deep in one of two results that come in any order |
| stock | a number of the last result against a number of the one before |
| reason | what the user wrote: stop it, or stop it as it does harm |
"""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

from . import noise
from .desk import Facts, Fork, ago, desk, letter, moment, now, reach

COOL = 8  # °C, the most that goods bear which are not mailed
RETURN_DAYS = 14
LOOKUPS = (
    "get_customer", "get_prescription", "get_profile", "get_order", "check_stock", "track_parcel", "verify_caller",
    "read_notes",
)  # fmt: skip
ACTS = (
    "submit_claim", "fill_order", "hold_order", "ship_parcel", "transfer_to_branch", "message_customer", "refund_order",
    "ask_pharmacist", "close_ticket",
)  # fmt: skip
BRANCHES = ("early", "claim", "allergy", "storage", "carrier", "returns", "pickup", "caller", "stock", "reason")
_COVERED = Fork("claim", "fill_order", "message_customer")
_STORED = Fork("storage", "ship_parcel", "transfer_to_branch")
_SENT = Fork("pickup", "ship_parcel", "transfer_to_branch")
_WAYS = {
    "refill": ("get_customer", "get_prescription", Fork("early", "submit_claim", "hold_order"), _COVERED, _STORED),
    "new": (
        "get_customer", ("get_prescription", "get_profile"), Fork("allergy", "submit_claim", "ask_pharmacist"),
        _COVERED, _STORED,
    ),
    "parcel": (
        ("get_order", "track_parcel"), "read_notes",
        Fork("carrier", "message_customer", "fill_order", ("ship_parcel",)),
    ),
    "returns": ("get_customer", "get_order", Fork("returns", "refund_order", "message_customer")),
    "ready": ("get_order", _SENT),
    "caller": (("verify_caller", "get_order"), Fork("caller", "hold_order", "message_customer"), "message_customer"),
    "waiting": ("get_order", "check_stock", Fork("stock", "fill_order", "transfer_to_branch"), _SENT),
    "stop": (("get_customer", "get_prescription"), Fork("reason", "hold_order", "ask_pharmacist")),
}  # fmt: skip
_SYSTEM = """You work at the mail-order desk of Linden Pharmacies, {site}. Today is {day}.
This is ticket {ticket} of customer {customer}. Look things up first, follow our rules, and close it at the end."""
_REQUESTS = {
    "refill": (
        "please refill {rx}.", "I'm nearly out of {drug}, could you send the next lot? It's {rx}.",
        "time for my {drug} again ({rx}).", "can I get another pack of {drug}? The number on the label is {rx}.",
    ),
    "new": (
        "my doctor sent you a prescription for {drug} yesterday, {rx}.", "new prescription {rx}, please prepare it.",
        "I have just been put on {drug}. The e-prescription is {rx}, please send it.", "first order of {drug}: {rx}.",
        "Dr. {doctor} wants me to start on {drug}. You should have {rx} by now.",
    ),
    "parcel": (
        "{order} still isn't here.", "where is my parcel? {order}, it was due days ago.", "has {order} been lost?",
        "my {drug} ({order}) hasn't turned up yet.", "I keep waiting for the courier with {order}. Can you find out?",
    ),
    "returns": (
        "I'd like to send back the {item} from {order}.", "{order}: I don't need the {item} after all. Money back?",
        "can I return the {item}? It's unopened, {order}.", "ordered the wrong {item} ({order}), please refund it.",
    ),
    "ready": (
        "is {order} ready to go out?", "what's the state of {order}?", "can I have {order} this week?",
        "when does {order} leave your place?", "just checking on {order} with the {drug}.", "how far is {order}?",
    ),
    "caller": (
        "{name} here, it's about {patient}'s delivery {order}. Please don't send it, {patient} is in hospital.",
        "{order} for {patient}: nobody will be there to take it, please hold it back. {name}",
        "I'm {name} and write on behalf of {patient}, who was told to pause {drug}. Put {order} on hold, would you?",
    ),
    "waiting": (
        "{order} has been 'in process' for days.", "why does {order} take so long?", "please get {order} moving.",
        "I ordered {drug} last week and it still says open ({order}).", "no movement on {order} since Monday.",
    ),
    "stop": (
        "please pause {rx}, I still have three boxes of {drug} in the cupboard.",
        "no more automatic deliveries of {drug} for now, I'm abroad until autumn ({rx}).",
        "{rx}: my doctor and I agreed that I don't need {drug} any longer, my values are fine.",
        "stop sending {drug} please, my new insurer wants me to use their own pharmacy. {rx}",
        "could you switch off auto-refill of {rx}? I keep forgetting to cancel in time.",
        "I'd like to order {drug} by hand from now on, so no more automatic ones. {rx}",
        "we move house next month, hold {rx} till I've told you the new address.",
        "please end the {drug} subscription {rx}. Nothing wrong with it, the course is simply over.",
        "my specialist swapped {drug} for something newer that you don't stock, so {rx} can go.",
        "money's tight, I'll buy {drug} in smaller packs at the shop. Please stop {rx}.",
        "cancel the standing order {rx}. I feel well on {drug}, I just have far too much of it.",
        "{rx} comes too often, I use up {drug} more slowly than you send it. Halt it for a while.",
    ),
}  # fmt: skip
HARMED = (
    "please stop {rx}. Since I began with {drug} my ankles are like balloons.",
    "no more {drug} for me, I've come out in red blotches all over. {rx}",
    "I want to cancel {rx}, the room spins whenever I get up after taking {drug}.",
    "{drug} and I don't get on: I haven't kept a meal down in a week. Stop {rx}.",
    "switch off auto-refill of {rx} please. My legs ache so much on {drug} that stairs are a torture.",
    "my husband says I'm a different person since {drug}, I cry over nothing. Please end {rx}.",
    "stop sending {drug}. My lips went numb and thick twice now, half an hour after the dose. {rx}",
    "{rx} can go, I bruise from the slightest knock these days and I blame {drug}.",
    "I cough from morning to night since I'm on {drug}. Please cancel the deliveries, {rx}.",
    "please pause {rx}, I have such stomach cramps with {drug} that I've stopped by myself.",
    "skip the next {drug}, will you? It gives me headaches such as I never had before. ({rx})",
    "cancel {rx}. I have plenty of {drug} left as I don't dare to take it: it itches me half to death.",
)
_MAIL_IT = (
    "Yes, to my home please.", "Perfect, then send it off.", "Good. The address is the same as ever.",
    "Great, I'm in all week, the postman can ring.", "ok thanks, put it in the mail then",
    "Is the parcel insured? Anyway, do send it.", "Fine, I'll wait for the courier.", "looking forward to it!",
    "I looked into your shop in {city} but the queue was endless, so just mail it as agreed.",
    "My neighbour takes parcels for me, so any day is fine.", "Please go on, I can't get out with my bad leg.",
    "I thought about fetching it myself, but no, the usual way is easier.", "Thanks for checking! No changes.",
)  # fmt: skip
FETCHED = (
    "Oh, I'm working next to your shop in {city}. Could I fetch it there?", "Sorry, I'd rather drop by and take it.",
    "We're leaving for {city} tonight, can a pharmacy of yours there have it ready?",
    "Parcels get stolen from our hallway lately. Can't I collect it over the counter?",
    "Wait, I won't be home till next week. Have it put aside at the {city} store for me, please.",
    "Hmm, my daughter passes your {city} branch daily, she could get it.", "I'll be in {city} and can walk in for it.",
    "The last one went to the wrong house. This time I want to be handed it by a person in the shop.",
    "I need it sooner than the post can do, I'll drive over to {city} myself.",
    "Not to my home please, we have no letterboxes at the moment. One of your stores will do.",
    "Can you have the people in {city} hand it out to me on my way home?",
    "I'd sooner pick it up where I get my flu shot, at yours in {city}.",
)  # fmt: skip
_COMES = (
    "The parcel was sorted to {city} by mistake. It is on the night truck back and goes out on {day}.",
    "{person} on the ground floor took it in for the recipient on {day}; we have the signature.",
    "Our driver found nobody at home and left it at the parcel shop, where it can be had until {day}.",
    "The trailer stood in the snow near {city} overnight, all on it is dry and sealed. New slot: {day}.",
    "It is on our shelf at the {city} depot, bay {n}. The second attempt is booked for {day}.",
    "The strike at the {city} hub is over since this morning, the backlog with this one leaves tonight.",
    "The scanner at {city} was down so you see no events; the item itself was loaded at 05:{n}.",
    "Spot check by the police: box unopened, handed back to us, goes on to the recipient on {day}.",
    "recipient wants it on {day} instead, so it's parked here", "Wrong van, right parcel: {person} is on the way.",
    "We first thought it had gone missing in {city}: it was under a pallet, intact, and goes on by {day}.",
    "The label came off, but your packing slip could be read. A new one is on and it is moving again.",
)  # fmt: skip
GONE = (
    "The search in {city} ended without a result; we close the file and will pay under our terms.",
    "The van of tour {n} burnt out, nothing could be saved.", "A dog got hold of it; what is left isn't fit for use.",
    "A roller door came down on the cage at {city}. The carton is flat and its contents leaked.",
    "We only have the empty carton left, the tape was cut somewhere between {city} and here.",
    "It stood in the flooded cellar of the depot, is soaked through and mouldy. We binned it on {day}.",
    "The driver admits he threw it over a fence in the wrong street; those people never saw a parcel.",
    "No trace since {day}. {person} asked at all three hubs, we must assume that it won't turn up again.",
    "it lay in a closed van at 50 degrees over the weekend; our quality people say nobody should take that any more",
    "Another sender's bleach canister broke over it. Destroyed according to the hazmat rules.",
    "Torn open in the sorting machine in {city}: the packs inside are crushed, we can't send that on.",
    "Both depots say the other has it, shelves counted twice, not with either. Please take it as a total loss.",
)  # fmt: skip
_REJECTIONS = (
    "reject 75: prior authorization required", "70 product/service not covered under plan {payer}",
    "NCPDP reject 65, patient is not covered", "coverage of member terminated",
    "41 - submit bill to other processor or primary payer", "76 plan limitations exceeded, max {n} units per 30 days",
    "MR: product not on formulary, alternatives: see list", "payer answered R (step therapy not met)",
    "claim denied by {payer}: diagnosis code missing for this product", "608: brand not payable, generic available",
    "days supply exceeds plan maximum of {n}", "declined, deductible account of group {n} is suspended",
)  # fmt: skip
_REMARKS = ("DUR: reviewed", "plan limitations apply from next year", "authorization on file", "tier 2")
_MAILED = (
    "amlodipine", "atorvastatin", "metformin", "levothyroxine", "ramipril", "losartan", "sertraline", "omeprazole",
    "bisoprolol", "allopurinol", "montelukast", "tamsulosin", "apixaban", "cefuroxime", "methotrexate",
)  # fmt: skip
_COOLED = ("insulin", "adalimumab", "semaglutide", "etanercept", "teriparatide", "latanoprost", "methotrexate")
_ADDED = (
    "lactose", "maize starch", "povidone", "titanium dioxide", "sunset yellow", "gelatin", "mannitol", "sucrose",
    "macrogol", "sodium benzoate", "polysorbate 80", "soya lecithin", "tartrazine", "benzyl alcohol", "metacresol",
)  # fmt: skip
_ALLERGENS = ("latex", "peanut", "birch pollen", "nickel", "wasp venom", "codeine", "penicillin", "ibuprofen")
_PAYERS = ("ProCare", "Medivia", "Unity Health", "BKR", "Northstar")
_ITEMS = ("nasal spray", "eye drops", "cough syrup", "heartburn tablets", "pain gel", "antifungal cream", "wart paint")
MAY_ASK = ("legal_guardian", "power_of_attorney", "care_home_nurse", "prescriber_office")
_MAY_NOT = ("relative", "neighbour", "employer", "friend", "other_pharmacy")


def _draw(known: Facts, random: Random) -> dict[str, Any]:
    kind, rare = known["kind"], known["rare"]
    quantity = random.choice((3, 4, 6, 10) if rare["storage"] else (28, 30, 56, 60, 84, 90, 100, 120))
    barred = random.choice(("late", "prescribed", "late and prescribed")) if rare["returns"] else ""
    return {
        "site": noise.city(random), "city": noise.city(random), "doctor": noise.person(random).split()[1],
        "patient": noise.person(random) if kind == "caller" else known["name"], "item": random.choice(_ITEMS),
        "drug": random.choice(_COOLED if rare["storage"] else _MAILED), "added": random.sample(_ADDED, 4),
        "quantity": quantity,
        "available": quantity + (-random.randrange(1, quantity) if rare["stock"] else random.randrange(90)),
        "prescribed": kind != "returns" or "prescribed" in barred,
        "delivered": random.randint(RETURN_DAYS + 1, 54) if "late" in barred else random.randint(1, RETURN_DAYS),
        "early": random.randrange(1, 40) if rare["early"] else -random.randrange(30),
        "rx": noise.number(random, "RX"), "order": noise.number(random, "MO"), "customer": noise.number(random, "C"),
        "tracking": noise.number(random, "GLP"), "sku": noise.number(random, "LP"),
    }  # fmt: skip


def _customer(facts: Facts, random: Random) -> dict[str, Any]:
    plan = {"payer": random.choice(_PAYERS), "group": random.randrange(1000, 9999), "since": 2019}
    return {
        "customer": {"no": facts["customer"], "name": facts["patient"], "born": random.randrange(1936, 2005)},
        "last_contact": ago(facts["today"], random, 2, 90),
        "contact": reach(facts["patient"], random),
        "plan": plan | {"auto_refill": facts["kind"] == "stop"},
        "nearest_branch": {"id": f"B{random.randrange(10, 99)}", "city": facts["city"], "opens": "08:30"},
    }


def _prescription(facts: Facts, random: Random) -> dict[str, Any]:
    today, cool, new = facts["today"], facts["rare"]["storage"], facts["kind"] == "new"
    days, refill = random.choice((28, 30, 60, 90)), today + timedelta(facts["early"])
    fills = {"last_fill": f"{refill - timedelta(days - 7)}", "refill_from": f"{refill}", "used": random.randrange(1, 4)}
    storage = {"min_c": 2 if cool else random.choice((5, 15)), "max_c": random.choice((5, COOL) if cool else (25, 30))}
    product = {"name": facts["drug"], "strength_mg": random.choice((2.5, 5, 10, 20)), "ingredients": facts["added"]}
    return {
        "prescription": {"no": facts["rx"], "status": "active", "sig": random.choice(("1-0-0", "1-0-1", "0-0-1"))},
        "issued": ago(today, random, 1, 3) if new else ago(today, random, 130, 300),
        "prescriber": {"name": f"Dr. {facts['doctor']}", "licence": noise.number(random, "PR"), "fax": None},
        "product": product | {"storage": storage | {"protect_from_light": random.random() < 0.4}},
        "supply": {"quantity": facts["quantity"], "days": days, "refills": random.randrange(4, 12)},
        "fills": {"last_fill": None, "refill_from": None, "used": 0} if new else fills,
    }


def _profile(facts: Facts, random: Random) -> dict[str, Any]:
    harmless = [other for other in (*_ADDED, *_ALLERGENS) if other not in facts["added"]]
    agents = random.sample(harmless, random.randrange(4))
    if facts["rare"]["allergy"]:
        agents.insert(random.randrange(len(agents) + 1), random.choice(facts["added"]))
    allergies = [{"agent": agent, "reaction": random.choice(("hives", "swelling", "rash"))} for agent in agents]
    others = random.sample([drug for drug in _MAILED if drug != facts["drug"]], random.randrange(1, 4))
    current = [{"name": drug, "since": ago(facts["today"], random, 30, 2000), "active": True} for drug in others]
    profile = {"customer": facts["customer"], "kg": random.randrange(48, 112), "egfr": random.randrange(45, 110)}
    return {"profile": profile, "allergies": allergies, "current": current}


def _order(facts: Facts, random: Random) -> dict[str, Any]:
    kind, days = facts["kind"], facts["delivered"]
    status = {"parcel": "shipped", "ready": "packed", "caller": "packed", "waiting": "open"}.get(kind, "delivered")
    bought = (facts["item"], 1) if kind == "returns" else (facts["drug"], facts["quantity"])
    line = {"sku": facts["sku"], "name": bought[0], "quantity": bought[1], "prescription_only": facts["prescribed"]}
    lines = [line | {"price": noise.amount(random, 4, 60)}]
    if random.random() < 0.4:
        other = random.choice(("hand cream", "vitamin D", "plasters"))
        lines.append(line | {"sku": "LP-10400", "name": other, "quantity": 1, "prescription_only": False, "price": 4.9})
    random.shuffle(lines)
    reached = f"{facts['today'] - timedelta(days)}" if status == "delivered" else None
    return {
        "order": {"no": facts["order"], "status": status, "placed": moment(facts["today"], random, days + 4)},
        "customer": {"no": facts["customer"], "name": facts["patient"], "nearest_branch": facts["city"]},
        "lines": lines,
        "delivery": {"carrier": "GLP", "tracking": facts["tracking"], "delivered_on": reached, "signature": False},
    }


def _stock(facts: Facts, random: Random) -> dict[str, Any]:
    reserved, available = random.randrange(200), facts["available"]
    units = {"on_hand": available + reserved, "reserved": reserved, "available": available, "reorder_point": 80}
    return {
        "item": {"sku": facts["sku"], "name": facts["drug"], "site": facts["site"], "zone": random.choice("ABCD")},
        "units": units | {"counted": moment(facts["today"], random, 3)},
        "incoming": [{"po": noise.number(random, "PO"), "quantity": random.choice((100, 240, 500)), "in_days": 9}],
        "branches": [{"city": city, "available": random.randrange(120, 900)} for city in ("Lyon", facts["city"])],
    }


def _tracking(facts: Facts, random: Random) -> dict[str, Any]:
    codes = ["ANNOUNCED", "PICKED_UP", *random.sample(("SORTED", "HUB_IN", "HUB_OUT", "DEPOT"), random.randrange(1, 4))]
    events = [{"at": moment(facts["today"], random, 8 - n), "code": code} for n, code in enumerate(codes)]
    return {"tracking": facts["tracking"], "state": "IN_NETWORK", "kg": 0.4, "events": events, "next": None}


def _caller(facts: Facts, random: Random) -> dict[str, Any]:
    others = _MAY_NOT if facts["rare"]["caller"] else MAY_ASK
    role = random.choice(others) if facts["kind"] == "caller" else "account_holder"
    register = {"role": role, "patient": facts["customer"], "entered": ago(facts["today"], random, 20, 900)}
    match = {"score": round(random.uniform(0.9, 1), 3), "by": random.choice(("mail", "phone", "pin"))}
    return {"ticket": facts["ticket"], "caller": {"name": facts["name"], "match": match, "register": register}}


def _notes(facts: Facts, random: Random) -> str:
    if facts["kind"] != "parcel":
        return f"No mails and notes on {facts['ticket']}."
    said = random.choice(GONE if facts["rare"]["carrier"] else _COMES)
    return letter(said, facts, random, sender="service@glp.example")


def _claim(facts: Facts, random: Random) -> dict[str, Any] | str:
    if facts["rare"]["claim"]:
        said = random.choice(_REJECTIONS).format(n=random.choice((30, 60, 100)), payer=random.choice(_PAYERS))
        return random.choice((f"Error: {said}", said, json.dumps({"error": {"type": "adjudication", "detail": said}})))
    price = noise.amount(random, 20, 900)
    paid = {"price": price, "plan_pays": round(price * 0.9, 2), "patient_pays": round(price * 0.1, 2)}
    answer = {"code": "P", "remarks": random.sample(_REMARKS, random.randrange(3)), "took_ms": 412}
    return {"claim": {"id": noise.number(random, "CLM"), "rx": facts["rx"]}, "answer": answer, "amounts": paid}


def _filled(facts: Facts, random: Random) -> dict[str, Any]:
    packed = {"lot": noise.number(random, "L"), "at": now(facts, random), "by": noise.person(random)}
    return {"order": {"no": facts["order"], "status": "packed", "packed": packed}, "warnings": []}


_SHOWN = {
    "get_customer": _customer, "get_prescription": _prescription, "get_profile": _profile, "get_order": _order,
    "check_stock": _stock, "track_parcel": _tracking, "verify_caller": _caller, "read_notes": _notes,
    "submit_claim": _claim, "fill_order": _filled,
}  # fmt: skip
_ABOUT = {
    "get_customer": ("customer",), "get_prescription": ("rx",), "get_profile": ("customer",), "get_order": ("order",),
    "check_stock": ("sku", "site"), "track_parcel": ("order",), "verify_caller": ("ticket", "name"),
    "submit_claim": ("rx",), "fill_order": ("ticket", "drug", "quantity"), "hold_order": ("customer", "ticket"),
    "ship_parcel": ("order",), "transfer_to_branch": ("order", "city"), "message_customer": ("customer", "ticket"),
    "refund_order": ("order",), "ask_pharmacist": ("customer", "drug", "ticket"),
}  # fmt: skip
PHARMACY = desk(
    "pharmacy", _WAYS, lookups=LOOKUPS, acts=ACTS, branches=BRANCHES, system=_SYSTEM, requests=_REQUESTS,
    asks_otherwise={"reason": HARMED}, said={"pickup": (_MAIL_IT, FETCHED)}, draw=_draw, shown=_SHOWN, about=_ABOUT,
)  # fmt: skip
