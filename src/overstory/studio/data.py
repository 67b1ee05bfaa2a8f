"""What the page's script gets to draw with.

A plan that spans 5,000 brokers with a dozen trees must stay small: a tree is one bit for each pair of the picture, its
members' brokers one bit for each broker.
"""

import base64
import math
from collections.abc import Sequence

import numpy as np

from overstory.model.network import Ints
from overstory.studio.layout import WIDTH, height_of
from overstory.studio.picture import Picture
from overstory.studio.text import plain, short_numbers, shortened
from overstory.studio.trees import FlowTree, joining
from overstory.studio.views import PlanView

MOST_OF_A_PREDICATE = 200  # characters


def data_for(picture: Picture, plans: Sequence[PlanView], classes: Sequence[Ints]) -> dict[str, object]:
    network = picture.network
    return {
        "size": [WIDTH, height_of(picture.points)],
        "names": picture.names,
        "points": short_numbers(np.round(picture.points.reshape(-1), 1)),
        "ends": picture.pairs.reshape(-1).tolist(),
        "prices": short_numbers(picture.by_pair(network.prices, math.nan)),
        "delays": short_numbers(picture.by_pair(network.delays, math.nan)),
        "plans": [_plan(picture, plan, each) for plan, each in zip(plans, classes, strict=True)],
    }


def _plan(picture: Picture, plan: PlanView, classes: Ints) -> dict[str, object]:
    return {
        "name": plain(plan.name),
        "classes": "".join(map(str, classes.tolist())),
        "frames": picture.by_pair(plan.traffic.frames).tolist(),
        "bytes": picture.by_pair(plan.traffic.bytes).tolist(),
        "flows": plan.scorecard.flows,
        "clients": list(plan.clients),
        "trees": [_tree(picture, tree) for tree in plan.trees],
    }


def _tree(picture: Picture, tree: FlowTree) -> dict[str, object]:
    return {
        "flow": tree.flow,
        "steered": tree.steered,
        "events": _cut(tree.events),
        "wants": [_cut(label) for label in tree.wants],
        "wanted": tree.wanted,
        "clients": tree.clients,
        "members": tree.members,
        "links": _bits(picture.slots[tree.links] // 2, len(picture.pairs)),
        "joining": _bits(picture.slots[joining(picture.network, tree)] // 2, len(picture.pairs)),
        "brokers": _bits(tree.brokers, len(picture.network)),
    }


def _cut(predicate: str) -> str:
    return shortened(plain(predicate), MOST_OF_A_PREDICATE)


def _bits(chosen: Ints, size: int) -> str:
    within = np.zeros(size, np.uint8)
    within[chosen] = 1
    return base64.b64encode(np.packbits(within, bitorder="little").tobytes()).decode()
