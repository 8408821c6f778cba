"""What peers.py measures in the environment of one memory: python drive.py SIDE COMMAND FOLDER ENDPOINT RUNS.

Commands: write (stores runs one by one; prints the id of each that is kept), read (asks with the requests of runs),
held (after a kill), forget (one run). The last line is what was found, as JSON. Each memory's environment runs this
file: beside it alone the standard library is there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

Found = dict[str, Any]


class Side(ABC):
    """A memory in a folder. Making one opens it; its model and embedder answer at an OpenAI-compatible endpoint."""

    @abstractmethod
    def write(self, run: Found) -> bool:
        """Store a run; whether anything of it is kept under its own name."""

    @abstractmethod
    def read(self, request: str) -> int:
        """Ask what is known when a user says this; how many answers came."""

    @abstractmethod
    def held(self) -> set[str]:
        """Ids of the runs of which anything is kept."""

    @abstractmethod
    def torn(self) -> int:
        """Records that lack the other half of what one write stores."""

    @abstractmethod
    def forget(self, name: str) -> None:
        """Forget a run by what the memory offers for that."""

    @abstractmethod
    def rows_with(self, text: str) -> dict[str, int]:
        """Rows that still hold a text, by table; those without any are left out."""

    @abstractmethod
    def close(self) -> None: ...


class Hepm(Side):
    """hepm with its lexical vectors, which asks no model; or with vectors of an embedder."""

    def __init__(self, folder: Path, endpoint: str, embedder: str | None = None) -> None:
        from hepm import Memory

        self._memory = Memory.open(folder, embedder=embedder, endpoint=(endpoint, "none"))
        self._folder = folder

    def write(self, run: Found) -> bool:
        from hepm.ingest.formats.hepm import parse_run

        return self._memory.ingest(parse_run(run["record"])).stored == 1

    def read(self, request: str) -> int:
        return len(self._memory.suggest(messages=[{"role": "user", "content": request}]))

    def held(self) -> set[str]:
        return {run.id for run in self._memory.runs()}

    def torn(self) -> int:
        return len(self._memory.examine())

    def forget(self, name: str) -> None:
        self._memory.forget(trajectory=name)

    def rows_with(self, text: str) -> dict[str, int]:
        return rows_of_sqlite(self._folder, text)

    def close(self) -> None:
        self._memory.close()


class Mem0(Side):
    """mem0 with its default stores, in a folder."""

    user = "agent"

    def __init__(self, folder: Path, endpoint: str) -> None:
        from mem0 import Memory  # pyright: ignore[reportMissingImports]

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

    def write(self, run: Found) -> bool:
        found = self._memory.add(run["messages"], user_id=self.user, metadata={"run": run["id"]})
        return bool(found["results"])

    def read(self, request: str) -> int:
        return len(self._memory.search(request, filters={"user_id": self.user}, top_k=10)["results"])

    def _all(self) -> list[Found]:
        return self._memory.get_all(filters={"user_id": self.user}, top_k=1_000_000)["results"]

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


class Graphiti(Side):
    """Graphiti on Kuzu."""

    texts = (("Episodic", "content"), ("Entity", "name"), ("Entity", "summary"), ("RelatesToNode_", "fact"))

    def __init__(self, folder: Path, endpoint: str) -> None:
        # pyright: reportMissingImports=false
        from graphiti_core import Graphiti as Client
        from graphiti_core.cross_encoder import openai_reranker_client as rerankers
        from graphiti_core.driver.driver import GraphProvider
        from graphiti_core.driver.kuzu_driver import KuzuDriver
        from graphiti_core.embedder import openai as embedders
        from graphiti_core.graph_queries import get_fulltext_indices
        from graphiti_core.llm_client import openai_generic_client as models

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

    def _rows(self, query: str, **values: Any) -> list[Found]:
        return self._wait(self._driver.execute_query(query, **values))[0]

    def write(self, run: Found) -> bool:
        from graphiti_core.nodes import EpisodeType

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
        for table, column in self.texts:
            query = f"MATCH (n:{table}) WHERE contains(n.{column}, $text) RETURN count(*) AS n"
            found[f"{table}.{column}"] = self._rows(query, text=text)[0]["n"]
        return {name: number for name, number in found.items() if number}

    def close(self) -> None:
        self._driver.client.close()
        self._driver.db.close()


def rows_of_sqlite(folder: Path, text: str) -> dict[str, int]:
    """Rows of all SQLite files under a folder in which any column holds the text."""
    sought = text.encode()
    found: dict[str, int] = {}
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.open("rb").read(16) != b"SQLite format 3\0":
            continue
        with closing(sqlite3.connect(file)) as db:
            db.text_factory = bytes
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                rows = db.execute(f'SELECT * FROM "{table.decode()}"')
                number = sum(any(isinstance(value, bytes) and sought in value for value in row) for row in rows)
                if number:
                    found[f"{file.name}:{table.decode()}"] = number
    return found


SIDES: dict[str, Callable[[Path, str], Side]] = {
    "hepm": Hepm,
    "hepm-embedder": lambda folder, endpoint: Hepm(folder, endpoint, "openai/text-embedding-3-small"),
    "mem0": Mem0,
    "graphiti": Graphiti,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("endpoint")
    parser.add_argument("runs", type=Path)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--spawned", type=float, default=0, help="when this process was started, by time.monotonic()")
    parser.add_argument("--forgotten", default="")
    parser.add_argument("--marker", default="")
    arguments = parser.parse_args()
    side = SIDES[arguments.side](arguments.folder, arguments.endpoint)
    found = COMMANDS[arguments.command](side, arguments)
    found["disk"] = sum(file.stat().st_size for file in arguments.folder.rglob("*") if file.is_file())
    side.close()
    print(json.dumps(found), flush=True)


def runs_of(arguments: argparse.Namespace) -> Iterator[Found]:
    with arguments.runs.open(encoding="utf-8") as lines:
        for line in islice(lines, arguments.skip, arguments.skip + arguments.most):
            yield json.loads(line)


def write(side: Side, arguments: argparse.Namespace) -> Found:
    times: list[float] = []
    cpu_s = time.process_time()
    until = time.perf_counter() + arguments.seconds
    for run in runs_of(arguments):
        started = time.perf_counter()
        kept = side.write(run)
        times.append(1e3 * (time.perf_counter() - started))
        if kept:
            print(run["id"], flush=True)
        if time.perf_counter() > until:
            break
    return {"write_ms": times, "cpu_s": time.process_time() - cpu_s}


def read(side: Side, arguments: argparse.Namespace) -> Found:
    times: list[float] = []
    first_s = None
    until = float("inf")
    for run in runs_of(arguments):
        started = time.perf_counter()
        side.read(run["request"])
        times.append(1e3 * (time.perf_counter() - started))
        if first_s is None:
            first_s = time.monotonic() - arguments.spawned
            until = time.perf_counter() + arguments.seconds
        if time.perf_counter() > until:
            break
    return {"start_s": first_s, "read_ms": times[1:]}


def held(side: Side, arguments: argparse.Namespace) -> Found:
    del arguments
    return {"held": sorted(side.held()), "torn": side.torn()}


def forget(side: Side, arguments: argparse.Namespace) -> Found:
    before = side.rows_with(arguments.marker)
    started = time.perf_counter()
    side.forget(arguments.forgotten)
    took = 1e3 * (time.perf_counter() - started)
    return {"forget_ms": took, "rows_before": before, "rows_left": side.rows_with(arguments.marker)}


COMMANDS = {"write": write, "read": read, "held": held, "forget": forget}

if __name__ == "__main__":
    main()
