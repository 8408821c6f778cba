"""How running agents reach memory: the HTTP server with its proxy, MCP and hooks, and a complete small agent."""
