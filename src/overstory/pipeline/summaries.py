"""The routing state of steered flows: the summaries of hosts that publishing brokers hold.

A summary travels along the late flow's tree, which is the network's minimum spanning tree, and no further than to the
brokers where events may enter the flow (``entering``). So an entry of a steered flow is

- one summary row of a host; or, without such a row, one filter of the host's members that no other filter of its
  members in that flow covers (equal ones are one),
- on each directed link on the way from the host to any other broker that may publish into the flow.

How the links are counted without following them: let P be the brokers that may publish. The links that join P in the
tree, and those from the host to the nearest broker of that subtree, are the links of the host's entries. In preorder
the brokers of P that stand next to each other tell all of it: the links that join P are the sum of their depths, less
the depths where neighbours in preorder meet, less that where all meet; and a host's way to the subtree begins with the
way up to where it meets the nearest of P, before or after it in preorder.
"""

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.forest import Forest
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


def summary_entries(metered: Metered, place: Ints, count: Ints) -> int:
    """All entries of steered flows. A place is a flow and a broker, as one number, of which ``count`` filters that are
    not covered travel; places with a summary row must not be among them."""
    rules, network = metered.rules, metered.given.network
    summarised = rules.summary_flow * len(network) + rules.summary_broker
    place, count = np.concatenate([place, summarised]), np.concatenate([count, np.ones(len(summarised), np.int64)])
    if not len(place):
        return 0
    flow, host = np.divmod(place, len(network))
    tree, brokers = LateTree(network), np.unique(metered.publisher_brokers).tolist()
    texts, total = metered.given.plan.flows["events"].to_pylist(), 0
    of_text = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    which = np.array([of_text[text] for text in texts], np.int64)[flow]
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(of_text) + 1))
    for text, number in of_text.items():
        mine = order[starts[number] : starts[number + 1]]
        if len(mine):
            publishing = network.positions(np.array(may_enter(text, brokers), np.int64))
            total += int((tree.links(publishing, host[mine]) * count[mine]).sum())
    return total


def is_summarised(metered: Metered, place: Ints) -> NDArray[np.bool_]:
    """Whether a flow and a broker have a summary row."""
    rules = metered.rules
    if len(rules.has_summary) == 1:
        return np.zeros(len(place), bool)
    found: NDArray[np.bool_] = rules.has_summary[place]
    return found


def is_steered(metered: Metered) -> NDArray[np.bool_]:
    """By flow."""
    found: NDArray[np.bool_] = metered.rules.flow_tree == NONE
    return found
