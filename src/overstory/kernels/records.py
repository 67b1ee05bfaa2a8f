"""Reading the record of a box (``store`` gives its layout)."""

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.store import Store


@kernel
def ranges_of(header: int) -> int:
    return header & 0xFFFF


@kernel
def lists_of(header: int) -> int:
    return (header >> 16) & 0xFFFF


@kernel
def clauses_of(header: int) -> int:
    return (header >> 32) & 0xFFFF


@kernel
def first_clause(words: Array, record: int) -> int:
    header = words[record]
    at = record + 1 + 3 * ranges_of(header)
    for _ in range(lists_of(header)):
        at += 2 + words[at + 1]
    return at


@kernel
def range_of(store: Store, box: int, attribute: int) -> tuple[int, int]:
    words, record = store.words, store.boxes[box].record
    for i in range(ranges_of(words[record])):
        at = record + 1 + 3 * i
        if words[at] == attribute:
            return words[at + 1], words[at + 2]
    return LEAST, MOST
