"""What each next hop gets of a frame of steered events, against a plain twin."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels.forwarding import Forwarded, forward

pieces = st.binary(min_size=1, max_size=20)
PORTS = 4


def plain_forward(
    ports: int, links: list[int], rows: list[int], headers: list[bytes], packets: list[bytes]
) -> list[list[tuple[int, bytes, bytes]]]:
    """By port: the event of each copy, its packet and its header."""
    copies = list(zip(links, rows, headers, strict=True))
    return [[(row, packets[row], header) for link, row, header in copies if link == port] for port in range(ports)]


def taken_apart(found: Forwarded) -> list[list[tuple[int, bytes, bytes]]]:
    """What the kernel says, as its twin says it."""
    by_port = []
    for port in range(len(found.offsets) - 1):
        copies, packet, header = [], int(found.packet_offsets[port]), int(found.header_offsets[port])
        for place in range(found.offsets[port], found.offsets[port + 1]):
            behind, end = packet + int(found.sizes[place]), header + int(found.header_sizes[place])
            copies.append(
                (int(found.rows[place]), found.packets[packet:behind].tobytes(), found.headers[header:end].tobytes())
            )
            packet, header = behind, end
        assert (packet, header) == (found.packet_offsets[port + 1], found.header_offsets[port + 1])
        by_port.append(copies)
    return by_port


@given(st.data(), st.lists(pieces, min_size=1, max_size=8))
def test_each_port_gets_its_copies_in_order(draw: st.DataObject, packets: list[bytes]) -> None:
    places = st.tuples(st.integers(0, len(packets) - 1), st.integers(0, PORTS - 1))
    chosen = sorted(draw.draw(st.sets(places)))  # each event goes to a port once
    headers = draw.draw(st.lists(pieces, min_size=len(chosen), max_size=len(chosen)))
    rows, links = [row for row, _ in chosen], [port for _, port in chosen]
    found = forward(
        PORTS,
        np.array(links, np.int64),
        np.array(rows, np.int64),
        np.cumsum([0, *map(len, headers)]),
        np.frombuffer(b"".join(headers), np.uint8).copy(),
        np.array([len(packet) for packet in packets]),
        np.frombuffer(b"".join(packets), np.uint8),
    )
    assert taken_apart(found) == plain_forward(PORTS, links, rows, headers, packets)
