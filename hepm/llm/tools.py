"""Tools that a model is offered to choose from, and which of them it calls."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hepm.errors import InputError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool without arguments.

    Attributes:
        name: Letters, digits, `_` and `-`; at most 64.
        description: What a model decides by; OpenAI takes 1,024 characters.
    """

    name: str
    description: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"{self.name!r} is no name of a tool: use at most 64 letters, digits, '_' and '-'.")

    def body(self) -> dict[str, Any]:
        """As the OpenAI protocol has it."""
        nothing: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
        function = {"name": self.name, "description": self.description, "parameters": nothing}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolsCalled:
    """The form of an answer to a question that offers tools.

    Attributes:
        names: Tools called, in order; empty where the model called none. They need not be among those offered.
    """

    names: tuple[str, ...]


def called_text(names: Sequence[str]) -> str:
    """Calls as text, in the form of `ToolsCalled`."""
    return json.dumps({"names": list(names)}, ensure_ascii=False)
