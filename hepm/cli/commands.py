"""How the command line uses click, and the table of all commands, each imported when it is called."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import click
from click.core import ParameterSource

from hepm.cli.config import read_config, setting_at

Callback: TypeAlias = Callable[..., Any]
"""The function of a command."""
Decorator: TypeAlias = Callable[[Callback], Callback]
Several: TypeAlias = tuple[str, ...]
"""The values of an argument or a repeatable option."""

PATH: Final = click.Path(path_type=Path)


class ConfigOption(click.Option):
    """An option that a key of `hepm.toml` may set, below the command line and the environment."""

    def __init__(self, names: list[str], *, config: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.config = config

    def consume_value(self, ctx: click.Context, opts: Any) -> tuple[Any, ParameterSource]:
        """The value, and where it comes from; that of the file if nothing but the default would hold."""
        value, source = super().consume_value(ctx, opts)
        # Read only when it decides: help works with a broken file.
        if source is ParameterSource.DEFAULT:
            configured = read_config().value(self.config)
            if configured is not None:
                return configured, ParameterSource.DEFAULT_MAP
        return value, source


def option(
    names: str,
    help: str = "",
    *,
    default: Any = None,
    least: float | None = None,
    most: float | None = None,
    one_of: Sequence[str] = (),
    config: str = "",
    **settings: Any,
) -> Decorator:
    """An option of a command, such as `option("--limit -l", "Maximum number.", least=1)`.

    Args:
        names: How it is written, and perhaps the parameter it fills, separated by spaces.
        default: Help shows it unless it is empty.
        least, most: The range of a number; a whole one unless one of the two or the default has a point.
        one_of: What it may be.
        config: The key of `hepm.toml` that may set it, which has the help, default and range that are not given here.
    """
    if config:
        settings |= {"cls": ConfigOption, "config": config}
        known, setting = setting_at(config)
        help = help or setting.help
        default = known if default is None else default
        one_of = one_of or setting.one_of
        if math.isfinite(setting.least):
            least = setting.least
            most = setting.most if math.isfinite(setting.most) else None
    if one_of:
        settings["type"] = click.Choice(one_of)
    elif least is not None or most is not None:
        is_float = any(isinstance(number, float) for number in (least, most, default))
        ranged = click.FloatRange if is_float else click.IntRange
        settings["type"] = ranged(cast(Any, least), cast(Any, most))
    return click.option(*names.split(), default=default, show_default=bool(default), help=help, **settings)


def flag(names: str, help: str) -> Decorator:
    """An option that is given or not."""
    return click.option(*names.split(), is_flag=True, help=help)


def argument(name: str, help: str, **settings: Any) -> Decorator:
    """A positional argument of a command."""
    return click.argument(name, help=help, **settings)


command = click.command
"""A command of a function, whose docstring is its help."""


def group(name: str, help: str) -> click.Group:
    """A group of commands."""
    return click.Group(name, help=help, no_args_is_help=True)


def options_as(name: str, kind: type[Any], *options: Decorator) -> Decorator:
    """A decorator that adds options to a command, which gets their values as one object of a dataclass.

    Example: with `options_as("place", StorePlace, store_option, namespace_option)` a command has a parameter `place`.
    """
    names = [field.name for field in fields(kind)]

    def decorate(function: Callback) -> Callback:
        @wraps(function)
        def call(**values: Any) -> Any:
            # `function` may itself gather the values of other options: the rest is passed on.
            values[name] = kind(**{option: values.pop(option) for option in names})
            return function(**values)

        decorated: Callback = call
        # The last decorator that is applied comes first in the help.
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


GROUPS: Final = {
    "Start": {
        "demo": ("demo:demo", "Show what memory makes of the runs of a made-up desk."),
        "init": ("init:init", "Print the lines that connect an agent to a memory, or write them."),
        "serve": ("serve:serve", "Serve a memory to running agents over HTTP."),
        "mcp": ("serve:mcp", "Serve a memory as MCP tools on standard input and output."),
    },
    "Runs": {
        "ingest": ("ingest:ingest", "Read recorded runs and remember them."),
        "label": ("label:label", "Label runs of unknown outcome: by hand, by rule, or by a model."),
        "forget": ("stores:forget", "Forget runs and everything they added."),
        "export": ("transfer:export", "Write the runs and lessons as lines of JSON, or lessons for agents."),
        "import": ("transfer:import_", "Read an export back."),
        "copy": ("transfer:copy", "Copy a memory between files and Neo4j."),
    },
    "Report": {
        "report": ("report:report", "Say where agents go wrong, and what worked instead."),
        "check": ("report:check", "Check by runs whether the lessons in AGENTS.md still hold."),
    },
    "Ask": {
        "suggest": ("queries:suggest", "Suggest the next tools, or say why there is no opinion."),
        "prompt": ("queries:prompt", "Print what memory adds to a prompt: notes, lessons and the next tools."),
        "cypher": ("queries:cypher", "Run a question of the library, or your own Cypher."),
        "view": ("reports:view", "Write the graph as one HTML page."),
        "stats": ("stores:stats", "Print counts of a memory by namespace."),
    },
    "Lessons": {
        "lesson": (
            "lesson_change:lesson",
            "What runs taught: experiences (PRIME), principles (EvolveR), notes on users.",
        ),
    },
    "Measure": {
        "eval": ("reports:eval_runs", "Measure how well memory predicts the next tool."),
        "bench": ("bench:bench", "Run an agent on an environment's tasks, with memory and without."),
        "papers": ("papers:papers", "Play the tables of the papers with a model, beside the published figures."),
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
COMMANDS: Final = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}


@cache
def find_command(name: str) -> click.Command:
    """Import a command of the table."""
    module, _, member = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(import_module(f"hepm.cli.{module}"), member)
    return command


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
    # click suggests these names for a misspelt one.
    commands=dict.fromkeys(COMMANDS, click.Command(None)),
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
