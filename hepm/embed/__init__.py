"""Text to vectors: lexical by default, sentence-transformers or an endpoint where asked for.

Importing this loads numpy alone; torch and HTTP clients come in when an embedder that needs them is used.
"""

from __future__ import annotations

from hepm.embed.cached import CachedEmbedder
from hepm.embed.hashing import HashingEmbedder
from hepm.embed.named import open_embedder
from hepm.embed.protocol import Embedder, FloatArray, check_vectors

__all__ = ["CachedEmbedder", "Embedder", "FloatArray", "HashingEmbedder", "check_vectors", "open_embedder"]
