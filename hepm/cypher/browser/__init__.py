"""What Neo4j Browser takes in: a style, and the library as favourites."""
