"""The kernels once more in plain NumPy and Python, to check the compiled ones against. Nothing else uses it.

Same names, same arguments, same results; slow, and right by inspection. There is no tree here, no bins and no hashing:
``match`` looks at every box, ``encode`` has a dictionary, ``filters_of`` goes from filters to boxes where the kernel
goes from boxes to filters, ``ascent_bounds`` makes one raise at a time and forgets all it saw, ``cheapest_paths`` has
no heap. Only the layout of the store is shared (see ``store``).
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from overstory.kernels.ascent import SLACK
from overstory.kernels.cells import KEY, MISSING, TEXT, UNTYPED, WORDS, Cells
from overstory.kernels.compiling import Array
from overstory.kernels.keys import BEYOND, LEAST, MAGNITUDE, SMALLEST, TOP
from overstory.kernels.match import Events, Scratch
from overstory.kernels.nothing import NONE
from overstory.kernels.sets import FIRST, SECOND
from overstory.kernels.store import ATTRIBUTES, FILTERS, FREE, TOKENS_USED, Store
from overstory.kernels.texts import EQUAL, LIST, NUMBER, PREFIX, PRESENT, STRING, WORD

JSON_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


# Keys


def keys_of_floats(values: Array, keys: Array) -> None:
    magnitude = values.view(np.int64) & MAGNITUDE
    ranks = np.select(
        [magnitude == 0, magnitude < SMALLEST, magnitude < BEYOND],
        [0, 1, 2 * (magnitude - SMALLEST + 1)],
        TOP,
    )
    keys[:] = np.where(np.isnan(values), LEAST, np.where(np.signbit(values), -ranks, ranks))


def keys_of_integers(values: Array, keys: Array) -> None:
    """The key of the nearest float, and one more or less if the integer is not that float."""
    near = values.astype(np.float64)
    keys_of_floats(near, keys)
    for i, (value, rounded) in enumerate(zip(values.tolist(), near.tolist(), strict=True)):
        keys[i] += (value > int(rounded)) - (value < int(rounded))


def key_of(value: int | float) -> int:
    """One number of any size: what is beyond a float's reach counts as infinite."""
    try:
        near = float(value)
    except OverflowError:
        near = np.inf if value > 0 else -np.inf
    keys = np.empty(1, np.int64)
    keys_of_floats(np.array([near]), keys)
    if abs(int(keys[0])) == TOP:
        return int(keys[0])
    return int(keys[0]) + (value > near) - (value < near)


def read_numbers(cells: Cells, floats: Array, truths: Array) -> Array:
    """No number is hard to read for Python, so none is left to the caller."""
    for cell in np.flatnonzero(cells.rows["kind"] == UNTYPED):
        text = cells.data[cells.rows["start"][cell] : cells.rows["stop"][cell]].tobytes()
        if text in (b"false", b"true"):
            cells.rows["key"][cell] = truths[int(text == b"true")]
        else:
            cells.rows["key"][cell] = _key_in(text)
    return np.zeros(0, np.int64)


def _key_in(text: bytes) -> int:
    found = JSON_NUMBER.fullmatch(text)
    if found is None:
        return LEAST
    try:
        number = float(text) if found[1] or found[2] else int(text)
    except ValueError:  # more digits than Python converts
        return LEAST
    return LEAST if number in (np.inf, -np.inf) else key_of(number)


# Events


def encode(store: Store, cells: Cells) -> Events:
    known = _tokens_of(store)
    attributes: list[int] = []
    keys: list[int] = []
    tokens: list[int] = []
    key_ends, token_ends = [0], [0]
    for start, stop in pairwise(cells.offsets.tolist()):
        held: set[int] = set()
        for cell in range(start, stop):
            attribute, kind, key = cells.rows[cell].item()[:3]
            if kind in (KEY, UNTYPED) and key != LEAST:
                attributes.append(attribute)
                keys.append(key)
            for said, text in _said_by(cells, cell):
                held.add(known.get((attribute, said, text), NONE))
        tokens += sorted(held - {NONE})
        key_ends.append(len(keys))
        token_ends.append(len(tokens))
    return Events(
        np.array(key_ends, np.int64),
        np.array(attributes, np.int32),
        np.array(keys, np.int64),
        np.array(token_ends, np.int64),
        np.array(tokens, np.int32),
    )


def _tokens_of(store: Store) -> dict[tuple[int, int, bytes], int]:
    """The numbers of all tokens in use, by attribute, kind and text."""
    known = {}
    for token in np.flatnonzero(store.tokens["uses"][: store.counts[TOKENS_USED]]).tolist():
        row = store.tokens[token]
        size = (row["length"] + 7) // 8
        text = store.words[row["text"] : row["text"] + size].astype("<i8").tobytes()[: row["length"]]
        known[int(row["tag"]) >> 3, int(row["tag"]) & 7, text] = token
    return known


def _said_by(cells: Cells, cell: int) -> Iterator[tuple[int, bytes]]:
    """Kinds and texts of all tokens that there could be for the cell."""
    _, kind, key, start, stop = cells.rows[cell].item()
    if kind == MISSING:
        return
    yield PRESENT, b""
    if kind in (KEY, UNTYPED) and key != LEAST:
        yield NUMBER, b""
    if kind in (TEXT, UNTYPED):
        text = cells.data[start:stop].tobytes()
        yield STRING, b""
        yield EQUAL, text
        for length in range(len(text) + 1):
            yield PREFIX, text[:length]
    if kind == WORDS:
        yield LIST, b""
        for i in range(start, stop):
            yield WORD, cells.data[cells.words[i] : cells.words[i + 1]].tobytes()


# Matching


class Record(NamedTuple):
    """What a box asks for, its opaque test aside."""

    ranges: list[tuple[int, int, int]]  # attribute, first key, last key
    lists: list[tuple[int, list[int]]]  # attribute, cuts
    clauses: list[tuple[bool, list[int]]]  # whether negated, tokens


def record_of(store: Store, box: int) -> Record:
    row = store.boxes[box]
    words = store.words[row["record"] : row["record"] + row["size"]].tolist()
    ranges, lists, clauses = words[0] & 0xFFFF, words[0] >> 16 & 0xFFFF, words[0] >> 32 & 0xFFFF
    record = Record([], [], [])
    at = 1
    for _ in range(ranges):
        record.ranges.append((words[at], words[at + 1], words[at + 2]))
        at += 3
    for _ in range(lists):
        record.lists.append((words[at], words[at + 2 : at + 2 + words[at + 1]]))
        at += 2 + words[at + 1]
    for _ in range(clauses):
        size = words[at] >> 1
        record.clauses.append((bool(words[at] & 1), words[at + 1 : at + 1 + size]))
        at += 1 + size
    return record


def match(store: Store, events: Events, scratch: Scratch) -> tuple[Array, Array]:
    """Offsets by event, and the boxes that hold it, each once and in ascending order."""
    count = len(events.key_offsets) - 1
    values = np.full((store.counts[ATTRIBUTES], count), LEAST, np.int64)
    values[events.attributes, _owners(events.key_offsets)] = events.keys
    owners = _owners(events.token_offsets)
    boxes = np.array(sorted(_filters_by_box(store)), np.int64)
    held = np.ones((count, len(boxes)), np.bool_)
    for i, box in enumerate(boxes):
        record = record_of(store, box)
        for attribute, low, high in record.ranges:
            held[:, i] &= (low <= values[attribute]) & (values[attribute] <= high)
        for attribute, cuts in record.lists:
            inside = [(low <= values[attribute]) & (values[attribute] < end) for low, end in _pairs(cuts)]
            held[:, i] &= np.any(inside, axis=0)
        for negated, wanted in record.clauses:
            having = np.zeros(count, np.bool_)
            having[owners[np.isin(events.tokens, wanted)]] = True
            held[:, i] &= having != negated
    return _offsets(np.count_nonzero(held, axis=1)), boxes[np.nonzero(held)[1]]


def _owners(offsets: Array) -> Array:
    """The event of each entry."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _pairs(cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip(cuts[::2], cuts[1::2], strict=True))


def _offsets(sizes: Array) -> Array:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _filters_by_box(store: Store) -> dict[int, set[int]]:
    """Of all boxes that some filter has."""
    found: dict[int, set[int]] = {}
    for number in range(store.counts[FILTERS]):
        link = store.filters["link"][number]
        while link not in (NONE, FREE):
            found.setdefault(int(store.links["box"][link]), set()).add(number)
            link = store.links["sibling"][link]
    return found


def opaque_among(store: Store, found: Array) -> Array:
    return np.flatnonzero(store.boxes["opaque"][found] != NONE)


def filters_of(store: Store, offsets: Array, found: Array, refused: Array, scratch: Scratch) -> tuple[Array, Array]:
    by_box = _filters_by_box(store)
    allowed = set(range(len(found))) - set(refused.tolist())
    filters: list[int] = []
    sizes = []
    for start, stop in pairwise(offsets.tolist()):
        own = set().union(*(by_box[int(found[i])] for i in range(start, stop) if i in allowed))
        filters += sorted(own)
        sizes.append(len(own))
    return _offsets(np.array(sizes, np.int64)), np.array(filters, np.int64)


# Bounds


def ascent_bounds(
    offsets: Array,
    targets: Array,
    prices: Array,
    terminal_offsets: Array,
    terminals: Array,
    root_offsets: Array,
    roots: Array,
    out: Array,
) -> None:
    """Each root for itself, whatever others have the same terminals."""
    sources = _owners(offsets)
    nodes = np.arange(len(offsets) - 1)
    for s, (start, stop) in enumerate(pairwise(terminal_offsets.tolist())):
        some = set(terminals[start:stop].tolist())
        for i in range(root_offsets[s], root_offsets[s + 1]):
            out[i] = _ascend(nodes, sources, targets, prices.copy(), int(roots[i]), some)


def _ascend(nodes: Array, sources: Array, targets: Array, left: Array, root: int, terminals: set[int]) -> int:
    """``left``: what is left of the price of each link."""
    cuts = {terminal: np.count_nonzero(targets == terminal) for terminal in terminals - {root}}
    bound = 0
    while cuts:
        terminal = min(cuts, key=lambda node: (cuts[node], node))
        smallest = min((cuts[other] for other in cuts if other != terminal), default=None)
        while True:
            within = _with_joined(nodes == terminal, sources[left == 0], targets[left == 0])
            if within[root] or any(within[other] for other in cuts if other != terminal):
                del cuts[terminal]
                break
            cut = within[targets] & ~within[sources]
            cuts[terminal] = np.count_nonzero(cut)
            if smallest is not None and cuts[terminal] > smallest + smallest // SLACK:
                break
            raised = left[cut].min()
            left[cut] -= raised
            bound += int(raised)
    return bound


def _with_joined(within: Array, sources: Array, targets: Array) -> Array:
    """A set of nodes, with all from which these links lead to it."""
    while True:
        larger = within.copy()
        larger[sources[within[targets]]] = True
        if (larger == within).all():
            return within
        within = larger


def farthest_bounds(
    distances: Array, terminal_offsets: Array, terminals: Array, sets: Array, places: Array, out: Array
) -> None:
    for some, place in zip(sets.tolist(), places.tolist(), strict=True):
        out[place] = distances[terminals[terminal_offsets[some] : terminal_offsets[some + 1]]].max(initial=0)


# Paths and forests


def cheapest_paths(
    offsets: Array, targets: Array, prices: Array, sources: Array, distances: Array, before: Array
) -> None:
    """No heap: each time all brokers are looked at for the one that is settled next."""
    links = list(zip(_owners(offsets).tolist(), targets.tolist(), prices.tolist(), strict=True))
    for row, source in enumerate(sources.tolist()):
        reached = {source: (0.0, NONE)}  # the price of the path, and the broker before
        settled: set[int] = set()
        while left := [(price, broker) for broker, (price, _) in reached.items() if broker not in settled]:
            so_far, here = min(left)
            settled.add(here)
            for one, there, price in links:
                if one == here and there not in settled and so_far + price < np.inf:
                    reached[there] = min(reached.get(there, (np.inf, NONE)), (so_far + price, here))
        distances[row], before[row] = np.inf, NONE
        for broker, (price, previous) in reached.items():
            distances[row, broker], before[row, broker] = price, previous


def root_forest(offsets: Array, neighbours: Array, parent: Array, depth: Array) -> int:
    """One level after the other."""
    sources = _owners(offsets)
    parent[:], depth[:] = NONE, NONE
    trees = 0
    while (depth == NONE).any():
        trees += 1
        level = [int(np.flatnonzero(depth == NONE)[0])]
        depth[level] = 0
        while level:
            following = []
            for node in level:
                for other in neighbours[sources == node].tolist():
                    if depth[other] == NONE:
                        parent[other], depth[other] = node, depth[node] + 1
                        following.append(other)
            level = following
    return len(neighbours) // 2 - (len(parent) - trees)


# Sets


def hash_sets(offsets: Array, values: Array) -> tuple[Array, Array]:
    """With Python's integers, of which the last 64 bits are kept."""
    found = []
    for start, stop in pairwise(offsets.tolist()):
        one, other = int(FIRST), int(SECOND)
        for value in values[start:stop].tolist():
            one = _mixed(one ^ value) + value
            other = _mixed(other + value) ^ one
        found.append((_signed(one), _signed(other)))
    columns = np.array(found, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def sort_lists(offsets: Array, values: Array) -> None:
    for start, stop in pairwise(offsets.tolist()):
        values[start:stop] = sorted(values[start:stop].tolist())


def mix_all(values: Array) -> None:
    values[:] = [_signed(_mixed(value)) for value in values.tolist()]


def _mixed(value: int) -> int:
    bits = value & (2**64 - 1)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        bits = (bits ^ bits >> 33) * factor & (2**64 - 1)
    return bits ^ bits >> 33


def _signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
