"""Commands of click from annotated functions, and the table of all commands, each imported when it is called."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click

F = TypeVar("F", bound=Callable[..., Any])


class Argument:
    """Marks a parameter of a command as a positional argument; settings go to `click.Argument`."""

    def __init__(self, *, help: str, min: float | None = None) -> None:
        self.help, self.names, self.range = help, (), (min, None)
        self.settings: dict[str, Any] = {}


class Option:
    """Marks a parameter of a command as an option; without names it is called as the parameter is.

    Args:
        settings: What `click.Option` takes beside.
    """

    def __init__(
        self, *names: str, help: str, min: float | None = None, max: float | None = None, **settings: Any
    ) -> None:
        self.help, self.names, self.range = help, names, (min, max)
        self.settings = settings


def command(function: Callable[..., Any], name: str | None = None) -> click.Command:
    """The command that calls a function: its docstring is the help, its annotated parameters are the options.

    A parameter that is a dataclass stands for the options that are its fields, so that commands can share them.
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
    return _Command(name, callback=call, params=[*own, *shared], help=inspect.getdoc(function))


def _parameter(name: str, annotation: Any, default: Any) -> click.Parameter:
    base, mark = get_args(annotation)[:2]
    if get_origin(base) in (Union, UnionType):
        base = next(one for one in get_args(base) if one is not NoneType)
    many = get_origin(base) is list
    if many:
        [base] = get_args(base)
    settings: dict[str, Any] = {
        "type": _type(base, *mark.range),
        "callback": _as_list if many else None,
        **mark.settings,
    }
    if isinstance(mark, Argument):
        required = default is MISSING
        settings |= {"nargs": -1 if many else 1, "required": required, "metavar": name.upper() + "..." * many}
        return _HelpedArgument([name], **({} if required or many else {"default": default}), help=mark.help, **settings)
    dashed = "--" + name.replace("_", "-")
    if base is bool:
        names = mark.names or (f"{dashed}/--no-{dashed[2:]}" if default is True else dashed,)
        settings |= {"type": None, "is_flag": True}
    else:
        names = mark.names or (dashed,)
    settings |= {"required": default is MISSING} if default in (MISSING, None) or many else {"default": default}
    shown = default not in (MISSING, None, "", False, 0) and not many
    return click.Option([name, *names], multiple=many, help=mark.help, show_default=shown, show_envvar=True, **settings)


class _HelpedArgument(click.Argument):
    def __init__(self, *names: Any, help: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.told = help


class _Command(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [(one.make_metavar(ctx), one.told) for one in self.params if isinstance(one, _HelpedArgument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        super().format_options(ctx, formatter)


def _type(base: Any, least: float | None, most: float | None) -> Any:
    if get_origin(base) is Literal:
        return click.Choice(get_args(base))
    if base is Path:
        return click.Path(path_type=Path)
    if base is int:
        return click.IntRange(None if least is None else int(least), None if most is None else int(most))
    return click.FloatRange(least, most) if base is float else base


def _as_list(_context: click.Context, _parameter: click.Parameter, values: tuple[Any, ...]) -> list[Any] | None:
    return list(values) or None


class Group(click.Group):
    """Commands below a noun, made of functions by `command`."""

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help=help, no_args_is_help=True)

    def takes(self, function: F) -> F:
        """Add a command, as a decorator: `list_` is called `list`."""
        self.add_command(command(function))
        return function


COMMANDS: Final = {
    "demo": ("pictures:demo", "Show what memory makes of recorded runs."),
    "ingest": ("ingest:ingest", "Read recorded runs and remember them."),
    "suggest": ("suggest:suggest", "Suggest the next tools, or say why there is no opinion."),
    "search": ("suggest:search", "Find the remembered situations most like this one."),
    "prompt": ("suggest:prompt", "Print what memory adds to a prompt: notes, lessons and the next tools."),
    "stats": ("stores:stats", "Print counts of a memory by namespace."),
    "eval": ("eval:eval_runs", "Measure how well memory predicts the next tool."),
    "view": ("pictures:view", "Write the graph as one HTML page."),
    "cypher": ("cypher:cypher", "Run a question of the library, or your own Cypher."),
    "export": ("stores:export", "Write every stored run as a line of JSON."),
    "import": ("stores:import_", "Read exported runs back."),
    "copy": ("stores:copy", "Copy a memory between files, Neo4j and exports."),
    "forget": ("stores:forget", "Forget runs and everything they added."),
    "doctor": ("stores:doctor", "Compare what is derived with the stored records."),
    "reembed": ("stores:reembed", "Compute the vectors of all states."),
    "experience": ("upkeep:experience", "What each run taught (PRIME)."),
    "principle": ("upkeep:principle", "Rules drawn from many runs (EvolveR)."),
    "preference": ("preference:app", "What each user wants (MultiSessionCollab)."),
    "library": ("library:app", "Experiences, principles and notes as a file."),
    "neo4j": ("neo4j:app", "Run a Neo4j server on this machine."),
}
"""Where each command is, and its line in `hepm --help`, which so imports none of them."""


class _Commands(MutableMapping[str, click.Command]):
    """The commands by name, each imported when it is first looked up."""

    def __init__(self) -> None:
        self._known: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._known:
            module, _, member = COMMANDS[name][0].partition(":")
            found = getattr(import_module(f"hepm.cli.{module}"), member)
            self._known[name] = found if isinstance(found, click.Command) else command(found, name)
        return self._known[name]

    def __setitem__(self, name: str, value: click.Command) -> None:
        self._known[name] = value

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Root(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _show_completion(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from click.shell_completion import get_completion_class

    shell = Path(os.environ.get("SHELL", "bash")).name
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"there is completion for bash, zsh and fish, not for {shell}: set SHELL to one of them")
    print(completion(app, {}, "hepm", "_HEPM_COMPLETE").source())
    context.exit()


app = _Root(
    "hepm",
    commands=_Commands(),
    help="Tool memory for LLM agents: which tool worked next, in which situation, and why.",
    no_args_is_help=True,
    params=[
        # Here for the help alone: `main` reads both itself.
        click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error."),
        click.Option(["--version"], is_flag=True, expose_value=False, help="Print the version."),
        click.Option(
            ["--show-completion"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_completion,
            help="Print completion for your shell, to add to its start-up file.",
        ),
    ],
    epilog="Exit codes: 0 done, 1 failed, 2 misused, 3 no server (neo4j status), 130 interrupted. "
    "Set HEPM_STORE to name the store once.",
)
