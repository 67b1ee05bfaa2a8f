"""python -m overstory.routing: compiles the kernels that steer, so that no event has to wait for them.

Tables of distances are as compact as prices allow, and kernels are compiled for each kind of table: for prices that are
whole numbers, small and larger ones, and for others.
"""

import numpy as np

from overstory.kernels.steering import NUMBER_BITS, encode_trees, ends_ahead, take_hop
from overstory.model.tables import PATHS, STEINER
from overstory.routing.steering import Steering
from overstory.wire.steering import first_byte

PRICES = (1.0, 200.0, 0.5)  # of a link: distances of 8 and of 16 bits, and floats
RING = 5  # brokers


def steer(price: float) -> None:
    """Sends an event around a ring, with every link up and with one down."""
    ends = [(at, (at + step) % RING) for at in range(RING) for step in (1, RING - 1)]
    steering = Steering.on({(u, v): price + (u == 0) * (price != 1) for u, v in ends})
    for known in (steering, steering.without({(0, 1), (1, 0)})):
        for kind in (PATHS, STEINER):
            known.tree(kind, 0, [2, 3])
    offsets, sought, root = np.array([0, 2]), np.array([2, 3]), np.array([0])
    links = steering.trees(STEINER, 0, offsets, sought)
    for numbers in (np.empty(0, np.int64), np.zeros(2, np.int64)):
        sent = encode_trees(steering.ports, root, *links, offsets, sought, numbers, first_byte(steering.digest))
        there = int(steering.ports.targets[sent.link[0]])
        ordered = np.full(len(sent.link), len(numbers) > 0)
        take_hop(steering.ports, there, sent.offsets, sent.data, ordered, steering.digest)
        found, counted = np.empty(RING, np.int64), np.empty(RING, np.int64)
        bits = NUMBER_BITS if len(numbers) else 0
        ends_ahead(steering.ports, there, sent.data, 0, int(sent.offsets[1]), bits, found, counted)


if __name__ == "__main__":
    for price in PRICES:
        steer(price)
