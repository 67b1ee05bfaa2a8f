"""Which boxes hold which, exactly and by the million: what a union of boxes leaves out of another, and what two share.

Boxes are conjunctions of ranges of integers, both ends within, in the order of their attributes; where a box has no
range, it allows all of the attribute's *domain*. No box is empty, and every integer of a domain is the code of some
value, so a union holds a box iff it holds all of its points. Whether several boxes hold one together is decided by
cutting: what one of them holds is cut away, and the others are asked about the pieces that are left.

A box that is not *exact* is wider than what it stands for. It holds nothing for certain; but what holds it holds that.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.store import with_room

MOST_WORK = 100_000  # boxes that are looked at for one question; beyond that the answer is: unknown
MOST_PIECES = 4096  # that wait
HELD, LEFT_OUT, UNKNOWN = 0, 1, 2
ONCE, TWICE, NOT_WHOLE, UNSURE = 0, 1, 2, 3


class Pool(NamedTuple):
    """Unions of boxes in flat arrays. Of union i the boxes between offsets i and i + 1, of box j the ranges between
    offsets j and j + 1."""

    offsets: Array
    exact: Array  # by box
    range_offsets: Array
    attribute: Array
    low: Array
    high: Array


class Domains(NamedTuple):
    """By attribute: the least and the greatest code."""

    low: Array
    high: Array


class Work(NamedTuple):
    """What the kernels write on. Boxes that hold are spread out over the attributes that any of them has."""

    slot: Array  # by attribute: its place, NONE if they do not speak of it
    names: Array  # by place: the attribute
    lows: Array  # by box that holds, and place
    highs: Array
    piece_lows: Array  # by piece that waits, and place
    piece_highs: Array
    piece_next: Array  # by piece: the first box that has not been cut away from it


@kernel
def work_for(domains: Domains, boxes: int, widest: int) -> Work:
    """Room for so many boxes that hold, with so many attributes in all."""
    return Work(
        np.full(len(domains.low), NONE, np.int64),
        np.empty(widest, np.int64),
        np.empty((boxes, widest), np.int64),
        np.empty((boxes, widest), np.int64),
        np.empty((MOST_PIECES + 2 * widest + 1, widest), np.int64),
        np.empty((MOST_PIECES + 2 * widest + 1, widest), np.int64),
        np.empty(MOST_PIECES + 2 * widest + 1, np.int64),
    )


@kernel
def _take_names(pool: Pool, union: int, work: Work, width: int) -> int:
    """Gives the attributes of a union's exact boxes their places. Returns how many there are now."""
    for box in range(pool.offsets[union], pool.offsets[union + 1]):
        if pool.exact[box]:
            for i in range(pool.range_offsets[box], pool.range_offsets[box + 1]):
                if work.slot[pool.attribute[i]] == NONE:
                    work.slot[pool.attribute[i]], work.names[width] = width, pool.attribute[i]
                    width += 1
    return width


@kernel
def _spread(pool: Pool, domains: Domains, union: int, work: Work, width: int, count: int) -> int:
    """Writes the exact boxes of a union behind those that hold already. Returns how many there are now."""
    for box in range(pool.offsets[union], pool.offsets[union + 1]):
        if pool.exact[box]:
            _fill(pool, domains, box, work, width, work.lows[count], work.highs[count])
            count += 1
    return count


@kernel
def _fill(pool: Pool, domains: Domains, box: int, work: Work, width: int, lows: Array, highs: Array) -> None:
    for place in range(width):
        lows[place], highs[place] = domains.low[work.names[place]], domains.high[work.names[place]]
    for i in range(pool.range_offsets[box], pool.range_offsets[box + 1]):
        place = work.slot[pool.attribute[i]]
        if place != NONE:
            lows[place], highs[place] = pool.low[i], pool.high[i]


@kernel
def _forget_names(work: Work, width: int) -> None:
    for place in range(width):
        work.slot[work.names[place]] = NONE


@kernel
def _held(pool: Pool, domains: Domains, box: int, work: Work, width: int, count: int) -> int:
    """Whether the boxes that hold hold this one together."""
    lows, highs, pieces_low, pieces_high = work.lows, work.highs, work.piece_lows, work.piece_highs
    _fill(pool, domains, box, work, width, pieces_low[0], pieces_high[0])
    work.piece_next[0] = 0
    height, steps = 1, 0
    while height:
        height -= 1
        low, high = pieces_low[height], pieces_high[height]
        first, whole = NONE, False
        for other in range(work.piece_next[height], count):
            steps += 1
            meets = inside = True
            for place in range(width):
                if lows[other, place] > high[place] or highs[other, place] < low[place]:
                    meets = False
                    break
                if lows[other, place] > low[place] or highs[other, place] < high[place]:
                    inside = False
            if meets and inside:
                whole = True
                break
            if meets and first == NONE:
                first = other
        if whole:
            continue
        if first == NONE:
            return LEFT_OUT
        if steps > MOST_WORK or height >= MOST_PIECES:
            return UNKNOWN
        height = _cut(lows[first], highs[first], work, height, width, first + 1)
    return HELD


@kernel
def _cut(lows: Array, highs: Array, work: Work, height: int, width: int, following: int) -> int:
    """Replaces a piece by those parts of it that are outside of a box. Returns how many pieces wait."""
    low, high = work.piece_lows[height].copy(), work.piece_highs[height].copy()
    for place in range(width):
        for below in (True, False):
            if lows[place] > low[place] if below else highs[place] < high[place]:
                piece_low, piece_high = work.piece_lows[height], work.piece_highs[height]
                piece_low[:width], piece_high[:width] = low[:width], high[:width]
                if below:
                    piece_high[place], low[place] = lows[place] - 1, lows[place]
                else:
                    piece_low[place], high[place] = highs[place] + 1, highs[place]
                work.piece_next[height] = following
                height += 1
    return height


class Groups(NamedTuple):
    """Unions that are asked about together: of group i those between offsets i and i + 1. Its hull is a union of one
    box, or of none if nobody asks."""

    offsets: Array
    unions: Array
    hulls: Pool


@kernel
def rows_left_out(
    pool: Pool, domains: Domains, rows: Array, spans: Array, groups: Groups, work: Work, most: int
) -> tuple[Array, Array, int]:
    """What rows leave out. Row i is the union ``rows[i]``, and is to hold all unions of the groups from span 0 up to
    span 1, and from span 2 up to span 3.

    Returned are, by row, the place in ``groups.unions`` of the first one that is surely left out, NONE if there is
    none; pairs of a row and a place of which nobody can tell, at most so many; and how many such pairs there are.
    """
    lost, doubts, doubtful = np.full(len(rows), NONE, np.int64), np.empty((most, 2), np.int64), 0
    for row in range(len(rows)):
        width = _take_names(pool, rows[row], work, 0)
        count = _spread(pool, domains, rows[row], work, width, 0)
        sure = count == pool.offsets[rows[row] + 1] - pool.offsets[rows[row]]
        for half in (0, 2):
            for group in range(spans[row, half], spans[row, half + 1]):
                if lost[row] != NONE or _all_held(groups.hulls, domains, group, work, width, count) == HELD:
                    continue
                for place in range(groups.offsets[group], groups.offsets[group + 1]):
                    found = _one_held(pool, domains, groups.unions[place], work, width, count, sure)
                    if found == LEFT_OUT:
                        lost[row] = place
                        break
                    if found == UNKNOWN:
                        if doubtful < most:
                            doubts[doubtful, 0], doubts[doubtful, 1] = row, place
                        doubtful += 1
        _forget_names(work, width)
    return lost, doubts[: min(doubtful, most)], doubtful


@kernel
def _all_held(pool: Pool, domains: Domains, union: int, work: Work, width: int, count: int) -> int:
    """Whether all boxes of a union are held, exact or not."""
    for box in range(pool.offsets[union], pool.offsets[union + 1]):
        if _held(pool, domains, box, work, width, count) != HELD:
            return UNKNOWN
    return HELD


@kernel
def _one_held(pool: Pool, domains: Domains, union: int, work: Work, width: int, count: int, sure: bool) -> int:
    """Whether a union is held; ``sure`` if those that hold are all that there is to hold it."""
    answer = HELD
    for box in range(pool.offsets[union], pool.offsets[union + 1]):
        found = _held(pool, domains, box, work, width, count)
        if found == LEFT_OUT and sure and pool.exact[box]:
            return LEFT_OUT
        if found != HELD:
            answer = UNKNOWN
    return answer


@kernel
def served_once(pool: Pool, domains: Domains, wanted: Array, share_offsets: Array, shares: Array) -> Array:
    """Of each union that is ``wanted``: whether its shares (unions, those of i between offsets i and i + 1) hold it
    together, and no two of them have a point in common."""
    answers = np.empty(len(wanted), np.int64)
    work = work_for(domains, 64, len(domains.low))
    for i in range(len(wanted)):
        ours = shares[share_offsets[i] : share_offsets[i + 1]]
        answers[i] = _shared(pool, ours)
        if answers[i] == TWICE:
            continue
        width, boxes, exact = 0, 0, 0
        for union in ours:
            boxes += pool.offsets[union + 1] - pool.offsets[union]
        if boxes > len(work.lows):
            work = work_for(domains, 2 * boxes, len(domains.low))
        for union in ours:
            width = _take_names(pool, union, work, width)
        for union in ours:
            exact = _spread(pool, domains, union, work, width, exact)
        found = _one_held(pool, domains, wanted[i], work, width, exact, exact == boxes)
        if found == LEFT_OUT:
            answers[i] = NOT_WHOLE
        elif found == UNKNOWN:
            answers[i] = UNSURE
        _forget_names(work, width)
    return answers


@kernel
def _shared(pool: Pool, unions: Array) -> int:
    answer = ONCE
    for i in range(len(unions)):
        for j in range(i):
            found = _meet(pool, unions[i], unions[j])
            if found == TWICE:
                return TWICE
            if found == UNSURE:
                answer = UNSURE
    return answer


@kernel
def _meet(pool: Pool, one: int, other: int) -> int:
    """Whether two unions have a point in common: TWICE if surely."""
    answer = ONCE
    for a in range(pool.offsets[one], pool.offsets[one + 1]):
        for b in range(pool.offsets[other], pool.offsets[other + 1]):
            if _boxes_meet(pool, a, pool, b):
                if pool.exact[a] and pool.exact[b]:
                    return TWICE
                answer = UNSURE
    return answer


@kernel
def _boxes_meet(pool: Pool, a: int, others: Pool, b: int) -> bool:
    i, j = pool.range_offsets[a], others.range_offsets[b]
    while i < pool.range_offsets[a + 1] and j < others.range_offsets[b + 1]:
        if pool.attribute[i] == others.attribute[j]:
            if pool.low[i] > others.high[j] or others.low[j] > pool.high[i]:
                return False
            i, j = i + 1, j + 1
        elif pool.attribute[i] < others.attribute[j]:
            i += 1
        else:
            j += 1
    return True


@kernel
def meet_unions(pool: Pool, ones: Array, others_pool: Pool, others: Array) -> Pool:
    """Of each pair of unions what they have in common, as a union."""
    offsets = np.zeros(len(ones) + 1, np.int64)
    exact, range_offsets = np.empty(64, np.bool_), np.zeros(65, np.int64)
    attribute, low, high = np.empty(64, pool.attribute.dtype), np.empty(64, np.int64), np.empty(64, np.int64)
    boxes = place = 0
    for pair in range(len(ones)):
        for a in range(pool.offsets[ones[pair]], pool.offsets[ones[pair] + 1]):
            for b in range(others_pool.offsets[others[pair]], others_pool.offsets[others[pair] + 1]):
                if not _boxes_meet(pool, a, others_pool, b):
                    continue
                i, last = pool.range_offsets[a], pool.range_offsets[a + 1]
                j, end = others_pool.range_offsets[b], others_pool.range_offsets[b + 1]
                needed = place + last - i + end - j
                attribute, low, high = with_room(attribute, needed), with_room(low, needed), with_room(high, needed)
                while i < last or j < end:
                    ours = j == end or (i < last and pool.attribute[i] <= others_pool.attribute[j])
                    both = ours and i < last and j < end and pool.attribute[i] == others_pool.attribute[j]
                    if both:
                        attribute[place] = pool.attribute[i]
                        low[place] = max(pool.low[i], others_pool.low[j])
                        high[place] = min(pool.high[i], others_pool.high[j])
                    elif ours:
                        attribute[place], low[place], high[place] = pool.attribute[i], pool.low[i], pool.high[i]
                    else:
                        attribute[place] = others_pool.attribute[j]
                        low[place], high[place] = others_pool.low[j], others_pool.high[j]
                    i += 1 if ours else 0
                    j += 1 if both or not ours else 0
                    place += 1
                exact, range_offsets = with_room(exact, boxes + 1), with_room(range_offsets, boxes + 2)
                exact[boxes] = pool.exact[a] and others_pool.exact[b]
                boxes += 1
                range_offsets[boxes] = place
        offsets[pair + 1] = boxes
    return Pool(offsets, exact[:boxes], range_offsets[: boxes + 1], attribute[:place], low[:place], high[:place])


@kernel
def hulls_of(pool: Pool, group_offsets: Array, unions: Array) -> Pool:
    """Of each group of unions the least box that holds all of them; none if they are all empty."""
    groups = len(group_offsets) - 1
    offsets, range_offsets = np.zeros(groups + 1, np.int64), np.zeros(groups + 1, np.int64)
    attribute, low, high = np.empty(64, pool.attribute.dtype), np.empty(64, np.int64), np.empty(64, np.int64)
    boxes = place = 0
    for group in range(groups):
        start, stop = place, NONE  # the ranges of the hull; NONE before the first box
        for at in range(group_offsets[group], group_offsets[group + 1]):
            for box in range(pool.offsets[unions[at]], pool.offsets[unions[at] + 1]):
                first, last = pool.range_offsets[box], pool.range_offsets[box + 1]
                if stop == NONE:
                    needed = start + last - first
                    attribute, low, high = with_room(attribute, needed), with_room(low, needed), with_room(high, needed)
                    attribute[start:needed], low[start:needed] = pool.attribute[first:last], pool.low[first:last]
                    high[start:needed] = pool.high[first:last]
                    stop = needed
                    continue
                kept, i = start, first
                for j in range(start, stop):
                    while i < last and pool.attribute[i] < attribute[j]:
                        i += 1
                    if i < last and pool.attribute[i] == attribute[j]:
                        attribute[kept] = attribute[j]
                        low[kept], high[kept] = min(low[j], pool.low[i]), max(high[j], pool.high[i])
                        kept += 1
                stop = kept
        if stop != NONE:
            place = stop
            boxes += 1
            range_offsets[boxes] = place
        offsets[group + 1] = boxes
    exact = np.zeros(boxes, np.bool_)
    return Pool(offsets, exact, range_offsets[: boxes + 1], attribute[:place], low[:place], high[:place])


@kernel
def all_apart(pool: Pool, unions: Array) -> bool:
    """Whether it is sure that no two of some unions have a point in common."""
    return bool(_shared(pool, unions) == ONCE)


@kernel
def meetings(pool: Pool, ones: Array, others: Array) -> Array:
    """Of each pair of one and another: whether they may have a point in common."""
    found = np.zeros((len(ones), len(others)), np.bool_)
    for i in range(len(ones)):
        for j in range(len(others)):
            for a in range(pool.offsets[ones[i]], pool.offsets[ones[i] + 1]):
                for b in range(pool.offsets[others[j]], pool.offsets[others[j] + 1]):
                    if not found[i, j] and _boxes_meet(pool, a, pool, b):
                        found[i, j] = True
    return found


@kernel
def all_held(pool: Pool, domains: Domains, wanted: Array, shares: Array, meet: Array) -> bool:
    """Whether it is sure that each union that is ``wanted`` is held by the shares together that it meets; ``meet`` says
    by share and wanted union whether they do."""
    work = work_for(domains, 64, len(domains.low))
    for i in range(len(wanted)):
        width, boxes, exact = 0, 0, 0
        for j in range(len(shares)):
            if meet[j, i]:
                boxes += pool.offsets[shares[j] + 1] - pool.offsets[shares[j]]
        if boxes > len(work.lows):
            work = work_for(domains, 2 * boxes, len(domains.low))
        for j in range(len(shares)):
            if meet[j, i]:
                width = _take_names(pool, shares[j], work, width)
        for j in range(len(shares)):
            if meet[j, i]:
                exact = _spread(pool, domains, shares[j], work, width, exact)
        found = _one_held(pool, domains, wanted[i], work, width, exact, exact == boxes)
        _forget_names(work, width)
        if found != HELD:
            return False
    return True


@kernel
def hosts_of(meet: Array, filters: Array, brokers: Array, size: int) -> Array:
    """By flow and broker whether a client there has a filter that meets the flow; pairs of filters and brokers."""
    found = np.zeros((len(meet), size), np.bool_)
    for flow in range(len(meet)):
        for i in range(len(filters)):
            if meet[flow, filters[i]]:
                found[flow, brokers[i]] = True
    return found
