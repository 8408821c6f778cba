"""The library: questions that analysts ask, each a file that pastes into Neo4j Browser as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, TypeAlias, cast

from hepm.errors import QueryError

ParameterType: TypeAlias = Literal["string", "int", "float", "boolean"]

_EMBEDDED: Final = ".embedded.cypher"
_HEADER: Final = re.compile(r"// (?:(Params|Returns|Note|Picture): +)?(.*)")
_PARAMETER: Final = re.compile(r"\$(\w+) (string|int|float|boolean)(?: = (.+))?")
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "int": (int,),
    "float": (float, int),
    "boolean": (bool,),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a question has to be told.

    Attributes:
        default: None where it must be given.
    """

    name: str
    type: ParameterType
    default: str | int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One file of the library.

    Attributes:
        asks: The question in words.
        text: The whole file, as Neo4j runs it.
        embedded: What the embedded engine runs: the same text, or `NAME.embedded.cypher` where there is one.
        returns: Name and type of each column.
        note: What to know about the answer; "" where nothing.
        picture: Whether the answer is a graph worth looking at in Browser.
    """

    name: str
    asks: str
    text: str
    embedded: str
    parameters: tuple[Parameter, ...]
    returns: tuple[tuple[str, str], ...]
    note: str = ""
    picture: bool = False

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given values, completed by defaults and checked.

        Raises:
            QueryError: one is missing, unknown or of another type; the sentence names those that exist.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        if unknown := sorted(set(given) - set(known)):
            raise QueryError(f"{self.name} has no parameter {unknown[0]!r}: it has {self.signature}.")
        found: dict[str, Any] = {}
        for name, parameter in known.items():
            value = given.get(name, parameter.default)
            if value is None:
                raise QueryError(f"{self.name} needs {name}: give it with --param {name}=…; it has {self.signature}.")
            if not isinstance(value, _PYTHON[parameter.type]) or (
                isinstance(value, bool) and parameter.type != "boolean"
            ):
                raise QueryError(f"{self.name} takes {name} as {parameter.type}, not {value!r}.")
            found[name] = value
        return found

    @property
    def signature(self) -> str:
        """Its parameters in one line."""
        return ", ".join(
            p.name if p.default is None else f"{p.name} = {json.dumps(p.default)}" for p in self.parameters
        )


@cache
def questions() -> Mapping[str, Question]:
    """All of the library by name, sorted."""
    folder = resources.files("hepm.cypher").joinpath("library")
    texts = {entry.name: entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".cypher")}
    names = sorted(file.removesuffix(".cypher") for file in texts if not file.endswith(_EMBEDDED))
    return {name: parse(name, texts[f"{name}.cypher"], texts.get(name + _EMBEDDED)) for name in names}


def question(name: str) -> Question:
    """One of the library.

    Raises:
        QueryError: there is none of that name; the sentence names one that is spelt alike.
    """
    known = questions()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise QueryError(f"the library has no question {name!r}: {hint}`hepm cypher --list` names them all.")
    return known[name]


def parse(name: str, text: str, embedded: str | None = None) -> Question:
    """Read a file of the library.

    Raises:
        ValueError: its header is not as docs/cypher.md says.
    """
    lines: dict[str, list[str]] = {"": [], "Params": [], "Returns": [], "Note": [], "Picture": []}
    for line in text.splitlines():
        match = _HEADER.fullmatch(line)
        if match is None:
            break
        lines[match[1] or ""].append(match[2])
    if len(lines[""]) != 1 or not lines["Params"] or not lines["Returns"]:
        raise ValueError(f"{name}.cypher needs one line with the question, and the lines Params and Returns")
    columns = [column.partition(" ") for column in _listed(lines["Returns"])]
    return Question(
        name,
        lines[""][0],
        text,
        embedded or text,
        tuple(_parameter(name, part) for part in _listed(lines["Params"])),
        tuple((column, kind) for column, _, kind in columns),
        " ".join(lines["Note"]),
        lines["Picture"] == ["yes"],
    )


def _listed(lines: list[str]) -> list[str]:
    return [part.strip() for part in " ".join(lines).split(",")]


def _parameter(name: str, text: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        raise ValueError(f"{name}.cypher: {text!r} is no parameter like `$limit int = 10`")
    default = None if match[3] is None else json.loads(match[3])
    return Parameter(match[1], cast("ParameterType", match[2]), default)
