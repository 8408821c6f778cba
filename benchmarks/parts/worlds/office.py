"""An on-call office: plain-text results, calls that are rightly made twice or in one turn.

| branch | decided by |
|---|---|
| alert | two facts together: what the log says, and whether the alert is of production or of staging |
| access | two facts together, of two results of one turn: the contract of the person, and the class of the system |
| network | the second result of the same tool: whether packets are still lost |
| customer | what kind of customer it is, said by a result two calls before the last one |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from . import noise
from .world import Step, Task, World

LOOKUPS = frozenset(
    ("get_alert", "read_log", "get_person", "get_policy", "run_diagnostic", "get_account", "get_outage", "list_changes")
)
ACTS = (
    "page_owner", "restart_service", "extend_volume", "clean_cache", "deny_access", "grant_temporary", "ask_manager",
    "grant_access", "reset_adapter", "order_replacement", "open_bridge", "post_status", "close_ticket",
)  # fmt: skip
_REQUESTS = {
    "alert": (
        "alert {ticket} fired for {service}", "please look at {ticket}, {service} is red", "{service} alarms, {ticket}",
        "the pager went off: {service}, see {ticket}", "can you take {ticket}? {service} has a problem",
    ),
    "access": (
        "{name} needs access to {service} ({ticket})", "please give {name} rights on {service}, {ticket}",
        "{ticket}: {name} cannot log in to {service}, never had a login", "access to {service} for {name}",
    ),
    "network": (
        "the network of {name}'s laptop is slow, {ticket}", "{name} has drop-outs in calls ({ticket})",
        "{ticket}: connection of {name} is bad", "wifi trouble at the desk of {name}",
    ),
    "customer": (
        "{company} reports that {service} is down for them, {ticket}", "{company} cannot reach {service}",
        "{ticket} from {company}: {service} does not answer", "complaint of {company}, no connection to {service}",
    ),
}  # fmt: skip
_SERVICES = ("ledger", "search", "mailer", "checkout", "reports", "gateway", "archive", "scheduler")
_ENDINGS = ("", ".", ", please hurry", ". Thanks")

CLOSING = Step(("close_ticket",))


def make(id: str, random: Random) -> Task:
    kind = random.choice(OFFICE.branches)
    facts: dict[str, Any] = {
        "memory": random.random() < 0.5,
        "production": random.random() < 0.5,
        "external": random.random() < 0.5,
        "restricted": random.random() < 0.5,
        "still_lossy": random.random() < 0.5,
        "enterprise": random.random() < 0.5,
        "ticket": noise.number(random, "T"),
        "service": random.choice(_SERVICES),
        "name": noise.person(random),
        "company": noise.company(random),
    }
    request = (random.choice(_REQUESTS[kind]) + random.choice(_ENDINGS)).format(**facts)
    return Task(id, kind, request, _steps(kind, facts), facts, aftermath=("close_ticket",))


def _steps(kind: str, facts: Mapping[str, Any]) -> tuple[Step, ...]:
    match kind:
        case "alert":
            in_production = "page_owner" if facts["memory"] else "extend_volume"
            in_staging = "restart_service" if facts["memory"] else "clean_cache"
            right = in_production if facts["production"] else in_staging
            # The logs of two hosts are read.
            return (
                Step(("get_alert",)),
                Step(("read_log",)),
                Step(("read_log",)),
                Step((right,), kind, habit="restart_service"),
                CLOSING,
            )
        case "access":
            for_externals = "deny_access" if facts["restricted"] else "grant_temporary"
            for_staff = "ask_manager" if facts["restricted"] else "grant_access"
            right = for_externals if facts["external"] else for_staff
            read = Step(("get_person", "get_policy"), together=True)
            return (read, Step((right,), kind, habit="grant_access"), CLOSING)
        case "network":
            tested = (Step(("run_diagnostic",)), Step(("reset_adapter",)), Step(("run_diagnostic",)))
            if facts["still_lossy"]:
                return (*tested, Step(("order_replacement",), kind, habit="close_ticket"), CLOSING)
            return (*tested, Step(("close_ticket",), kind, habit="close_ticket"))
        case _:
            right = "open_bridge" if facts["enterprise"] else "post_status"
            read = (Step(("get_account",)), Step(("get_outage",)), Step(("list_changes",)))
            return (*read, Step((right,), kind, habit="post_status"), CLOSING)


def show(task: Task, called: Sequence[str], random: Random) -> str:
    """Lines of text."""
    if called[-1] in _SHOWN:
        return "\n".join(_SHOWN[called[-1]](task.facts, called, random))
    return f"ok, {noise.number(random, 'J')} by {noise.person(random)}"


def _alert(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    place = "production" if facts["production"] else "staging"
    return [
        f"Alert {facts['ticket']} raised {noise.moment(random)}",
        f"{facts['service']} in {place}, cluster {noise.city(random).lower()}",
        f"threshold crossed {random.randrange(2, 9)} times, last deploy by {noise.person(random)}",
        f"runbook: wiki/{facts['service']}, severity {random.randrange(1, 5)}",
    ]


def _log(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    noisy = [_line(random) for _ in range(random.randrange(5, 9))]
    # One of the two hosts is healthy, now the first one and now the other.
    hosts = called.count("read_log")
    if hosts > 2 or hosts % 2 == int(facts["ticket"][-1]) % 2:
        told = "java.lang.OutOfMemoryError: heap space" if facts["memory"] else "write failed: no space left on device"
        noisy.insert(random.randrange(len(noisy)), f"{noise.moment(random)} ERROR worker {told}")
    return [f"== {facts['service']}-{hosts}.log", *noisy]


def _line(random: Random) -> str:
    said = random.choice(
        (
            "INFO request served in {n} ms",
            "INFO health check ok",
            "WARN slow query, {n} ms",
            "INFO user {who} logged in",
            "DEBUG cache hit ratio {n}",
            "WARN retry {n} of upstream call",
            "INFO rotated {n} segments",
        )
    )
    return f"{noise.moment(random)} " + said.format(n=random.randrange(900), who=noise.person(random))


def _person(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    return [
        f"{facts['name']}, {random.choice(('sales', 'finance', 'design', 'research'))}, {noise.city(random)}",
        f"contract: {'external' if facts['external'] else 'permanent'}, since {noise.date(random)}",
        f"manager {noise.person(random)}, badge {noise.number(random, 'B')}",
        f"groups: {', '.join(random.sample(('mail', 'wiki', 'vpn', 'printers', 'calendar'), 3))}",
    ]


def _policy(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    return [
        f"System {facts['service']}, owner {noise.person(random)}",
        f"class: {'restricted' if facts['restricted'] else 'open'}",
        f"reviewed {noise.date(random)}, next review {noise.date(random)}",
        f"logins: {random.randrange(3, 400)}",
    ]


def _diagnostic(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    lossy = "reset_adapter" not in called or facts["still_lossy"]
    lost = random.randrange(6, 30) if lossy else random.randrange(0, 2)
    return [
        f"PING gateway: 50 packets, {lost} % lost",
        f"rtt min/avg/max {random.randrange(2, 9)}/{random.randrange(10, 60)}/{random.randrange(70, 400)} ms",
        f"signal -{random.randrange(40, 80)} dBm, channel {random.randrange(1, 13)}, driver {random.randrange(4, 9)}.1",
    ]


def _account(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    return [
        f"{facts['company']}, customer since {noise.date(random)}",
        f"plan {'enterprise' if facts['enterprise'] else 'basic'}, {random.randrange(5, 900)} users",
        f"contact {noise.person(random)}, {noise.city(random)}",
        f"invoices open: {random.randrange(4)}",
    ]


def _outage(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    return [
        f"{facts['service']}: degraded since {noise.moment(random)}",
        f"regions: {noise.city(random)}, {noise.city(random)}; {random.randrange(2, 90)} reports",
        f"assigned to {noise.person(random)}",
    ]


def _changes(facts: Mapping[str, Any], called: Sequence[str], random: Random) -> list[str]:
    return [f"{noise.date(random)} {noise.person(random)} deployed {random.choice(_SERVICES)}" for _ in range(4)]


_SHOWN: Mapping[str, Callable[[Mapping[str, Any], Sequence[str], Random], list[str]]] = {
    "get_alert": _alert,
    "read_log": _log,
    "get_person": _person,
    "get_policy": _policy,
    "run_diagnostic": _diagnostic,
    "get_account": _account,
    "get_outage": _outage,
    "list_changes": _changes,
}


def about(task: Task, tool: str) -> dict[str, Any]:
    if tool == "get_person":
        return {"name": task.facts["name"]}
    return {"ticket": task.facts["ticket"], "service": task.facts["service"]}


OFFICE = World(
    "office", (*sorted(LOOKUPS), *ACTS), LOOKUPS, ("alert", "access", "network", "customer"), make, show, about
)
