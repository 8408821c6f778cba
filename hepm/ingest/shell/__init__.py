"""Command lines of shells: their programs, and the tests that they run."""
