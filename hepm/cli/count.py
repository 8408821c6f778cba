"""`hepm count`: large archives into a store, prepared by all cores of this machine or of a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from hepm.cli.commands import Argument, Option
from hepm.cli.options import STORE, JsonOption, NamespaceOption, Place
from hepm.cli.stores import Preparing, Reading, ingest

if TYPE_CHECKING:
    from hepm.ingest.prepare import IngestOptions


@dataclass(frozen=True, slots=True)
class Target:
    """The options that name the memory that is filled."""

    to: Annotated[str, Option("--to", "-s", envvar="HEPM_STORE", help="The memory to fill, created if missing.")] = (
        STORE
    )
    namespace: NamespaceOption = ""


@dataclass(frozen=True)
class Counting(Preparing):
    """How runs are prepared, and where."""

    engine: Annotated[
        Literal["local", "ray"],
        Option(help="Where: on this machine, or on the Ray cluster of RAY_ADDRESS (or one started here)."),
    ] = "local"

    def options(self) -> IngestOptions:
        """The options of the library."""
        return replace(super().options(), engine=self.engine)


def count(
    target: Target,
    reading: Reading,
    counting: Counting,
    archives: Annotated[list[str], Argument(help="Files, folders, globs or archives of recorded runs.")],
    tools: Annotated[str | None, Option(help="Tool descriptions: an OpenAI tool list or an MCP tools/list.")] = None,
    shortest: Annotated[bool, Option(help="New store: count only the shortest success of each task.")] = False,
    vectors: Annotated[bool, Option(help="Compute vectors now; else `hepm reembed` does so later.")] = True,
    embedder: Annotated[str | None, Option(help="New store: hash-512, a model name, or a folder.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Store large archives like `hepm ingest`, on all cores of this machine or of a Ray cluster. You can repeat it.
    Example: `hepm count /archive/*.jsonl --engine ray --to runs.hepm`
    """
    place = Place(target.to, target.namespace)
    ingest(place, reading, counting, archives, tools, shortest, vectors, embedder, as_json)
