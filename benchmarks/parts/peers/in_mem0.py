"""mem0 as one of the memories that drive.py drives: its default stores, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mem0 import Memory  # pyright: ignore[reportMissingImports]
from sides import Side, rows_of_sqlite

USER = "agent"


class Mem0(Side):
    def __init__(self, folder: Path, endpoint: str) -> None:
        asked = {"openai_base_url": endpoint, "api_key": "none"}
        self._folder = folder
        self._memory = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": {**asked, "model": "gpt-4.1-mini"}},
                "embedder": {"provider": "openai", "config": {**asked, "model": "text-embedding-3-small"}},
                "vector_store": {"provider": "qdrant", "config": {"path": str(folder / "qdrant"), "on_disk": True}},
                "history_db_path": str(folder / "history.db"),
            }
        )

    def write(self, run: dict[str, Any]) -> bool:
        found = self._memory.add(run["messages"], user_id=USER, metadata={"run": run["id"]})
        return bool(found["results"])

    def read(self, request: str) -> int:
        return len(self._memory.search(request, filters={"user_id": USER}, top_k=10)["results"])

    def _all(self) -> list[dict[str, Any]]:
        return self._memory.get_all(filters={"user_id": USER}, top_k=1_000_000)["results"]

    def held(self) -> set[str]:
        return {memory["metadata"]["run"] for memory in self._all()}

    def torn(self) -> int:
        """Memories without a history, and histories without a memory."""
        history = self._memory.db.connection.execute("SELECT memory_id FROM history WHERE event = 'ADD'").fetchall()
        return len({memory["id"] for memory in self._all()} ^ {memory for (memory,) in history})

    def forget(self, name: str) -> None:
        for memory in self._all():
            if memory["metadata"]["run"] == name:
                self._memory.delete(memory["id"])

    def rows_with(self, text: str) -> dict[str, int]:
        return rows_of_sqlite(self._folder, text)

    def close(self) -> None:
        self._memory.close()
        self._memory.vector_store.client.close()
