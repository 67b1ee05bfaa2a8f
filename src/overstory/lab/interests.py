"""What subscribers want in the workloads of the assignment paper (Yu, Agarwal and Yang): rectangles of event space.

The paper names its three sets and gives few of their laws; its technical report is not to be had. These are
reconstructions, and their laws were fixed before any planner was tuned. Event space is a square of side 1,000 in the
attributes x and y, and events are uniform in it. A *catalogue* holds the distinct rectangles; a subscriber has one.

1. ``google-groups`` (set #1). Groups are the leaves of a tree of categories of depth three, 12 ways each, which divide
   event space as a treemap does; a group reaches a little beyond its leaf, so that groups overlap. A subscriber follows
   a group, or one in ten times all of a category of the second level, or, with the share of *broad interests* (0.02 or
   0.15), all of a category of the first. The popularity of groups follows Zipf's law with the exponent of the
   *interest skew* (0.5 or 1.1); how popular a first-level category is in each region is drawn (Dirichlet, 0.3).
2. ``rss`` (set #2). 50 feeds, unit squares anywhere, popular by Zipf's law with exponent 0.5; the subscribers of a feed
   are at 10 locations.
3. ``hotspots`` (set #3). Rectangles around the centres of a grid of 10 by 10 cells, which are popular by Zipf's law
   with exponent 0.5 in a random order; each side is one of 20, 50, 100 and 200, by the same law. Locations are random.
4. ``broad-and-narrow``: a family on which offline greedy is provably n times as dear as the best plan, or nearly, for n
   brokers without limits of delay and m subscribers for each, who are its capacity. In the order of the table, one
   subscriber in m wants everything (a cost of 1), and the others want one of n - 1 squares of side 10 (1/10,000 each).
   Greedy sends the first to an empty broker, and the m - 1 that follow there as well, for nothing, until it is full;
   then the next broad interest opens the next broker. So all n brokers are broad, for n. The best plan has all
   broad interests at one broker, for 1 + (n - 1)/10,000.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.model.network import Floats, Ints

SIDE = 1000.0
REGIONS = np.array([4.0, 1.0, 4.0]) / 9.0  # Asia, North America, Europe
WAYS = 12  # children of a category
SECOND_LEVEL = 0.1  # of the subscribers follow a category of the second level
BEYOND = 0.25  # of its side, at most, that a group reaches beyond its leaf
SKEW = {"low": 0.5, "high": 1.1}
BROAD = {"low": 0.02, "high": 0.15}
AFFINITY = 0.3
FEEDS, PLACES_OF_FEED = 50, 10
CELLS, WIDTHS = 10, np.array([20.0, 50.0, 100.0, 200.0])
NARROW = 10.0  # side of the narrow interests of broad-and-narrow
EXPONENT = 0.5  # of Zipf's law, of feeds and of hot spots


class Interests(NamedTuple):
    """Rectangles from ``low`` up to, and without, ``high``; and by subscriber its rectangle and its location."""

    low: Floats
    high: Floats
    of_subscriber: Ints
    location: Ints


def zipf(count: int, exponent: float) -> Floats:
    weights = np.arange(1, count + 1) ** -exponent
    return np.asarray(weights / weights.sum())


def google_groups(count: int, region: Ints, skew: str, broad: str, draw: np.random.Generator) -> Interests:
    """``region`` is that of each location."""
    first, second, leaves = _treemap(draw)
    low, high = _catalogue(first, second, leaves, draw)
    popularity = draw.permutation(zipf(len(leaves[0]), SKEW[skew]))
    by_category = popularity.reshape(WAYS, -1).sum(axis=1)
    liking = by_category[:, None] * draw.dirichlet(np.full(len(REGIONS), AFFINITY), WAYS)
    location = draw.choice(len(region), count, p=_weights(region))
    interest = np.empty(count, np.int64)
    depth = draw.random(count)
    for place in range(len(REGIONS)):
        mine = np.flatnonzero(region[location] == place)
        category = draw.choice(WAYS, len(mine), p=liking[:, place] / liking[:, place].sum())
        interest[mine] = _nodes(category, popularity, depth[mine], BROAD[broad], draw)
    return Interests(low, high, interest, location)


def _weights(region: Ints) -> Floats:
    """Of locations: those of a region together have the region's share."""
    weights = REGIONS[region] / np.bincount(region, minlength=len(REGIONS))[region]
    return np.asarray(weights / weights.sum())


def _nodes(category: Ints, popularity: Floats, depth: Floats, broad: float, draw: np.random.Generator) -> Ints:
    """The node of the tree that each subscriber of a category follows, by its number in the catalogue."""
    size = WAYS * WAYS
    leaf = np.empty(len(category), np.int64)
    for each in range(WAYS):
        mine = np.flatnonzero(category == each)
        own = popularity[each * size : (each + 1) * size]
        leaf[mine] = each * size + draw.choice(size, len(mine), p=own / own.sum())
    found = WAYS + WAYS * WAYS + leaf
    found = np.where(depth < broad + SECOND_LEVEL, WAYS + leaf // WAYS, found)
    return np.where(depth < broad, category, found)


Boxes = tuple[Floats, Floats]


def _treemap(draw: np.random.Generator) -> tuple[Boxes, Boxes, Boxes]:
    levels: list[Boxes] = []
    boxes = np.zeros((1, 2)), np.full((1, 2), SIDE)
    for _ in range(3):
        parts = [_divided(low, high, WAYS, draw) for low, high in zip(*boxes, strict=True)]
        boxes = np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])
        levels.append(boxes)
    return levels[0], levels[1], levels[2]


def _divided(low: Floats, high: Floats, parts: int, draw: np.random.Generator) -> Boxes:
    """A box in so many parts: cut in two across its longer side, not quite in the middle, and so on."""
    if parts == 1:
        return low[None], high[None]
    axis = int(np.argmax(high - low))
    fewer = parts // 2
    share = fewer / parts * draw.uniform(0.7, 1.3)
    cut = np.round(low[axis] + share * (high[axis] - low[axis]), 1)
    middle_high, middle_low = high.copy(), low.copy()
    middle_high[axis] = middle_low[axis] = cut
    one, other = _divided(low, middle_high, fewer, draw), _divided(middle_low, high, parts - fewer, draw)
    return np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])


def _catalogue(first: Boxes, second: Boxes, leaves: Boxes, draw: np.random.Generator) -> Boxes:
    sides = leaves[1] - leaves[0]
    beyond = draw.uniform(0, BEYOND, (2, *sides.shape)) * sides
    low = np.concatenate([first[0], second[0], leaves[0] - beyond[0]])
    high = np.concatenate([first[1], second[1], leaves[1] + beyond[1]])
    return np.maximum(np.round(low), 0.0), np.minimum(np.round(high), SIDE)


def rss(count: int, locations: int, draw: np.random.Generator) -> Interests:
    low = np.round(draw.uniform(0, SIDE - 1, (FEEDS, 2)))
    feed = draw.choice(FEEDS, count, p=zipf(FEEDS, EXPONENT))
    places = np.stack([draw.choice(locations, PLACES_OF_FEED, replace=False) for _ in range(FEEDS)])
    return Interests(low, low + 1.0, feed, places[feed, draw.integers(PLACES_OF_FEED, size=count)])


def hotspots(count: int, locations: int, draw: np.random.Generator) -> Interests:
    cell = draw.permutation(CELLS * CELLS)[draw.choice(CELLS * CELLS, count, p=zipf(CELLS * CELLS, EXPONENT))]
    width = draw.choice(len(WIDTHS), (count, 2), p=zipf(len(WIDTHS), EXPONENT))
    keys, interest = np.unique(cell * 16 + width[:, 0] * 4 + width[:, 1], return_inverse=True)
    centre = (np.stack([keys // 16 // CELLS, keys // 16 % CELLS], axis=1) + 0.5) * SIDE / CELLS
    half: NDArray[np.float64] = WIDTHS[np.stack([keys // 4 % 4, keys % 4], axis=1)] / 2
    low, high = np.maximum(centre - half, 0.0), np.minimum(centre + half, SIDE)
    return Interests(low, high, interest.reshape(-1), draw.integers(locations, size=count))


def broad_and_narrow(count: int, brokers: int, locations: int, draw: np.random.Generator) -> Interests:
    narrow = max(brokers - 1, 1)
    low = np.concatenate([np.zeros((1, 2)), np.round(draw.uniform(0, SIDE - NARROW, (narrow, 2)))])
    high = np.concatenate([np.full((1, 2), SIDE), low[1:] + NARROW])
    order = np.arange(count)
    interest = np.where(order % max(count // brokers, 1) == 0, 0, 1 + order % narrow)
    return Interests(low, high, interest, draw.integers(locations, size=count))
