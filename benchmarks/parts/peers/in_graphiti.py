"""Graphiti on Kuzu as one of the memories that drive.py drives."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphiti_core import Graphiti as Client  # pyright: ignore[reportMissingImports]
from graphiti_core.cross_encoder import openai_reranker_client as rerankers  # pyright: ignore[reportMissingImports]
from graphiti_core.driver.driver import GraphProvider  # pyright: ignore[reportMissingImports]
from graphiti_core.driver.kuzu_driver import KuzuDriver  # pyright: ignore[reportMissingImports]
from graphiti_core.embedder import openai as embedders  # pyright: ignore[reportMissingImports]
from graphiti_core.graph_queries import get_fulltext_indices  # pyright: ignore[reportMissingImports]
from graphiti_core.llm_client import openai_generic_client as models  # pyright: ignore[reportMissingImports]
from graphiti_core.nodes import EpisodeType  # pyright: ignore[reportMissingImports]
from sides import Side

_TEXTS = (("Episodic", "content"), ("Entity", "name"), ("Entity", "summary"), ("RelatesToNode_", "fact"))


class Graphiti(Side):
    def __init__(self, folder: Path, endpoint: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._driver = KuzuDriver(str(folder / "graph.kuzu"))
        config = models.LLMConfig(api_key="none", base_url=endpoint, model="gpt-4.1-mini", small_model="gpt-4.1-nano")
        embedder = embedders.OpenAIEmbedder(embedders.OpenAIEmbedderConfig(api_key="none", base_url=endpoint))
        self._client = Client(
            graph_driver=self._driver,
            llm_client=models.OpenAIGenericClient(config),
            embedder=embedder,
            cross_encoder=rerankers.OpenAIRerankerClient(config),
        )
        # Kuzu crashes when it writes to a table with an index whose extension is not loaded.
        self._rows("INSTALL FTS; LOAD EXTENSION FTS;")
        if not self._rows("CALL SHOW_INDEXES() RETURN *"):
            # The driver of this release makes none, and its searches fail without them.
            for statement in get_fulltext_indices(GraphProvider.KUZU):
                self._rows(statement)

    def _wait(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def _rows(self, query: str, **values: Any) -> list[dict[str, Any]]:
        return self._wait(self._driver.execute_query(query, **values))[0]

    def write(self, run: dict[str, Any]) -> bool:
        body = "\n".join(f"{message['role']}: {message['content']}" for message in run["messages"])
        now = datetime.now(UTC)
        self._wait(self._client.add_episode(run["id"], body, "a recorded run", now, source=EpisodeType.message))
        return True

    def read(self, request: str) -> int:
        return len(self._wait(self._client.search(request)))

    def held(self) -> set[str]:
        return {row["name"] for row in self._rows("MATCH (e:Episodic) RETURN e.name AS name")}

    def torn(self) -> int:
        """Entities that no episode mentions, and facts without two ends."""
        alone = "MATCH (n:Entity) WHERE NOT EXISTS { MATCH (:Episodic)-[:MENTIONS]->(n) } RETURN count(*) AS n"
        open_end = (
            "MATCH (f:RelatesToNode_) WHERE NOT EXISTS { MATCH (:Entity)-[:RELATES_TO]->(f)-[:RELATES_TO]->(:Entity) } "
            "RETURN count(*) AS n"
        )
        return self._rows(alone)[0]["n"] + self._rows(open_end)[0]["n"]

    def forget(self, name: str) -> None:
        for row in self._rows("MATCH (e:Episodic {name: $name}) RETURN e.uuid AS uuid", name=name):
            self._wait(self._client.remove_episode(row["uuid"]))

    def rows_with(self, text: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for table, column in _TEXTS:
            query = f"MATCH (n:{table}) WHERE contains(n.{column}, $text) RETURN count(*) AS n"
            found[f"{table}.{column}"] = self._rows(query, text=text)[0]["n"]
        return {name: number for name, number in found.items() if number}

    def close(self) -> None:
        self._driver.client.close()
        self._driver.db.close()
