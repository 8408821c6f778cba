"""What Neo4j Browser imports: the style, and the library as favourites, a ZIP archive to drop onto its window."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from importlib import resources
from typing import Final

from hepm.cypher.questions import questions

_RULE: Final = re.compile(r"^([\w.]+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_COLUMN: Final = re.compile(r"(\w+) (?:string|int)")
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same library gives the same bytes


def style() -> str:
    """The style in GraSS, the language that Browser's `:style` shows; it knows no comments.

    Of a node's font size Browser draws all and measures the number alone: in picas (1pc = 16px) even the longest
    name measures less than its circle, and so is written in full instead of being cut to eight letters.
    """
    return _read("style.grass")


def favourites() -> bytes:
    """The archive that Browser unpacks into folders of favourites."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        for path, text in scripts().items():
            written.writestr(zipfile.ZipInfo(path, _NO_TIME), text, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def scripts() -> Mapping[str, str]:
    """Each favourite by its path: what prepares Browser, then what draws a picture, then all other questions.

    The picture of painted edges is no question of the library: the embedded engine has no such edges.
    Browser takes a script's first line for its name and shows some 25 letters of it, so it begins with the question's.
    """
    prepare = {
        "1": ("Style", f":style {json.dumps(rules(style()), ensure_ascii=False)}"),
        "2": ("Draw what is asked for", ":config autoComplete: false"),
        "3": ("Values for parameters", _parameters()),
    }
    found = {f"hepm/{number}.cypher": f"// {number}. {name}\n{text}\n" for number, (name, text) in prepare.items()}
    found["hepm pictures/painted.cypher"] = _named("painted", _read("painted.cypher"))
    for folder, picture in (("hepm pictures", True), ("hepm questions", False)):
        for name, question in questions().items():
            if question.picture is picture:
                found[f"{folder}/{name}.cypher"] = _named(name, question.text)
    return found


def _named(name: str, text: str) -> str:
    return text.replace("// ", f"// {name}: ", 1)


def rules(grass: str) -> dict[str, dict[str, str]]:
    """What GraSS says, as JSON that `:style` takes too: it has no semicolons, at which Browser would cut a script."""
    found: dict[str, dict[str, str]] = {}
    for selector, body in _RULE.findall(grass):
        declared = (line.strip().rstrip(";").partition(":") for line in body.splitlines())
        found[selector] = {key: value.strip().strip("'") for key, _, value in declared}
    return found


def _parameters() -> str:
    """Browser's command that gives every parameter of the library a value, each of its own type."""
    lines = _read("parameters.cypher").splitlines()
    names = _COLUMN.findall("\n".join(line for line in lines if line.startswith("//")))
    query = "\n".join(line for line in lines if not line.startswith("//"))
    return f":param [{{{', '.join(names)}}}] => {{\n{query}\n}}"


def _read(name: str) -> str:
    return resources.files("hepm.cypher").joinpath("browser", name).read_text("utf-8")
