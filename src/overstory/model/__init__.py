"""Frozen values and table schemas, shared by every other package."""
