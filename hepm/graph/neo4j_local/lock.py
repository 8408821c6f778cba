"""Make the lock files again: `python -m hepm.graph.neo4j_local.lock`, after a release in `versions` has changed.

jgo resolves all that a server needs, fetches it, and each jar's coordinate and SHA-256 are written beside this file.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from hepm.graph.neo4j_local.jars import sha256_of
from hepm.graph.neo4j_local.versions import LINES, Line

if TYPE_CHECKING:
    from jgo.maven import Artifact, MavenContext


def main() -> None:
    """Write the lock file of every line."""
    from jgo.maven import MavenContext

    with tempfile.TemporaryDirectory() as folder:
        context = MavenContext(repo_cache=Path(folder), timeout=60)
        for line in LINES.values():
            target = Path(__file__).with_name(f"jars-{line.name}.lock.txt")
            target.write_text(lock_text(line, context), "utf-8")
            print(f"{target.name}: {len(target.read_text('utf-8').splitlines()) - 2} jars")


def lock_text(line: Line, context: MavenContext) -> str:
    """The lock file of a line."""
    inputs, others = context.resolver.resolve([context.create_dependency(root) for root in line.roots])
    artifacts = [found.artifact for found in (*inputs, *others) if found.scope in (None, "compile", "runtime")]
    with ThreadPoolExecutor(8) as pool:
        rows = sorted(pool.map(_row, artifacts))
    head = [f"# Neo4j Community {line.release} with Browser: SHA-256 and Maven coordinate of every jar.",
            "# Made by python -m hepm.graph.neo4j_local.lock"]  # fmt: skip
    return "\n".join([*head, *(f"{sha256}  {coordinate}" for coordinate, sha256 in rows), ""])


def _row(artifact: Artifact) -> tuple[str, str]:
    parts = (artifact.groupId, artifact.artifactId, artifact.version, artifact.classifier)
    return ":".join(part for part in parts if part), str(sha256_of(artifact.resolve()))


if __name__ == "__main__":
    main()
