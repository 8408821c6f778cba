"""A web shop's back office: JSON replies, and branches that one fact decides.

| branch | decided by |
|---|---|
| status | a word of the last result: a pending order is cancelled, a shipped one needs its shipment and an escalation |
| amount | a number of the last result above a limit: the refund needs an approval first |
| warehouse | a word of a result two calls before the last one |
| words | what the user wrote: money back, or the item again |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from . import noise
from .world import Step, Task, World

LIMIT = 200.0
TOOLS = (
    "find_customer", "get_order", "get_return", "get_stock", "quote_shipping", "get_shipment", "list_notes",
    "cancel_order", "refund", "ask_approval", "reserve_item", "create_transfer", "issue_voucher", "resend_item",
    "escalate", "send_message",
)  # fmt: skip
LOOKUPS = frozenset(TOOLS[:7])
_ITEMS = ("kettle", "tent", "desk lamp", "rucksack", "toaster", "scarf", "headphones", "drill", "clock", "jacket")
_REQUESTS = {
    "status": (
        "please cancel order {order}", "I do not want order {order} any more", "stop order {order}, I changed my mind",
        "could you call off my order {order}?", "{name} here: the {item} from {order} is not needed, cancel it",
        "I ordered the {item} twice, cancel {order}",
    ),
    "amount": (
        "I sent the {item} back, where is my refund for {order}?", "return of {order} arrived, please pay it back",
        "the {item} went back last week, refund please ({order})", "refund for my returned {item}, order {order}",
        "you have my return {order} since Monday and I still wait for the refund",
    ),
    "warehouse": (
        "the {item} in {order} is the wrong size, exchange it", "can I swap the {item} of {order} for a blue one?",
        "please exchange my {item}, {order}", "{order}: wrong colour, I would like to exchange the {item}",
        "I need another size of the {item} ({order}), an exchange please",
    ),
}  # fmt: skip
_BROKEN = (
    "the {item} in {order} arrived broken", "my {item} from {order} is damaged", "{order}: the {item} has a crack",
    "{order} came with a defective {item}", "the {item} does not work, it is broken ({order})",
)  # fmt: skip
_MONEY = ("I want my money back", "give me the money", "please return the money", "a voucher would do, or money")
_AGAIN = ("send me another one", "please send it again", "I still want it, send a new one", "just send another")
_OPENERS = ("Hello, ", "Hi there, ", "", "Good morning. ", "Dear team, ")
_ENDINGS = (".", ". Thanks!", ". Regards, {name}", "")


def make(id: str, random: Random) -> Task:
    kind = random.choice(SHOP.branches)
    facts: dict[str, Any] = {
        "status": random.choice(("pending", "shipped")),
        "amount": noise.amount(random, 20, LIMIT) if random.random() < 0.5 else noise.amount(random, LIMIT + 1, 460),
        "warehouse": random.choice(("north", "south")),
        "again": random.random() < 0.5,
    }
    about = {"order": noise.number(random, "O"), "item": random.choice(_ITEMS), "name": noise.person(random)}
    said = random.choice(_REQUESTS.get(kind, _BROKEN))
    if kind == "words":
        said += ", " + random.choice(_AGAIN if facts["again"] else _MONEY)
    request = (random.choice(_OPENERS) + said + random.choice(_ENDINGS)).format(**about)
    opening = (Step(("find_customer",)), Step(("get_order",)))
    steps = (*opening, *_steps(kind, facts), Step(("send_message",)))
    return Task(id, kind, request, steps, facts | about, aftermath=("send_message",))


def _steps(kind: str, facts: Mapping[str, Any]) -> tuple[Step, ...]:
    """What a request takes after the customer and the order are known."""
    match kind:
        case "status" if facts["status"] == "pending":
            return (Step(("cancel_order",), "status", habit="cancel_order"),)
        case "status":
            # The habit strikes at the branch or a step later, in half of the runs altogether.
            return (
                Step(("get_shipment",), "status", habit="cancel_order", share=0.25),
                Step(("escalate",), habit="cancel_order", share=0.33),
            )
        case "amount" if facts["amount"] > LIMIT:
            asked = Step(("ask_approval",), "amount", habit="refund")
            return (Step(("get_return",)), asked, Step(("refund",)))
        case "amount":
            return (Step(("get_return",)), Step(("refund",), "amount", habit="refund"))
        case "warehouse":
            right = "create_transfer" if facts["warehouse"] == "south" else "reserve_item"
            decided = Step((right,), "warehouse", habit="reserve_item")
            return (Step(("get_stock",)), Step(("quote_shipping",)), decided)
        case _:
            right = "resend_item" if facts["again"] else "issue_voucher"
            return (Step((right,), "words", habit="issue_voucher"),)


def show(task: Task, called: Sequence[str], random: Random) -> str:
    """A JSON object. Facts that decide stand among details that do not."""
    facts = task.facts
    common: dict[str, Any] = {
        "request_id": noise.number(random, "R"),
        "fetched_at": noise.moment(random),
        "node": f"eu-{random.randrange(1, 4)}",
        "order_id": facts["order"],
    }
    return json.dumps(common | _details(facts, called[-1], random))


def _details(facts: Mapping[str, Any], tool: str, random: Random) -> dict[str, Any]:
    if tool in _SHOWN:
        return _SHOWN[tool](facts, random)
    return {"done": True, "by": noise.person(random), "reference": noise.number(random, "X")}


def _customer(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    return {
        "customer_id": noise.number(random, "C"),
        "name": facts["name"],
        "city": noise.city(random),
        "since": noise.date(random),
        "loyalty": random.choice(("none", "silver", "gold")),
        "points": random.randrange(3000),
        "newsletter": random.random() < 0.5,
        "language": random.choice(("en", "de", "fr", "pt")),
        "open_tickets": random.randrange(4),
        "orders": [noise.number(random, "O") for _ in range(random.randrange(1, 5))],
    }


def _order(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    return {
        "status": facts["status"],
        "placed_at": noise.moment(random),
        "updated_at": noise.moment(random),
        "channel": random.choice(("web", "app", "phone")),
        "payment": {"method": random.choice(("card", "paypal", "invoice")), "state": "captured"},
        "total": noise.amount(random),
        "currency": random.choice(("EUR", "GBP", "CHF")),
        "warehouse": facts["warehouse"],
        "items": _items(facts, random),
        "gift": random.random() < 0.3,
        "carrier": random.choice(("post", "parcelo", "swift")),
        "tags": random.sample(("priority", "fragile", "campaign", "b2b", "preorder"), random.randrange(3)),
        "note": random.choice(("", "leave at the door", "ring twice", "neighbour takes it")),
    }


def _return(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    return {
        "return_id": noise.number(random, "T"),
        "received_at": noise.moment(random),
        "condition": random.choice(("new", "opened", "worn")),
        "refund_amount": facts["amount"],
        "shipping_paid": noise.amount(random, 3, 15),
        "order_total": round(facts["amount"] + noise.amount(random, 0, 300), 2),
        "inspector": noise.person(random),
        "boxes": random.randrange(1, 4),
        "shelf": random.randrange(1, 900),
        "photos": [f"p{random.randrange(1000)}.jpg" for _ in range(random.randrange(4))],
    }


def _stock(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    return {
        "sku": noise.number(random, "S"),
        "available": random.randrange(1, 60),
        "incoming": random.randrange(0, 200),
        "sizes": random.sample(("S", "M", "L", "XL"), random.randrange(1, 5)),
        "price": noise.amount(random),
        "supplier": noise.company(random),
        "last_count": noise.date(random),
    }


def _quote(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    return {
        "price": noise.amount(random, 3, 20),
        "days": random.randrange(1, 8),
        "carrier": random.choice(("post", "parcelo", "swift")),
        "weight_kg": noise.amount(random, 0, 9),
        "zones": [random.randrange(1, 9) for _ in range(2)],
        "insured": random.random() < 0.5,
    }


def _shipment(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    return {
        "tracking": noise.number(random, "Z"),
        "carrier": random.choice(("post", "parcelo", "swift")),
        "events": [{"at": noise.moment(random), "city": noise.city(random)} for _ in range(3)],
        "eta": noise.date(random),
        "weight_kg": noise.amount(random, 0, 9),
    }


def _notes(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    return {"notes": [f"{noise.person(random)}: called on {noise.date(random)}" for _ in range(2)]}


def _items(facts: Mapping[str, Any], random: Random) -> list[dict[str, Any]]:
    names = [facts["item"], *random.sample(_ITEMS, random.randrange(3))]
    return [{"sku": noise.number(random, "S"), "name": name, "price": noise.amount(random)} for name in names]


_SHOWN: Mapping[str, Callable[[Mapping[str, Any], Random], dict[str, Any]]] = {
    "find_customer": _customer,
    "get_order": _order,
    "get_return": _return,
    "get_stock": _stock,
    "quote_shipping": _quote,
    "get_shipment": _shipment,
    "list_notes": _notes,
}


def about(task: Task, tool: str) -> dict[str, Any]:
    if tool == "find_customer":
        return {"name": task.facts["name"]}
    return {"order_id": task.facts["order"]}


SHOP = World("shop", TOOLS, LOOKUPS, ("status", "amount", "warehouse", "words"), make, show, about)
