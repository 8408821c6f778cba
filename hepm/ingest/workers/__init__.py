"""Preparation of many files side by side: in processes of this machine."""
