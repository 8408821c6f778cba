"""Write the parts of the docs that are made from the code: `python docs/make_reference.py`."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import click

from hepm.cli.commands import command, find_command
from hepm.cli.config import TABLES, VARIABLES, ConfigFile
from hepm.cli.model import dry_run_option, model_options
from hepm.cli.options import format_option, json_option, place_options, yes_option
from hepm.cypher import NamedQuery, questions
from hepm.lab.bench.arms import ARMS
from hepm.lab.papers import PAPERS, find_paper
from hepm.settings import settings_of

DOCS = Path(__file__).parent
PAGES = (
    "reference/settings.md",
    "reference/cli.md",
    "reference/questions.md",
    "use/bench.md",
    "understand/papers.md",
)
"""The pages with parts that are made from the code."""
LESSON_LABEL = re.compile(r":(?:Experience|Principle|Notes|Lesson|Showing|Concept|User)\b")
BLOCK = re.compile(r"(?:^## (hepm [\w ]+)\n\n)?<!-- made(?:: ([\w ]+))? -->\n.*?<!-- end -->", re.DOTALL | re.MULTILINE)
"""A part that is made, by its name, or by the command that the heading before it names."""


def config_keys() -> str:
    """The keys of `hepm.toml`, each with its default."""
    lines: list[str] = []
    for prefix, table in {"": ConfigFile, **TABLES}.items():
        defaults: Any = table()
        for name, setting in settings_of(table).items():
            default = getattr(defaults, name)
            key = f"`{prefix}.{name}`" if prefix else f"`{name}`"
            choices = f" {setting.allowed.capitalize()}." if setting.allowed.startswith("one of") else ""
            shown = "" if default in (None, (), {}) else f" Default: `{_toml(default)}`."
            lines.append(f"- {key}: {setting.help}{choices}{shown}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def variables() -> str:
    """The environment variables."""
    return "\n".join(f"- `{name}`: {meaning}" for name, meaning in VARIABLES.items()) + "\n"


def question_list(*, of_lessons: bool) -> str:
    """The questions of the library about the graph, or about lessons."""
    lines: list[str] = []
    for question in questions().values():
        if bool(LESSON_LABEL.search(question.text)) == of_lessons:
            star = " ★" if question.picture else ""
            parameters = _parameters_of(question)
            lines.append(f"- `{question.name}`{star}: {question.asks}{f' ({parameters})' if parameters else ''}")
    return "\n".join(lines) + "\n"


def _parameters_of(question: NamedQuery) -> str:
    """`tool`, `runs=5`; the namespace and the limit, which the page describes for all, are left out."""
    shown: list[str] = []
    for parameter in question.parameters:
        if parameter.name not in ("namespace", "limit"):
            default = "" if parameter.default is None else f"={parameter.default}"
            shown.append(f"`{parameter.name}{default}`")
    return ", ".join(shown)


def arms() -> str:
    """The arms of `hepm bench`: what the agent is shown, or does."""
    return "\n".join(f"- `{arm.name}`: {arm.about}" for arm in ARMS.values()) + "\n"


def tables_of_papers() -> str:
    """All tables and figures of the papers with their state."""
    parts: list[str] = []
    for paper in map(find_paper, PAPERS):
        lines = [f"**{paper.title}**, `hepm papers {paper.name}`", ""]
        for table in paper.tables:
            name = f"`--table {table.name}`" if table.state == "model" else table.printed_name
            by = f"no: {table.by}" if table.state == "cannot" else table.by
            lines.append(f"- {name}: {table.title}{f' ({by})' if by else ''}")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


@command("shared")
@place_options
@json_option
@model_options
@dry_run_option
@yes_option
@format_option
def shared(**options: Any) -> None:
    """The options that mean the same in every command that has them."""


def shared_options() -> str:
    """The options that many commands share."""
    return _list_of(shared, shared.params)


def command_help(name: str) -> str:
    """The help of a command, such as `hepm lesson list`, and its options; shared ones by name below it."""
    first, *rest = name.split()[1:]
    called = find_command(first)
    for word in rest:
        assert isinstance(called, click.Group)
        called = called.commands[word]
    meanings = {_meaning_of(parameter) for parameter in shared.params}
    own = [parameter for parameter in called.params if _meaning_of(parameter) not in meanings]
    of_many = [parameter for parameter in called.params if _meaning_of(parameter) in meanings]
    parts = [f"{' '.join(part.split())}\n" for part in (called.help or "").split("\n\n")]
    if own:
        parts.append(_list_of(called, own))
    if of_many:
        names = " ".join(f"`{parameter.opts[0]}`" for parameter in of_many)
        parts.append(f"[Shared](#options-that-commands-share): {names}\n")
    return "\n".join(parts)


def _list_of(called: click.Command, parameters: list[click.Parameter]) -> str:
    context = click.Context(called)
    lines: list[str] = []
    for parameter in parameters:
        name = f"`{parameter.make_metavar(context)}`"
        if isinstance(parameter, click.Option):
            name = _names_of(parameter, context)
        lines.append(f"- {name}: {_meaning_of(parameter)}")
    return "\n".join(lines) + "\n"


def _names_of(option: click.Option, context: click.Context) -> str:
    """`--store TEXT`, `-s`."""
    long, *others = sorted([*option.opts, *option.secondary_opts], key=lambda name: not name.startswith("--"))
    value = "" if option.is_flag else " " + option.make_metavar(context).removesuffix(" RANGE")
    return ", ".join([f"`{long}{value}`", *(f"`{other}`" for other in others)])


def _meaning_of(option: click.Parameter) -> str:
    """The help of an argument or option, its default, and what else sets it."""
    if not isinstance(option, click.Option):
        return option.help or ""
    sentences = [option.help or ""]
    if option.show_default and option.default is not None:
        sentences.append(f"Default: `{option.default}`.")
    if option.multiple and "repeat" not in sentences[0].casefold():
        sentences.append("Repeatable.")
    others = [str(option.envvar)] if option.envvar else []
    config = getattr(option, "config", "")
    others += [f"{config}` in `hepm.toml"] if config else []
    if others:
        sentences.append(f"Also: {', '.join(f'`{other}`' for other in others)}.")
    return " ".join(sentences)


def part_of(name: str) -> str:
    """The part of a page with this name."""
    parts = {
        "config": config_keys,
        "shared options": shared_options,
        "variables": variables,
        "arms": arms,
        "tables of papers": tables_of_papers,
        "questions": partial(question_list, of_lessons=False),
        "questions about lessons": partial(question_list, of_lessons=True),
    }
    return parts[name]() if name in parts else command_help(name)


def made(text: str) -> str:
    """A page with its marked parts made anew."""
    return BLOCK.sub(_made_block, text)


def _made_block(block: re.Match[str]) -> str:
    head, marker, _ = block[0].partition(" -->\n")
    return head + marker + part_of(block[2] or block[1]) + "<!-- end -->"


def pages() -> dict[Path, str]:
    """Each page that has such parts, as it should be."""
    return {DOCS / page: made((DOCS / page).read_text("utf-8")) for page in PAGES}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, "utf-8")
