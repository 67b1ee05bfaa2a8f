"""The routing state of steered flows: the summaries of hosts that publishing brokers hold.

A summary travels along the late flow's tree, which is the network's minimum spanning tree, and no further than to the
brokers where events may enter the flow (``entering``). So an entry of a steered flow is

- one summary row of a host; or, without such a row, one filter of the host's members that no other filter of its
  members in that flow covers (equal ones are one),
- on each directed link on the way from the host to any other broker that may publish into the flow.

In a flow with regions, the summary of a host goes no further than to its gateway and to the brokers of its region that
may publish. There the entries of a region, one for its summary row or, without such a row, one for each filter of its
members that no other of them covers, are on the links from the gateway to brokers of other regions that may publish.

How the links are counted without following them: let P be the brokers that may publish. The links that join P in the
tree, and those from the host to the nearest broker of that subtree, are the links of the host's entries. In preorder
the brokers of P that stand next to each other tell all of it: the links that join P are the sum of their depths, less
the depths where neighbours in preorder meet, less that where all meet; and a host's way to the subtree begins with the
way up to where it meets the nearest of P, before or after it in preorder.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.forest import Forest
from overstory.kernels.metering import Rules
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import root_forest
from overstory.model.network import Network
from overstory.model.spanning import minimum_spanning_tree
from overstory.pipeline.entering import may_enter
from overstory.pipeline.rules import Metered

Ints = NDArray[np.int64]


class LateTree:
    """The tree that summaries travel along; brokers are known by position."""

    def __init__(self, network: Network) -> None:
        sources, targets = minimum_spanning_tree(network)
        one, other = np.concatenate([sources, targets]), np.concatenate([targets, sources])
        order = np.lexsort((other, one))
        offsets = np.searchsorted(one[order], np.arange(len(network) + 1))
        parent, depth = np.empty(len(network), np.int64), np.empty(len(network), np.int64)
        root_forest(offsets, other[order], parent, depth)
        self.forest = Forest(parent, depth)
        self.number = self.forest.number
        self.depth = np.empty_like(depth)  # by preorder number, as all that follows
        self.depth[self.number] = depth

    def links(self, publishing: Ints, hosts: Ints) -> Ints:
        """By host, how many links lead from it to all brokers that publish."""
        if not len(publishing):
            return np.zeros(len(hosts), np.int64)
        ends, here = np.unique(self.number[publishing]), self.number[hosts]
        top = self.forest.meeting(ends[:1], ends[-1:])[0]
        between = self.depth[self.forest.meeting(ends[:-1], ends[1:])]
        joining = self.depth[ends].sum() - between.sum() - self.depth[top]
        after = np.searchsorted(ends, here)
        near = [ends[np.clip(at, 0, len(ends) - 1)] for at in (after - 1, after)]
        meets = np.maximum(*(self.depth[self.forest.meeting(here, end)] for end in near))
        found: Ints = joining + self.depth[here] - meets + np.maximum(self.depth[top] - meets, 0)
        return found


class Places(NamedTuple):
    """Where summaries come from: a flow and a broker, as one number, and how many parts its summary has."""

    place: Ints
    parts: Ints

    @classmethod
    def joined(cls, *several: "Places") -> "Places":
        return cls(*(np.concatenate(column) for column in zip(*several, strict=True)))


class Summaries(NamedTuple):
    """All that is told in steered flows, of hosts and, by their gateways, of regions."""

    hosts: Places
    regions: Places


def with_rows(metered: Metered, hosts: Places, regions: Places) -> Summaries:
    """The same and those that are summary rows, which must not be among them."""
    rules, size = metered.rules, len(metered.given.network)
    rows = Places(rules.summary_flow * size + rules.summary_broker, np.ones(len(rules.summary_flow), np.int64))
    of_region = is_gateway(rules, rows.place)
    return Summaries(
        Places.joined(hosts, Places(*(column[~of_region] for column in rows))),
        Places.joined(regions, Places(*(column[of_region] for column in rows))),
    )


def summary_entries(metered: Metered, hosts: Places, regions: Places) -> int:
    """All entries of steered flows. ``hosts`` and ``regions``, which are known by their gateways, have the filters that
    are not covered; those with a summary row must not be among them."""
    hosts, regions = with_rows(metered, hosts, regions)
    return links_of(metered, hosts) + links_of(metered, regions, of_regions=True)


def links_of(metered: Metered, told: Places, of_regions: bool = False) -> int:
    """The links that summaries cross, once for each part of them, of hosts or of regions."""
    if not len(told.place):
        return 0
    network, total = metered.given.network, 0
    tree, brokers = LateTree(network), np.unique(metered.publisher_brokers).tolist()
    texts = metered.given.plan.flows["events"].to_pylist()
    entering = {text: network.positions(np.array(may_enter(text, brokers), np.int64)) for text in dict.fromkeys(texts)}
    for text, gateways, (host, count) in _by_area(metered, texts, told):
        publishing = entering[text]
        if gateways is not None:
            gateway = gateways[host[0]]
            inside = gateways[publishing] == gateway
            publishing = publishing[~inside] if of_regions else np.append(publishing[inside], gateway)
        total += int((tree.links(publishing, host) * count).sum())
    return total


def _by_area(metered: Metered, texts: list[str], places: Places) -> Iterator[tuple[str, Ints | None, Places]]:
    """Brokers, and how many parts their summaries have, by the events of their flows and by region: those whose
    summaries go to the same brokers. With the gateway of each broker, where there are regions."""
    size, gateway = len(metered.given.network), metered.rules.gateway
    of_text = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    number = np.array([of_text[text] for text in texts], np.int64)
    flow, host = np.divmod(places.place, size)
    region = gateway[places.place] if len(gateway) > 1 else np.full(len(host), NONE)
    # Flows without regions are one area for each text, those with regions one for each flow and region
    area = np.where(region == NONE, number[flow], len(texts) + flow * size + region)
    order = np.argsort(area, kind="stable")
    starts = np.flatnonzero(np.diff(area[order], prepend=NONE))
    for mine in np.split(order, starts[1:]) if len(order) else ():
        first = int(flow[mine[0]])
        gateways = None if region[mine[0]] == NONE else gateway[first * size : (first + 1) * size]
        yield texts[first], gateways, Places(host[mine], places.parts[mine])


def is_gateway(rules: Rules, place: Ints) -> NDArray[np.bool_]:
    """Whether a flow has regions and a broker is the gateway of one; a place is both, as one number."""
    if len(rules.gateway) == 1:
        return np.zeros(len(place), bool)
    found: NDArray[np.bool_] = rules.gateway[place] == place % rules.place.shape[1]
    return found


def is_summarised(metered: Metered, place: Ints) -> NDArray[np.bool_]:
    """Whether a flow and a broker have a summary row; of a gateway, whether its region has one."""
    rules = metered.rules
    if len(rules.has_summary) == 1:
        return np.zeros(len(place), bool)
    found: NDArray[np.bool_] = rules.has_summary[place]
    return found


def is_steered(metered: Metered) -> NDArray[np.bool_]:
    """Whether each flow is steered, by flow."""
    found: NDArray[np.bool_] = metered.rules.flow_tree == NONE
    return found
