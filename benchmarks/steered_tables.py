"""The distance tables that a publishing broker keeps for steering: made anew after a link has failed, and their size.

Only what led over the link is searched again, so links differ much. The links that most cheapest paths take are tried,
and some that are drawn; the slowest counts. The peer makes the whole table anew.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Measurement
from overstory.kernels.steiner_route import Ways
from overstory.kernels.steiner_router import prepare, without
from overstory.lab.topologies import topology
from overstory.model.network import Ints, Network

LONGEST = 1.0  # seconds, at 5,000 brokers
BUSIEST, DRAWN = 5, 5  # links that fail
SAMPLED = 200  # brokers whose first links say which links are busy


def tables(quick: bool) -> Iterator[Measurement]:
    """With the price of 1 on all links, and with prices that differ by link and direction."""
    brokers = 60 if quick else 5000
    for name, dice in (("whole prices", None), ("differing prices", np.random.default_rng(1))):
        network = _network(brokers, dice)
        known = network.offsets, network.targets, network.prices
        ways, whole = _timed(partial(prepare, *known))
        taken = [_without(network, ways, link) for link in _failing(network, ways)]
        size = f"{brokers:,} brokers, {name}"
        bar = None if quick else LONGEST
        yield Measurement("steered-tables", f"{size}, a link fails", max(taken), "all anew", whole, bar, unit="s")
        stored = sum(table.nbytes for table in ways.distances if isinstance(table, np.ndarray))
        yield Measurement("steered-tables", f"{size}, memory", stored / 1e6, unit="MB")


def _network(brokers: int, dice: np.random.Generator | None) -> Network:
    made = topology("transit-stub", brokers, 1)
    ends = np.concatenate([made.sources, made.targets]), np.concatenate([made.targets, made.sources])
    prices: NDArray[np.float64] = np.ones(len(ends[0])) if dice is None else 0.5 + dice.random(len(ends[0]))
    return Network.between(np.arange(brokers), *ends, prices, np.ones(len(ends[0])))


def _failing(network: Network, ways: Ways) -> list[int]:
    """The links that are first on most cheapest paths, and some others."""
    dice = np.random.default_rng(2)
    some = dice.choice(len(network), min(SAMPLED, len(network)), replace=False)
    first: Ints = ways.distances.first[ways.distances.row_of[some]].astype(np.int64)
    reached = np.arange(len(network))[None] != some[:, None]
    links = (network.offsets[:-1][None] + first)[reached]
    used = np.bincount(links, minlength=len(network.targets))
    busiest = np.argsort(-used, kind="stable")[:BUSIEST]
    drawn = dice.choice(len(network.targets), DRAWN, replace=False)
    found: list[int] = np.unique(np.concatenate([busiest, drawn])).tolist()
    return found


def _without(network: Network, ways: Ways, link: int) -> float:
    """Seconds of the processor until the tables know that a link is down, both ways."""
    down = np.zeros(len(network.targets), bool)
    source, target = network.sources[link], network.targets[link]
    back = network.link_between(np.array([target]), np.array([source]))
    down[[link, *back.tolist()]] = True
    known = network.offsets, network.targets, network.prices, ways.distances
    return _timed(partial(without, *known, down))[1]


def _timed(work: Callable[[], Ways]) -> tuple[Ways, float]:
    start = time.process_time()
    made = work()
    return made, time.process_time() - start
