"""Service desks with troubles of their own: the world and its agents, and the same as an environment of a bench."""
