"""Readers of recorded runs, one file per format, and what makes runs ready for a store. It knows no policy."""
