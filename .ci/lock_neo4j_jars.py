"""Make the lock file of `hepm neo4j` again, after the version in `hepm.graph.neo4j_local.installation` has changed.

jgo resolves all that a server needs and fetches it; each jar's coordinate and SHA-256 are written.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jgo.maven import Artifact, MavenContext

from hepm.graph.neo4j_local import installation
from hepm.graph.neo4j_local.installation import VERSION, sha256_of

BROWSER = "org.neo4j.client:neo4j-browser:5.24.0"


def main() -> None:
    """Write the lock file."""
    with tempfile.TemporaryDirectory() as folder:
        context = MavenContext(repo_cache=Path(folder), timeout=60)
        target = Path(installation.__file__).with_name("jars.lock.txt")
        target.write_text(lock_text(context), "utf-8")
        print(f"{target.name}: {len(target.read_text('utf-8').splitlines()) - 2} jars")


def lock_text(context: MavenContext) -> str:
    """The text of the lock file."""
    roots = [f"org.neo4j:neo4j:{VERSION}", f"org.neo4j.app:neo4j-server:{VERSION}", BROWSER]
    inputs, others = context.resolver.resolve([context.create_dependency(root) for root in roots])
    artifacts = [found.artifact for found in (*inputs, *others) if found.scope in (None, "compile", "runtime")]
    with ThreadPoolExecutor(8) as pool:
        rows = sorted(pool.map(row, artifacts))
    head = [f"# Neo4j Community {VERSION} with Browser: SHA-256 and Maven coordinate of every jar.",
            "# Made by python .ci/lock_neo4j_jars.py"]  # fmt: skip
    return "\n".join([*head, *(f"{sha256}  {coordinate}" for coordinate, sha256 in rows), ""])


def row(artifact: Artifact) -> tuple[str, str]:
    """Coordinate and digest of a jar, which is fetched."""
    parts = (artifact.groupId, artifact.artifactId, artifact.version, artifact.classifier)
    return ":".join(part for part in parts if part), str(sha256_of(artifact.resolve()))


if __name__ == "__main__":
    main()
