"""mem0 in a process of its own: facts of a user in its vector store, found by the words that they share."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from typing import Any

os.environ["MEM0_TELEMETRY"] = "False"

_DIMENSIONS = 512
ask: Any = None
_memory: Any = None


class _Words:
    """Vectors of hashed words: an endpoint for embeddings is not needed."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """The vector of a text, of length 1."""
        del memory_action
        values = [0.0] * _DIMENSIONS
        for word in re.findall(r"\w+", text.lower()) or ["-"]:  # a vector of zeros has no length
            values[int(hashlib.md5(word.encode()).hexdigest(), 16) % _DIMENSIONS] += 1.0
        length = sum(value * value for value in values) ** 0.5
        return [value / length for value in values]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """The vectors of texts."""
        return [self.embed(text, memory_action) for text in texts]


class _Model:
    """Asks the model through hepm."""

    def generate_response(self, messages: list[dict[str, str]], **about: Any) -> str:
        """The text of an answer; `response_format` goes along, tools do not."""
        form = about.get("response_format")
        return ask.text(messages, temperature=0.0, **({"response_format": form} if form else {}))


def open_store(folder: str) -> None:
    """Begin with an empty memory in this folder."""
    global _memory  # noqa: PLW0603 one process serves one user
    os.environ["MEM0_DIR"] = folder
    store: Any = importlib.import_module("mem0").Memory
    vectors = {"path": f"{folder}/vectors", "on_disk": True, "embedding_model_dims": _DIMENSIONS}
    config = {
        "vector_store": {"provider": "qdrant", "config": vectors},
        "llm": {"provider": "openai", "config": {"api_key": "none", "model": "asked through hepm"}},
        "embedder": {"provider": "openai", "config": {"api_key": "none", "embedding_dims": _DIMENSIONS}},
        "history_db_path": f"{folder}/history.db",
    }
    _memory = store.from_config(config)
    _memory.llm = _Model()
    _memory.embedding_model = _Words()


def add(user: str, messages: list[dict[str, str]]) -> None:
    """Take the facts of some messages."""
    _memory.add(messages, user_id=user)


def search(user: str, text: str, number: int) -> list[str]:
    """The facts most like a text."""
    # Without a threshold: hashed words of a short message and of a fact seldom reach mem0's default of .1.
    answer = _memory.search(text, filters={"user_id": user}, top_k=number, threshold=0.0)
    return [result["memory"] for result in answer["results"]]
