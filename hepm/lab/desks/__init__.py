"""Service desks that break down in their own ways, and simulated agents who work at them."""
