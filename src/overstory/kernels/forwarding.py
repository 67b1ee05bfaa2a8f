"""What each next hop gets of a frame of steered events: their packets and headers, in one piece for each.

Headers come as ``steering.take_hop`` leaves them. A frame has few events and few next hops, so it is the number of
calls that takes the time: all is done in one.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel


class Forwarded(NamedTuple):
    """The events for each port of a broker, ascending: those for port p are between offsets p and p + 1."""

    offsets: Array
    rows: Array  # of each copy: which of the events of the frame
    sizes: Array  # of each copy: the bytes of its packet
    packet_offsets: Array  # by port
    packets: Array
    header_sizes: Array  # of each copy
    header_offsets: Array  # by port
    headers: Array


@kernel
def forward(
    ports: int, links: Array, rows: Array, header_offsets: Array, headers: Array, sizes: Array, packets: Array
) -> Forwarded:
    """Sorts copies by port. ``links`` has the port of each copy, and ``rows`` its event; ``sizes`` and ``packets`` are
    those of the events of the frame."""
    count = len(links)
    starts = np.zeros(len(sizes) + 1, np.int64)
    for i in range(len(sizes)):
        starts[i + 1] = starts[i] + sizes[i]
    ends = np.zeros((3, ports + 1), np.int64)  # of copies, packets and headers
    for i in range(count):
        port = links[i] + 1
        ends[0, port] += 1
        ends[1, port] += sizes[rows[i]]
        ends[2, port] += header_offsets[i + 1] - header_offsets[i]
    for port in range(ports):
        for kind in range(3):
            ends[kind, port + 1] += ends[kind, port]
    row, size, header_size = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    packet, header = np.empty(ends[1, ports], np.uint8), np.empty(ends[2, ports], np.uint8)
    at = ends.copy()
    for i in range(count):
        port, event = links[i], rows[i]
        place, begin, head = at[0, port], at[1, port], at[2, port]
        length = header_offsets[i + 1] - header_offsets[i]
        row[place], size[place], header_size[place] = event, sizes[event], length
        packet[begin : begin + sizes[event]] = packets[starts[event] : starts[event + 1]]
        header[head : head + length] = headers[header_offsets[i] : header_offsets[i + 1]]
        at[0, port] += 1
        at[1, port] += sizes[event]
        at[2, port] += length
    return Forwarded(ends[0], row, size, ends[1], packet, header_size, ends[2], header)
