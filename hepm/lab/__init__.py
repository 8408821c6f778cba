"""The lab: what researchers use, and nobody who only remembers and suggests.

It knows every other room. Of those only `hepm.cli` knows it, and imports it in the commands that need it.
"""
