"""Experiences that change with what came of them (PRIME, appendix A)."""
