"""Details that decide nothing: names, dates, amounts, ids."""

from __future__ import annotations

from random import Random

_FIRST = (
    "Ines", "Paul", "Mei", "Olga", "Luis", "Aisha", "Tom", "Emre", "Nora", "Ravi", "Sofia", "Jan", "Lena", "Omar",
    "Ada", "Bruno", "Chloe", "Dario", "Elif", "Felix", "Greta", "Hugo", "Ivana", "Jonas", "Kofi", "Lucia",
)  # fmt: skip
_LAST = (
    "Okafor", "Brandt", "Tanaka", "Petrova", "Romero", "Diallo", "Byrne", "Kaya", "Lindgren", "Mehta", "Costa",
    "Novak", "Abbott", "Berg", "Duarte", "Eriksen", "Fischer", "Greco", "Haas", "Ito", "Jensen", "Kovacs", "Lopez",
)  # fmt: skip
_CITIES = ("Porto", "Leeds", "Turin", "Gdansk", "Lyon", "Bergen", "Utrecht", "Malaga", "Graz", "Cork")
_COMPANIES = ("Arlo", "Birchwood", "Castellan", "Dunmore", "Everline", "Foxglove", "Granite", "Halcyon", "Ironbark")


def person(random: Random) -> str:
    return f"{random.choice(_FIRST)} {random.choice(_LAST)}"


def city(random: Random) -> str:
    return random.choice(_CITIES)


def company(random: Random) -> str:
    return f"{random.choice(_COMPANIES)} {random.choice(('Ltd', 'GmbH', 'SA', 'Group'))}"


def number(random: Random, prefix: str) -> str:
    return f"{prefix}-{random.randrange(10_000, 100_000)}"


def date(random: Random) -> str:
    return f"2026-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}"


def moment(random: Random) -> str:
    return f"{date(random)}T{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}Z"


def amount(random: Random, least: float = 4, most: float = 480) -> float:
    return round(random.uniform(least, most), 2)
