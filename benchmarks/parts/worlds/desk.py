"""Desks where people write in: worlds of several ways of work, with mails, dates around today, and talk between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Any, NamedTuple

from . import noise
from .cases import decide, rare_kinds
from .world import Step, Task, World

Facts = Mapping[str, Any]
Result = Callable[[Facts, Random], "dict[str, Any] | str"]

CHATS = 0.15  # of runs in which the user writes something of no meaning, before the second step or the last
_CHATTER = (
    "Any news?", "Thanks for looking into it.", "Take your time.", "Are you still there?", "I'm all ears.", "ok",
    "Sorry, I was on the phone. Where were we?", "Great, thank you!", "My train leaves in ten minutes, by the way.",
)  # fmt: skip
_OPENERS = ("", "", "", "Hello, ", "Hi there, ", "Good morning, ", "Dear team, ", "hey, ", "Sorry to bother you, ")
_ENDINGS = (*[""] * 8, " Thanks a lot.", " Best, {name}", " You can call me after five.", " I hope you can help.")
_HELLO = ("Hello,", "Hi,", "Good morning,", "Dear colleagues,", "Hi all,", "Dear team,")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ASIDES = (
    "Please quote {ref} when you write back.", "Our desk is closed on Sundays.", "You asked on {day}, sorry for that.",
    "This mailbox is read by {person}.", "We had {n} questions like this since {day}.", "Thanks for the reminder.",
    "I am out from {day} on, {person} stands in.", "Our address in {city} has changed, see the footer.",
    "The new opening hours are below.", "{person} is in copy.", "The phones were down on {day}.", "Sent from a phone.",
)  # fmt: skip


class Fork(NamedTuple):
    """A branch of a way.

    Attributes:
        then: What follows the unusual call. What stands behind the fork follows the usual one alone.
    """

    branch: str
    usual: str
    unusual: str
    then: Way = ()


Way = tuple["str | tuple[str, ...] | Fork", ...]
"""Calls, in order or in any order, and branches."""


def branches_of(way: Way) -> Iterator[str]:
    for part in way:
        if isinstance(part, Fork):
            yield part.branch
            yield from branches_of(part.then)


def desk(
    name: str,
    ways: Mapping[str, Way],
    *,
    lookups: tuple[str, ...],
    acts: tuple[str, ...],
    branches: tuple[str, ...],
    system: str,
    requests: Mapping[str, Sequence[str]],
    asks_otherwise: Mapping[str, Sequence[str]],
    said: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    draw: Callable[[Facts, Random], dict[str, Any]],
    shown: Mapping[str, Result],
    about: Mapping[str, tuple[str, ...]],
    closing: str = "close_ticket",
) -> World:
    """A world.

    Args:
        ways: Of each kind of task.
        requests: How users ask, by kind.
        asks_otherwise: How they ask where a branch is unusual, by branch.
        said: What users write before a branch, in usual and in unusual cases.
        draw: Facts of a task, from its kind, today, the user's name, and `rare`: at which branches it is unusual.
        shown: What tools return. Lookups return the same each time.
        about: The facts that are arguments of a call; the ticket where it names none.
        system: The system prompt, with names of facts in braces; `day` is today in words.
        closing: The last call of each way.
    """

    def make(id: str, random: Random) -> Task:
        kind = random.choice(tuple(ways))
        met = set(branches_of(ways[kind]))
        rare = {branch: found and branch in met for branch, found in rare_kinds(branches, random).items()}
        facts: dict[str, Any] = {
            "kind": kind,
            "rare": rare,
            "name": noise.person(random),
            "ref": noise.number(random, "Q"),
        }
        facts["today"] = date(2026, 1, 5) + timedelta(random.randrange(350))
        facts |= {"ticket": noise.number(random, "T"), "ref": noise.number(random, "Q")}
        facts |= draw(facts, random)
        wordings = next((asks_otherwise[branch] for branch in asks_otherwise if rare[branch]), requests[kind])
        request = random.choice(_OPENERS) + random.choice(wordings) + random.choice(_ENDINGS)
        talk = {branch: random.choice(either[rare[branch]]).format(**facts) for branch, either in said.items()}
        steps = [*_walk(ways[kind], rare, talk, random), Step((closing,))]
        for at in (1, -1):
            chatter = random.choice(_CHATTER)
            if random.random() < CHATS and not steps[at].branch:
                steps[at] = replace(steps[at], said=chatter)
        prompt = system.format(day=f"{facts['today']:%A}, {facts['today'].day} {facts['today']:%B %Y}", **facts)
        return Task(id, kind, request.format(**facts), tuple(steps), facts, aftermath=(closing,), system=prompt)

    def show(task: Task, called: Sequence[str], random: Random) -> str:
        tool = called[-1]
        if tool in lookups:
            random = Random(f"{task.id} {tool}")
        found = shown.get(tool, _done)({**task.facts, "calls": len(called)}, random)
        if isinstance(found, str):
            return found
        return json.dumps(found | {"request_id": code(random), "node": f"{name[:2]}-{random.randrange(9)}"})

    def arguments(task: Task, tool: str) -> Mapping[str, Any]:
        return {key: task.facts[key] for key in about.get(tool, ("ticket",))}

    return World(name, (*lookups, *acts), frozenset(lookups), branches, make, show, arguments)


def _walk(way: Way, rare: Mapping[str, bool], talk: Mapping[str, str], random: Random) -> Iterator[Step]:
    for part in way:
        if not isinstance(part, Fork):
            yield Step((part,) if isinstance(part, str) else tuple(random.sample(part, len(part))))
            continue
        decided = decide(part.branch, part.usual, part.unusual, rare=rare[part.branch])
        yield replace(decided, said=talk.get(part.branch, ""))
        if rare[part.branch]:
            yield from _walk(part.then, rare, talk, random)
            return


def _done(facts: Facts, random: Random) -> dict[str, Any]:
    return {"ok": True, "ref": noise.number(random, "J"), "at": now(facts, random), "by": "assistant"}


def letter(said: str, facts: Facts, random: Random, *, sender: str) -> str:
    """A mail of today that says one thing, mostly among others."""
    parts = [said, *random.sample(_ASIDES, random.randrange(3))]
    random.shuffle(parts)
    slots = {"person": noise.person(random), "city": noise.city(random), "n": random.randrange(11, 60)}
    slots |= {"day": random.choice(_DAYS), "ref": facts["ref"]}
    subject = random.choice(("Re: {ref}", "AW: {ref}", "your question {ref}"))
    head = f"From: {sender}\nSent: {moment(facts['today'], random)}\nSubject: {subject}"
    end = random.choice(("Regards", "Best wishes", "Kind regards", "Cheers", "BR"))
    text = f"{head}\n\n{random.choice(_HELLO)}\n{' '.join(parts)}\n\n{end}\n{noise.person(random)}"
    return text.format(**slots)


def reach(name: str, random: Random) -> dict[str, Any]:
    """How a person is reached."""
    street = f"{random.choice(('Mill Lane', 'Station Road', 'Rose Walk', 'Harbour St'))} {random.randrange(1, 90)}"
    mail = f"{name.lower().replace(' ', '.')}{random.randrange(99)}@mail.example"
    return {
        "mail": mail,
        "phone": f"+44 {random.randrange(10**8, 10**9)}",
        "street": street,
        "city": noise.city(random),
    }


def ago(today: date, random: Random, least: int, most: int) -> str:
    """A date of so many days ago."""
    return f"{today - timedelta(random.randint(least, most))}"


def now(facts: Facts, random: Random) -> str:
    """When the result of an act comes."""
    return f"{facts['today']}T09:{4 * facts['calls'] + random.randrange(4):02}:{random.randrange(60):02}Z"


def moment(today: date, random: Random, days: int = 0) -> str:
    """A time of so many days ago; of today, in the early morning."""
    hour = random.randrange(7, 20) if days else random.randrange(5, 9)
    return f"{today - timedelta(days)}T{hour:02}:{random.randrange(60):02}:{random.randrange(60):02}Z"


def code(random: Random) -> str:
    return f"{random.getrandbits(48):012x}"
