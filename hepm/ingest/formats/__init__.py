"""Readers of recorded runs: one file per format. `hepm.ingest.reading` lists them."""
