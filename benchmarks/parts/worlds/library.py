"""A desk of a university library: loans, interlibrary loans, fees, carrels, e-books and journals.

| branch | decided by |
|---|---|
| renewable | two things of two results: a state somewhere in a list, and two numbers of one entry of another list |
| ill_due | a date of the last result against the date of the system prompt |
| arrears | a nested number of the last result against a limit, among sums of single fees |
| lender | whether the last call ended in an answer that no library lends it, which has many wordings |
| course | whether a course of one result is among those that another result lists |
| coverage | a number of a result two calls back against two numbers of the last one |
| shelf | free text of a colleague's mail: the reader is right, or is not |
| purpose | what the user wrote: borrow it for them, or have it in the collection |
| wait | what the user writes in the middle of the run: wait for it, or get it elsewhere |
| carrel | who the user is, a word of a result two calls back |
"""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

from . import noise
from .desk import Facts, Fork, ago, code, desk, letter, moment, now, reach

MOST_FEES = 20
LOOKUPS = (
    "find_patron", "get_loans", "find_item", "get_fees", "find_article", "get_licence", "list_rooms", "get_ill_request",
    "read_inbox",
)  # fmt: skip
ACTS = (
    "renew_loan", "place_hold", "waive_fee", "send_link", "order_ill", "book_room", "refer_to_librarian",
    "message_patron", "close_ticket",
)  # fmt: skip
BRANCHES = (
    "renewable", "ill_due", "arrears", "lender", "course", "coverage", "shelf", "purpose", "wait", "carrel",
)  # fmt: skip
_ANSWERED = Fork("lender", "message_patron", "refer_to_librarian")
_PAID_UP = Fork("arrears", "order_ill", "message_patron")
_LICENSED = Fork("coverage", "send_link", "get_fees", (_PAID_UP, _ANSWERED))
_WAYS = {
    "renewal": (("find_patron", "get_loans"), "find_item", Fork("renewable", "renew_loan", "message_patron")),
    "ill_renewal": ("get_ill_request", Fork("ill_due", "renew_loan", "message_patron")),
    "ill": (("find_patron", "find_item"), "get_fees", _PAID_UP, _ANSWERED),
    "wish": (("find_item", "get_fees"), Fork("purpose", "order_ill", "refer_to_librarian"), _ANSWERED),
    "ebook": (("find_patron", "find_item"), Fork("course", "send_link", "refer_to_librarian")),
    "article": ("find_article", "find_patron", "get_licence", _LICENSED),
    "dispute": (("get_fees", "get_loans"), "read_inbox", Fork("shelf", "waive_fee", "message_patron")),
    "out": ("find_item", Fork("wait", "place_hold", "get_fees", (_PAID_UP, _ANSWERED))),
    "carrel": ("find_patron", "list_rooms", Fork("carrel", "book_room", "message_patron"), "message_patron"),
}  # fmt: skip
_SYSTEM = """Library service desk, University of {city}. Current date: {today}. Ticket: {ticket}. Patron: {patron}.
Use the tools to solve what the patron asks for. Check before you act. Close the ticket when you are done."""
_REQUESTS = {
    "renewal": (
        "please renew {title}.", "can I keep {title} for longer?", "I still need {title}, could you extend it?",
        "{title} is due soon and I'm not through with it.", "the website won't let me extend {title}, can you?",
    ),
    "ill_renewal": (
        "{ill} came from another library, I'd like to have it longer.", "can you extend my interlibrary loan {ill}?",
        "{ill}: two more weeks please.", "I haven't finished {title} ({ill}).", "please prolong {ill}.",
    ),
    "ill": (
        "please order {title} by interlibrary loan.", "interlibrary loan request: {title} by {author}.",
        "I need {title} from another library, your form is broken.", "get {title} by {author} through ILL.",
    ),
    "wish": (
        "you don't seem to have {title}. Could you get it from somewhere for my thesis?",
        "I need {title} for three weeks or so, which library near us could lend it?",
        "can I have {title} through another university? I only want to check a few chapters.",
        "{title} isn't in the catalogue, please get it in for me for a while.",
        "I'm writing a term paper and {title} would help. Is there a way to see a copy?",
        "please fetch {title} from elsewhere, I'll bring it back quickly.",
        "a colleague in {city} says her library has {title}. Could you have it sent over?",
        "I'm looking for {title}, just to read it once for a footnote.",
        "I'd like to read {title} before my exam; you have no copy, others surely do.",
        "for a talk next month I have to look into {title}, no need to keep it.",
        "{title}: not on your shelves. Would a loan from outside be possible?",
        "my supervisor told me to go through {title}. Can you obtain it for some days?",
    ),
    "ebook": (
        "the e-book of {title} says that I have no access.", "I can't open {title} online, please help.",
        "how do I get to the electronic version of {title}?", "please send me access to the e-book of {title}.",
    ),
    "article": (
        "I can't open {doi}.", "could I get the PDF of '{title}'? {doi}", "{doi} asks me for 39 dollars.",
        "is '{title}' ({doi}) in one of our subscriptions?", "I need {doi} for tomorrow.",
    ),
    "dispute": (
        "I was billed for {title}, but I gave it back.", "fee {fee} must be a mistake, I returned {title}.",
        "your letter says {title} is lost. I brought it back!", "I don't accept {fee}, {title} isn't with me.",
    ),
    "out": (
        "all copies of {title} are out, what now?", "when will {title} be back?", "I need {title}, but it's on loan.",
        "somebody has {title}. Can I have it after them?", "is there any copy of {title} left?",
    ),
    "carrel": (
        "I'd like to have a carrel in {building} for {weeks} weeks.", "can I book a carrel? {building} if possible.",
        "is there a lockable desk free in {building}? I'd need it for {weeks} weeks.", "carrel in {building}!",
    ),
}  # fmt: skip
FOR_ALL = (
    "you should really have {title}, half my department asks for it.",
    "I teach a seminar of {n} from October, and {title} will be on the reading list.",
    "please consider adding {title}, it's the standard work by now.",
    "{title} is missing from your holdings although every lab group here works by it.",
    "could the library buy {title}? The old edition is falling apart.",
    "my students will all need {title} next term, one copy for two weeks won't do.",
    "I suggest {title} for the permanent stock of the {city} campus.",
    "is there money left this year for {title}? Our research group would use it all the time.",
    "we borrow {title} from other universities year after year, it would be cheaper to own it.",
    "new course on the subject in spring: {title} ought to stand on the course shelf by then.",
    "{title} has just come out and belongs in every library of our kind, so in ours too.",
    "as head of the institute I'd like {title} to be there for everyone in the long run.",
)
_WAITS = (
    "Okay, put me on the list then.", "That's soon enough, please reserve it.", "Fine, I'll wait for it.",
    "No hurry, my paper is due in summer.", "Good, tell me when it's my turn.", "ok, whenever it comes in",
    "I wouldn't mind two people ahead of me either, go ahead.", "Then the one here, once the other reader is done.",
    "I have other reading until then, so keep the next free copy for me.", "Please, yes. I'm away for weeks anyway.",
    "I thought of getting it from {city} but that's not worth it, I'll take yours when it returns.",
    "All right. Could I fetch it at the main desk when it's there?",
)  # fmt: skip
ELSEWHERE = (
    "Too late, the exam is on Friday. Does no other library have one?", "Can't you ask the state library?",
    "I can't wait that long, could you have one sent from {city}?", "I hand in on Monday. Try the neighbours?",
    "By then my grant is over. Is there one anywhere that you could borrow?",
    "Hm, that's weeks. Isn't there a quicker way through your partners?",
    "My deadline is before that. Get it from outside please, I'll pay for it.",
    "That won't help me. A friend says {city} has three copies on the shelf.",
    "No, I need it next week at the latest, wherever it comes from.",
    "The last such reader kept it for half a year. I'd sooner have another university's.",
    "Then don't bother with the queue, order one in from where it's free.",
    "I leave for fieldwork before it's due back, so please look beyond our own shelves.",
)  # fmt: skip
_FOUND = (
    "Found it two shelves further left, somebody had put it under {n}.2 by mistake.",
    "The book drop jammed on {day}; it was lying in there all the time.",
    "It stood on the trolley of the {city} branch, nobody had checked it in.",
    "{person} has it on the repair bench, it came in on {day} without being scanned.",
    "Sorry, our self-check station lost all returns of {day}. The volume is in its place.",
    "It's here. The gate at the entrance read another barcode, please apologise to the reader.",
    "I have it in my hand, the label was stuck to the next volume.",
    "The courier from {city} had it in a box with {n} others, the reader gave it back there in time.",
    "Two copies, one barcode: the reader's one is on the shelf, the other was never lent.",
    "Somebody put it on the new-books display, I took it from there this morning.",
    "The camera at the drop shows the reader with it on {day}; we must have mislaid it after.",
    "An exchange student saw it in reading room {n}, our stamp of the return is in it.",
)
NOT_BACK = (
    "Went through the shelf and those around it twice, it's nowhere, and the drop was empty.",
    "Nothing on the trolleys or the repair bench, and no scan in any branch since it was lent.",
    "It came back all right, but with coffee over the last {n} pages, so it had to be bought again.",
    "The reader's flatmate phoned on {day}: it is still on their kitchen table.",
    "{person} looked in all three stores. I don't think that it ever came back.",
    "What the reader dropped in is the city library's copy, ours is still out there.",
    "The gate shows it leaving on the day of the loan and never again after.",
    "The pages from {n} on are cut out, {person} has photos. We can't lend that any more.",
    "I only found the empty slipcase, the book itself is missing.",
    "The reader returned volume 1; the bill is about volume 2, not seen since.",
    "Mould all through it, it must have stood in the damp at their place; it went into the bin.",
    "Checked the drop's camera for {day} as they asked: they put in a magazine, no book.",
)
_REFUSALS = (
    "ILL-409: all holding libraries answered 'not for loan'", "unfilled: in use at every supplier ({n} tried)",
    "copyright limit of {n} % exceeded", "supplier {city} replied NON-CIRC", "bibliographic data insufficient",
    "quota of the department used up", "cost {n} EUR above the maximum of the patron group", "RS9 lacking volume",
    "no supplier accepted within the rota", "will-supply=NO, reference only", "reason=POOR CONDITION",
    "HTTP 424: lender {city} has suspended lending until further notice",
)  # fmt: skip
_TITLES = (
    "Soils of the Lowlands", "The Quiet Ledger", "Graph Algorithms in Practice", "A History of Salt", "Ethics of Care",
    "Polymer Rheology", "Reading Maps", "Courts and Commons", "The Baltic Trade", "Sleep and Memory", "Tidal Energy",
    "Numerical Optics", "Grammar of Signs", "Migrant Cities", "Cell Signalling", "Principles of Taxation",
)  # fmt: skip
_SUBJECTS = ("HIS", "BIO", "LAW", "PHY", "SOC", "ECO", "LIN")
MAY_BOOK = ("doctoral", "staff", "visiting scholar")
_MAY_NOT = ("undergraduate", "master", "alumni", "external")


def _draw(known: Facts, random: Random) -> dict[str, Any]:
    rare, disputed = known["rare"], known["kind"] == "dispute"
    title, *others = random.sample(_TITLES, 5)
    since = random.randrange(1976, 2000)
    until = since + random.randrange(4, 18)
    beyond = random.choice((random.randint(since - 15, since - 1), random.randint(until + 1, until + 8)))
    courses = [f"{random.choice(_SUBJECTS)}-{number}" for number in random.sample(range(101, 480), 8)]
    taken = random.sample(courses[:5], random.randrange(2, 5))
    barred = random.choice(("held", "used up", "held and used up")) if rare["renewable"] else ""
    most, fees = random.choice((2, 3, 5)), (MOST_FEES + 0.5, 90) if rare["arrears"] or disputed else (1, MOST_FEES)
    return {
        "title": title, "others": others, "author": noise.person(random), "city": noise.city(random), "most": most,
        "held": "held" in barred, "used": most if "used up" in barred else random.randrange(most),
        "since": since, "until": until, "year": beyond if rare["coverage"] else random.randint(since, until),
        "taken": taken, "reserved": courses[5:] if rare["course"] else [*courses[6:], random.choice(taken)],
        "ask_by": known["today"] + timedelta(-random.randint(1, 12) if rare["ill_due"] else random.randrange(15)),
        "open": noise.amount(random, *fees), "due": ago(known["today"], random, *((30, 90) if disputed else (-9, -1))),
        "building": random.choice(("Main Library", "Science Wing", "Law Library", "North Tower")),
        "weeks": random.randint(2, 8), "doi": f"10.{random.randrange(1000, 9999)}/j.{random.randrange(10**5, 10**6)}",
        "n": random.randint(18, 60), "room": f"C{random.randrange(1, 5)}.{random.randrange(10, 40)}",
        "patron": noise.number(random, "P"), "fee": noise.number(random, "FEE"), "ill": noise.number(random, "ILL"),
        "issn": f"{random.randrange(1000, 9999)}-{random.randrange(1000, 9999)}",
    }  # fmt: skip


def _patron(facts: Facts, random: Random) -> dict[str, Any]:
    groups = _MAY_NOT if facts["rare"]["carrel"] else MAY_BOOK if facts["kind"] == "carrel" else (*MAY_BOOK, *_MAY_NOT)
    known = {"id": facts["patron"], "name": facts["name"], "group": random.choice(groups), "registered": 2023}
    return {
        "patron": known | {"faculty": random.choice(_SUBJECTS), "contact": reach(facts["name"], random)},
        "card": {"no": random.randrange(10**9, 10**10), "valid_until": f"{facts['today'].year + 1}-03-31"},
        "courses": facts["taken"],
    }


def _loans(facts: Facts, random: Random) -> dict[str, Any]:
    soon = [ago(facts["today"], random, -40, -1) for _ in range(random.randrange(4))]
    loans = [(title, due, random.randrange(3), 3) for title, due in zip(facts["others"], soon, strict=False)]
    if facts["kind"] in ("renewal", "dispute"):
        loans.append((facts["title"], facts["due"], facts["used"], facts["most"]))
    entries = [
        {"barcode": code(random), "title": title, "due": due, "renewals": {"used": used, "max": most}}
        for title, due, used, most in random.sample(loans, len(loans))
    ]
    return {"patron": facts["patron"], "loans": entries, "count": len(entries), "history": random.randrange(200)}


def _item(facts: Facts, random: Random) -> dict[str, Any]:
    kind, today = facts["kind"], facts["today"]
    if kind in ("wish", "ill", "ill_renewal"):
        return {"query": facts["title"], "hits": 0, "similar": facts["others"][:2], "searched": ["title", "all fields"]}
    states = random.choices(("filled", "cancelled", "expired"), k=random.randrange(3))
    if facts["held"] or (kind != "renewal" and random.random() < 0.5):
        states.append("waiting")
    random.shuffle(states)
    holds = [{"by": noise.number(random, "P"), "state": state, "placed": ago(today, random, 1, 60)} for state in states]
    reserved = random.sample(facts["reserved"], 3)
    due = facts["due"] if kind in ("renewal", "dispute") else ago(today, random, -40, -9)
    return {
        "item": {"title": facts["title"], "author": facts["author"], "year": random.randrange(1990, 2026)},
        "copies": [{"place": random.choice(("Main", "Store")), "state": "on loan", "due": due}],
        "holds": holds,
        "electronic": {"provider": "Ebrix", "users": 3, "reserved_for": reserved} if kind == "ebook" else None,
        "call_no": f"Q{random.choice('ABCDE')} {random.randrange(100, 999)}",
    }


def _fees(facts: Facts, random: Random) -> dict[str, Any]:
    cut = round(facts["open"] * random.uniform(0.2, 0.8), 2)
    billed = ("lost item", facts["title"]) if facts["kind"] == "dispute" else ("recall ignored", facts["others"][0])
    fees = [
        {"fee": facts["fee"], "type": billed[0], "title": billed[1], "amount": cut, "state": "open"},
        {"fee": noise.number(random, "FEE"), "type": "late", "amount": round(facts["open"] - cut, 2), "state": "open"},
        {"fee": noise.number(random, "FEE"), "type": "late", "amount": noise.amount(random, 1, 60), "state": "paid"},
    ]
    balance = {"open": facts["open"], "currency": "EUR", "as_of": moment(facts["today"], random)}
    return {"fees": random.sample(fees, 3), "account": {"patron": facts["patron"], "balance": balance}}


def _article(facts: Facts, random: Random) -> dict[str, Any]:
    journal = f"{random.choice(('Annals', 'Journal', 'Letters'))} of {random.choice(('Ecology', 'Law', 'Optics'))}"
    known = {"doi": facts["doi"], "title": facts["title"], "authors": [facts["author"]], "year": facts["year"]}
    return {
        "article": known | {"volume": random.randrange(1, 90), "cited_by": random.randrange(400)},
        "journal": {"title": journal, "issn": facts["issn"], "publisher": random.choice(("Elm Press", "Halden"))},
        "open_access": {"status": "closed", "repository_copy": None},
    }


def _licence(facts: Facts, random: Random) -> dict[str, Any]:
    coverage = {"from": facts["since"], "to": facts["until"], "platform": random.choice(("Ebrix", "Stacks"))}
    return {
        "issn": facts["issn"],
        "licence": {"no": noise.number(random, "LIC"), "package": "Consortium", "coverage": coverage, "wall_years": 0},
        "terms": {"walk_in": random.random() < 0.5, "ill_allowed": True, "users": None},
        "checked": moment(facts["today"], random, random.randrange(1, 30)),
    }


def _rooms(facts: Facts, random: Random) -> dict[str, Any]:
    names = [f"C5.{random.randrange(10, 40)}" for _ in range(random.randrange(1, 4))]
    rooms = [{"room": name, "lock": True, "taken_until": ago(facts["today"], random, -50, -2)} for name in names]
    rooms.insert(random.randrange(len(rooms) + 1), {"room": facts["room"], "lock": True, "taken_until": None})
    return {"building": facts["building"], "floor": 2, "rooms": rooms, "as_of": moment(facts["today"], random)}


def _request(facts: Facts, random: Random) -> dict[str, Any]:
    today, ask_by = facts["today"], facts["ask_by"]
    due = ask_by + timedelta(random.choice((3, 4, 5)))
    return {
        "request": {"no": facts["ill"], "title": facts["title"], "patron": facts["patron"], "state": "lent"},
        "lender": {"library": f"University of {noise.city(random)}", "sigel": f"L{random.randrange(10, 99)}"},
        "dates": {"requested": ago(today, random, 41, 60), "arrived": ago(today, random, 25, 40), "due": f"{due}"},
        "renewal": {"by_lender": True, "ask_by": f"{ask_by}", "weeks": random.choice((1, 2, 3))},
    }


def _inbox(facts: Facts, random: Random) -> str:
    if facts["kind"] != "dispute":
        return f"0 mails for {facts['ticket']}"
    said = random.choice(NOT_BACK if facts["rare"]["shelf"] else _FOUND)
    return letter(said, facts, random, sender=f"stacks.{random.choice(('main', 'north', 'law'))}@library.example")


def _ordered(facts: Facts, random: Random) -> dict[str, Any] | str:
    if facts["rare"]["lender"]:
        said = random.choice(_REFUSALS).format(**facts)
        return random.choice((said, f"Error: {said}", json.dumps({"status": "error", "message": said})))
    order = {"no": noise.number(random, "ILL"), "title": facts["title"], "state": "sent", "at": now(facts, random)}
    return {"order": order, "lender": f"University of {noise.city(random)}", "eur": 1.5, "days": random.randint(3, 12)}


_SHOWN = {
    "find_patron": _patron, "get_loans": _loans, "find_item": _item, "get_fees": _fees, "find_article": _article,
    "get_licence": _licence, "list_rooms": _rooms, "get_ill_request": _request, "read_inbox": _inbox,
    "order_ill": _ordered,
}  # fmt: skip
_ABOUT = {
    "find_patron": ("patron",), "get_loans": ("patron",), "find_item": ("title",), "get_fees": ("patron",),
    "find_article": ("doi",), "get_licence": ("issn",), "list_rooms": ("building",), "get_ill_request": ("ill",),
    "renew_loan": ("patron", "title"), "place_hold": ("patron", "title"), "waive_fee": ("patron", "fee"),
    "send_link": ("patron", "title"), "order_ill": ("patron", "title"), "book_room": ("patron", "room", "weeks"),
    "message_patron": ("patron", "ticket"),
}  # fmt: skip
LIBRARY = desk(
    "library", _WAYS, lookups=LOOKUPS, acts=ACTS, branches=BRANCHES, system=_SYSTEM, requests=_REQUESTS, draw=_draw,
    asks_otherwise={"purpose": FOR_ALL}, said={"wait": (_WAITS, ELSEWHERE)}, shown=_SHOWN, about=_ABOUT,
)  # fmt: skip
