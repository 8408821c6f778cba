"""An island that does not exist: 120 paragraphs of an encyclopedia on it, and questions that need several of them.

No model has read of it, so that a right answer was found by searching. Everything is drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_EACH: Final = 24
"""Towns, people, bridges, novels and firms: as many of each as there are names below."""
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

    # Drawn in this order: another one would make another island.
    last = random.sample(_LAST, _EACH)
    people = tuple(f"{first} {name}" for first, name in zip(_FIRST, last, strict=True))
    born = shuffled()
    order = shuffled()
    taught = [0] * _EACH
    for place, person in enumerate(order):  # in a ring, so that nobody teaches himself
        taught[person] = order[place - 1]
    years = tuple(random.sample(range(1801, 1880), _EACH))
    opened = tuple(random.sample(range(1881, 1960), _EACH))
    return _Island(people, born, years, tuple(taught), shuffled(), opened, shuffled(), shuffled(), shuffled())


def paragraphs() -> list[Paragraph]:
    """24 towns, people, bridges, novels and firms."""
    random = Random("island, texts")
    # One source of random numbers in this order: another order would change the texts.
    return [*_towns(random), *_people(), *_bridges(random), *_novels(random), *_firms()]


def _towns(random: Random) -> Iterator[Paragraph]:
    for number, (town, river) in enumerate(zip(_TOWNS, _RIVERS, strict=True)):
        size = random.randrange(2, 90)
        founded = random.randrange(900, 1500)
        where = f"{town} is a town of {size},000 people on the island. The river {river} flows through it."
        rest = f"It got its charter in {founded} and holds a fair each {_month(number)}."
        yield Paragraph(town, f"{where} {rest}")


def _people() -> Iterator[Paragraph]:
    island = _island()
    for number, person in enumerate(island.people):
        town = _TOWNS[island.born[number]]
        teacher = island.people[island.taught[number]]
        craft = _CRAFTS[number % len(_CRAFTS)]
        birth = f"{person} ({craft}) was born in {town} in {island.years[number]}."
        yield Paragraph(person, f"{birth} The teacher of {person} was {teacher}.")


def _bridges(random: Random) -> Iterator[Paragraph]:
    island = _island()
    for number, name in enumerate(_BRIDGES):
        designer = island.people[island.designers[number]]
        metres = random.randrange(40, 900)
        design = f"The {name} Bridge was designed by {designer}."
        yield Paragraph(f"{name} Bridge", f"{design} It opened in {island.opened[number]} and is {metres} metres long.")


def _novels(random: Random) -> Iterator[Paragraph]:
    island = _island()
    for number, noun in enumerate(_NOUNS):
        author = island.people[island.authors[number]]
        chapters = random.randrange(9, 60)
        written = f"The {noun} is a novel by {author}."
        yield Paragraph(f"The {noun}", f"{written} Its {chapters} chapters tell of one {_month(number)}.")


def _firms() -> Iterator[Paragraph]:
    island = _island()
    for number, firm in enumerate(_FIRMS):
        goods = _GOODS[number % len(_GOODS)]
        town = _TOWNS[island.seats[number]]
        founder = island.people[island.founders[number]]
        trade = f"{firm} Works makes {goods}. The firm has its seat in {town}."
        yield Paragraph(f"{firm} Works", f"{trade} Its founder was {founder}.")


def questions() -> list[AskedQuestion]:
    """40 questions of five kinds; of each kind the last three are the test split."""
    # Four kinds of two paragraphs, and one that compares two.
    kinds = (_designer_town, _author_teacher, _seat_river, _founder_year, _first_bridge)
    asked: list[AskedQuestion] = []
    for kind in kinds:
        for number in range(8):
            asked.append(_numbered(kind(number), number, train=5))
    return asked


def long_questions() -> list[AskedQuestion]:
    """20 further questions, over three paragraphs each; the last four are the test split."""
    return [_numbered(_author_river(number), number, train=16) for number in range(20)]


def _numbered(asked: AskedQuestion, number: int, *, train: int) -> AskedQuestion:
    """The question with its id; the first `train` of its kind are the train split."""
    split = "train" if number < train else "test"
    return replace(asked, id=f"{asked.kind}-{number}", split=split)


def _designer_town(number: int) -> AskedQuestion:
    island = _island()
    bridge = f"{_BRIDGES[number]} Bridge"
    person = island.designers[number]
    text = f"In which town was the designer of the {bridge} born?"
    return _asked("designer-town", text, _TOWNS[island.born[person]], bridge, island.people[person])


def _author_teacher(number: int) -> AskedQuestion:
    island = _island()
    novel = f"The {_NOUNS[number]}"
    person = island.authors[number]
    text = f"Who was the teacher of the author of the novel {novel}?"
    return _asked("author-teacher", text, island.people[island.taught[person]], novel, island.people[person])


def _seat_river(number: int) -> AskedQuestion:
    firm = f"{_FIRMS[number]} Works"
    town = _island().seats[number]
    text = f"Which river flows through the town where {firm} has its seat?"
    return _asked("seat-river", text, _RIVERS[town], firm, _TOWNS[town])


def _founder_year(number: int) -> AskedQuestion:
    island = _island()
    firm = f"{_FIRMS[number + 8]} Works"  # the first eight are asked for their seat
    person = island.founders[number + 8]
    text = f"In which year was the founder of {firm} born?"
    return _asked("founder-year", text, str(island.years[person]), firm, island.people[person])


def _first_bridge(number: int) -> AskedQuestion:
    opened = _island().opened
    one = 2 * number + 8  # the first eight are asked for their designer
    other = one + 1
    first = one if opened[one] < opened[other] else other
    text = f"Which opened first, the {_BRIDGES[one]} Bridge or the {_BRIDGES[other]} Bridge?"
    answer = f"{_BRIDGES[first]} Bridge"
    return _asked("first-bridge", text, answer, f"{_BRIDGES[one]} Bridge", f"{_BRIDGES[other]} Bridge")


def _author_river(number: int) -> AskedQuestion:
    island = _island()
    novel = f"The {_NOUNS[number]}"
    person = island.authors[number]
    town = island.born[person]
    text = f"Which river flows through the town where the author of the novel {novel} was born?"
    return _asked("author-river", text, _RIVERS[town], novel, island.people[person], _TOWNS[town])


def _asked(kind: str, text: str, answer: str, *searches: str) -> AskedQuestion:
    return AskedQuestion("", text, (answer,), kind, searches=searches)


def _month(number: int) -> str:
    return _MONTHS[number % len(_MONTHS)]
