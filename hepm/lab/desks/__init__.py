"""Service desks with troubles of their own: the world and its agents."""
