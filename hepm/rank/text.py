"""What is known of a tool before any run called it: the words of its name and description."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from hepm.embed import Embedder, FloatArray
from hepm.types import USER_SIDE, ToolName

_BETWEEN: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


def tool_vectors(names: Sequence[ToolName], described: Mapping[ToolName, str], embedder: Embedder) -> FloatArray:
    """One vector a tool, shape (T, D): its name in words, and its description if there is one."""
    texts = [f"{_BETWEEN.sub(' ', name.removeprefix(USER_SIDE))} {described.get(name, '')}".strip() for name in names]
    return embedder.embed(texts) if texts else embedder.embed([""])[:0]
