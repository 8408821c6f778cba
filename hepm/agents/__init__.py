"""How running agents reach memory: the HTTP server with its proxy, MCP and hooks, and a complete small agent."""

from __future__ import annotations

from typing import Final

DOORS: Final = frozenset((
    "", "v1", "v1beta", "mcp", "hooks", "otlp", "outcome", "shortlist", "api", "health", "metrics", "openapi.json",
))  # fmt: skip
"""First parts of the server's paths. Another first part, before one of these, names a namespace: /desk/v1/models."""
