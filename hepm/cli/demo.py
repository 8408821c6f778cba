"""`hepm demo`."""


def demo() -> None:
    """Show it."""
