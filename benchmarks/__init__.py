"""Benchmarks are a registry: a file holds subjects, a subject yields measurements, ``python -m benchmarks`` runs them.

Each measurement is set beside the bar that it has to reach and beside a named peer measured in the same run, so that a
slow machine slows both. Nothing here is a unit test: the tests only run every subject once, small.
"""
