"""`hepm.toml`: what commands go by where neither an option nor a variable says it.

A setting is a field of a table below, with its default, its meaning and what it may be. Options of commands, the check
of the file and docs/reference/settings.md are made from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from hepm.errors import InputError
from hepm.settings import Setting, setting, settings_of
from hepm.types import Object
from hepm.web.options import ServeOptions

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
class IngestTable:
    """The table `[ingest]`: how `hepm ingest` reads runs."""

    ids: Any = setting("own", "Identify runs by their id, or by a hash.", one_of=("own", "content"))
    command_names: bool | None = setting(
        None, 'Name shell calls by their program, too: "Bash git". Default: only for coding agents.', kind=bool
    )


@dataclass(frozen=True, slots=True)
class LessonsTable:
    """The table `[lessons]`: what becomes of lessons that neither runs nor a person taught."""

    approve: Any = setting(
        "review",
        "Keep lessons of models, agents and imports pending until `hepm lesson review`, or tell them at once.",
        one_of=("review", "auto"),
    )
    supported: int = setting(
        3,
        "Labelled runs that must bear a pending lesson out, and did not teach it, for "
        "`hepm lesson review --approve supported`.",
        least=1,
    )


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The table `[model]`: how commands ask a language model."""

    prices: str | None = setting(
        None, "Dollars per million tokens in, out and, if it differs, of cached input, such as 0.15,0.6.", kind=str
    )
    concurrency: int = setting(4, "Number of concurrent requests; in `hepm bench`, of runs at the same time.", least=1)


@dataclass(frozen=True, slots=True)
class RedactionTable:
    """The table `[redaction]`: what `hepm ingest`, `serve` and `mcp` remove from runs before they are stored."""

    rules: Mapping[str, str] = setting(
        {}, "More rules: a kind and its regular expression, such as ticket = 'T-[0-9]+'."
    )
    keep_secrets: bool = setting(False, "Store texts unchanged, including keys and passwords.")

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

    store: str | None = setting(None, "The memory: a file, a folder that contains one, or a Neo4j address.", kind=str)
    namespace: str | None = setting(None, "The partition to work in.", kind=str)
    outcome_by: tuple[str, ...] = setting(
        ("tests",),
        "Rules by which `hepm ingest`, `serve` and `mcp` label runs without an outcome: tests.",
    )
    ingest: IngestTable = field(default_factory=IngestTable)
    lessons: LessonsTable = field(default_factory=LessonsTable)
    model: ModelTable = field(default_factory=ModelTable)
    serve: ServeOptions = field(default_factory=ServeOptions)
    redaction: RedactionTable = field(default_factory=RedactionTable)
    path: Path | None = None

    def value(self, key: str) -> Any:
        """The value of a dotted key, such as `serve.port`; None if it has none."""
        return attrgetter(key)(self)


TABLES: Final = {
    "ingest": IngestTable, "lessons": LessonsTable, "model": ModelTable, "serve": ServeOptions,
    "redaction": RedactionTable,
}  # fmt: skip


def find_config() -> Path | None:
    """`hepm.toml` in the working folder, else in the user's folder of settings; None if there is none."""
    # The XDG specification tells programs to ignore a path that is not absolute.
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():
        # Not `Path.expanduser`: it fails for a user without a home, as in a container.
        folder = Path(os.path.expanduser("~"), ".config")
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
    # The default is known to be right, and looking it up takes 30 ms of each command.
    if config.outcome_by == ConfigFile().outcome_by:
        return
    from hepm.ingest.outcome import check_rules

    try:
        check_rules(config.outcome_by)
    except InputError as error:
        raise InputError(f"{config.path}: outcome_by: {error}") from error


def key_of(option: str) -> str:
    """The dotted key of the setting that an option of this name would give; "" if there is none."""
    name = option.lstrip("-").replace("-", "_")
    for table, kind in TABLES.items():
        if name in settings_of(kind):
            return f"{table}.{name}"
    return ""


def setting_at(key: str) -> tuple[Any, Setting]:
    """The default of a dotted key, and what it means and may be."""
    table, _, name = key.rpartition(".")
    return ConfigFile().value(key), settings_of(TABLES.get(table, ConfigFile))[name]


def _checked(content: Mapping[str, Any], table: type, path: Path, prefix: str = "") -> Object:
    """The values of a table in the types of its keys."""
    settings = settings_of(table)
    checked: Object = {}
    for name, value in content.items():
        key = prefix + name
        if name not in settings:
            where = "it"
            keys = [*settings, *TABLES]
            if prefix:
                where = f"[{prefix.rstrip('.')}]"
                keys = [*settings]
            raise InputError(f"{path}: there is no key {key!r}; {where} may have {', '.join(keys)}.")
        try:
            checked[name] = settings[name].read(value)
        except ValueError as error:
            raise InputError(f"{path}: {key} = {value!r} is not {settings[name].allowed}.") from error
    return checked
