"""Messages of QoS 0 of which all but the payload is known: who gets them was decided before, and is looked up.

All of a PUBLISH between its length and its payload, the topic and the properties, is its *kind*. What was decided about
a kind depends on its *source*, too: clients here, or a neighbour with events of some flows. Of each known kind the
clients that get it are a *group*, and the neighbours that do, with the flows of their copies, a *way*; group 0 and way
0 are nobody. Messages that came together are read once, and each is copied once, behind those before it that are for
the same group, and once for each neighbour.
"""

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.hashing import mixed
from overstory.kernels.nothing import NONE
from overstory.kernels.spans import copy_span, hash_span, same_span

Bytes = bytes | Array
PUBLISH = 0x30
NOBODY = 0  # a group, or a way
WITH_PROPERTIES = 1  # a bit of the numbers of sources whose messages are of MQTT 5
# A known kind: where its bytes stand among all, its source, which clients and which neighbours get its messages, and
# how large such a message may be. A kind of group NONE is known to be none that can be looked up.
KIND = np.dtype([(name, "i8") for name in ("start", "stop", "source", "group", "way", "largest")])
MESSAGE = np.dtype([(name, "i4") for name in ("start", "end", "group", "way")])
# What a group gets in this turn: messages, their bytes, and where the next one is written.
GROUP = np.dtype([(name, "i8") for name in ("count", "size", "at")])
# The report: how many bytes were read, or NONE if they are not to be looked up; how many messages are listed, and
# how many of these go to neighbours; and of each group that gets some its number, where its bytes begin and end, and
# how many messages these are.
READ, LISTED, ONWARD, HEADER, WIDTH = 0, 1, 2, 3, 4
MOST_UNKNOWN = 64  # messages of unknown kinds that are listed


@borrowing
def sort_out(data: Bytes, sources: Array, largest: int, *arrays: Array) -> int:
    """Given the bytes of one client or neighbour, and the source of each message (or one for all); then what is known:
    kinds, their table and their texts; and room: for groups, for a list of messages, for the report, and for as many
    bytes as came.

    Writes the report, and the bytes for all groups one behind the other. These are not written if all messages are for
    one group, which gets the bytes as they came. Returns how many groups get something, or NONE if the bytes are not to
    be looked up. Where kinds are unknown, the first of their messages are listed, and else all.
    """
    kinds, table, texts, groups, messages, report, out = arrays
    count, read = _look_up(data, sources, largest, kinds, table, texts, messages)
    report[READ], report[LISTED], report[ONWARD] = read, count, 0
    if read == NONE:
        return NONE
    some = _share_out(messages[:count], groups, report)
    total = 0
    for i in range(some):
        row = HEADER + WIDTH * i
        group = groups[report[row]]
        report[row + 1], report[row + 2], report[row + 3] = total, total + group.size, group.count
        group.at = total
        total += group.size
        group.size, group.count = 0, 0
    if some > 1 or total < read:
        _copy_all(data, messages[:count], groups, out)
    return some


@borrowing
def _look_up(
    data: Bytes, sources: Array, largest: int, kinds: Array, table: Array, texts: Array, messages: Array
) -> tuple[int, int]:
    """Lists the messages. Returns how many they are, and how many bytes were read; NONE if some are unknown."""
    count, read, unknown = 0, 0, False
    at, stop, source = 0, len(data), sources[0]
    while at < stop:
        if len(sources) > 1:
            if read == len(sources):
                return 0, NONE
            source = sources[read]
        start, payload, end = _parts(data, at, stop, source & WITH_PROPERTIES != 0, largest)
        if end == 0:  # it has not all come yet
            break
        if end == NONE or count == len(messages):
            return 0, NONE
        number = table[_find(data, start, payload, source, kinds, table, texts)] - 1
        group, way = NOBODY, NOBODY
        if number >= 0:
            group, way = kinds[number].group, kinds[number].way
            if group == NONE or end - at > kinds[number].largest:
                return 0, NONE
        elif not unknown:
            unknown, count = True, 0
        if number < 0 or not unknown:
            message = messages[count]
            message.start, message.end, message.group, message.way = at, end, group, way
            count += 1
            if unknown and count == MOST_UNKNOWN:
                break
        at, read = end, read + 1
    return count, NONE if unknown else at


@borrowing
def _share_out(messages: Array, groups: Array, report: Array) -> int:
    """Counts what each group gets, and reports which get something. Returns how many these are."""
    some = 0
    for i in range(len(messages)):
        message = messages[i]
        report[ONWARD] += message.way != NOBODY
        if message.group != NOBODY:
            group = groups[message.group]
            if group.count == 0:
                report[HEADER + WIDTH * some] = message.group
                some += 1
            group.count += 1
            group.size += message.end - message.start
    return some


@borrowing
def _copy_all(data: Bytes, messages: Array, groups: Array, out: Array) -> None:
    """Copies each message behind those before it that are for the same group."""
    for i in range(len(messages)):
        message = messages[i]
        if message.group != NOBODY:
            group, size = groups[message.group], message.end - message.start
            copy_span(out, group.at, data, message.start, size)
            group.at += size


@inlined
def _parts(data: Bytes, at: int, stop: int, has_properties: bool, largest: int) -> tuple[int, int, int]:
    """Where the kind of the message at this place begins and ends, and where the message ends; that is 0 if it has not
    all come yet, and NONE if it looks unusual. Whether a kind is well-formed is not said: others have to have found
    that before."""
    size, start = 0, at + 2
    if data[at] != PUBLISH:
        return 0, 0, NONE
    if at + 1 == stop:
        return 0, 0, 0
    size = np.int64(data[at + 1])
    if size >= 128:
        if at + 2 == stop:
            return 0, 0, 0
        if data[at + 2] == 0 or data[at + 2] >= 128:
            return 0, 0, NONE
        size += (np.int64(data[at + 2]) << 7) - 128
        start = at + 3
    end = start + size
    if size < 3 or end - at > largest:
        return 0, 0, NONE
    if end > stop:
        return 0, 0, 0
    payload = start + 2 + (np.int64(data[start]) << 8 | np.int64(data[start + 1]))
    if has_properties:
        if payload >= end or data[payload] >= 128:
            return 0, 0, NONE
        payload += 1 + np.int64(data[payload])
    return start, payload, end if payload <= end else NONE


@inlined
def _find(data: Bytes, start: int, stop: int, source: int, kinds: Array, table: Array, texts: Array) -> int:
    """Where the kind with these bytes, from this source, stands in the table, or would."""
    last = len(table) - 1
    place = (hash_span(data, start, stop) ^ mixed(source)) & last
    while table[place]:
        kind = kinds[table[place] - 1]
        if (
            kind.stop - kind.start == stop - start
            and kind.source == source
            and same_span(data, start, texts, kind.start, stop - start)
        ):
            break
        place = (place + 1) & last
    return place


@borrowing
def remember(number: int, kinds: Array, table: Array, texts: Array) -> None:
    """Enters a kind, which is not known yet, into the table."""
    kind = kinds[number]
    table[_find(texts, kind.start, kind.stop, kind.source, kinds, table, texts)] = number + 1


@kernel
def sent_on(data: Array, messages: Array, sets: Array) -> tuple[Array, Array, Array, Array]:
    """What one neighbour gets of listed messages: their packets, one behind the other; the size of each, or one for
    all; which of the messages they are; and by number the set of flows of each copy. ``sets`` has that number for each
    way, and NONE where the way does not lead to the neighbour. There are no packets if the neighbour gets all bytes as
    they came."""
    count, total, are_alike = _sent_on(messages, sets)
    sizes = np.empty(1 if are_alike else count, np.int64)
    rows, which = np.empty(count, np.int64), np.empty(count, np.int64)
    packets = np.empty(0 if total == len(data) else total, np.uint8)
    _send_on(data, messages, sets, packets, sizes, rows, which)
    return packets, sizes, rows, which


@borrowing
def _sent_on(messages: Array, sets: Array) -> tuple[int, int, bool]:
    """How many messages a neighbour gets, how many bytes these are, and whether there are some and all have one
    size."""
    count, total, first, are_alike = 0, 0, 0, True
    for i in range(len(messages)):
        message = messages[i]
        if sets[message.way] != NONE:
            size = message.end - message.start
            first = size if count == 0 else first
            are_alike &= size == first
            count += 1
            total += size
    return count, total, are_alike and count > 0


@borrowing
def _send_on(
    data: Array, messages: Array, sets: Array, packets: Array, sizes: Array, rows: Array, which: Array
) -> None:
    """Fills these arrays."""
    count, at = 0, 0
    for i in range(len(messages)):
        message = messages[i]
        if sets[message.way] != NONE:
            size = message.end - message.start
            rows[count], which[count] = i, sets[message.way]
            if count < len(sizes):
                sizes[count] = size
            if len(packets):
                copy_span(packets, at, data, message.start, size)
            at += size
            count += 1
