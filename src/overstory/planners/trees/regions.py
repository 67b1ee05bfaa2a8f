"""Regions for steered flows: pieces of the late flow's tree of about equal size, each with a gateway.

Summaries of hosts stay in their region, so a broker holds those of its own and one of each other: least, if there are
about as many regions as brokers in each.

The gateway of a region is the broker that makes the ways from publishing brokers elsewhere to hosts in the region
shortest, if they all lead through it: by the sum of both halves, each as a mean.
"""

import numpy as np
import pyarrow as pa

from overstory.kernels.distances import distances_to
from overstory.kernels.graphs import moderate_prices
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import root_forest
from overstory.model.network import Floats, Ints, Network
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import REGIONS


def pieces_of(network: Network, count: int) -> Ints:
    """By broker, the number of its piece: ``count`` of them, if there are as many brokers, each in one piece of the
    late flow's tree. The largest piece is cut in two, again and again, where that leaves the smaller part largest."""
    size = len(network)
    sources, targets = minimum_spanning_tree(network)
    one, other = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    order = np.lexsort((other, one))
    parent, depth = np.empty(size, np.int64), np.empty(size, np.int64)
    root_forest(np.searchsorted(one[order], np.arange(size + 1)), other[order], parent, depth)
    outwards = np.argsort(depth, kind="stable")
    piece = np.empty(size, np.int64)
    for broker in outwards.tolist():
        piece[broker] = broker if parent[broker] == NONE else piece[parent[broker]]
    for _ in range(count - len(np.unique(piece))):
        sizes = np.bincount(piece, minlength=size)
        mine = outwards[piece[outwards] == np.argmax(sizes)]
        if len(mine) < 2:
            break
        below = np.zeros(size, np.int64)
        below[mine] = 1
        for broker in mine[:0:-1].tolist():
            below[parent[broker]] += below[broker]
        cut = mine[1:][np.argmax(np.minimum(below[mine[1:]], len(mine) - below[mine[1:]]))]
        inside = {int(cut)}
        for broker in mine[1:].tolist():
            if int(parent[broker]) in inside:
                inside.add(broker)
        piece[sorted(inside)] = cut
    return piece


def gateways_of(network: Network, pieces: Ints, publishing: Floats, hosting: Floats) -> Ints:
    """By broker, that of its region's gateway; all by position. ``publishing`` and ``hosting`` say how much of what is
    published, and of what is wanted, there is at each broker."""
    prices = moderate_prices(network.prices)
    known = distances_to(network.offsets, network.targets, prices, np.arange(len(network)))
    gateway = np.empty(len(network), np.int64)
    for piece in np.unique(pieces).tolist():
        inside = np.flatnonzero(pieces == piece)
        outside = np.where(pieces == piece, 0.0, publishing)
        there = known.far[known.row_of[inside]].astype(np.float64) @ (outside / max(outside.sum(), 1e-300))
        wanted = hosting[inside] / max(hosting[inside].sum(), 1e-300)
        onward = wanted @ known.far[known.row_of[inside]][:, inside].astype(np.float64)
        gateway[inside] = inside[np.argmin(there + onward)]
    return gateway


def region_rows(network: Network, gateway: Ints, flow: int) -> pa.Table:
    """The rows of ``regions`` of one flow."""
    columns = [np.full(len(network), flow), network.ids, network.ids[gateway]]
    return pa.table(columns, schema=REGIONS.schema)
