"""Every Cypher statement of hepm is a file: the store's, the schema's, and the library of analysts' questions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import dropwhile, takewhile
from typing import Any, Final, Literal, LiteralString, NamedTuple, TypeAlias, cast

from hepm.errors import QueryError

_FILES: Final = resources.files("hepm.cypher")
_MIGRATION: Final = re.compile(r"(\d+)_(\w+)\.cypher")


@cache
def statement(name: str, folder: str = "store") -> LiteralString:
    """The text of `FOLDER/NAME.cypher` without the comments at its head."""
    return _body(_FILES.joinpath(folder, f"{name}.cypher").read_text("utf-8"))


@cache
def migrations() -> tuple[tuple[int, str, tuple[LiteralString, ...]], ...]:
    """Version, name and statements of each migration, oldest first."""
    found: list[tuple[int, str, tuple[LiteralString, ...]]] = []
    for entry in _FILES.joinpath("schema").iterdir():
        if match := _MIGRATION.fullmatch(entry.name):
            texts: list[LiteralString] = [part.strip() for part in _body(entry.read_text("utf-8")).split(";\n")]
            statements: tuple[LiteralString, ...] = tuple(text.removesuffix(";") for text in texts if text)
            found.append((int(match[1]), str(match[2]).replace("_", " "), statements))
    return tuple(sorted(found))


def _body(text: str) -> LiteralString:
    lines = dropwhile(lambda line: line.startswith("//"), text.splitlines(keepends=True))
    # From a file of ours, and so as good as written here: the driver's signature takes nothing else.
    return cast("LiteralString", "".join(lines).strip())


ParameterType: TypeAlias = Literal["string", "int", "float", "boolean"]

_EMBEDDED: Final = ".embedded.cypher"
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
        returns: Name and type of each column.
        note: A remark on the answer, or "".
        picture: Whether the answer is a graph worth looking at in Browser.
    """

    name: str
    asks: str
    text: str
    embedded: str
    parameters: tuple[Parameter, ...]
    returns: tuple[tuple[str, str], ...]
    note: str
    picture: bool

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given values, checked, with defaults for the others; else a `QueryError` that lists the parameters."""
        if unknown := sorted(set(given) - {parameter.name for parameter in self.parameters}):
            raise QueryError(f"{self.name} has no parameter {unknown[0]!r}: it has {self.signature}.")
        values = {name: given.get(name, default) for name, _, default in self.parameters}
        for name, kind, _ in self.parameters:
            value = values[name]
            if value is None:
                raise QueryError(f"{self.name} needs {name}: give it with --param {name}=…; it has {self.signature}.")
            if not isinstance(value, _PYTHON[kind]) or (isinstance(value, bool) and kind != "boolean"):
                raise QueryError(f"{self.name} takes {name} as {kind}, not {value!r}.")
        return values

    @property
    def signature(self) -> str:
        """Its parameters in one line."""
        defaults = {
            name: "" if default is None else f" = {json.dumps(default)}" for name, _, default in self.parameters
        }
        return ", ".join(name + default for name, default in defaults.items())


@cache
def questions() -> Mapping[str, NamedQuery]:
    """All questions by name, sorted."""
    folder = _FILES.joinpath("library")
    texts = {entry.name: entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".cypher")}
    names = sorted(file.removesuffix(".cypher") for file in texts if not file.endswith(_EMBEDDED))
    return {name: _parse(name, texts[f"{name}.cypher"], texts.get(name + _EMBEDDED)) for name in names}


def question(name: str) -> NamedQuery:
    """One question by name, else a `QueryError` that suggests a similar one."""
    known = questions()
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise QueryError(f"the library has no question {name!r}: {hint}`hepm cypher --list` names them all.")
    return known[name]


def _parse(name: str, text: str, embedded: str | None) -> NamedQuery:
    """Read a file, whose header is as docs/use/cypher.md says."""
    asks, *rest = (line.removeprefix("// ") for line in takewhile(lambda line: line[:2] == "//", text.splitlines()))
    fields = {key: value.strip() for key, _, value in (line.partition(":") for line in rest)}
    parameters = [_PARAMETER.fullmatch(part.strip()) for part in fields["Params"].split(",")]
    returns = [part.strip().partition(" ") for part in fields["Returns"].split(",")]
    return NamedQuery(
        name,
        asks,
        text,
        embedded or text,
        tuple(Parameter(m[1], cast("ParameterType", m[2]), m[3] and json.loads(m[3])) for m in parameters if m),
        tuple((column, kind) for column, _, kind in returns),
        fields.get("Note", ""),
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
    names = sorted({parameter.name for question in library.values() for parameter in question.parameters})
    prepare = (
        ("Style", f":style {json.dumps(style(), ensure_ascii=False)}"),
        ("Draw what is asked for", ":config autoComplete: false"),
        ("Values for parameters", f":param [{{{', '.join(names)}}}] => {{\n{statement('parameters', 'browser')}\n}}"),
    )
    found = {
        f"hepm/{number}.cypher": f"// {number}. {name}\n{text}\n" for number, (name, text) in enumerate(prepare, 1)
    }
    # Not in the library: only a server has painted edges.
    pictures = {"painted": _FILES.joinpath("browser", "painted.cypher").read_text("utf-8")}
    pictures |= {name: question.text for name, question in library.items() if question.picture}
    others = {name: question.text for name, question in library.items() if not question.picture}
    for folder, texts in (("hepm pictures", pictures), ("hepm questions", others)):
        found |= {f"{folder}/{name}.cypher": text.replace("// ", f"// {name}: ", 1) for name, text in texts.items()}
    return found


def style() -> dict[str, dict[str, str]]:
    """Rules of Browser's style by selector; of two rules that fit a node, Browser takes the later one.

    Browser draws a font size in its unit and measures only the number. In picas (1pc = 16px) even the longest name
    measures less than its circle, so it is not cut to eight letters.
    """
    return json.loads(_FILES.joinpath("browser", "style.json").read_text("utf-8"))
