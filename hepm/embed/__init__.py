"""Text to vectors: lexical by default, sentence-transformers or an endpoint where asked for.

Importing this loads numpy alone; torch and HTTP clients come in when an embedder that needs them is opened.
"""

from __future__ import annotations

from hepm.embed.hashing import HashingEmbedder
from hepm.embed.protocol import Embedder, check_vectors

__all__ = ["Embedder", "HashingEmbedder", "check_vectors"]
