"""Commands of click from annotated functions, and the table of all commands, each imported when it is called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from hepm.cli.config import read_config
from hepm.text import count_of

F = TypeVar("F", bound=Callable[..., Any])


class Option:
    """Marks a parameter of a command as an option, named like it by default.

    Args:
        config: The key of `hepm.toml` that is read if neither the option nor its variable is given.
        settings: What `click.Option` gets.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        min: float | None = None,
        max: float | None = None,
        config: str = "",
        **settings: Any,
    ) -> None:
        self.help, self.names, self.range, self.config, self.settings = help, names, (min, max), config, settings


class Argument(Option):
    """Marks a parameter of a command as a positional argument."""


class _Argument(click.Argument):
    about: str = ""


class _Option(click.Option):
    """An option that `hepm.toml` may set, below the command line and the environment."""

    config: str = ""

    def consume_value(self, ctx: click.Context, opts: Any) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        if self.config and source is ParameterSource.DEFAULT:
            configured = read_config().value(self.config)
            if configured is not None:
                return configured, ParameterSource.DEFAULT_MAP
        return value, source


class _Command(click.Command):
    """A command whose `--help` leaves out the options of `RARE`, which `--help-all` shows."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), _HELP_ALL]

    def left_out(self, ctx: click.Context) -> list[click.Option]:
        """The options that this help does not show."""
        if ctx.meta.get(_SHOW_ALL):
            return []
        rare = RARE.get(ctx.command_path.removeprefix("hepm "), "").split()
        return [one for one in self.params if isinstance(one, click.Option) and one.name in rare]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [(one.make_metavar(ctx), one.about) for one in self.params if isinstance(one, _Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        left_out = self.left_out(ctx)
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option) and one not in left_out]
        records = [one.get_help_record(ctx) for one in options]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{count_of(len(left_out), 'more option')}: {ctx.command_path} --help-all")


_SHOW_ALL: Final = "hepm.help_all"


def _help_all(ctx: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        ctx.meta[_SHOW_ALL] = True
        print(ctx.get_help())
        ctx.exit()


_HELP_ALL: Final = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=_help_all
)


def command(function: Callable[..., Any], name: str | None = None) -> click.Command:
    """The command that calls a function: its docstring is the help, its annotated parameters are the options.

    The fields of a parameter that is a dataclass become options too, so that commands can share them.
    """
    own: list[click.Parameter] = []
    shared: list[click.Parameter] = []
    groups: dict[str, Any] = {}
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            groups[parameter.name] = kind
            of_fields = get_type_hints(kind, include_extras=True)
            shared += [_parameter(field.name, of_fields[field.name], field.default) for field in fields(kind)]
        else:
            default = MISSING if parameter.default is parameter.empty else parameter.default
            own.append(_parameter(parameter.name, kind, default))

    def call(**values: Any) -> Any:
        for group, kind in groups.items():
            values[group] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        return function(**values)

    name = name or function.__name__.strip("_")
    text = re.sub(r"\s+Example: ", "\n\nExample: ", inspect.getdoc(function) or "")  # a paragraph of its own
    return _Command(name, callback=call, params=own + shared, help=text)


def _parameter(name: str, annotation: Any, default: Any) -> click.Parameter:
    base, mark = get_args(annotation)[:2]
    if get_origin(base) in (Union, UnionType):
        base = next(one for one in get_args(base) if one is not NoneType)
    many = get_origin(base) is list
    if many:
        [base] = get_args(base)
    ranges = {int: click.IntRange, float: click.FloatRange}
    settings: dict[str, Any] = {
        "type": ranges[base](*mark.range) if base in ranges and mark.range != (None, None) else base
    }
    if get_origin(base) is Literal:
        settings["type"] = click.Choice(get_args(base))
    elif base is Path:
        settings["type"] = click.Path(path_type=Path)
    if many:
        settings["callback"] = lambda _context, _parameter, values: list(values) or None  # pyright: ignore
    if isinstance(mark, Argument):
        required = default is MISSING
        settings |= {"nargs": -1 if many else 1, "required": required, "metavar": name.upper() + "..." * many}
        argument = _Argument([name], **({} if required or many else {"default": default}), **settings)
        argument.about = mark.help
        return argument
    dashed = "--" + name.replace("_", "-")
    names = mark.names or (dashed,)
    if base is bool:
        names = mark.names or (f"{dashed}/--no-{dashed[2:]}" if default is True else dashed,)
        settings |= {"type": None, "is_flag": True}
        if default is None:
            settings["default"] = None  # else click takes a missing flag for False
    settings |= {"required": default is MISSING} if default in (MISSING, None) or many else {"default": default}
    settings |= {"multiple": many, "show_default": default not in (MISSING, None, "", False, 0) and not many}
    option = _Option([name, *names], help=mark.help, show_envvar=True, **settings, **mark.settings)
    option.config = mark.config
    return option


class Group(click.Group):
    """Commands below a noun, made of functions by `command`."""

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help=help, no_args_is_help=True)

    def takes(self, function: F) -> F:
        """Add a command, as a decorator: `list_` is called `list`."""
        self.add_command(command(function))
        return function


GROUPS: Final = {
    "Start": {
        "demo": ("demo:demo", "Show what memory makes of recorded runs."),
        "init": ("init:init", "Print the lines that connect an agent to a memory, or write them."),
        "serve": ("serve:serve", "Serve a memory to running agents over HTTP."),
        "mcp": ("serve:mcp", "Serve a memory as MCP tools on standard input and output."),
    },
    "Runs": {
        "ingest": ("stores:ingest", "Read recorded runs and remember them."),
        "label": ("label:label", "Label runs of unknown outcome: by hand, by rule, or by a model."),
        "forget": ("stores:forget", "Forget runs and everything they added."),
        "export": ("stores:export", "Write the runs and lessons as lines of JSON, or lessons as a file."),
        "import": ("stores:import_", "Read an export back."),
        "copy": ("stores:copy", "Copy a memory between files and Neo4j."),
    },
    "Ask": {
        "suggest": ("queries:suggest", "Suggest the next tools, or say why there is no opinion."),
        "search": ("queries:search", "Find the remembered situations most like this one."),
        "prompt": ("queries:prompt", "Print what memory adds to a prompt: notes, lessons and the next tools."),
        "cypher": ("queries:cypher", "Run a question of the library, or your own Cypher."),
        "view": ("reports:view", "Write the graph as one HTML page."),
        "stats": ("stores:stats", "Print counts of a memory by namespace."),
    },
    "Lessons": {
        "lesson": ("lesson:lesson", "What runs taught: experiences (PRIME), principles (EvolveR), notes on users."),
    },
    "Measure": {
        "eval": ("reports:eval_runs", "Measure how well memory predicts the next tool."),
        "bench": ("bench:bench", "Run an agent on an environment's tasks, with memory and without."),
        "uplift": ("uplift:uplift", "Say whether memory helps, by sessions that were held out."),
    },
    "Train": {
        "rank": ("rank:app", "Train a ranker on the memory's graph (GNN), and measure it."),
    },
    "Care": {
        "doctor": ("stores:doctor", "Compare what is derived with the stored records."),
        "reembed": ("stores:reembed", "Compute the vectors of all states."),
        "tool": ("tool:app", "Tools that runs called: other names, changes, which are retired."),
        "neo4j": ("neo4j:app", "Run a Neo4j server on this machine."),
    },
}
"""Commands by what they are for, as `hepm --help` lists them: module and function of each, and its line there.

The help imports none of them.
"""
RARE: Final = {
    "bench": "base_url concurrency distiller learn_from max_turns namespace option plot prices seed rollouts",
    "ingest": "processes engine",
    "prompt": "k environment",
}
"""Options that a command's `--help` leaves out, as few need them: at most 12 are shown."""
COMMANDS: Final = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}


@cache
def find_command(name: str) -> click.Command:
    """Import a command of the table."""
    module, _, member = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"hepm.cli.{module}"), member)
    return found if isinstance(found, click.Command) else command(found, name)


class _Root(click.Group):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return find_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                # One column of names for all groups.
                formatter.write_dl([(name.ljust(widest), line) for name, (_, line) in commands.items()])


app = _Root(
    "hepm",
    commands=dict.fromkeys(COMMANDS, click.Command(None)),  # click suggests these names for a misspelt one
    help="Tool memory for LLM agents: which tool worked next, in which situation, and why.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        # Here for the help alone: `main` reads both itself.
        click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error."),
        click.Option(["--version"], is_flag=True, expose_value=False, help="Print the version."),
    ],
    epilog="Exit codes: 0 done, 1 failed, 2 misused, 3 no server (neo4j status), 130 interrupted. "
    "Set HEPM_STORE to name the store once.",
)
