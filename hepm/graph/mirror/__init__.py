"""A store's content in this process: the graph and the lessons of each namespace, and search among its states."""
