"""A stand-in of hepm's own, not ACEBench: see ../../README.md."""

BASE_PROMPT_EN = "You look after a lamp."
