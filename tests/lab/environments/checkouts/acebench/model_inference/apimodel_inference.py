"""A stand-in of hepm's own, not ACEBench: see ../../README.md. It is read, never imported."""

import a_package_that_is_not_installed  # noqa: F401

SAVED_CLASS = {"Lamp": ["on", "colour", "notes"]}
