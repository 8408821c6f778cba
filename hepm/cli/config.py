"""`hepm.toml`: what commands go by where neither an option nor a variable says it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast, get_args, get_origin, get_type_hints

from hepm.errors import InputError
from hepm.types import Object

if TYPE_CHECKING:
    from hepm.ingest.redact import Redactor, Rule

FILE_NAME: Final = "hepm.toml"
VARIABLES: Final = {
    "HEPM_STORE": "The store, if `--store` is not given.",
    "HEPM_LLM_MODEL": "The model of commands that may ask one, if `--model` is not given; its endpoint and key are in "
    "`OPENAI_BASE_URL` and `OPENAI_API_KEY`.",
    "HEPM_TOKEN": "The token of `hepm serve` that opens every namespace.",
    "HEPM_UPSTREAM_KEY": "The key of the endpoint behind `hepm serve`, for clients that do not have it.",
    "HEPM_USER_MODEL": "The model that plays the user in an environment of `hepm bench`.",
    "HEPM_USER_BASE_URL": "Its endpoint, if that is not the agent's.",
    "HEPM_USER_API_KEY": "Its key, if that is not `OPENAI_API_KEY`.",
    "HEPM_NEO4J_CACHE": "The folder where `hepm neo4j start` keeps its downloads.",
}
"""Every environment variable of hepm's own that it reads."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """What a key of `hepm.toml` means, and the range of a number. It marks a field of a table."""

    help: str
    min: float = -math.inf
    max: float = math.inf


@dataclass(frozen=True, slots=True)
class ServeTable:
    """The table `[serve]`: how `hepm serve` and `hepm mcp` behave."""

    host: Annotated[str, ConfigKey("Address to listen on; others than this machine need a token.")] = "127.0.0.1"
    port: Annotated[int, ConfigKey("Port; 0 for any free one.", min=0, max=65_535)] = 8765
    upstream: Annotated[str, ConfigKey("The endpoint behind the proxy, with its /v1.")] = "https://api.openai.com/v1"
    tokens: Annotated[
        Path | None,
        ConfigKey('JSON file of tokens: {"TOKEN": {"name": "ann", "namespaces": ["desk"], "write": true}}.'),
    ] = None
    distrust: Annotated[
        tuple[str, ...], ConfigKey("Names of tokens whose runs are stored, while nothing is learned from them.")
    ] = ()
    placement: Annotated[
        Literal["auto", "behind", "tail", "system", "message"],
        ConfigKey("Where a hint goes: behind the results, in the last message, in the system's, or in its own."),
    ] = "auto"
    speak: Annotated[
        Literal["sure", "weighed", "all"] | None,
        ConfigKey("What hints name, as in `hepm suggest`, in place of the guard's level."),
    ] = None
    guard: Annotated[bool, ConfigKey("Let outcomes decide from which chance on hints name tools.")] = True
    holdout: Annotated[
        float, ConfigKey("Share of sessions, drawn by chance, that get nothing from memory.", min=0, max=1)
    ] = 0.0
    deny: Annotated[
        bool, ConfigKey("Deny calls that failed in nearly all like runs, where another tool worked; once a place.")
    ] = False
    shortlist: Annotated[
        int,
        ConfigKey(
            "Shorten lists of tools in requests without streaming: how many tools their words choose; 0 for all.", min=0
        ),
    ] = 0
    idle_s: Annotated[float, ConfigKey("Seconds after which a resting run is stored.", min=1)] = 1_800.0
    hint_timeout_s: Annotated[float, ConfigKey("Seconds that a request waits for a hint.", min=0.001)] = 1.0
    sessions: Annotated[
        Path | None,
        ConfigKey("Folder for runs under way; beside the file, or hepm-sessions for a server, if it is not given."),
    ] = None
    max_body_bytes: Annotated[int, ConfigKey("Size limit of a request.", min=1)] = 64 << 20


@dataclass(frozen=True, slots=True)
class IngestTable:
    """The table `[ingest]`: how `hepm ingest` reads runs."""

    ids: Annotated[Literal["own", "content"], ConfigKey("Identify runs by their id, or by a hash.")] = "own"
    command_names: Annotated[
        bool | None,
        ConfigKey('Name shell calls by their program, too: "Bash git". Default: only for coding agents.'),
    ] = None
    inner_tool: Annotated[
        Mapping[str, str],
        ConfigKey("Tools that run other tools, with the argument that names those, such as gateway = 'payload.tool'."),
    ] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class LessonsTable:
    """The table `[lessons]`: what becomes of lessons that neither runs nor a person taught."""

    approve: Annotated[
        Literal["review", "auto"],
        ConfigKey(
            "Keep lessons of models, agents and imports pending until `hepm lesson review`, or tell them at once."
        ),
    ] = "review"
    supported: Annotated[
        int,
        ConfigKey(
            "Labelled runs that must bear a pending lesson out, and did not teach it, for "
            "`hepm lesson review --approve supported`.",
            min=1,
        ),
    ] = 3


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The table `[model]`: how commands ask a language model."""

    prices: Annotated[
        str | None,
        ConfigKey("Dollars per million tokens in, out and, if it differs, of cached input, such as 0.15,0.6."),
    ] = None
    concurrency: Annotated[
        int, ConfigKey("Number of concurrent requests; in `hepm bench`, of runs at the same time.", min=1)
    ] = 4


@dataclass(frozen=True, slots=True)
class RedactionTable:
    """The table `[redaction]`: what `hepm ingest`, `serve` and `mcp` remove from runs before they are stored."""

    rules: Annotated[
        Mapping[str, str], ConfigKey("More rules: a kind and its regular expression, such as ticket = 'T-[0-9]+'.")
    ] = field(default_factory=dict[str, str])
    keep_secrets: Annotated[bool, ConfigKey("Store texts unchanged, including keys and passwords.")] = False

    def redactor(self) -> Redactor | None:
        """What removes secrets; None to keep them."""
        from hepm.ingest.redact import DEFAULT_RULES, Redactor

        if self.keep_secrets:
            return None
        rules: list[Rule | tuple[str, str]] = [*DEFAULT_RULES, *self.rules.items()]
        return Redactor(rules)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a `hepm.toml`.

    Attributes:
        path: Where it is; None if there is none.
    """

    store: Annotated[str | None, ConfigKey("The memory: a file, a folder that contains one, or a Neo4j address.")] = (
        None
    )
    namespace: Annotated[str | None, ConfigKey("The partition to work in.")] = None
    outcome_by: Annotated[
        tuple[str, ...],
        ConfigKey("Rules by which `hepm ingest`, `serve` and `mcp` label runs without an outcome: tests, exit-code."),
    ] = ("tests",)
    ingest: IngestTable = field(default_factory=IngestTable)
    lessons: LessonsTable = field(default_factory=LessonsTable)
    model: ModelTable = field(default_factory=ModelTable)
    serve: ServeTable = field(default_factory=ServeTable)
    redaction: RedactionTable = field(default_factory=RedactionTable)
    path: Path | None = None

    def value(self, key: str) -> Any:
        """The value of a dotted key, such as `serve.port`; None if it has none."""
        value: Any = self
        for name in key.split("."):
            value = getattr(value, name)
        return value


TABLES: Final = {
    "ingest": IngestTable, "lessons": LessonsTable, "model": ModelTable, "serve": ServeTable,
    "redaction": RedactionTable,
}  # fmt: skip


def find_config() -> Path | None:
    """`hepm.toml` in the working folder, else in the user's folder of settings; None if there is none."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(os.path.expanduser("~")) / ".config"
    # The XDG specification tells programs to ignore a path that is not absolute.
    if os.path.isabs(base):
        folder = Path(base)
    for candidate in (Path(FILE_NAME), folder / "hepm" / FILE_NAME):
        if candidate.is_file():
            return candidate
    return None


def read_config() -> ConfigFile:
    """The settings of `hepm.toml`; the defaults if there is none.

    Raises:
        InputError: it is not TOML, or a key or value is wrong; the message says what is allowed.
    """
    path = find_config()
    if path is None:
        return ConfigFile()
    # Imported when there is a file to read: most commands of most users have none.
    import tomllib

    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    # Tables first: what is left are the keys of the file itself.
    tables: Object = {}
    for name, table in TABLES.items():
        if name in content:
            inner = cast(object, content.pop(name))
            if not isinstance(inner, dict):
                raise InputError(f"{path}: {name} is a table: write [{name}] above its keys.")
            tables[name] = table(**_checked(cast(Object, inner), table, path, f"{name}."))
    config = ConfigFile(**_checked(content, ConfigFile, path), **tables, path=path)
    _check_rules(config)
    return config


def _check_rules(config: ConfigFile) -> None:
    """Refuse rules of redaction that are no regular expressions, and rules of outcomes that do not exist."""
    for kind, expression in config.redaction.rules.items():
        try:
            re.compile(expression)
        except re.error as error:
            wrong = f"redaction.rules.{kind} = {expression!r} is not a regular expression"
            raise InputError(f"{config.path}: {wrong}: {error}.") from error
    # The default is known to be right, and looking it up would load the readers.
    if config.outcome_by != ConfigFile().outcome_by:
        from hepm.ingest.outcome import check_rules

        try:
            check_rules(config.outcome_by)
        except InputError as error:
            raise InputError(f"{config.path}: outcome_by: {error}") from error


def settings_of(table: type) -> dict[str, tuple[Any, ConfigKey]]:
    """The keys of a table with their types and meanings; of the file, those outside of tables."""
    # With what `Annotated` adds to a type: the meaning of the key.
    hints = get_type_hints(table, include_extras=True)
    settings: dict[str, tuple[Any, ConfigKey]] = {}
    for name, hint in hints.items():
        if get_origin(hint) is Annotated:
            base, setting = get_args(hint)
            settings[name] = base, setting
    return settings


def setting_at(key: str) -> tuple[Any, ConfigKey]:
    """The default of a dotted key, and what it means and may be."""
    table, _, name = key.rpartition(".")
    _, setting = settings_of(TABLES.get(table, ConfigFile))[name]
    return ConfigFile().value(key), setting


def allowed_values(base: Any, setting: ConfigKey) -> str:
    """What a key takes, in words: "a number from 0 to 1"."""
    base = _without_none(base)
    if get_origin(base) is Literal:
        return "one of " + ", ".join(map(repr, get_args(base)))
    words = {str: "a string", Path: "a path as a string", bool: "true or false", int: "a whole number"}
    words |= {float: "a number", tuple: "a list of strings", Mapping: "a table of strings"}
    # `tuple[str, ...]` is found as `tuple`, and `str` as itself.
    text = words.get(get_origin(base)) or words[base]
    if setting.max < math.inf:
        return f"{text} from {setting.min:g} to {setting.max:,g}".replace(",", "")
    if setting.min > -math.inf:
        return f"{text} from {setting.min:g} on"
    return text


def _checked(content: Mapping[str, Any], table: type, path: Path, prefix: str = "") -> Object:
    """The values of a table in the types of its keys."""
    settings = settings_of(table)
    checked: Object = {}
    for name, value in content.items():
        key = prefix + name
        if name not in settings:
            where, keys = "it", [*settings, *TABLES]
            if prefix:
                where, keys = f"[{prefix.rstrip('.')}]", [*settings]
            raise InputError(f"{path}: there is no key {key!r}; {where} may have {', '.join(keys)}.")
        base, setting = settings[name]
        try:
            checked[name] = _value(value, _without_none(base), setting)
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: {key} = {value!r} is not {allowed_values(base, setting)}.") from error
    return checked


def _value(value: Any, base: Any, setting: ConfigKey) -> Any:
    """A value of TOML as the type of its key; else TypeError or ValueError."""
    origin = get_origin(base)
    # The types of keys are few: those in the tables above.
    if origin is Literal:
        if value not in get_args(base):
            raise ValueError(value)
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError(value)
        return tuple(_value(part, str, setting) for part in value)  # pyright: ignore[reportUnknownVariableType]
    if origin is Mapping:
        if not isinstance(value, dict):
            raise TypeError(value)
        return {name: _value(part, str, setting) for name, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if base is Path:
        return Path(_value(value, str, setting)).expanduser()
    # A whole number serves as a number, but true is none.
    if base is float and type(value) is int:
        value = float(value)
    # Not isinstance(): true would pass as a whole number.
    if type(value) is not base:
        raise TypeError(value)
    # Also refuses NaN, which compares with nothing.
    if base in (int, float) and not setting.min <= value <= setting.max:
        raise ValueError(value)
    return value


def _without_none(base: Any) -> Any:
    """`X` of `X | None`."""
    arguments = get_args(base)
    if type(None) in arguments:
        [base] = [part for part in arguments if part is not type(None)]
    return base
