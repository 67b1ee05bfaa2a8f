"""What the page's script gets to draw with.

A plan that spans 5,000 brokers with a dozen trees must stay small: a tree is one bit for each pair of the picture, its
members' brokers one bit for each broker.
"""

import base64
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from overstory.model.network import Ints
from overstory.studio.layout import WIDTH, height_of
from overstory.studio.picture import Picture
from overstory.studio.regions import Regions
from overstory.studio.text import plain, short_numbers, shortened
from overstory.studio.trees import FlowTree, joining
from overstory.studio.views import PlanView
from overstory.studio.ways import Told, Way

MOST_OF_A_PREDICATE = 200  # characters


class Ways(msgspec.Struct, frozen=True):
    """A few events, and the way of each through each plan."""

    events: Sequence[Told] = ()
    by_plan: Sequence[Sequence[Way]] = ()


def data_for(
    picture: Picture, plans: Sequence[PlanView], classes: Sequence[Ints], regions: Regions | None, ways: Ways
) -> dict[str, object]:
    """``ways`` are those of these plans."""
    network = picture.network
    return {
        "size": [WIDTH, height_of(picture.points)],
        "names": picture.names,
        "points": short_numbers(np.round(picture.points.reshape(-1), 1)),
        "ends": picture.pairs.reshape(-1).tolist(),
        "prices": short_numbers(picture.by_pair(network.prices, math.nan)),
        "delays": short_numbers(picture.by_pair(network.delays, math.nan)),
        "regions": None if regions is None else _regions(regions),
        "events": [msgspec.structs.asdict(event) for event in ways.events],
        "plans": [_plan(picture, *each) for each in zip(plans, classes, ways.by_plan, strict=True)],
    }


def _regions(regions: Regions) -> dict[str, object]:
    return {
        "names": regions.names,
        "points": short_numbers(np.round(regions.points.reshape(-1), 1)),
        "radii": short_numbers(np.round(regions.radii, 1)),
        "ends": regions.ends.reshape(-1).tolist(),
        "of": regions.of.tolist(),
        "pairOf": regions.pair_of.tolist(),
    }


def _plan(picture: Picture, plan: PlanView, classes: Ints, ways: Sequence[Way]) -> dict[str, object]:
    return {
        "name": plain(plan.name),
        "classes": "".join(map(str, classes.tolist())),
        "frames": _counts(picture.by_pair(plan.traffic.frames)),
        "bytes": _counts(picture.by_pair(plan.traffic.bytes)),
        "flows": plan.scorecard.flows,
        "clients": list(plan.clients),
        "trees": [_tree(picture, tree) for tree in plan.trees],
        "ways": [_way(way) for way in ways],
    }


def _counts(values: Ints) -> str:
    """Whole numbers to the base 36, with commas between them, and nothing for 0: as short as text can have them."""
    return ",".join(np.base_repr(value, 36).lower() if value else "" for value in values.tolist())


def _way(way: Way) -> dict[str, object]:
    """Its hops as four numbers each: both ends, the delay, whether somebody behind the link wants it."""
    hops = [number for hop in way.hops for number in (hop.source, hop.target, hop.delay, int(hop.wanted))]
    return {"entry": way.entry, "hops": hops, "served": [number for pair in way.served for number in pair]}


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
