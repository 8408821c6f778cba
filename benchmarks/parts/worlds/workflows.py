"""Workflows made of known parts: a request asks for two or three of six, in an order of its own.

In each part one fact of a JSON reply decides what comes next. A wrong call there is fatal, and noticed only when a call
of the next part or the last one fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from . import noise
from .world import Step, Task, World

SCORE, SEATS = 620, 40
CLOSING = "notify_owner"
HABITS = 0.3  # with three branches a run, half would let hardly any run succeed


@dataclass(frozen=True, slots=True)
class Part:
    """What is looked up first, and what follows if the deciding fact holds and if not.

    Attributes:
        words: How requests ask for it.
        habit: What agents with habits do whatever the fact is.
        fact: A value of the fact that decides, by whether it holds.
        about: Details beside it.
    """

    words: tuple[str, ...]
    looks_up: str
    if_so: tuple[str, ...]
    if_not: tuple[str, ...]
    habit: str
    fact: Callable[[bool, Random], dict[str, Any]]
    about: Callable[[Random], dict[str, Any]]


PARTS: Mapping[str, Part] = {
    "identity": Part(
        words=("verify who they are", "check the identity", "do the identity check", "make sure of their papers"),
        looks_up="scan_document",
        if_so=("approve_identity",),
        if_not=("request_selfie", "approve_identity"),
        habit="approve_identity",
        fact=lambda holds, random: {"liveness": "pass" if holds else "unclear"},
        about=lambda random: {
            "document": random.choice(("passport", "id card", "licence")),
            "issued_in": noise.city(random),
            "expires": noise.date(random),
            "name": noise.person(random),
            "glare": round(random.random(), 2),
            "pages": random.randrange(1, 5),
        },
    ),
    "credit": Part(
        words=("open an account", "set up the account", "they need an account", "account opening"),
        looks_up="pull_credit",
        if_so=("open_account",),
        if_not=("require_deposit", "open_account"),
        habit="open_account",
        fact=lambda holds, random: {"score": random.randrange(SCORE, 850) if holds else random.randrange(380, SCORE)},
        about=lambda random: {
            "bureau": random.choice(("north credit", "veritas", "scorex")),
            "inquiries": random.randrange(9),
            "oldest_line": noise.date(random),
            "lines": [noise.amount(random, 100, 9_000) for _ in range(random.randrange(1, 4))],
            "utilisation": random.randrange(100),
            "limit": random.randrange(200, 900),
        },
    ),
    "contract": Part(
        words=("send the contract", "prepare the contract", "a contract to sign", "get the agreement out"),
        looks_up="fetch_template",
        if_so=("add_privacy_annex", "send_contract"),
        if_not=("add_arbitration", "send_contract"),
        habit="add_privacy_annex",
        fact=lambda holds, random: {"jurisdiction": "EU" if holds else "US"},
        about=lambda random: {
            "template": random.choice(("standard", "partner", "reseller")),
            "edited_by": noise.person(random),
            "edited_at": noise.moment(random),
            "clauses": random.randrange(20, 70),
            "language": random.choice(("en", "fr", "de")),
            "signers": [noise.person(random) for _ in range(2)],
        },
    ),
    "seats": Part(
        words=("create their seats", "give them seats", "provision the users", "seats for the team"),
        looks_up="check_quota",
        if_so=("create_seats",),
        if_not=("queue_seats",),
        habit="create_seats",
        fact=lambda holds, random: {"free": random.randrange(SEATS, 200) if holds else random.randrange(SEATS)},
        about=lambda random: {
            "total": random.randrange(300, 900),
            "reserved": random.randrange(100),
            "wanted": SEATS,
            "region": noise.city(random),
            "renewed": noise.date(random),
            "pools": random.sample(("a", "b", "c", "d"), 2),
        },
    ),
    "billing": Part(
        words=("start the billing", "set up payment", "bill them", "take care of the billing"),
        looks_up="get_plan",
        if_so=("schedule_debit",),
        if_not=("send_invoice",),
        habit="send_invoice",
        fact=lambda holds, random: {"cycle": "monthly" if holds else "yearly"},
        about=lambda random: {
            "plan": random.choice(("starter", "team", "scale")),
            "price": noise.amount(random, 20, 900),
            "currency": random.choice(("EUR", "USD", "GBP")),
            "discount": random.choice((0, 5, 10)),
            "sold_by": noise.person(random),
            "addons": random.sample(("backup", "support", "audit", "sso"), random.randrange(3)),
        },
    ),
    "import": Part(
        words=("import their data", "move the old data over", "migrate their records", "load the export"),
        looks_up="inspect_export",
        if_so=("load_records",),
        if_not=("convert_export", "load_records"),
        habit="load_records",
        fact=lambda holds, random: {"layout": "current" if holds else "legacy"},
        about=lambda random: {
            "rows": random.randrange(100, 90_000),
            "files": [f"part{n}.csv" for n in range(random.randrange(1, 5))],
            "encoding": random.choice(("utf-8", "latin-1")),
            "exported_at": noise.moment(random),
            "source": random.choice(("crm", "sheets", "ledger")),
            "duplicates": random.randrange(50),
        },
    ),
}
_OPENERS = ("Please onboard {company}: ", "{company} is new. ", "For {company}, ", "New client {company}: ")


def make(id: str, random: Random) -> Task:
    chosen = random.sample(list(PARTS), random.choice((2, 3)))
    holds = {name: random.random() < 0.5 for name in PARTS}
    steps = [step for name in chosen for step in _steps(name, holds[name])]
    company = noise.company(random)
    wanted = ", then ".join(random.choice(PARTS[name].words) for name in chosen)
    request = random.choice(_OPENERS).format(company=company) + wanted
    after = (random.choice([PARTS[name].looks_up for name in chosen]), CLOSING)
    facts = {"holds": holds, "company": company}
    error = json.dumps({"error": "conflict", "detail": "the record of the client is not consistent", "client": company})
    kind = ", ".join(chosen)
    return Task(id, kind, request, (*steps, Step((CLOSING,))), facts, random.choice((after, after[1:])), error)


def _steps(name: str, holds: bool) -> list[Step]:
    part = PARTS[name]
    first, *rest = part.if_so if holds else part.if_not
    return [Step((part.looks_up,)), Step((first,), name, part.habit, share=HABITS), *(Step((tool,)) for tool in rest)]


def show(task: Task, called: Sequence[str], random: Random) -> str:
    """A JSON object."""
    tool = called[-1]
    found: dict[str, Any] = {
        "client": task.facts["company"],
        "trace": noise.number(random, "W"),
        "at": noise.moment(random),
    }
    looked_up = [name for name, part in PARTS.items() if part.looks_up == tool]
    for name in looked_up:
        part = PARTS[name]
        # Details are drawn for each call. The deciding value must not change when it is looked up again.
        details = [
            *part.about(random).items(),
            *part.fact(task.facts["holds"][name], Random(f"{task.id} {name}")).items(),
        ]
        random.shuffle(details)
        found |= dict(details)
    if tool == "list_files":
        found["files"] = [f"{noise.number(random, 'F')}.pdf" for _ in range(3)]
    if not looked_up:
        found |= {"state": "ok", "by": noise.person(random), "took_ms": random.randrange(900)}
    return json.dumps(found)


def about(task: Task, tool: str) -> dict[str, Any]:
    return {"client": task.facts["company"]}


LOOKUPS = frozenset((*(part.looks_up for part in PARTS.values()), "list_files", "read_wiki"))
_ACTS = dict.fromkeys(tool for part in PARTS.values() for tool in (*part.if_so, *part.if_not))
TOOLS = (*sorted(LOOKUPS), *_ACTS, CLOSING)
WORKFLOWS = World("workflows", TOOLS, LOOKUPS, tuple(PARTS), make, show, about)
