"""Kernels: arrays in, arrays out. Nothing of ours is imported but kernels.

In reading order: ``keys`` puts all numbers on one line of integers; ``store`` is the memory of an index; ``texts`` are
its tokens and ``records`` its boxes; ``leaves`` hold boxes, ``tree`` files them so that few must be looked at, and
``boxes`` puts filters in and out. ``cells`` turns events into what ``match`` takes, which finds the boxes that hold
them; ``cover`` finds those that hold another box. ``plain`` does the same in NumPy, to check the others against.
"""
