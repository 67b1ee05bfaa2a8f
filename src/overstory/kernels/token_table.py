"""The children of a node by token: a hash table in the pool of words, open and probed in line.

An entry is a token and a child; 0 is none. The row of the node has where the table starts (``threshold``), the bits of
its size (``left``) and how many it holds (``right``).
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.hashing import mixed
from overstory.kernels.nothing import NONE
from overstory.kernels.store import Store, class_of, give_words, take_words


@kernel
def child_under(store: Store, node: int, token: int) -> int:
    words, row = store.words, store.nodes[node]
    mask = (1 << row.left) - 1
    slot = mixed(token) & mask
    while True:
        entry = words[row.threshold + slot]
        if entry == 0:
            return NONE
        if entry >> 32 == token:
            return (entry & 0xFFFFFFFF) - 1
        slot = (slot + 1) & mask


@kernel
def enter(store: Store, node: int, token: int, child: int) -> None:
    words, row = store.words, store.nodes[node]
    if 2 * (row.right + 1) > (1 << row.left):
        old, old_size = row.threshold, 1 << row.left
        row.left += 1
        row.threshold = take_words(store, class_of(1 << row.left))
        words[row.threshold : row.threshold + (1 << row.left)] = 0
        for i in range(old_size):
            if words[old + i]:
                _place_entry(words, row.threshold, (1 << row.left) - 1, words[old + i])
        give_words(store, old, class_of(old_size))
    row.right += 1
    _place_entry(words, row.threshold, (1 << row.left) - 1, np.int64(token) << 32 | (child + 1))


@kernel
def _place_entry(words: Array, start: int, mask: int, entry: int) -> None:
    slot = mixed(entry >> 32) & mask
    while words[start + slot]:
        slot = (slot + 1) & mask
    words[start + slot] = entry


@kernel
def leave(store: Store, node: int, token: int) -> None:
    words, row = store.words, store.nodes[node]
    mask = (1 << row.left) - 1
    slot = mixed(token) & mask
    while words[row.threshold + slot] >> 32 != token:
        slot = (slot + 1) & mask
    row.right -= 1
    hole = slot
    while True:
        slot = (slot + 1) & mask
        entry = words[row.threshold + slot]
        if entry == 0:
            break
        if ((slot - mixed(entry >> 32)) & mask) >= ((slot - hole) & mask):
            words[row.threshold + hole] = entry
            hole = slot
    words[row.threshold + hole] = 0
