"""An island that does not exist: 120 paragraphs of an encyclopedia on it, and questions that need several of them.

No model has read of it, so that a right answer was found by searching. Everything is drawn from one seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_EACH: Final = 24
_TOWNS: Final = _words(
    "Aldmoor Brenwick Calder Dunhollow Eskmouth Farrowgate Glenhythe Harrowby Ixworth Jarrowdale Kelstone Lorncastle "
    "Marlbeck Northam Ostwick Pellworth Quenby Ravensea Silverholt Tarnfield Ulverby Velmoor Westerlyn Yarbridge"
)
_RIVERS: Final = _words(
    "Ambel Brisk Corrow Dellen Erl Fenna Grith Hallow Innel Jorry Kesh Lathe Mirrel Nadder Orrin Pask Quill Rusk "
    "Sennet Tolk Umber Vask Wyle Yanno"
)
_FIRST: Final = _words(
    "Ada Bertil Clara Dario Edda Fabian Greta Hanno Ilse Jonas Kaja Lorenz Mara Nils Olga Pavel Runa Stellan Tilda "
    "Ulf Vera Wendel Ylva Zacharias"
)
_LAST: Final = _words(
    "Abendroth Brandal Corvin Drexler Engstrom Fallada Gormley Hartung Iversen Jansson Krantz Lindqvist Morwen "
    "Norling Oakes Petrov Quist Rosander Sandoval Thorne Underhill Vance Whitlock Zeller"
)
_BRIDGES: Final = _words(
    "Amber Birch Copper Dragon Eagle Falcon Granite Heron Iron Juniper Kestrel Lantern Maple Noble Orchard Pilgrim "
    "Quarry Raven Saffron Tinker Union Violet Willow Yeoman"
)
_NOUNS: Final = _words(
    "Almanac Bell Clockmaker Ditch Embers Ferryman Garden Harvest Inkwell Journey Keeper Lighthouse Meadow "
    "Nightingale Oven Pilot Quarrel Riddle Shepherd Tide Umbrella Voyage Winter Yard"
)
_FIRMS: Final = _words(
    "Argent Borealis Castor Delphin Eureka Fortuna Gemini Helix Icarus Juno Kronos Lumen Mercator Nimbus Orion "
    "Polaris Quantor Regulus Sirius Titan Unicorn Vesta Walhalla Zephyr"
)
_GOODS: Final = ("clocks", "lamps", "paper", "rope", "glass", "ploughs", "violins", "boots")
_MONTHS: Final = _words("January February March April May June July August September October November December")
_CRAFTS: Final = ("engineer", "writer", "merchant", "architect", "poet", "chemist")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A title and a text."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its right answers, and the searches that lead there, in order.

    Attributes:
        kind: What kind of question it is; "" if unknown.
        split: "train", "test", or "" where nothing is published.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str = ""
    split: str = ""
    searches: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Island:
    """Who and what belongs together, each by a number from 0: `born[p]` is the town of person p."""

    people: tuple[str, ...]
    born: tuple[int, ...]
    years: tuple[int, ...]
    taught: tuple[int, ...]
    designers: tuple[int, ...]
    opened: tuple[int, ...]
    authors: tuple[int, ...]
    founders: tuple[int, ...]
    seats: tuple[int, ...]


@cache
def _island() -> _Island:
    random = Random("island")

    def shuffled() -> tuple[int, ...]:
        return tuple(random.sample(range(_EACH), _EACH))

    last = random.sample(_LAST, _EACH)
    people = tuple(f"{first} {name}" for first, name in zip(_FIRST, last, strict=True))
    born, order = shuffled(), shuffled()
    taught = [0] * _EACH
    for at, person in enumerate(order):  # in a ring, so that nobody teaches himself
        taught[person] = order[at - 1]
    years = tuple(random.sample(range(1801, 1880), _EACH))
    opened = tuple(random.sample(range(1881, 1960), _EACH))
    return _Island(people, born, years, tuple(taught), shuffled(), opened, shuffled(), shuffled(), shuffled())


def paragraphs() -> list[Paragraph]:
    """24 towns, people, bridges, novels and firms."""
    island, random = _island(), Random("island, texts")
    found: list[Paragraph] = []
    for at, (town, river) in enumerate(zip(_TOWNS, _RIVERS, strict=True)):
        size, founded = random.randrange(2, 90), random.randrange(900, 1500)
        text = f"{town} is a town of {size},000 people on the island. The river {river} flows through it."
        found.append(Paragraph(town, f"{text} It got its charter in {founded} and holds a fair each {_month(at)}."))
    for at, person in enumerate(island.people):
        town, teacher = _TOWNS[island.born[at]], island.people[island.taught[at]]
        text = f"{person} ({_CRAFTS[at % len(_CRAFTS)]}) was born in {town} in {island.years[at]}."
        found.append(Paragraph(person, f"{text} The teacher of {person} was {teacher}."))
    for at, name in enumerate(_BRIDGES):
        text = f"The {name} Bridge was designed by {island.people[island.designers[at]]}."
        rest = f"It opened in {island.opened[at]} and is {random.randrange(40, 900)} metres long."
        found.append(Paragraph(f"{name} Bridge", f"{text} {rest}"))
    for at, noun in enumerate(_NOUNS):
        text = f"The {noun} is a novel by {island.people[island.authors[at]]}."
        found.append(
            Paragraph(f"The {noun}", f"{text} Its {random.randrange(9, 60)} chapters tell of one {_month(at)}.")
        )
    for at, firm in enumerate(_FIRMS):
        text = f"{firm} Works makes {_GOODS[at % len(_GOODS)]}. The firm has its seat in {_TOWNS[island.seats[at]]}."
        found.append(Paragraph(f"{firm} Works", f"{text} Its founder was {island.people[island.founders[at]]}."))
    return found


def questions() -> list[AskedQuestion]:
    """40 questions of five kinds; of each kind the last three are the test split."""
    kinds = (_designer_town, _author_teacher, _seat_river, _founder_year, _first_bridge)
    return [_numbered(kind(at), at, 8, 5) for kind in kinds for at in range(8)]


def long_questions() -> list[AskedQuestion]:
    """20 further questions, over three paragraphs each; the last four are the test split."""
    return [_numbered(_author_river(at), at, 20, 16) for at in range(20)]


def _numbered(asked: AskedQuestion, at: int, each: int, train: int) -> AskedQuestion:
    split = "train" if at % each < train else "test"
    return AskedQuestion(f"{asked.kind}-{at}", asked.text, asked.answers, asked.kind, split, asked.searches)


def _designer_town(at: int) -> AskedQuestion:
    island, bridge = _island(), f"{_BRIDGES[at]} Bridge"
    person = island.designers[at]
    text = f"In which town was the designer of the {bridge} born?"
    return _asked("designer-town", text, _TOWNS[island.born[person]], bridge, island.people[person])


def _author_teacher(at: int) -> AskedQuestion:
    island, novel = _island(), f"The {_NOUNS[at]}"
    person = island.authors[at]
    text = f"Who was the teacher of the author of the novel {novel}?"
    return _asked("author-teacher", text, island.people[island.taught[person]], novel, island.people[person])


def _seat_river(at: int) -> AskedQuestion:
    firm, town = f"{_FIRMS[at]} Works", _island().seats[at]
    text = f"Which river flows through the town where {firm} has its seat?"
    return _asked("seat-river", text, _RIVERS[town], firm, _TOWNS[town])


def _founder_year(at: int) -> AskedQuestion:
    island, firm = _island(), f"{_FIRMS[at + 8]} Works"
    person = island.founders[at + 8]
    text = f"In which year was the founder of {firm} born?"
    return _asked("founder-year", text, str(island.years[person]), firm, island.people[person])


def _first_bridge(at: int) -> AskedQuestion:
    pair = (2 * at + 8, 2 * at + 9)
    first = min(pair, key=lambda bridge: _island().opened[bridge])
    one, other = (f"{_BRIDGES[bridge]} Bridge" for bridge in pair)
    text = f"Which opened first, the {one} or the {other}?"
    return _asked("first-bridge", text, f"{_BRIDGES[first]} Bridge", one, other)


def _author_river(at: int) -> AskedQuestion:
    island, novel = _island(), f"The {_NOUNS[at]}"
    person = island.authors[at]
    town = island.born[person]
    text = f"Which river flows through the town where the author of the novel {novel} was born?"
    return _asked("author-river", text, _RIVERS[town], novel, island.people[person], _TOWNS[town])


def _asked(kind: str, text: str, answer: str, *searches: str) -> AskedQuestion:
    return AskedQuestion("", text, (answer,), kind, searches=searches)


def _month(at: int) -> str:
    return _MONTHS[at % len(_MONTHS)]
