"""Kernels: arrays in, arrays out. Nothing of ours is imported but kernels.

In reading order: ``keys`` puts all numbers on one line of integers; ``store`` is the memory of an index; ``texts`` are
its words; ``tree`` files boxes so that few must be looked at; ``match`` finds the boxes that hold an event and
``cover`` those that hold another box. ``plain`` does the same in NumPy, to check the others against.
"""
