"""Text to vectors: lexical by default, sentence-transformers or an endpoint on request.

Importing this loads numpy alone; torch and HTTP clients come in when an embedder that needs them is used.
"""

from hepm.embed.embedder import CachedEmbedder, Embedder, FloatArray, HashingEmbedder, check_vectors
from hepm.embed.named import open_embedder

__all__ = ["CachedEmbedder", "Embedder", "FloatArray", "HashingEmbedder", "check_vectors", "open_embedder"]
