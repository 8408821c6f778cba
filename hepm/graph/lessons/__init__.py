"""What runs taught, as a store keeps it: lessons, where they come from, where they were shown and how that ended."""
