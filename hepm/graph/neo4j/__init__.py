"""The tool graph in Neo4j: the same contract as the embedded store, for several machines, Cypher and Browser."""
