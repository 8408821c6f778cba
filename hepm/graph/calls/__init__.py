"""Calls of labelled runs as arrays, the results that rankers fit to them, and the files that keep both."""
