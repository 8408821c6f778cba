"""Every Cypher statement of hepm is a file: the store's, the schema's, and the library of analysts' questions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import dropwhile, takewhile
from typing import Any, Final, Literal, LiteralString, NamedTuple, TypeAlias, cast

from hepm.errors import QueryError
from hepm.types import Object

_FILES: Final = resources.files("hepm.cypher")
_MIGRATION: Final = re.compile(r"(\d+)_\w+\.cypher")


@cache
def statement(name: str, folder: str = "store") -> LiteralString:
    """The text of `FOLDER/NAME.cypher` without the comments at its head."""
    return _body(_FILES.joinpath(folder, f"{name}.cypher").read_text("utf-8"))


@cache
def migrations() -> Sequence[tuple[int, list[LiteralString]]]:
    """Version and statements of each migration, oldest first."""
    versions: list[tuple[int, list[LiteralString]]] = []
    for entry in _FILES.joinpath("schema").iterdir():
        match = _MIGRATION.fullmatch(entry.name)
        if match is None:
            continue
        statements: list[LiteralString] = []
        # A semicolon ends a statement only at the end of a line: texts may hold others.
        for part in _body(entry.read_text("utf-8")).split(";\n"):
            text = part.strip()
            if text:
                statements.append(text.removesuffix(";"))
        versions.append((int(match[1]), statements))
    return sorted(versions)


def _body(text: str) -> LiteralString:
    lines = dropwhile(lambda line: line.startswith("//"), text.splitlines(keepends=True))
    # From a file of ours, and so as good as written here: the driver's signature takes nothing else.
    return cast("LiteralString", "".join(lines).strip())


ParameterType: TypeAlias = Literal["string", "int", "float", "boolean"]

_EMBEDDED: Final = ".embedded.cypher"  # ending of a text for the embedded engine, where it needs another one
_PARAMETER: Final = re.compile(r"\$(\w+) (string|int|float|boolean)(?: = (.+))?")
_PYTHON: Final = {"string": (str,), "int": (int,), "float": (float, int), "boolean": (bool,)}


class Parameter(NamedTuple):
    """A parameter of a question, required if `default` is None."""

    name: str
    type: ParameterType
    default: str | int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One file of the library.

    Attributes:
        asks: The question in words.
        text: The whole file, as Neo4j runs it.
        embedded: What the embedded engine runs: `NAME.embedded.cypher`, else the same text.
        picture: Whether the answer is a graph worth looking at in Browser.
    """

    name: str
    asks: str
    text: str
    embedded: str
    parameters: tuple[Parameter, ...]
    picture: bool

    def values(self, given: Mapping[str, Any]) -> Object:
        """The given values, checked, with defaults for the others; else a `QueryError` that lists the parameters."""
        values: Object = {}
        for name, _, default in self.parameters:
            values[name] = given.get(name, default)
        unknown = sorted(given.keys() - values.keys())
        if unknown:
            raise QueryError(f"{self.name} has no parameter {unknown[0]!r}: it has {self.signature}.")
        for name, kind, _ in self.parameters:
            value = values[name]
            if value is None:
                raise QueryError(f"{self.name} needs {name}: give it with --param {name}=…; it has {self.signature}.")
            # In Python true and false are integers, too.
            is_other = isinstance(value, bool) and kind != "boolean"
            if is_other or not isinstance(value, _PYTHON[kind]):
                raise QueryError(f"{self.name} takes {name} as {kind}, not {value!r}.")
        return values

    @property
    def signature(self) -> str:
        """Its parameters in one line."""
        parts: list[str] = []
        for name, _, default in self.parameters:
            parts.append(name if default is None else f"{name} = {json.dumps(default)}")
        return ", ".join(parts)


@cache
def questions() -> Mapping[str, NamedQuery]:
    """All questions by name, sorted."""
    texts: dict[str, str] = {}
    embedded: dict[str, str] = {}
    for entry in _FILES.joinpath("library").iterdir():
        if entry.name.endswith(_EMBEDDED):
            embedded[entry.name.removesuffix(_EMBEDDED)] = entry.read_text("utf-8")
        elif entry.name.endswith(".cypher"):
            texts[entry.name.removesuffix(".cypher")] = entry.read_text("utf-8")
    return {name: _parse(name, text, embedded.get(name)) for name, text in sorted(texts.items())}


def question(name: str) -> NamedQuery:
    """One question by name, else a `QueryError` that suggests a similar one."""
    known = questions()
    if name not in known:
        from difflib import get_close_matches

        hint = ""
        near = get_close_matches(name, known, n=1)
        if near:
            hint = f"did you mean {near[0]}? "
        raise QueryError(f"the library has no question {name!r}: {hint}`hepm cypher --list` names them all.")
    return known[name]


def _parse(name: str, text: str, embedded: str | None) -> NamedQuery:
    """Read a file, whose header is as docs/use/cypher.md says."""
    asks, *rest = takewhile(lambda line: line.startswith("//"), text.splitlines())
    fields: dict[str, str] = {}
    for line in rest:
        key, _, value = line.removeprefix("// ").partition(":")
        fields[key] = value.strip()
    parameters: list[Parameter] = []
    for part in fields["Params"].split(","):
        match = _PARAMETER.fullmatch(part.strip())
        if match is None:  # "none" is no parameter
            continue
        default = json.loads(match[3] or "null")
        parameters.append(Parameter(match[1], cast("ParameterType", match[2]), default))
    return NamedQuery(
        name,
        asks.removeprefix("// "),
        text,
        embedded or text,
        tuple(parameters),
        fields.get("Picture") == "yes",
    )


def favourites() -> bytes:
    """The archive that Browser unpacks into folders of favourites."""
    import io
    import zipfile

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        for path, text in scripts().items():
            written.writestr(zipfile.ZipInfo(path), text, zipfile.ZIP_DEFLATED)  # no time: equal bytes each time
    return archive.getvalue()


def scripts() -> Mapping[str, str]:
    """Each favourite by its path: settings for Browser, then pictures, then all other questions.

    Browser uses a script's first line as its name and shows some 25 letters of it, so it begins with the name.
    """
    library = questions()
    by_path: dict[str, str] = {}
    for number, (name, text) in enumerate(_settings(library.values()), 1):
        by_path[f"hepm/{number}.cypher"] = f"// {number}. {name}\n{text}\n"
    for folder, picture in (("hepm pictures", True), ("hepm questions", False)):
        for name, query in library.items():
            if query.picture == picture:
                by_path[f"{folder}/{name}.cypher"] = query.text.replace("// ", f"// {name}: ", 1)
    return by_path


def _settings(library: Iterable[NamedQuery]) -> list[tuple[str, str]]:
    """Names and texts of the scripts that set Browser up."""
    names: set[str] = set()
    for query in library:
        names.update(parameter.name for parameter in query.parameters)
    parameters = f":param [{{{', '.join(sorted(names))}}}] => {{\n{statement('parameters', 'browser')}\n}}"
    return [
        ("Style", f":style {json.dumps(style(), ensure_ascii=False)}"),
        ("Draw what is asked for", ":config autoComplete: false"),
        ("Values for parameters", parameters),
    ]


def style() -> dict[str, dict[str, str]]:
    """Rules of Browser's style by selector; of two rules that fit a node, Browser takes the later one.

    Browser draws a font size in its unit and measures only the number. In picas (1pc = 16px) even the longest name
    measures less than its circle, so it is not cut to eight letters.
    """
    return json.loads(_FILES.joinpath("browser", "style.json").read_text("utf-8"))
