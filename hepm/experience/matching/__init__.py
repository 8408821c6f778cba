"""Principles that say the same, and those that oppose each other (EvolveR 3.2.1)."""
