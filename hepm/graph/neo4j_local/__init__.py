"""A real Neo4j Community server in one call: fetched once, run from a folder, on this machine alone."""

from hepm.graph.neo4j_local.server import LocalServer, Status

__all__ = ["LocalServer", "Status"]
