"""A certified lower bound on access and core together, wherever clients are attached within the capacities of brokers.

A *class* is the events that the same clients want. Whatever a plan does, an event of a class travels from its
publisher's broker over a tree to the brokers of all who want it, and on to them. Three things are left out, so that a
bound remains (a Lagrangian relaxation):

1. A client has one broker for all that it sends and gets, but in the tree of each class and publishing broker it may be
   served by any other. There it pays a *toll* for each byte, which the tree counts as a price of access, and which the
   client has back at the broker that it is attached to: so whoever is always served by its own broker pays nothing.
2. What a tree costs at least, tolls included, is bounded for all publishing brokers at once (``kernels.joint_ascent``).
   Publishers pay that; then each client is attached where what it pays is least.
3. A broker may be given more than its capacity, but each byte that a client sends or gets there pays a *surcharge*, and
   the surcharges of full capacities are taken off at the end.

Any tolls and surcharges give a bound. Surcharges are the dual of a transportation problem; tolls begin as the prices of
access, fall where no tree needs them, and rise where a client would not be attached anyway. Surcharges that are there
from the start become part of the prices of access, so that tolls begin with them: trees, too, then avoid brokers that
are in demand. Two starts are tried, none and those of a problem with one user (``together``), which is what is left of
this one where access is cheap: all would share one broker, if it had room.

Nothing lifts the bound. Trees are bounded in integers, from prices that are rounded down, and tolls are integers; what
follows are sums of numbers that are at least 0, which err by less than ``SAFE`` allows; surcharges are taken off
exactly.

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
SAFE = 1.0 - 2.0**-32  # sums of a million floats that are at least 0 err by less
DOWN = 1.0 - 2.0**-50  # a float times this is not above the exact number that it was rounded from
WHOLE_BITS = 61  # of all prices and tolls of a class together
MOST_RAISED = 16.0  # times the highest price: no toll is higher
ROUNDS, ROUND_WORK = (3, 8), 2 * 10**9  # at least and at most; and the work of all rounds, in the unit of MOST_WORK
TOGETHER = 0.7  # of the surcharges of a problem with one user
GIVEN_AWAY = 0.7  # of what a client has left at a broker, in one round
STEPS, FIRST_STEP, SLOWER = (
    150,
    0.02,
    10,
)  # of surcharges; the first is relative to the bound


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
    got: Floats
    capacity: Floats  # by broker
    weight: Floats  # by class: bytes
    of_entry: Ints  # by client of a class: its class

    @property
    def access(self) -> Floats:
        """By client and broker: what all that it sends and gets costs there."""
        known = np.isfinite(self.up) & np.isfinite(self.down)
        up, down = np.where(known, self.up, 0.0), np.where(known, self.down, 0.0)
        return np.where(known, up * self.sent[:, None] + down * self.got[:, None], np.inf)

    @property
    def demand(self) -> Floats:
        return self.sent + self.got


def is_small(scenario: Scenario) -> bool:
    """Whether clients and brokers are few enough; ``joint_bound`` says whether events are."""
    return bool(scenario.clients.num_rows * scenario.brokers.num_rows <= MOST_PAIRS)


def joint_bound(scenario: Scenario, known: Metered, rows: pa.RecordBatch) -> Fraction:
    """The bound of rows of a log that is reduced by the predicates of ``apart``; 0 where the work would be too much."""
    classes = classes_of(scenario, known, rows)
    if len(classes.clients) * len(scenario.network) ** 2 > MOST_WORK or not len(classes.clients):
        return Fraction(0)
    return lagrangian(_problem(scenario, classes))


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
    count = len(classes.offsets) - 1
    of_entry, weight = np.repeat(np.arange(count), np.diff(classes.offsets)), np.zeros(count)
    np.add.at(weight, classes.of_row, classes.bytes)
    sent = np.bincount(classes.publisher, classes.bytes, len(clients)).astype(np.float64)
    got = np.bincount(classes.clients, weight[of_entry], len(clients)).astype(np.float64)
    capacity = scenario.brokers.sort_by("id")["capacity"].to_numpy()
    capacity = np.where(np.isnan(capacity), np.inf, capacity)
    return Problem(classes, core, up, down, sent, got, capacity, weight, of_entry)


class Dual(NamedTuple):
    """A bound in the making. Any tolls and surcharges give one."""

    into: Ints  # by two brokers: the price of the link into the first one from the second, in units
    bits: int  # so many powers of two make a unit 1
    tolls: Ints  # by entry, which is a client of a class, and broker: what a tree pays for a byte there, in units
    highest: int  # tolls above this could add up to more than integers hold


class Bounded(NamedTuple):
    """What tolls come to."""

    least: Floats  # by client and broker: what its access there, and trees from there, cost at least
    spent: Ints  # the part of the tolls that the bound rests on


class Ascent(NamedTuple):
    """The best bound of some rounds, and where the next one begins."""

    problem: Problem  # prices of access contain the base
    base: Floats  # by broker: the surcharge from the start
    dual: Dual
    surcharge: Floats  # by broker: beyond the base
    best: Fraction


def lagrangian(problem: Problem) -> Fraction:
    """The best bound of some rounds, from the start whose first round is better."""
    work = len(problem.classes.clients) * len(problem.capacity) ** 2
    starts = [np.zeros(len(problem.capacity))]
    if np.isfinite(problem.capacity).any():
        starts.append(TOGETHER * together(problem))
    found = max((_round(_begun(problem, start)) for start in starts), key=lambda ascent: ascent.best)
    for _ in range(int(np.clip(ROUND_WORK // max(work, 1), *ROUNDS)) - 1):
        found = _round(found)
    return found.best


def together(problem: Problem) -> Floats:
    """The surcharges of brokers if all clients were one, which may be divided among them: the dearest broker that is
    needed has none, and a cheaper one as much as it is cheaper by the byte."""
    demand, access = math.fsum(problem.demand), problem.access.sum(axis=0)
    nobody: Floats = np.zeros(len(access))
    order = np.argsort(access)
    needed = order[: int(np.searchsorted(np.cumsum(problem.capacity[order]), demand)) + 1]
    if demand <= 0 or not np.isfinite(access[needed]).all():
        return nobody
    cheaper: Floats = np.maximum(access[needed].max(initial=0.0) - access, 0.0)
    return cheaper / demand


def _begun(problem: Problem, base: Floats) -> Ascent:
    """Whoever is attached to a broker pays its surcharge for each byte that it sends or gets."""
    base = np.where(np.isfinite(problem.capacity), base, 0.0)
    priced = problem._replace(up=(problem.up + base) * DOWN, down=(problem.down + base) * DOWN)
    return Ascent(priced, base, _first_dual(priced), np.zeros(len(base)), Fraction(0))


def _round(ascent: Ascent) -> Ascent:
    """Trees are bounded, tolls that no tree needs are taken back, surcharges for full brokers are chosen anew, and what
    clients then have left where they are not cheapest raises tolls."""
    problem, dual = ascent.problem, ascent.dual
    found = bounded(problem, dual)
    surcharge = surcharges_for(problem, found.least, ascent.surcharge)
    totals = [total_of(problem, found.least, chosen) for chosen in (np.zeros(len(surcharge)), surcharge)]
    best = max(ascent.best, max(totals) - _of_full(problem, ascent.base))
    dual = dual._replace(tolls=_raised(problem, dual, found, surcharge))
    return ascent._replace(dual=dual, surcharge=surcharge, best=best)


def _first_dual(problem: Problem) -> Dual:
    """Tolls are the prices of access at first."""
    size, widest = len(problem.capacity), int(np.diff(problem.classes.offsets).max(initial=0))
    core = _finite(problem.core.T)
    top = MOST_RAISED * max(float(core.max(initial=0.0)), float(_finite(problem.down).max(initial=0.0)))
    bits = WHOLE_BITS - int(np.frexp(top)[1]) - int(size * size + widest * size).bit_length()
    into = np.full((size, size), NO_LINK)
    into[np.isfinite(problem.core.T)] = np.floor(np.ldexp(core, bits)).astype(np.int64)
    down = np.full(problem.down.shape, NO_LINK)
    known = np.isfinite(problem.down)
    down[known] = np.floor(np.ldexp(problem.down[known], bits)).astype(np.int64)
    return Dual(into, bits, down[problem.classes.clients], int(np.ldexp(top, bits)))


def bounded(problem: Problem, dual: Dual) -> Bounded:
    """What trees cost at least is paid by their publishers; what they pay as tolls, clients have back."""
    classes, clients = problem.classes, len(problem.up)
    count = len(classes.offsets) - 1
    trees, left = np.zeros((count, len(dual.into)), np.int64), dual.tolls.copy()
    bounds_by_root(dual.into, left, classes.offsets, trees)
    spent = np.where(dual.tolls < NO_LINK, dual.tolls - left, NO_LINK)
    publishing = csr_matrix((classes.bytes.astype(np.float64), (classes.publisher, classes.of_row)), (clients, count))
    paying = csr_matrix(
        (problem.weight[problem.of_entry], (classes.clients, np.arange(len(classes.clients)))),
        (clients, len(classes.clients)),
    )
    paid = publishing @ np.ldexp(trees.astype(np.float64), -dual.bits)
    back = paying @ np.where(spent < NO_LINK, np.ldexp(spent.astype(np.float64), -dual.bits), 0.0)
    return Bounded((problem.access + paid) * SAFE - back * (2.0 - SAFE), spent)


def total_of(problem: Problem, least: Floats, surcharge: Floats) -> Fraction:
    """Every client at the broker where it costs least, less the surcharges of full capacities, which are exact."""
    at_best = _finite((least + surcharge * (problem.demand[:, None] * SAFE)).min(axis=1))
    total = Fraction(math.fsum(at_best))
    return total - abs(total) / (1 << 40) - _of_full(problem, surcharge)


def _of_full(problem: Problem, surcharge: Floats) -> Fraction:
    """The surcharges of full capacities, exactly."""
    full = np.flatnonzero(surcharge).tolist()
    return sum((Fraction(surcharge[at]) * Fraction(problem.capacity[at]) for at in full), Fraction(0))


def surcharges_for(problem: Problem, least: Floats, surcharge: Floats) -> Floats:
    """The dual of a transportation problem, by steps along subgradients: brokers that are given more than they have
    room for become dearer, others cheaper."""
    limited = np.isfinite(problem.capacity)
    if not limited.any():
        return surcharge
    room, demand, rows = np.where(limited, problem.capacity, 0.0), problem.demand, np.arange(len(least))
    best, reached, known = surcharge, -np.inf, np.isfinite(least).any(axis=1)
    for step in range(STEPS):
        dear = least + surcharge * demand[:, None]
        at = dear.argmin(axis=1)
        value = float(dear[rows, at][known].sum() - surcharge @ room)
        if value > reached:
            best, reached = surcharge, value
        over = np.where(limited, np.bincount(at, demand, len(room)) - room, 0.0)
        length = FIRST_STEP * abs(value) / (1 + step / SLOWER) / max(float(over @ over), 1e-300)
        surcharge = np.maximum(surcharge + length * over, 0.0)
    return best


def _raised(problem: Problem, dual: Dual, found: Bounded, surcharge: Floats) -> Ints:
    """Tolls of the next round: at brokers where a client costs more than at its best one, that much more is shared by
    all bytes that it gets, as far as a round gives it away at once."""
    dear = found.least + surcharge * problem.demand[:, None]
    over = dear - np.where(np.isfinite(dear), dear, np.inf).min(axis=1, keepdims=True)
    share = np.where(np.isfinite(over), over, 0.0) * (GIVEN_AWAY / np.maximum(problem.got, 1e-300))[:, None]
    with np.errstate(
        over="ignore"
    ):  # what a client that gets nothing shares is beyond all numbers, and then the highest
        shared = np.minimum(np.ldexp(share, dual.bits), dual.highest)
    more = np.floor(shared).astype(np.int64)[problem.classes.clients]
    return np.where(found.spent < NO_LINK, np.minimum(found.spent + more, dual.highest), NO_LINK)


def _finite(prices: Floats) -> Floats:
    return prices[np.isfinite(prices)]


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
