"""Planners: from a scenario to a plan. One name each, in one registry."""
