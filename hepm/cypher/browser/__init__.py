"""What Neo4j Browser takes in: a style, the library as favourites, and edges painted for the style."""
