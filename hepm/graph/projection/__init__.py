"""A store as tables of the graph model, and its read-only copy in the embedded Cypher engine."""
