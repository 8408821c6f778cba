"""A real Neo4j Community server in one call: downloaded once, run from a folder, on this machine alone."""

from importlib.util import find_spec

from hepm.errors import MissingExtraError

if missing := [name for name in ("filelock", "jgo", "neo4j", "psutil") if find_spec(name) is None]:
    raise MissingExtraError(f"a local Neo4j server needs {', '.join(missing)}: pip install 'hepm[neo4j-local]'")

from hepm.graph.neo4j_local.server import LocalServer, Status

__all__ = ["LocalServer", "Status"]
