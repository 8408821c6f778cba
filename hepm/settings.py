"""Describe settings: a field of a dataclass is a setting, with its default, its meaning and what it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, cast

_WORDS: Final = {
    str: "a string",
    Path: "a path as a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list of strings",
    dict: "a table of strings",
}
"""The types of settings, in words."""
_IN_TOML: Final[Mapping[type[Any], type[Any]]] = {Path: str, tuple: list}  # types that TOML has under another name


@dataclass(frozen=True, slots=True)
class Setting:
    """What a key of `hepm.toml` means, and what it may be.

    Attributes:
        kind: One of `_WORDS`; the type of the default, unless that is None.
    """

    help: str
    kind: type[Any]
    least: float
    most: float
    one_of: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """What it takes, in words: "a number from 0 to 1"."""
        if self.one_of:
            return "one of " + ", ".join(map(repr, self.one_of))
        words = _WORDS[self.kind]
        if self.most < math.inf:
            return f"{words} from {self.least:g} to {self.most:.0f}"
        if self.least > -math.inf:
            return f"{words} from {self.least:g} on"
        return words

    def read(self, value: Any) -> Any:
        """A value of TOML as one of this setting; else ValueError."""
        of_kind: Callable[[Any], Any] = self.kind
        # A whole number serves as a number, but true is none.
        if self.kind is float and type(value) is int:
            value = float(value)
        is_right = type(value) in (self.kind, _IN_TOML.get(self.kind))
        if self.kind in (int, float):
            is_right = is_right and self.least <= value <= self.most
        elif self.one_of:
            is_right = value in self.one_of
        elif is_right and self.kind in (tuple, dict):
            parts = dict(value).values() if self.kind is dict else value
            is_right = all(isinstance(part, str) for part in parts)
        if not is_right:
            raise ValueError(value)
        if self.kind is Path:
            return Path(value).expanduser()
        return of_kind(value)


def setting(
    default: Any,
    help: str,
    *,
    kind: type[Any] | None = None,
    least: float = -math.inf,
    most: float = math.inf,
    one_of: tuple[str, ...] = (),
) -> Any:
    """A field of a table."""
    described = Setting(help, kind or cast(Any, type(default)), least, most, one_of)
    return field(default_factory=lambda: default, metadata={"setting": described})


def settings_of(table: type[Any]) -> dict[str, Setting]:
    """The settings of a table; of the file, those outside of tables."""
    return {each.name: each.metadata["setting"] for each in fields(table) if each.metadata}
