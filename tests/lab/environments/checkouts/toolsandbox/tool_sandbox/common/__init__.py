"""A stand-in of hepm's own, not ToolSandbox: see ../../README.md."""
