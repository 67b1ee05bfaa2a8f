"""Planners of routing trees: which subscriptions travel together, and along which tree."""
