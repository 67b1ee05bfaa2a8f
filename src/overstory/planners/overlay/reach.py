"""What each user's traffic costs on the access links to the brokers within reach, the cheapest broker first.

A million users times a thousand brokers is never a table: where there are more pairs than ``MOST_PAIRS``, a user's
cheapest ``FEW`` brokers are looked at. In the plane these come from a search tree, else from blocks of prices.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from overstory.errors import InfeasibleError
from overstory.model.access import ClientLinks, access_of
from overstory.model.scenario import Scenario
from overstory.planners.defaults import brokers_that_take
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_PAIRS = 20_000_000
FEW = 24
TINY = 1e-200
AT_ONCE = 1 << 22  # pairs that are priced together


class Reach(NamedTuple):
    """Of user i, ``brokers[i]`` are positions in the network, the cheapest first and then NONE, and ``costs[i]`` what
    all its traffic costs there."""

    brokers: NDArray[np.int32]
    costs: NDArray[np.float64]
    is_whole: bool  # whether every broker within reach is among them


def reach_of(
    scenario: Scenario, pipeline: Steps, users: Ints, sent: Floats, got: Floats, most: int | None = None
) -> Reach:
    """Raises an ``InfeasibleError`` if a user has no broker within reach. ``most`` brokers are enough for each user."""
    taking = scenario.network.positions(brokers_that_take(scenario))
    width = len(taking) if len(users) * len(taking) <= MOST_PAIRS else min(FEW, len(taking))
    width = min(width, most or width)
    links, price = access_of(scenario), scenario.settings.prices.access
    idle = (sent + got) * price == 0  # whoever sends and gets nothing goes where a byte would be cheapest
    sent, got = np.where(idle, TINY, sent * price), np.where(idle, TINY, got * price)
    if _is_plane(scenario, links) and width < len(taking):
        found = _in_the_plane(scenario, links, users, sent + got, taking, width)
    else:
        found = _in_blocks(scenario, pipeline, links, users, (sent, got), taking, width)
    lost = users[~np.isfinite(found.costs[:, 0])] if width else users
    if len(lost):
        raise InfeasibleError(
            f"client {lost[0]} has no broker within reach ({len(lost):,} such clients); give it links to a broker that "
            "takes clients, or a metric in scenario.toml"
        )
    return found


def _is_plane(scenario: Scenario, links: ClientLinks) -> bool:
    return scenario.settings.access.metric == "euclidean" and not len(links.keys)


def _in_the_plane(
    scenario: Scenario, links: ClientLinks, users: Ints, weight: Floats, taking: Ints, width: int
) -> Reach:
    at_broker = links.places[np.searchsorted(links.ids, scenario.network.ids[taking])]
    at_user = links.places[np.searchsorted(links.ids, users)]
    placed: NDArray[np.bool_] = np.asarray(np.isfinite(at_user).all(axis=1))
    tree = cKDTree(at_broker)
    far, which = tree.query(np.where(placed[:, None], at_user, 0.0), width, workers=-1)
    far, which = far.reshape(len(users), -1), which.reshape(len(users), -1)
    far *= (weight * scenario.settings.access.price)[:, None]
    far[~placed] = np.inf
    return Reach(taking[which].astype(np.int32), far, width == len(taking))


def _in_blocks(
    scenario: Scenario,
    pipeline: Steps,
    links: ClientLinks,
    users: Ints,
    weights: tuple[Floats, Floats],
    taking: Ints,
    width: int,
) -> Reach:
    brokers, costs = np.empty((len(users), width), np.int32), np.empty((len(users), width))
    known = _known_brokers(scenario, pipeline, users, taking)
    ids, step = scenario.network.ids[taking], max(AT_ONCE // max(len(taking), 1), 1)
    for start in range(0, len(users) if width else 0, step):
        some = slice(start, start + step)
        asked = users[some, None]
        prices = links.up(asked, ids).prices * weights[0][some, None]
        prices = prices + links.down(asked, ids).prices * weights[1][some, None]
        prices = np.where(np.isnan(prices), np.inf, prices)
        if known is not None:
            prices = np.where(known[some], prices, np.inf)
        order = np.argsort(prices, axis=1, kind="stable")[:, :width]
        costs[some] = np.take_along_axis(prices, order, axis=1)
        brokers[some] = np.where(np.isfinite(costs[some]), taking[order], -1)
    return Reach(brokers, costs, width == len(taking))


def _known_brokers(scenario: Scenario, pipeline: Steps, users: Ints, taking: Ints) -> NDArray[np.bool_] | None:
    """Where only links in the table lead anywhere: by user and broker that takes clients, whether one leads there."""
    if scenario.settings.access.metric != "none":
        return None
    found = pipeline.candidates(scenario, limit=np.inf, by="price")
    bits = np.unpackbits(found.words.view(np.uint8), axis=1, bitorder="little")
    rows = np.argsort(found.clients)[np.searchsorted(np.sort(found.clients), users)]
    return bits[rows][:, taking].astype(bool)
