"""The openai package and pydantic, loaded when first needed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hepm.errors import MissingExtraError


def check_extra() -> None:
    """See that what asking a model needs is installed, without loading it.

    Raises:
        MissingExtraError: it is not.
    """
    missing = [name for name in ("openai", "pydantic") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"asking a language model needs {' and '.join(missing)}: pip install 'hepm[llm]'.")


def openai_library() -> Any:
    """The openai package; its types differ between the major versions we take, so none is named."""
    check_extra()
    return import_module("openai")
