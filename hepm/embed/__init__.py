"""Text to vectors: lexical by default, sentence-transformers or an endpoint on request. Importing it loads no numpy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hepm.embed.embedder import CachedEmbedder, Embedder, Float32Array, HashingEmbedder, check_vectors
    from hepm.embed.models import open_embedder

__all__ = ["CachedEmbedder", "Embedder", "Float32Array", "HashingEmbedder", "check_vectors", "open_embedder"]


def __getattr__(name: str) -> Any:
    if name == "open_embedder":
        return import_module("hepm.embed.models").open_embedder
    if name in __all__:
        return getattr(import_module("hepm.embed.embedder"), name)
    raise AttributeError(f"module 'hepm.embed' has no attribute {name!r}")
