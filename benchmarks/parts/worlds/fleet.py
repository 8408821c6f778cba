"""A back office of a car-rental company: nested JSON, a garage's mails, and the date of the day in the system prompt.

| branch | decided by |
|---|---|
| prior | a join: whether the reported damage is among the marks that were noted at pickup, by panel and by kind |
| excess | the estimate of the last result above the excess of the cover, of a result two or three calls back |
| declined | whether the last call ended in an error, which has many wordings, or in a payment |
| deadline | whether the day in the system prompt is later than the last day to name the driver |
| window | whether the time of an offence lies between the real times of pickup and return, of another result |
| midway | what the user writes in the middle of the run: the customer wants no other car, but the money |
| mail | the last mail of the garage, in free words: the car is ready, or it takes longer |
| wish | what the user wrote in their own words: the customer asks what a fee is for, or wants the money back |
| role | two facts of two results: whether the user is an agent, and a fee above a limit |
| manual | a word in a list of card transactions: one of them was keyed in by hand |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Any

from . import noise
from .cases import decide, rare_kinds
from .world import Step, Task, World

AGENTS_WAIVE = 100
LOOKUPS = (
    "get_booking", "get_vehicle", "get_customer", "get_fine", "get_damage_report", "read_thread", "get_staff",
    "list_card_transactions",
)  # fmt: skip
ACTS = (
    "book_workshop", "waive_charge", "charge_customer", "refund_customer", "nominate_driver", "swap_vehicle",
    "write_to_customer", "escalate", "close_case",
)  # fmt: skip
BRANCHES = ("prior", "excess", "declined", "deadline", "window", "midway", "mail", "wish", "role", "manual")
_REQUESTS = {
    "damage": ("{booking}: the return inspection found something on the {model}.", "handle the damage of {booking}",
        "The yard noted a {kind} on {plate} after {booking}.", "{plate} came back damaged, {booking}. Who pays?"),
    "speeding": ("Post from the police about {plate} ({fine}), please deal with it.", "Radar photo of {plate}, {fine}.",
        "We got {fine}, somebody drove too fast with {plate}.", "A speeding ticket came in, {fine}, for {plate}."),
    "parking": ("Parking fine {fine} for {plate}, booking {booking}.", "{fine} is a parking ticket ({booking}).",
        "The city of {city} wants money: {fine}, {booking}.", "Another one from the wardens, {fine}, {booking}."),
    "breakdown": ("{booking}: the {model} ({plate}) will not start.", "{name} stands near {city}, {plate}, {booking}",
        "Breakdown! {plate}, {name}, {booking}. Another car please.", "{plate} is dead, {booking}, substitute?"),
    "garage": ("{name} asks about the {model} in repair, {plate}. Please check.", "what about {plate} in the garage?",
        "Any news from the workshop on {plate}? {booking} waits for it.", "The garage wrote about {plate}."),
    "goodwill": ("Can we take the contested fee off {booking}? {name} is a nice one.", "goodwill, {booking}, please",
        "{name} asks us to drop the disputed fee on {booking}.", "{booking}: please let the disputed fee go."),
    "fuel": ("Please check the fuel card of {plate} for {month} and bill it.", "Fuel card {month}: {plate}, {name}.",
        "Pass the card purchases of {plate} on to {name}.", "card statement {plate} {month} pls"),
    "complaint": ("{booking}: an accountant asks what the {fee} is for.", "{name} is puzzled by a {fee}, {booking}",
        "{name} would like to see how the {fee} on {booking} was worked out.", "what does the {fee} cover? {booking}",
        "{name} is curious about the {fee}, not angry at all. {booking}.", "{booking}: what did we bill a {fee} for?",
        "Could you tell {name} what is behind the {fee}? {booking}.", "{name} needs details of the {fee}, {booking}",
        "{booking}: {name} is fine with the {fee} once explained.", "{booking}: a breakdown of the {fee} please",
        "{name} wonders where the {fee} of {booking} comes from.", "why a {fee}? asks {name}, {booking}"),
}  # fmt: skip
_HOW_MANY = (24, 12, 14, 14, 12, 12, 16, 12)
MONEY_BACK = (
    "{fee} of {booking}: taken without ground, {name} says, and must go back to the card.",
    "{name} will go to the bank unless we return the {fee}, {booking}.", "'You owe me the {fee}.' {name}, {booking}",
    "{name} got the explanation and still says pay the {fee} back, {booking}.", "please reverse the {fee}, {booking}",
    "{name} wants a credit of the {fee}, {booking}, the car was spotless", "{booking}, {name}: reimburse the {fee} pls",
    "{name} is furious and expects the {fee} on the account, {booking}.", "{booking}: {name} demands the {fee} back.",
    "{name} does not accept the {fee} on {booking}, wants it returned.",
    "Could you give {name} the {fee} back? {booking}.", "{name} asks for their money, {fee}, {booking}",
)  # fmt: skip
NO_CAR = (
    "Scrap that, {name} stays with relatives and walks. Return the rest of the price.",
    "A friend drives them home, no other car needed, they want the unused days back.",
    "Hold on, they don't want to continue. Give them what they have not used.", "Train it is. They want a refund.",
    "Customer goes home by taxi and would like the open days paid out.", "Trip cancelled, they ask for the balance.",
    "Holiday is over for {name}. Please settle the days they cannot drive.", "Forget the substitute, what do they get?",
    "{name} flies back tonight, only wants their money", "Too late, the wedding is over. We pay them back.",
    "They rented elsewhere and want cash from us.", "End it here, the rest credited to the card.",
)  # fmt: skip
STILL_CAR = (
    "Customer called again, still standing there. An estate would be fine as well.", "Any progress? They get nervous.",
    "The towing truck has picked up the old one, so only {name} is left there.", "I told them that we will be quick.",
    "{name} is waiting at a petrol station by the way, with two children.", "please hurry, they have called twice now",
    "The roadside service confirmed it cannot be fixed on the spot.", "They have three suitcases, if that matters.",
    "{name} has to be at the airport tomorrow, so they count on us.", "They can be at our desk in {city} by five.",
    "{name} says an automatic is needed, otherwise anything goes.", "It starts to rain there, just so you know.",
)  # fmt: skip
READY = (
    "We could finish the {part} earlier than thought, pick-up is possible from today.", "It's fixed. Only the {part}.",
    "Work order closed, nothing left to do. Opening hours are till six.", "Your vehicle is available for collection.",
    "we put in the new {part}, she runs like a clock. come any time", "The {model} is done, you can fetch it any time.",
    "No more faults after the {part} was changed, we release it.", "{plate} stands washed in our yard, ready to go.",
    "Good news, {part} is replaced and the test drive was fine.", "Repair completed at {hour}:20. Invoice follows.",
    "Passed inspection with the new {part}, send a driver.", "All finished on our side, keys are at the reception.",
)  # fmt: skip
DELAYED = (
    "Bad news: when we opened it the {part} was gone, too. Not before the {day}th.", "Repair takes {days} more days.",
    "The fault is still there on the test drive. We keep on searching.", "Sorry, we need the {model} until next week.",
    "The {part} is on back order, {days} days at least.", "Our mechanic is ill, so {plate} has not been started.",
    "The paint shop is full, we will come back to you with a date.", "Customs holds the {part}, no idea when it comes.",
    "Waiting for approval for the {part}, can take {days} days.", "The {part} is in, but now the gearbox makes noises.",
    "We cannot hand it over: the {part} failed the inspection.", "wrong {part} delivered, reordered. not this week",
)  # fmt: skip
_MAIL_NOISE = (
    "Our summer tyres are on offer this month.", "The invoice will go to your head office.", "Regards, {mechanic}.",
    "A parking ticket was in the glove box.", "We also topped up the washer fluid.", "You reach us at extension {day}.",
    "Please note our new bank details.", "Mileage on arrival {km} km.", "Reference {ref}.",
)  # fmt: skip
_ARRIVED = ("We have received {plate}, it is booked in.", "Hello, car arrived at {hour}:05.", "Thanks for the order.")
DECLINED = (
    "no payment method on file", "payment refused: code 51", "3-D Secure check failed", "card expired, ref {ref}",
    "declined by issuer (05)", "bank rejected the debit", "acquirer: pick up card", "stolen card flag set",
    "payer account closed", "insufficient funds", "limit exceeded", "not authorised",
)  # fmt: skip
_PANELS = ("door FL", "door FR", "door RL", "bumper front", "bumper rear", "bonnet", "wing RR", "sill left", "mirror R")
_DAMAGES = ("scratch", "dent", "crack", "chip", "scuff")
_MODELS = ("Golf", "Corsa", "Clio", "Octavia", "Focus", "i30", "Transit", "Yaris", "208")
_PARTS = ("alternator", "clutch", "water pump", "brake caliper", "turbo hose", "starter", "fuel pump", "wheel bearing")
_FEES = ("cleaning fee", "young driver fee", "late return fee", "refuelling fee", "cross-border fee", "smoking fee")
_WAYS: Mapping[str, tuple[str, tuple[tuple[str, ...], ...], str, str]] = {
    "damage": ("prior", (("get_booking", "get_damage_report"),), "book_workshop", "waive_charge"),
    "speeding": ("deadline", (("get_fine",), ("get_booking",)), "nominate_driver", "charge_customer"),
    "parking": ("window", (("get_fine", "get_booking"),), "charge_customer", "escalate"),
    "breakdown": ("midway", (("get_booking", "get_vehicle"),), "swap_vehicle", "refund_customer"),
    "garage": ("mail", (("get_vehicle",), ("read_thread",)), "write_to_customer", "swap_vehicle"),
    "goodwill": ("role", (("get_booking", "get_staff"),), "waive_charge", "escalate"),
    "fuel": ("manual", (("get_vehicle", "list_card_transactions"), ("get_customer",)), "charge_customer", "escalate"),
    "complaint": ("wish", (("get_booking", "get_customer"),), "write_to_customer", "refund_customer"),
}
"""The first branch of a kind, what is looked up before it in any order, and its usual and its unusual call."""


def make(id: str, random: Random) -> Task:
    kind = random.choices(tuple(_REQUESTS), _HOW_MANY)[0]
    rare = rare_kinds(BRANCHES, random)
    today = date(2026, 1, 12) + timedelta(days=random.randrange(340))
    running = kind in ("breakdown", "garage", "fuel")
    ended = today + timedelta(days=random.randrange(2, 9) if running else -random.randrange(16, 50))
    begun = min(ended, today) - timedelta(days=random.randrange(60, 300) if kind == "fuel" else random.randrange(2, 7))
    share = random.uniform(1.04, 2.4) if rare["excess"] else random.uniform(0.2, 0.97)
    facts: dict[str, Any] = {
        "rare": rare, "today": today, "running": running, "name": noise.person(random), "city": noise.city(random),
        "out": datetime.combine(begun, time(random.randrange(7, 12), random.randrange(60))), "login": "me",
        "back": datetime.combine(ended, time(random.randrange(13, 19), random.randrange(60))),
        "booking": noise.number(random, "B"), "fine": noise.number(random, "F"), "customer": noise.number(random, "C"),
        "plate": f"{random.choice('NKBWT')}{random.choice('AEUX')}-{random.randrange(1000, 9999)}",
        "model": random.choice(_MODELS), "panel": random.choice(_PANELS), "kind": random.choice(_DAMAGES),
        "fee": random.choice(_FEES), "month": f"{today.replace(day=1) - timedelta(days=1):%Y-%m}",
        "cover": (cover := random.choice((400, 800, 1000, 1500))), "estimate": round(cover * share, 2),
    }  # fmt: skip
    late = kind == "speeding" and rare["deadline"]
    facts["name_by"] = today + timedelta(days=-random.randrange(1, 13) if late else random.randrange(20))
    facts["role"], facts["disputed"] = _role(rare["role"], random)
    facts["offence"] = _offence(facts, random, outside=kind == "parking" and rare["window"])
    wordings = MONEY_BACK if kind == "complaint" and rare["wish"] else _REQUESTS[kind]
    request = random.choice(("", "", "", "Hi, ", "Morning! ", "Next one: ")) + random.choice(wordings)
    system = f"You work in the back office of Northgate Car Rental. Current date: {today} ({today:%a})."
    steps = _steps(kind, facts, random)
    return Task(id, kind, request.format(**facts), steps, facts, aftermath=("close_case",), system=system)


def _role(rare: bool, random: Random) -> tuple[str, float]:
    """The role of the user, and the disputed fee: agents do not waive the larger ones."""
    small, large = noise.amount(random, 12, AGENTS_WAIVE - 1), noise.amount(random, AGENTS_WAIVE + 1, 390)
    if rare:
        return "agent", large
    return random.choice((("agent", small), ("agent", small), ("supervisor", small), ("supervisor", large)))


def _offence(facts: Mapping[str, Any], random: Random, *, outside: bool) -> datetime:
    out, back, minutes = facts["out"], facts["back"], timedelta(minutes=random.randrange(25, 2400))
    if outside:
        return out - minutes if random.random() < 0.4 else back + minutes
    return out + (back - out) * random.uniform(0.04, 0.97)


def _steps(kind: str, facts: Mapping[str, Any], random: Random) -> tuple[Step, ...]:
    rare = facts["rare"]
    branch, lookups, usual, unusual = _WAYS[kind]
    steps = [Step(tuple(random.sample(calls, len(calls)))) for calls in lookups]
    steps.append(decide(branch, usual, unusual, rare=rare[branch]))
    if kind == "breakdown":
        wordings = NO_CAR if rare["midway"] else STILL_CAR if random.random() < 0.7 else ("",)
        steps[-1] = replace(steps[-1], said=random.choice(wordings).format(**facts))
    if steps[-1].calls == ("book_workshop",):
        steps.append(decide("excess", "charge_customer", "escalate", rare=rare["excess"]))
    (right,) = steps[-1].calls
    if right == "charge_customer":
        steps.append(decide("declined", "write_to_customer", "escalate", rare=rare["declined"]))
    elif right in ("nominate_driver", "waive_charge") or (right == "swap_vehicle" and kind == "garage"):
        steps.append(Step(("write_to_customer",)))
    return (*steps, Step(("close_case",)))


def show(task: Task, called: Sequence[str], random: Random) -> str:
    tool = called[-1]
    if tool in LOOKUPS:
        return json.dumps(_found(tool, task.facts, Random(f"{task.id} {tool}")))  # the same each time
    at = f"{task.facts['today']}T{9 + len(called):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    done: dict[str, Any] = {"ok": True, "id": _hex(random), "at": at, "by": "backoffice-bot", "queue": "day"}
    match tool:
        case "charge_customer" if task.facts["rare"]["declined"]:
            error = random.choice(DECLINED).format(ref=_hex(random))
            if random.random() < 0.5:
                return f"Error: {error}"
            done |= {"ok": False, "error": {"text": error, "retry": random.random() < 0.5}}
        case "charge_customer":
            scheme = random.choice(("visa", "mc", "sepa"))
            done |= {"payment": {"state": "captured", "auth": _hex(random)[:6], "scheme": scheme}}
        case "book_workshop":
            gross = task.facts["estimate"]
            total = {"net": (net := round(gross / 1.23, 2)), "vat": round(gross - net, 2), "gross": gross}
            lines = [{"work": f"{task.facts['panel']} repair", "hours": random.randrange(1, 9)}]
            done |= {"workshop": {"name": noise.company(random)}, "estimate": {"lines": lines, "total": total}}
    return json.dumps(done)


def _hex(random: Random) -> str:
    return f"{random.getrandbits(40):010x}"


def _found(tool: str, facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    match tool:
        case "get_booking":
            found = _booking(facts, random)
        case "read_thread":
            found = _thread(facts, random)
        case "get_vehicle":
            found = {
                "plate": facts["plate"], "vin": f"WVW{_hex(random).upper()}", "model": facts["model"], "group": "C",
                "tyres": [{"pos": pos, "tread_mm": random.randrange(25, 80) / 10} for pos in ("FL", "FR", "RL", "RR")],
                "telematics": {"battery_v": random.randrange(112, 146) / 10, "place": facts["city"], "gps": "on"},
                "odometer_km": random.randrange(120_000), "status": "rented" if facts["running"] else "available",
                "service": {"next_km": random.randrange(15, 140) * 1000, "inspection_until": noise.date(random)},
            }  # fmt: skip
        case "get_customer":
            found = {
                "id": facts["customer"], "name": facts["name"], "licence": "B", "blocked": False,
                "mail": f"{facts['name'].split()[0].lower()}{random.randrange(99)}@mail.example",
                "address": {"city": noise.city(random), "street_no": random.randrange(1, 190)}, "newsletter": True,
                "loyalty": {"level": random.choice(("blue", "silver")), "points": random.randrange(9000)},
            }  # fmt: skip
        case "get_fine":
            issued = facts["offence"].date() + timedelta(days=random.randrange(1, 4))
            found = {
                "id": facts["fine"], "booking": facts["booking"], "plate": facts["plate"],
                "authority": {"name": f"City of {facts['city']}", "ref": noise.number(random, "Z"), "portal": True},
                "offence": {"at": f"{facts['offence']:%Y-%m-%dT%H:%M}", "place": f"Quay Rd {random.randrange(1, 90)}"},
                "amount": {"value": noise.amount(random, 15, 180), "currency": "EUR"}, "scan": f"{_hex(random)}.pdf",
                "dates": {"issued": f"{issued}", "seen": f"{facts['today']}", "name_driver_by": f"{facts['name_by']}"},
            }  # fmt: skip
        case "get_damage_report":
            at = facts["back"] + timedelta(minutes=random.randrange(5, 90))
            found = {
                "report": noise.number(random, "D"), "booking": facts["booking"], "washed": random.random() < 0.6,
                "inspected": {"at": f"{at:%Y-%m-%dT%H:%M}", "by": noise.person(random), "light": "hall"},
                "found": {"panel": facts["panel"], "kind": facts["kind"], "mm": random.randrange(8, 180)},
                "photos": [f"img/{_hex(random)}.jpg" for _ in range(random.randrange(1, 4))],
                "plate": facts["plate"], "signed_by_customer": random.random() < 0.5,
            }  # fmt: skip
        case "get_staff":
            branch = {"city": noise.city(random), "desk": random.randrange(1, 30), "phone": random.randrange(100, 999)}
            found = {"login": f"u{random.randrange(1000, 9999)}", "name": noise.person(random), "role": facts["role"]}
            found |= {"branch": branch, "since": random.randrange(2012, 2026), "locale": "en", "teams": ["ops"]}
        case _:
            days = sorted(random.sample(range(1, 28), random.randrange(4, 9)))
            keyed = random.choice(days) if facts["rare"]["manual"] else 0
            rows = [
                {
                    "at": f"{facts['month']}-{day:02}T{random.randrange(6, 22):02}:{random.randrange(60):02}",
                    "station": noise.city(random), "product": random.choice(("diesel", "diesel", "wash")),
                    "entry": "keyed" if day == keyed else random.choice(("chip", "chip", "contactless")),
                    "amount": noise.amount(random, 18, 95), "auth": _hex(random)[:6],
                }
                for day in days
            ]  # fmt: skip
            found = {"plate": facts["plate"], "month": facts["month"], "transactions": rows, "next_page": None}
    return found


def _booking(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    out, back, running = facts["out"], facts["back"], facts["running"]
    panels = random.sample(_PANELS, random.randrange(1, 5))
    marks = [mark for panel in panels if (mark := (panel, random.choice(_DAMAGES))) != (facts["panel"], facts["kind"])]
    if facts["rare"]["prior"]:
        marks.insert(random.randrange(len(marks) + 1), (facts["panel"], facts["kind"]))
    fees = [{"code": "airport fee", "amount": noise.amount(random, 15, 190), "disputed": False}]
    fees.insert(random.randrange(2), {"code": facts["fee"], "amount": facts["disputed"], "disputed": True})
    return {
        "id": facts["booking"], "status": "open" if running else "returned", "channel": random.choice(("web", "desk")),
        "customer": {"id": facts["customer"], "name": facts["name"]},
        "vehicle": {"plate": facts["plate"], "model": facts["model"], "group": random.choice("ABCDE")},
        "pickup": {
            "planned": f"{out - timedelta(minutes=random.randrange(-40, 40)):%Y-%m-%dT%H:%M}",
            "actual": f"{out:%Y-%m-%dT%H:%M}", "station": facts["city"], "odometer_km": random.randrange(4000, 90_000),
            "marks": [{"panel": panel, "kind": kind, "mm": random.randrange(8, 180)} for panel, kind in marks],
        },
        "return": {
            "planned": f"{back - timedelta(minutes=random.randrange(-150, 90)):%Y-%m-%dT%H:%M}",
            "actual": None if running else f"{back:%Y-%m-%dT%H:%M}", "station": noise.city(random),
        },
        "cover": {"product": random.choice(("Basic", "Smart", "Relax")), "excess": facts["cover"], "currency": "EUR"},
        "fees": fees, "price": {"total": noise.amount(random, 90, 900), "deposit": random.choice((200, 300, 500))},
    }  # fmt: skip


def _thread(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    told = {"part": random.choice(_PARTS), "days": random.randrange(3, 15), "day": random.randrange(10, 29)}
    told |= {"hour": random.randrange(8, 18), "km": random.randrange(9000, 99_000), "mechanic": noise.person(random)}
    said = [random.choice(DELAYED if facts["rare"]["mail"] else READY), *random.sample(_MAIL_NOISE, 2)]
    bodies = [random.choice(_ARRIVED)] * random.randrange(2) + [" ".join(random.sample(said, 3))]
    said = [body.format(**facts, **told, ref=_hex(random)) for body in bodies]
    mails = [{"from": "service@motorhaus.example", "unread": True, "body": body} for body in said]
    return {"thread": _hex(random), "subject": f"{facts['plate']} repair", "at": f"{facts['today']}", "messages": mails}


_ABOUT = {
    "get_vehicle": "plate", "list_card_transactions": "plate", "read_thread": "plate", "book_workshop": "plate",
    "get_fine": "fine", "nominate_driver": "fine", "get_customer": "name", "get_staff": "login",
}  # fmt: skip


def about(task: Task, tool: str) -> dict[str, Any]:
    key = _ABOUT.get(tool, "booking")
    return {key: task.facts[key]} if tool in LOOKUPS else {key: task.facts[key], "reason": task.kind}


FLEET = World("fleet", (*LOOKUPS, *ACTS), frozenset(LOOKUPS), BRANCHES, make, show, about)
