"""Text to vectors: lexical by default, sentence-transformers or an endpoint on request. Importing it loads no torch."""

from hepm.embed.embedder import CachedEmbedder, Embedder, FloatArray, HashingEmbedder, check_vectors
from hepm.embed.models import open_embedder

__all__ = ["CachedEmbedder", "Embedder", "FloatArray", "HashingEmbedder", "check_vectors", "open_embedder"]
