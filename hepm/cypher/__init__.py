"""Every Cypher statement of hepm in a file of its own: the store's, the schema's, and the questions analysts ask."""
