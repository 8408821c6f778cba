"""An on-call desk: long logs, metrics in columns, deploys with their ages, and answers of colleagues in free text.

| branch | decided by |
|---|---|
| cpu | a number of a table in columns above a limit; its rows come in any order |
| killed | one of some twenty lines of a log, in two wordings of each case |
| deploy | how old the first of several deploys is: minutes, hours or days |
| order | which of two times came first, of two results of one turn |
| answer | a colleague's answer in free words, most of which are never read twice |
| tier | a word of a result two calls before the last one |
| words | what the user wrote: get it running, or only tell people |
| refused | whether the last call ended in an error, which has many wordings |

A memory that compares values with constants cannot know `order`: silence is right there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from . import noise
from .cases import decide, rare_kinds
from .world import Step, Task, World

CPU_LIMIT = 85
LOOKUPS = ("get_alert", "search_logs", "get_metrics", "list_deploys", "get_runbook", "check_dependencies", "ask_owner")
ACTS = (
    "page_owner", "restart_service", "rollback_deploy", "scale_out", "failover_db", "silence_alert", "open_ticket",
    "post_status", "close_incident",
)  # fmt: skip
BRANCHES = ("cpu", "killed", "deploy", "order", "answer", "tier", "words", "refused")
_REQUESTS = {
    "HighLatencyP99": (
        "{service} is crawling, p99 is through the roof since about {at}. Can you look?",
        "We get pages about slow responses in {service}. Please take it.", "slow {service} again, see {id}",
        "Customers say {service} takes ages to answer. What can we do?", "Latency alarm {id} on {service} ({region}).",
        "p99 of {service} went over the limit at {at}, please work on it",
    ),
    "ErrorBudgetBurn": (
        "{service} burns its error budget, {id}. Please find out and fix.", "{service} throws errors, see {id}",
        "Lots of exceptions from {service} in {region} since {at}.", "Something in {service} keeps failing, {id}.",
        "can you handle the exceptions in {service}? alert is {id}", "Error budget alert for {service}. Over to you!",
    ),
    "RegressionSuspected": (
        "Looks like {service} got worse lately, the regression alert {id} came at {at}.",
        "Regression suspected in {service} ({region}), please check.",
        "{id}: {service} behaves differently from last week's baseline. Please sort it out.",
        "The canary comparison of {service} is red, can you take care of it?",
        "regression alarm for {service}, who's on? you? great",
        "Conversion in {service} dropped against the baseline; see alert {id}.",
    ),
    "Burst5xx": (
        "A burst of 5xx from {service} at {at}. Please deal with it.", "{service} returned a wave of 502s, alert {id}.",
        "5xx burst on {service} in {region} - please handle", "Got a Burst5xx for {service}, {id}. Can you act?",
        "Half of the requests to {service} gave 503 around {at}.", "{service}: sudden 5xx, {name} saw it first.",
    ),
    "TrafficAnomaly": (
        "Traffic anomaly on {service}, {id}. Is that real?", "{service} gets far more requests than usual since {at}.",
        "The request rate of {service} in {region} tripled, please handle.", "Odd traffic at {service}: see {id}",
        "why so many requests on {service}? please take care", "TrafficAnomaly for {service} fired at {at}, your turn.",
    ),
    "DiskFilling": (
        "The disk of {service} fills up, {id}.", "{service} in {region} will run out of disk tonight. Please take it.",
        "DiskFilling for {service} since {at}, can you handle the alert?", "disk alert {id} for {service}, pls look",
        "Volume of {service} at 91 %, please do what is needed.",
        "Storage of {service} grows by the hour. {name} asked us to follow the procedure.",
    ),
    "QueueStuck": (
        "The queue of {service} is stuck, get it moving again please.", "please unblock {service} as fast as you can",
        "{service} has not consumed anything since {at}. Please bring it back.",
        "QueueStuck for {service}: fix it, whatever it takes.", "{id}: {service} hangs. Can you get it running?",
        "Consumers of {service} hang again, please repair it, {name} is waiting.",
        "{service} is stuck ({region}). Make it work again.",
    ),
}  # fmt: skip
HANDS_OFF = (
    "The queue of {service} is stuck. Don't touch it yet, I only need a summary for the status page.",
    "{service} has not consumed anything since {at}. Hands off please, {name} is debugging it; just let people know.",
    "QueueStuck for {service}: no changes, only inform the customers.",
    "{id}: {service} hangs. We only want a notice on the status page, nothing else.",
    "Consumers of {service} hang. Leave everything as it is and just report what you see.",
    "please write something about stuck {service} for the status page, do not change anything in production",
    "{service} is stuck ({region}). Read-only please: tell customers about it.",
)
_OPENERS = ("", "", "", "Hi, ", "Morning! ", "Hey there, sorry to bother you. ", "Hello from the day shift. ")
_ENDINGS = ("", "", "", " Thanks!", " Cheers, {name}", " {name} is in copy.", " Ping me in the channel.")
_REAL = (
    "No, nothing planned from our side. Looks like real customers, the TV spot aired tonight.",
    "That is genuine demand, we were featured in the news.", "These are paying customers, please don't throttle them.",
    "Not us! Must be actual users, please give it room.", "Never seen that, but the sign-ups are real.",
    "I know of no test. Orders go up as well, so these are people.",
    "Hm, nobody here started anything. Real visitors as far as I can see.",
    "It's organic, the sale began at midnight and marketing forgot to tell us.",
    "Looks legitimate to me: many countries, normal baskets.",
    "We did not schedule anything. It is the holiday rush.",
    "nothing from us, it's the newsletter, folks click like mad",
    "Those are true users coming from the partner's campaign.",
)  # fmt: skip
PLANNED = (
    "Ah yes, that is our load test, runs until 4.", "That's me, benchmarking the new cache. Ignore it.",
    "Sorry, forgot to announce: we rehearse Black Friday with synthetic users.",
    "Planned. Perf team replays yesterday's traffic against it.", "Expected, the load generator is pointed at it.",
    "Known: QA's stress run, nothing to worry about.", "It is an exercise, the game day goes on till lunch.",
    "We simulate peak load on purpose this afternoon.", "oh that's the k6 job, will be over in an hour",
    "Our soak test. It was in the calendar, wasn't it?", "Just the pen testers, they have a slot today.",
    "Synthetic traffic from the capacity rehearsal, no customers involved.",
)  # fmt: skip
_REFUSALS = (
    "Error: 423 change freeze in effect for this cluster", "failed: deployment is locked by another operation",
    "ERROR rollout aborted: PodDisruptionBudget would be violated", "Error: admission webhook denied the request",
    "request failed: 403 Forbidden, role oncall-basic may not restart workloads",
    "Error: timed out after 120 s waiting for the rollout to finish",
)  # fmt: skip
_KILLED = ("ERROR [{pod}] container main terminated, reason OOMKilled, exit 137", "WARN  [kubelet] OOMKilled {pod}")
READ_ONLY = (
    "ERROR [{pod}] write failed: replica db-{n} is read-only",
    "ERROR [{pod}] SQLSTATE 25006: cannot execute UPDATE in a read-only transaction",
)
_LOG_LINES = (
    "INFO  [{pod}] GET /v1/items 200 {n}ms trace={hex}", "INFO  [{pod}] POST /v1/orders 201 {n}ms trace={hex}",
    "WARN  [{pod}] retry in {n}ms of upstream {service}", "ERROR [{pod}] GET /v1/quote 500 {n}ms trace={hex}",
    "DEBUG [{pod}] cache hit ratio 0.{n}, {n} keys", "INFO  [{pod}] gc pause {n}ms heap {n}M",
)  # fmt: skip
_RUNBOOK = """# Runbook {service}
Owner: team-{team}

1. Read the alert and the logs.
2. Disk: gold services page the owner at once; all others get a ticket.
3. Stuck consumers: a restart is safe, unless somebody works on the service.
4. If a change is refused, page the owner.

Last edited by {name} on {date}"""
_SERVICES = ("checkout", "cart-api", "search-front", "ledger", "media-proxy", "auth-gw", "pricing", "notify", "feed")
_CHANGES = ("restart_service", "scale_out", "rollback_deploy", "failover_db")
_MENDED = ("get_metrics", "close_incident")
_AFTER = {
    "scale_out": _MENDED,
    "rollback_deploy": _MENDED,
    "failover_db": _MENDED,
    "check_dependencies": ("page_owner", "open_ticket"),
    "silence_alert": ("close_incident",),
    "page_owner": ("post_status",),
    "open_ticket": ("silence_alert",),
    "post_status": ("open_ticket",),
}


def make(id: str, random: Random) -> Task:
    kind = random.choice(tuple(_REQUESTS))
    rare = rare_kinds(BRANCHES, random)
    now = datetime.fromisoformat(noise.moment(random))
    facts: dict[str, Any] = {
        "rare": rare,
        "now": now,
        "at": f"{now - timedelta(minutes=random.randrange(4, 30)):%H:%M}",
        "service": random.choice(_SERVICES),
        "region": random.choice(("eu-west-1", "us-east-2", "ap-south-1")),
        "id": noise.number(random, "ALT"),
        "name": noise.person(random),
        "burst_min": random.randrange(15, 46),
    }
    if kind == "Burst5xx":
        facts["deploy_min"] = facts["burst_min"] + random.randrange(3, 15) * (-1 if rare["order"] else 1)
    else:
        facts["deploy_min"] = random.randrange(130, 6000) if rare["deploy"] else random.randrange(4, 56)
    wordings = HANDS_OFF if kind == "QueueStuck" and rare["words"] else _REQUESTS[kind]
    request = random.choice(_OPENERS) + random.choice(wordings) + random.choice(_ENDINGS)
    return Task(id, kind, request.format(**facts), _steps(kind, rare), facts, aftermath=("close_incident",))


_WAYS = {
    "HighLatencyP99": ("cpu", ("get_metrics",), "scale_out", "check_dependencies"),
    "ErrorBudgetBurn": ("killed", ("search_logs",), "restart_service", "failover_db"),
    "RegressionSuspected": ("deploy", ("list_deploys",), "rollback_deploy", "check_dependencies"),
    "Burst5xx": ("order", ("get_metrics", "list_deploys"), "rollback_deploy", "check_dependencies"),
    "TrafficAnomaly": ("answer", ("get_metrics", "ask_owner"), "scale_out", "silence_alert"),
    "DiskFilling": ("tier", ("search_logs", "get_runbook"), "page_owner", "open_ticket"),
    "QueueStuck": ("words", ("get_runbook",), "restart_service", "post_status"),
}
"""The branch of a kind, what is looked up before it, and its usual and its unusual call."""


def _steps(kind: str, rare: Mapping[str, bool]) -> tuple[Step, ...]:
    branch, lookups, usual, unusual = _WAYS[kind]
    read = [Step(lookups, together=True)] if branch == "order" else [Step((lookup,)) for lookup in lookups]
    decided = decide(branch, usual, unusual, rare=rare[branch])
    (right,) = decided.calls
    if right == "restart_service":
        told = decide("refused", "post_status", "page_owner", rare=rare["refused"])
        after = (told, Step(("open_ticket" if rare["refused"] else "close_incident",)))
    else:
        after = tuple(Step((tool,)) for tool in _AFTER[right])
    return (Step(("get_alert",)), *read, decided, *after)


def show(task: Task, called: Sequence[str], random: Random) -> str:
    if called[-1] in _SHOWN:
        return _SHOWN[called[-1]](task, called, random)
    state = random.choice(("accepted", "done"))
    return json.dumps({"operation": f"op-{_hex(random)}", "state": state, "at": noise.moment(random)})


def _hex(random: Random) -> str:
    return f"{random.getrandbits(40):010x}"


def _alert(task: Task, called: Sequence[str], random: Random) -> str:
    facts = task.facts
    tier = random.choice(("silver", "bronze")) if facts["rare"]["tier"] else "gold"
    labels = {"service": facts["service"], "region": facts["region"], "tier": tier, "shard": random.randrange(16)}
    annotations = {"dashboard": f"https://graf.example/d/{_hex(random)}", "runbook": noise.number(random, "RB")}
    alert = {"id": facts["id"], "alertname": task.kind, "labels": labels, "annotations": annotations}
    ack = {"by": facts["name"], "at": facts["now"].isoformat()}
    return json.dumps({"alert": alert, "ack": ack, "request_id": _hex(random)})


def _logs(task: Task, called: Sequence[str], random: Random) -> str:
    facts = task.facts
    said = random.choices(_LOG_LINES, k=random.randrange(18, 24))
    if task.kind == "ErrorBudgetBurn":
        said.insert(random.randrange(len(said)), random.choice(READ_ONLY if facts["rare"]["killed"] else _KILLED))
    if task.kind == "DiskFilling":
        said.insert(random.randrange(len(said)), "WARN  [{pod}] /var/lib/data {n}MB left")
    at = facts["now"] - timedelta(minutes=12)
    lines: list[str] = []
    for line in said:
        at += timedelta(milliseconds=random.randrange(1000, 40_000))
        pod = f"{facts['service']}-{random.getrandbits(24):06x}"
        about = {"pod": pod, "n": random.randrange(2, 99), "hex": _hex(random), "service": random.choice(_SERVICES)}
        lines.append(f"{at.isoformat(timespec='milliseconds')} {line.format(**about)}")
    return "\n".join(lines)


def _metrics(task: Task, called: Sequence[str], random: Random) -> str:
    facts = task.facts
    changed = any(tool in called for tool in _CHANGES)
    slow = task.kind == "HighLatencyP99" and not changed
    busy = slow and not facts["rare"]["cpu"]
    rows = [
        ("cpu_percent", random.randrange(CPU_LIMIT + 1, 100) if busy else random.randrange(25, CPU_LIMIT), CPU_LIMIT),
        ("mem_percent", random.randrange(30, 95), 96),
        ("p99_ms", random.randrange(900, 4000) if slow else random.randrange(80, 700), 800),
        ("rps", random.randrange(900, 9000), "-"),
        ("threads", random.randrange(40, 200), 256),
    ]
    random.shuffle(rows)
    table = [f"{'metric':<14}{'now':>9}{'1h ago':>9}{'limit':>8}"]
    table += [f"{name:<14}{now:>9}{random.randrange(20, 60):>9}{limit:>8}" for name, now, limit in rows]
    if task.kind == "Burst5xx" and not changed:
        table.append(f"error_rate above 5 % since {facts['now'] - timedelta(minutes=facts['burst_min']):%H:%M:%S}Z")
    return "\n".join(
        [f"metrics for {facts['service']} ({facts['region']}) at {facts['now']:%Y-%m-%d %H:%M:%S}Z", *table]
    )


def _deploys(task: Task, called: Sequence[str], random: Random) -> str:
    facts = task.facts
    minutes = facts["deploy_min"]
    lines = [f"latest deploys of {facts['service']}, newest first:"]
    for _ in range(random.randrange(3, 6)):
        at = f"{facts['now'] - timedelta(minutes=minutes):%Y-%m-%d %H:%M:%S}Z"
        version = f"v{random.randrange(1, 9)}.{random.randrange(40)}.{random.randrange(10)}"
        lines.append(f"{at}  {facts['service']}  {version}  by {noise.person(random)}  ({_age(minutes)})")
        minutes += random.randrange(1500, 12_000)
    return "\n".join(lines)


def _age(minutes: int) -> str:
    if minutes < 60:
        return f"{minutes}m ago"
    return f"{minutes // 60}h ago" if minutes < 2880 else f"{minutes // 1440}d ago"


def _runbook(task: Task, called: Sequence[str], random: Random) -> str:
    team = random.choice(("orion", "lynx", "atlas", "heron"))
    about = {"service": task.facts["service"], "team": team, "name": noise.person(random), "date": noise.date(random)}
    return _RUNBOOK.format(**about)


def _dependencies(task: Task, called: Sequence[str], random: Random) -> str:
    rows = [
        f"{service:<18}{random.choice(('ok', 'ok', 'ok', 'degraded')):<10}{random.randrange(2, 400)}ms"
        for service in random.sample(_SERVICES, 4)
    ]
    return "\n".join(["dependency        state     latency", *rows])


def _owner(task: Task, called: Sequence[str], random: Random) -> str:
    facts = task.facts
    answer = random.choice(PLANNED if facts["rare"]["answer"] else _REAL)
    if task.kind != "TrafficAnomaly":
        answer = "I'm out, ask the team channel please."
    return f"{facts['name']} ({facts['now']:%H:%M}): {random.choice(('', '', 'hi, ', 'one sec... '))}{answer}"


def _restart(task: Task, called: Sequence[str], random: Random) -> str:
    if task.facts["rare"]["refused"]:
        return random.choice(_REFUSALS)
    replicas = {"ready": random.randrange(3, 13)}
    took_s = random.randrange(12, 90)
    return json.dumps({"operation": f"op-{_hex(random)}", "status": "done", "replicas": replicas, "took_s": took_s})


_SHOWN: Mapping[str, Callable[[Task, Sequence[str], Random], str]] = {
    "get_alert": _alert,
    "search_logs": _logs,
    "get_metrics": _metrics,
    "list_deploys": _deploys,
    "get_runbook": _runbook,
    "check_dependencies": _dependencies,
    "ask_owner": _owner,
    "restart_service": _restart,
}


def about(task: Task, tool: str) -> dict[str, Any]:
    known = {"service": task.facts["service"]}
    match tool:
        case "ask_owner":
            return known | {"question": f"Is the traffic on {known['service']} expected?"}
        case "page_owner" | "open_ticket":
            return known | {"text": f"{task.kind} on {known['service']}"}
        case _:
            return known


INCIDENT = World("incident", (*LOOKUPS, *ACTS), frozenset(LOOKUPS), BRANCHES, make, show, about)
