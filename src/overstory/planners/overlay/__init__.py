"""Planners that attach clients to brokers."""
