"""The regions of a steered flow, as brokers need to know them. What a region is, rule 7 of the law says.

A flow with regions is two at each broker. The flow itself spreads the summaries of hosts, along that part of the late
flow's tree which is in the region. The flow *above* it spreads the summaries of regions, along the whole of that tree;
no event enters it, and it has a number of its own.
"""

from collections.abc import Mapping
from typing import NamedTuple

from overstory.kernels.nothing import NONE
from overstory.model.regions import Gateways
from overstory.routing.messages import LATE

ABOVE = "above"  # the kind of a flow that spreads summaries of regions
Tree = Mapping[int, frozenset[int]]  # the neighbours of each broker


def above(flow: int) -> int:
    """The number of the flow above a flow, and the other way round: neither a plan's flow's nor the late one's."""
    return LATE - 1 - flow


class Place(NamedTuple):
    """Where a broker stands in its region."""

    towards: int  # its neighbour on the way to the gateway; NONE at the gateway
    outward: frozenset[int]  # its neighbours behind whom there are brokers of other regions


def places_of(tree: Tree, gateway_of: Gateways) -> dict[int, Place]:
    """The place of every broker, by the late flow's tree."""
    towards = dict.fromkeys(gateway_of.values(), NONE)
    order = sorted(towards)
    for broker in order:  # which grows meanwhile
        for peer in sorted(tree[broker]):
            if gateway_of[peer] == gateway_of[broker] and peer != towards[broker]:
                towards[peer] = broker
                order.append(peer)
    leaving = {broker: sum(gateway_of[peer] != gateway_of[broker] for peer in tree[broker]) for broker in order}
    below = dict(leaving)  # links to other regions at a broker, or further from the gateway
    for broker in reversed(order):
        if towards[broker] != NONE:
            below[towards[broker]] += below[broker]

    def is_outward(broker: int, peer: int) -> bool:
        if gateway_of[peer] != gateway_of[broker]:
            return True
        return below[peer] > 0 if towards[peer] == broker else below[gateway_of[broker]] > below[broker]

    return {
        broker: Place(towards[broker], frozenset(peer for peer in tree[broker] if is_outward(broker, peer)))
        for broker in order
    }
