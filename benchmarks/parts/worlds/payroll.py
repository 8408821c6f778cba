"""A desk of HR and payroll: forms and accounts in nested JSON, managers' mails, users who change their minds.

| branch | decided by |
|---|---|
| balance | the days that a form asks for above the days that are left, of another result |
| clash | a join: whether the deputy of a form, three or four results back, is among the absent of the team's calendar |
| receipt | two facts of one item of a list: no receipt, and an amount above a limit; smaller ones need none |
| bounced | whether the last call ended in an error, which has many wordings and two forms, or in a payment |
| expired | whether the day in the system prompt is later than the end of the newest of several sick notes |
| six_weeks | a number of the last result above a limit that no result names |
| opinion | the manager's mail, in free words: whether somebody stays or leaves when the contract ends |
| wording | what the user wrote in their own words: a copy of a payslip, or a statement for somebody else |
| requester | the role of the user, and for line managers whether their cost centre is that of the other person |
| midway | what the user writes in the middle of the run: time off instead of the money |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Any

from . import noise
from .cases import decide, rare_kinds
from .world import Step, Task, World

NO_RECEIPT = 30
SICK_DAYS = 42
LOOKUPS = (
    "get_requester", "get_employee", "get_request", "get_time_account", "get_team_calendar", "get_sick_notes",
    "get_contract", "get_payslip", "read_thread",
)  # fmt: skip
ACTS = (
    "reserve_days", "record_absence", "pay_employee", "amend_contract", "issue_letter", "send_reply", "send_back",
    "forward_case", "close_ticket",
)  # fmt: skip
BRANCHES = (
    "balance", "clash", "receipt", "bounced", "expired", "six_weeks", "opinion", "wording", "requester", "midway",
)  # fmt: skip
_REQUESTS = {
    "leave": (
        "{form} is waiting since Monday, it's {name}'s vacation.", "Holiday request {form} of {name}, please process.",
        "please handle {form}, annual leave {name}", "{name} wants to take leave, {form}.",
        "Can {name} go? The form is {form}.",
    ),
    "expense": (
        "{name} asks where the money for the trip to {city} is, {form}.", "travel costs {name}, {form}, please settle",
        "Expense claim {form} by {name}, please check and reimburse.", "{form}: {name} was in {city} for a customer.",
        "Trip report {form} came in.",
    ),
    "sick": (
        "Another week of illness for {name}, the notes are in the system.", "sickness {name}, pls put it in",
        "{name} remains on sick leave, says the shift lead.", "{name} is still off sick, please update the file.",
        "{name} called in this morning, still not well.",
    ),
    "renewal": (
        "What happens with {name} after {ends}? Please see to the papers.", "contract end {name}, {ends}, please act",
        "The fixed term of {name} ends soon, please do what is needed.", "{name} is on our list of expiring contracts.",
        "{name}: contract runs out on {ends}.",
    ),
    "copy": (
        "Please mail me what you sent for {month}, my laptop died. Regards, {name}", "slip {month} again pls, {name}",
        "I'd like to check my hours of {month}, can I see the statement? {name}", "{name} here, payslip {month} please",
        "I cannot find my payslip of {month}, could I have it again? {name}", "my pay of {month}, as PDF? {name}",
        "For my tax return I still lack the sheet of {month}. {name}", "I file my slips and {month} is missing. {name}",
        "Can you resend {month}? It went to my old address. {name}", "Where do I see my deductions of {month}? {name}",
        "{name}, I threw away the paper of {month} by mistake.", "{name}: the portal shows no slip for {month}.",
    ),
    "disclosure": (
        "I have to look at the pay of {name} before the review.", "Please send me the payslip of {name} for {month}.",
        "How much does {name} earn? I need it for my planning.", "salary data {name} please, by noon if possible",
        "What is {name}'s gross in {month}?",
    ),
    "overtime": (
        "{name} has piled up overtime, please pay it with the next run.", "Overtime of {name}: please pay out.",
        "Please settle {name}'s extra hours of {month} in money.", "{name} would like the overtime on the account.",
        "pay the plus hours of {name} ({month}) please",
    ),
}  # fmt: skip
_HOW_MANY = (24, 18, 18, 12, 12, 12, 16)
STATEMENTS = (
    "The pension office does not take my slips, it must come from you with a stamp. {name}",
    "I need something with your letterhead that says what I make, for a loan. {name}", "embassy form on my job, {name}",
    "I apply for a mortgage and they require your confirmation of my income. {name}",
    "My landlord wants to see black on white what I earn, signed by you. {name}",
    "Could you attest that I have worked here since last year? {name}", "The daycare needs my hours from you. {name}",
    "A letting agency asks for a paper from my employer. {name}", "please certify my employment for the visa, {name}",
    "{name}: the court wants something official on my wages.", "Car lease: they want you to vouch for my pay. {name}",
    "{name} here, the bank asks for proof.",
)  # fmt: skip
TIME_OFF = (
    "{first} pays too much tax on it and asks to be released for that time instead.", "no cash, comp days for {first}!",
    "Sorry, wrong way round: {first} wants to bank the hours and travel in autumn.",
    "The director says there is no budget, but {first} may go home earlier for it.",
    "Stop, {first} would rather stay at home for a few days than get the cash.", "let {first} take it as holiday then",
    "The works council asks us to give hours back as rest, so no money please.",
    "Just talked to {first}: no payout, a long weekend is worth more.", "Change of plan, put it on the leave account.",
    "{first} is building a house and wants the hours as free time.", "Please turn it into days off, that was agreed.",
    "{first} prefers free days, I hear now.",
)  # fmt: skip
PAY_IT = (
    "{first} is on holiday next week, so do not wonder if nobody answers.", "Budget is there, I asked controlling.",
    "{first} was here at weekends as well, that is all in there.", "I checked the terminal data, the hours are right.",
    "By the way, {first} moved, but the account is the same.", "{first} asks whether it comes with this month's run.",
    "The hours were signed by the shift lead, by the way.", "As I said, {first} counts on it for the new car.",
    "It was the stocktaking, everybody did long days.", "The director has agreed to it this morning.",
    "Please use the normal rate, no night bonus.", "Take the cost centre of the project.",
)  # fmt: skip
STAYS = (
    "The workload on {project} will not shrink, I cannot do without {first}.", "Yes please, {months} more months.",
    "I want to keep {first}, the team would be lost without those skills.", "No doubt: {first} should remain with us.",
    "After a slow start {first} has become a pillar here. Go ahead.", "Please prolong, the position is in my plan.",
    "I have promised {first} another term, so please prepare it.", "we need {first} at least until {project} is live",
    "Happy to carry on, budget for {months} months is approved.", "Renew it, same hours, same grade.",
    "{first} did great on {project}, let's go on together.", "{months} months on top, please.",
)  # fmt: skip
LEAVES = (
    "Despite {months} good months, the customer ended {project}, hence no follow-up.", "{first} wants to study again.",
    "I like {first} a lot, but headcount was cut, so we have to part.", "Let it run out, we agreed on that in spring.",
    "No further term, the results on {project} were too thin.", "It stops there. Please thank {first} from all of us.",
    "{project} is over and I have no work left for {first}.", "The position moves to another site without {first}.",
    "We will not go on after that day, {first} knows.", "I have hired a permanent person for that desk.",
    "{first} has found something else and goes.", "sadly no budget for {first} any more",
)  # fmt: skip
_MAIL_NOISE = (
    "We also have to talk about the interns.", "Laptop and badge are another topic.", "Call me on {n}{n} if unclear.",
    "The desk is in building {n}.", "Sorry for the late answer.", "Thanks for the reminder.", "I am out on Friday.",
    "Please copy my deputy in.", "Sent from my phone.",
)  # fmt: skip
BOUNCED = (
    "cost centre is locked for postings", "IBAN check digits do not match", "account currency not supported",
    "bank file pain.001 rejected", "payee blocked by compliance", "limit of the batch exceeded", "cut-off time passed",
    "timeout of the bank gateway", "AC04 closed account number", "beneficiary name mismatch", "no SEPA mandate",
    "BIC unknown",
)  # fmt: skip
_PROJECTS = ("Aurora", "the SAP move", "line 4", "Kepler", "the new web shop", "Delta", "the warehouse", "Orion")
_ROLES = ("hr_partner", "payroll_clerk", "line_manager", "line_manager")
_WAYS: Mapping[str, tuple[str, tuple[tuple[str, ...], ...], str, str]] = {
    "leave": ("balance", (("get_request", "get_employee"), ("get_time_account",)), "reserve_days", "send_back"),
    "expense": ("receipt", (("get_request", "get_employee"),), "pay_employee", "send_back"),
    "sick": ("expired", (("get_employee", "get_sick_notes"),), "record_absence", "send_back"),
    "renewal": ("opinion", (("get_employee", "get_contract"), ("read_thread",)), "amend_contract", "issue_letter"),
    "copy": ("wording", (("get_employee",), ("get_payslip",)), "send_reply", "issue_letter"),
    "disclosure": ("requester", (("get_requester", "get_employee"),), "send_reply", "send_back"),
    "overtime": ("midway", (("get_employee", "get_time_account"),), "pay_employee", "reserve_days"),
}
"""The first branch of a kind, what is looked up before it in any order, and its usual and its unusual call."""


def make(id: str, random: Random) -> Task:
    kind = random.choices(tuple(_REQUESTS), _HOW_MANY)[0]
    rare = rare_kinds(BRANCHES, random)
    today = date(2026, 1, 12) + timedelta(7 * random.randrange(48) + random.randrange(5))  # a weekday
    days = random.randrange(2, 16)
    name = noise.person(random)
    facts: dict[str, Any] = {
        "rare": rare, "today": today, "name": name, "first": name.split()[0], "boss": noise.person(random),
        "kind": kind, "ticket": noise.number(random, "HR"), "form": noise.number(random, "RQ"), "login": "me",
        "employee": noise.number(random, "E"), "city": noise.city(random),
        "ends": f"{today + timedelta(days=random.randrange(20, 70))}", "cost_centre": random.randrange(4100, 4190),
        "month": f"{today.replace(day=1) - timedelta(days=1):%B}",
        "days": days, "left": days - random.randrange(1, days) if rare["balance"] else days + random.randrange(14),
        "deputy": {"id": noise.number(random, "E"), "name": noise.person(random)},
        "ill_until": today + timedelta(days=-random.randrange(1, 10) if rare["expired"] else random.randrange(15)),
        "ill": random.randrange(SICK_DAYS + 1, 96) if rare["six_weeks"] else random.randrange(3, SICK_DAYS + 1),
    }  # fmt: skip
    wordings = STATEMENTS if kind == "copy" and rare["wording"] else _REQUESTS[kind]
    request = random.choice(("", "", "", "Hello, ", "Hi! ")) + random.choice(wordings).format(**facts)
    system = f"You help the HR and payroll desk of Halden Works. Today is {today:%A}, {today.day} {today:%B %Y}."
    return Task(id, kind, request, _steps(kind, facts, random), facts, aftermath=("close_ticket",), system=system)


def _steps(kind: str, facts: Mapping[str, Any], random: Random) -> tuple[Step, ...]:
    rare = facts["rare"]
    branch, lookups, usual, unusual = _WAYS[kind]
    steps = [Step(tuple(random.sample(calls, len(calls)))) for calls in lookups]
    steps.append(decide(branch, usual, unusual, rare=rare[branch]))
    (right,) = steps[-1].calls
    if kind == "overtime":
        wordings = TIME_OFF if rare["midway"] else PAY_IT if random.random() < 0.7 else ("",)
        steps[-1] = replace(steps[-1], said=random.choice(wordings).format(**facts))
    if kind == "leave" and right == "reserve_days":
        steps.append(Step(("get_team_calendar",)))
        steps.append(decide("clash", "send_reply", "forward_case", rare=rare["clash"]))
    elif right == "pay_employee":
        steps.append(decide("bounced", "send_reply", "forward_case", rare=rare["bounced"]))
    elif right == "record_absence":
        steps.append(decide("six_weeks", "send_reply", "forward_case", rare=rare["six_weeks"]))
    elif right in ("reserve_days", "amend_contract", "issue_letter"):
        steps.append(Step(("send_reply",)))
    return (*steps, Step(("close_ticket",)))


def show(task: Task, called: Sequence[str], random: Random) -> str:
    tool, facts = called[-1], task.facts
    if tool in LOOKUPS:
        found = _found(tool, facts, Random(f"{task.id} {tool}"))  # the same each time
        return found if isinstance(found, str) else json.dumps(found)
    at = f"{facts['today']}T{8 + len(called):02}:{random.randrange(60):02}:{random.randrange(60):02}Z"
    done: dict[str, Any] = {"status": "done", "id": _hex(random), "at": at, "actor": "hr-assistant"}
    match tool:
        case "pay_employee" if facts["rare"]["bounced"]:
            why = random.choice(BOUNCED)
            if random.random() < 0.5:
                return f"Payment failed ({_hex(random)[:4]}): {why}"
            done |= {"status": "rejected", "detail": {"text": why, "channel": random.choice(("ebics", "file"))}}
        case "pay_employee":
            batch = {"no": random.randrange(100, 999), "items": random.randrange(1, 40)}
            done |= {"status": "scheduled", "value_date": f"{facts['today'] + timedelta(days=2)}", "batch": batch}
        case "record_absence":
            year = {"since": f"{facts['today'] - timedelta(days=365)}", "cases": random.randrange(1, 5)}
            done |= {"absence": {"kind": "sick", "twelve_months": year | {"days": facts["ill"]}}}
        case "reserve_days":
            done |= {"booking": {"no": noise.number(random, "LV"), "account": "leave", "until": facts["ends"]}}
    return json.dumps(done)


def _hex(random: Random) -> str:
    return f"{random.getrandbits(40):010x}"


def _found(tool: str, facts: Mapping[str, Any], random: Random) -> dict[str, Any] | str:
    who = {"id": facts["employee"], "name": facts["name"]}
    found: dict[str, Any] = {}
    match tool:
        case "get_requester":
            found = _requester(facts, random)
        case "get_employee":
            found = who | {
                "cost_centre": facts["cost_centre"], "department": random.choice(("sales", "plant", "it", "lab")),
                "manager": facts["boss"], "site": facts["city"], "birthday": noise.date(random)[5:],
                "employment": {"since": f"2023-{noise.date(random)[5:]}", "fte": random.choice((1, 0.8, 0.5))},
                "bank": {"iban": f"DE** **** {random.randrange(1000, 9999)}", "checked": random.random() < 0.9},
                "tax": {"class": random.randrange(1, 6), "church": False}, "language": random.choice(("en", "de")),
            }  # fmt: skip
        case "get_request":
            found = _form(facts, random)
        case "get_time_account":
            leave = {"entitled": 30, "carried_over": random.randrange(6), "planned": random.randrange(6)}
            leave |= {"remaining": facts["left"], "unit": "days", "expires": f"{facts['today'].year + 1}-03-31"}
            flex = {"balance_h": random.randrange(12, 95), "cap_h": 120, "last_stamp": f"{facts['today']}T07:41"}
            found = {"employee": who, "leave": leave, "flex": flex, "model": random.choice(("40h", "35h", "shift"))}
        case "get_team_calendar":
            away = [{"id": noise.number(random, "E"), "name": noise.person(random)} for _ in range(random.randrange(6))]
            if facts["rare"]["clash"]:
                away.insert(random.randrange(len(away) + 1), facts["deputy"])
            absent = [{"employee": one, "kind": random.choice(("leave", "training", "parental"))} for one in away]
            found = {"cost_centre": facts["cost_centre"], "absent": absent, "team_size": random.randrange(8, 20)}
        case "get_sick_notes":
            found = {"employee": who, "notes": _notes(facts, random), "insurer": random.choice(("AOK", "TK", "BKK"))}
        case "get_contract":
            pay = {"grade": random.choice(("E7", "E9", "E11")), "step": random.randrange(1, 6)}
            term = {"kind": "fixed", "ends": facts["ends"], "prolonged": random.randrange(3)}
            found = {"employee": who, "no": noise.number(random, "K"), "term": term, "pay": pay, "weekly_h": 40}
        case "get_payslip":
            pay = {"gross": noise.amount(random, 2400, 6900), "currency": "EUR", "pdf": f"{_hex(random)}.pdf"}
            lines = [{"code": code, "amount": noise.amount(random, 20, 900)} for code in ("TAX", "PENSION", "HEALTH")]
            found = {"employee": who, "month": facts["month"], "lines": lines} | pay
        case _:
            return _mail(facts, random)
    return found | {"etag": _hex(random), "version": random.randrange(1, 30)}


def _requester(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    role, centre = random.choice(_ROLES), facts["cost_centre"]
    if facts["rare"]["requester"]:
        role = random.choice(("line_manager", "line_manager", "team_assistant"))
    other = role != "line_manager" and random.random() < 0.6
    if other or (role == "line_manager" and facts["rare"]["requester"]):
        centre = random.choice([number for number in range(4100, 4190) if number != centre])
    return {
        "login": f"u{random.randrange(1000, 9999)}", "name": noise.person(random), "role": role, "cost_centre": centre,
        "site": noise.city(random), "deputy_of": None, "language": "en",
        "session": {"since": f"{facts['today']}T07:{random.randrange(10, 60)}", "mfa": True},
    }  # fmt: skip


def _form(facts: Mapping[str, Any], random: Random) -> dict[str, Any]:
    start = facts["today"] + timedelta(days=random.randrange(10, 60))
    sent = facts["today"] - timedelta(days=random.randrange(1, 6))
    form: dict[str, Any] = {"form": facts["form"], "employee": facts["name"], "submitted": f"{sent}T16:05"}
    if facts["kind"] != "expense":
        end = start + timedelta(days=facts["days"] * 7 // 5)
        period = {"from": f"{start}", "to": f"{end}", "working_days": facts["days"], "half_day": False}
        return form | {"type": "annual_leave", "period": period, "deputy": facts["deputy"], "signed": True}
    count = random.randrange(3, 8)
    missing = random.randrange(count) if facts["rare"]["receipt"] else -1
    items: list[dict[str, Any]] = []
    for number in range(count):
        large = number == missing or random.random() < 0.5
        amount = noise.amount(random, NO_RECEIPT + 2, 260) if large else noise.amount(random, 3, NO_RECEIPT)
        scan = None if number == missing or (not large and random.random() < 0.4) else f"scan/{_hex(random)}.jpg"
        kind = random.choice(("hotel", "train", "taxi", "dinner") if large else ("meal", "parking", "bus", "taxi"))
        items.append({"kind": kind, "date": f"{sent - timedelta(days=9 - number)}", "amount": amount, "receipt": scan})
    return form | {"type": "travel", "to": facts["city"], "items": items, "currency": "EUR", "advance": 0}


def _notes(facts: Mapping[str, Any], random: Random) -> list[dict[str, Any]]:
    """Sick notes, the newest last."""
    until, notes = facts["ill_until"], list[dict[str, Any]]()
    for _ in range(random.randrange(1, 4)):
        begin = min(until, facts["today"]) - timedelta(days=random.randrange(3, 12))
        doctor = {"doctor": f"Dr. {noise.person(random).split()[1]}", "accident": False}
        notes.insert(0, {"no": _hex(random), "from": f"{begin}", "until": f"{until}", **doctor})
        until = begin - timedelta(days=1)
    return notes


def _mail(facts: Mapping[str, Any], random: Random) -> str:
    about = {"project": random.choice(_PROJECTS), "months": random.choice((6, 9, 12, 18)), "n": random.randrange(3, 30)}
    said = [random.choice(LEAVES if facts["rare"]["opinion"] else STAYS), *random.sample(_MAIL_NOISE, 2)]
    body = " ".join(random.sample(said, 3)).format(**facts, **about)
    head = f"From: {facts['boss']}\nDate: {facts['today'] - timedelta(days=2)}\nMessage-ID: <{_hex(random)}>"
    return f"{head}\nSubject: Re: {facts['name']}, end of contract {facts['ends']}\n\n{body}\n\n{facts['boss']}"


_ABOUT = {"get_requester": "login", "get_request": "form", "get_team_calendar": "cost_centre"}


def about(task: Task, tool: str) -> dict[str, Any]:
    key = _ABOUT.get(tool, "name")
    told = {"employee" if key == "name" else key: task.facts[key]}
    return told if tool in LOOKUPS else told | {"ticket": task.facts["ticket"], "reason": task.kind}


PAYROLL = World("payroll", (*LOOKUPS, *ACTS), frozenset(LOOKUPS), BRANCHES, make, show, about)
