"""A certified lower bound on access and core together, wherever clients are attached within the capacities of brokers.

A *class* is the events that the same clients want. Whatever a plan does, an event of a class travels from its
publisher's broker over a tree to the brokers of all who want it, and on to them. Three things are left out, so that a
bound remains (a Lagrangian relaxation):

1. A client has one broker for all that it publishes, but those who want a class may choose their brokers anew for each
   class and publishing broker. What such a tree costs at least is bounded for all publishing brokers at once
   (``kernels.joint_ascent``); then each client publishes from the broker that makes its own events cheapest.
2. A broker may be given more than its capacity, but each byte that a client sends or gets there pays a *surcharge*, and
   the surcharges of full capacities are taken off at the end. Any surcharges give a bound. Good ones are found by
   subgradient steps, on trees that have a hub, from which everybody is reached along a way of its own.
3. Nothing lifts the bound. Trees are bounded in integers, from prices that are rounded down; what follows are sums of
   numbers that are at least 0, which err by less than ``SAFE`` allows; surcharges are taken off exactly.

The work grows with classes, the clients of each, and the square of brokers; ``is_small`` says what is too much. There
the cheapest access of everyone is the bound (``least_access``).
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from overstory.kernels.graphs import whole_prices
from overstory.kernels.joint_ascent import NO_LINK, bounds_by_root
from overstory.kernels.travel import terminal_sets
from overstory.model.access import access_of
from overstory.model.network import Network
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, ATTACHMENTS, BROKERS, FLOWS, TREE
from overstory.pipeline.bound import named_by_brokers
from overstory.pipeline.candidates import PRICE, reach_of, words_of
from overstory.pipeline.rows import rows_of
from overstory.pipeline.rules import Metered, metered

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_PAIRS = 1_000_000  # of a client and a broker
MOST_ROWS = 200_000  # of the reduced log
MOST_WORK = 2 * 10**10  # clients of all classes times the square of brokers
SAFE = Fraction(1) - Fraction(1, 1 << 40)  # more than sums of floats can err by
DOWN = 1.0 - 2.0**-50  # a float times this is not above the exact number that it was rounded from
STEPS, EVERY = 60, 20  # of surcharges; after so many the bound itself is worked out
FIRST_STEP = 0.03  # relative to the price of a byte of capacity


class Classes(NamedTuple):
    """Which clients want the same events, and who publishes these."""

    offsets: Ints  # of class k the clients between offsets k and k + 1, by position
    clients: Ints
    of_row: Ints  # by row of the reduced log: its class
    publisher: Ints  # by row: the position of its publisher among clients
    bytes: Ints  # by row


class Problem(NamedTuple):
    """What no plan can change, priced by the one cost. Positions of clients are those in the order of their ids."""

    classes: Classes
    core: Floats  # by two brokers: of the link from the one to the other; infinite where there is none
    up: Floats  # by client and broker; infinite out of reach
    down: Floats
    sent: Floats  # by client: bytes
    capacity: Floats  # by broker


def is_small(scenario: Scenario) -> bool:
    """Whether clients and brokers are few enough; ``joint_bound`` says whether events are."""
    return bool(scenario.clients.num_rows * scenario.brokers.num_rows <= MOST_PAIRS)


def joint_bound(scenario: Scenario, known: Metered, rows: pa.RecordBatch) -> Fraction:
    """The bound of rows of a log that is reduced by the predicates of ``apart``; 0 where the work would be too much."""
    classes = classes_of(scenario, known, rows)
    if len(classes.clients) * len(scenario.network) ** 2 > MOST_WORK or not len(classes.clients):
        return Fraction(0)
    return surcharged(_problem(scenario, classes))


def apart(scenario: Scenario, publishers: Ints) -> Metered:
    """Every client at a node of its own, so that what the meter knows tells clients instead of brokers. A client has
    two nodes, one that receives and one that publishes."""
    clients = np.sort(scenario.clients["id"].to_numpy())
    nodes, nothing = np.arange(2 * len(clients)), np.empty(0, np.int64)
    wide = replace(
        scenario,
        settings=msgspec.structs.replace(scenario.settings, access=type(scenario.settings.access)()),
        brokers=_nodes(nodes),
        links=scenario.links.slice(0, 0),
    )
    wide.__dict__["network"] = Network.between(nodes, nothing, nothing, np.empty(0), np.empty(0))
    flow = {"flow": [0], "kind": [TREE], "events": [EVERYTHING], "associations": [0], "members": [ALL]}
    attached = pa.table({"client": clients, "broker": nodes[: len(clients)]}, schema=ATTACHMENTS.schema)
    plan = Plan.of(Header("", ""), {"attachments": attached, "flows": FLOWS.completed(pa.table(flow))})
    known = metered(wide, plan, publishers)
    sending = len(clients) + np.searchsorted(clients, known.publishers)
    return replace(known, rules=known.rules._replace(publisher_broker=sending))


def _nodes(ids: Ints) -> pa.Table:
    nothing = pa.nulls(len(ids), pa.float64())
    return BROKERS.completed(pa.table({"id": ids, "name": pa.nulls(len(ids), pa.string()), "x": nothing, "y": nothing}))


def classes_of(scenario: Scenario, known: Metered, rows: pa.RecordBatch) -> Classes:
    """Whoever wants nothing of its own events (``no_local``) is left out of the classes that it publishes in."""
    named = named_by_brokers(rows, known.rules, known.publishers)
    clients = np.sort(scenario.clients["id"].to_numpy())
    publisher = np.searchsorted(clients, np.asarray(named.column("publisher")))
    subscribed = scenario.subscriptions
    local = np.isin(clients, subscribed["client"].to_numpy()[subscribed["no_local"].to_numpy()])
    keys = [np.asarray(named.column(name)) for name in ("high", "low")]
    keys.append(np.where(local[publisher], publisher, -1))
    _, first, of_row = np.unique(np.stack(keys), axis=1, return_index=True, return_inverse=True)
    one_of_each = named.take(pa.array(first))
    _, offsets, wanting = terminal_sets(known.rules, rows_of(one_of_each, known.publishers))
    of_class = np.repeat(np.arange(len(first)), np.diff(offsets))
    kept = wanting != keys[2][first][of_class]
    offsets = np.searchsorted(of_class[kept], np.arange(len(first) + 1))
    return Classes(offsets, wanting[kept], of_row.reshape(-1), publisher, np.asarray(named.column("bytes")))


def _problem(scenario: Scenario, classes: Classes) -> Problem:
    network, clients = scenario.network, np.sort(scenario.clients["id"].to_numpy())
    links, prices, known = access_of(scenario), scenario.settings.prices, _within_reach(scenario, clients)
    core = np.full((len(network), len(network)), np.inf)
    np.minimum.at(core, (network.sources, network.targets), network.prices * (prices.core * DOWN))
    up, down = (
        np.where(known, toll(clients[:, None], network.ids).prices * (prices.access * DOWN), np.inf)
        for toll in (links.up, links.down)
    )
    sent = np.bincount(classes.publisher, classes.bytes, len(clients)).astype(np.float64)
    capacity = scenario.brokers.sort_by("id")["capacity"].to_numpy()
    return Problem(classes, core, up, down, sent, np.where(np.isnan(capacity), np.inf, capacity))


def surcharged(problem: Problem) -> Fraction:
    """The best of the bounds under some surcharges, of which the first are none."""
    nothing = np.zeros(len(problem.capacity))
    best, home = bound_at(problem, nothing)
    if not np.isfinite(problem.capacity).any():
        return best
    surcharge, reached = nothing, float(best)
    for step in range(STEPS):
        surcharge = _stepped(problem, surcharge, home, reached * FIRST_STEP / (1 + 3 * step / EVERY))
        if step % EVERY == EVERY - 1:
            found, home = bound_at(problem, surcharge)
            best = max(best, found)
    return best


def bound_at(problem: Problem, surcharge: Floats) -> tuple[Fraction, Ints]:
    """The bound under surcharges, and the broker that each client then publishes from."""
    classes, size = problem.classes, len(problem.capacity)
    down = (problem.down + surcharge) * DOWN
    whole, bits = whole_prices(np.concatenate([_finite(problem.core.T), _finite(down)]))
    into, down_whole = np.full((size, size), NO_LINK), np.full(down.shape, NO_LINK)
    count = int(np.isfinite(problem.core).sum())
    into[np.isfinite(problem.core.T)], down_whole[np.isfinite(down)] = whole[:count], whole[count:]
    trees = np.zeros((len(classes.offsets) - 1, size), np.int64)
    bounds_by_root(into, down_whole[classes.clients], classes.offsets, trees)
    publishing = csr_matrix(
        (classes.bytes.astype(np.float64), (classes.publisher, classes.of_row)), (len(problem.up), len(trees))
    )
    cost = publishing @ np.ldexp(trees.astype(np.float64), -bits) * DOWN
    sends = problem.sent > 0
    cost[sends] += (problem.up + surcharge)[sends] * problem.sent[sends, None]
    home, least = cost.argmin(axis=1), cost.min(axis=1)
    full = np.flatnonzero(surcharge)
    taken_off = sum((Fraction(surcharge[at]) * Fraction(problem.capacity[at]) for at in full.tolist()), Fraction(0))
    return Fraction(math.fsum(_finite(least))) * SAFE - taken_off, home


def _finite(prices: Floats) -> Floats:
    return prices[np.isfinite(prices)]


def _stepped(problem: Problem, surcharge: Floats, home: Ints, step: float) -> Floats:
    """Surcharges after a step towards brokers that are given more than they have room for."""
    load = _loads(problem, surcharge, home)
    limited = np.isfinite(problem.capacity) & (problem.capacity > 0)
    over = np.zeros(len(load))
    over[limited] = load[limited] / problem.capacity[limited] - 1
    price = step / problem.capacity[limited].sum() if limited.any() else 0.0
    stepped: Floats = np.maximum(surcharge + price * over, 0.0)
    return stepped


def _loads(problem: Problem, surcharge: Floats, home: Ints) -> Floats:
    """By broker the bytes of clients, if the tree of each class has a hub, and each client is reached from there along
    the cheapest way of its own."""
    classes, size = problem.classes, len(problem.capacity)
    far = shortest_path(np.where(np.isfinite(problem.core), problem.core, 0.0))
    down = problem.down + surcharge
    over, cost = np.empty(down.shape, np.int64), np.empty(down.shape)
    for hub in range(size):
        ways = down + far[hub]
        over[:, hub] = ways.argmin(axis=1)
        cost[:, hub] = ways.min(axis=1)
    count = len(classes.offsets) - 1
    of_class = np.repeat(np.arange(count), np.diff(classes.offsets))
    weight = np.bincount(classes.of_row, classes.bytes, count)
    wanted = csr_matrix((np.ones(len(of_class)), (of_class, classes.clients)), (count, len(down)))
    sources = csr_matrix((classes.bytes.astype(np.float64), (classes.of_row, home[classes.publisher])), (count, size))
    hubs = (wanted @ cost * weight[:, None] + sources @ far).argmin(axis=1)
    got = np.bincount(over[classes.clients, hubs[of_class]], weight[of_class], size)
    load: Floats = (got + np.bincount(home, problem.sent, size)).astype(np.float64)
    return load


def _within_reach(scenario: Scenario, clients: Ints) -> NDArray[np.bool_]:
    """By client and broker, by position: whether the client may be attached there."""
    size = len(scenario.network)
    if scenario.settings.access.metric == "none":
        words = words_of(reach_of(scenario, None, PRICE), clients, np.full(len(clients), np.inf))
        known = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :size].astype(bool)
    else:
        known = np.ones((len(clients), size), bool)
    refuses = pc.fill_null(pc.equal(scenario.brokers.sort_by("id")["share"], 0.0), False)
    known &= ~np.asarray(refuses)[None, :]
    return known
