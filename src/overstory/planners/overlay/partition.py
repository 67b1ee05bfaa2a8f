"""overlay-partition: the hypergraph of interests mapped onto the network by Mt-KaHyPar (Steiner-tree objective).

Clients are nodes, channels hyperedges: what a channel's hyperedge costs is the Steiner tree of the brokers that its
clients are mapped to. So that access counts, each broker has a node of its own, fixed there, and each client a
hyperedge to the node of its nearest broker, as heavy as its traffic. Mt-KaHyPar maps onto up to 64 brokers; more are
halved by place, again and again, and clients go with the half that is nearer to them. Its time grows with the pins of
hyperedges: where many clients want much, channels are coarser.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision
from overstory.planners.overlay.instance import Instance, room_for
from overstory.planners.overlay.mixing import repaired
from overstory.planners.overlay.writing import check_core, plan_tables
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_BROKERS = 64  # that the Steiner-tree objective maps onto
MOST_PINS = 100_000  # pairs of a client and a channel that it wants, with fine channels
UNITS = 1000  # that a weight is cut into
UNEVEN = 0.5  # how much heavier than the mean a part may be


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    core = check_core(parameters["core"])
    instance = Instance(scenario, pipeline, parameters["channels"], True, parameters["traffic"])
    if instance.traffic.pins > MOST_PINS:
        instance = Instance(scenario, pipeline, parameters["channels"], False, parameters["traffic"])
    at = partitioned(instance, seed)
    return Decision(plan_tables(instance, at, core), {}, room_for(instance, at))


def partitioned(instance: Instance, seed: int) -> Ints:
    """By user its broker's position; where a broker is given more than it has room for, some go on."""
    at = np.empty(len(instance.traffic.users), np.int64)
    brokers = np.unique(instance.reach.brokers[instance.reach.brokers >= 0]).astype(np.int64)
    _map(instance, np.arange(len(at)), brokers, at, seed)
    out_of_reach = ~(instance.reach.brokers == at[:, None]).any(axis=1)
    at[out_of_reach] = instance.reach.brokers[out_of_reach, 0]
    return repaired(instance, at)


def _map(instance: Instance, users: Ints, brokers: Ints, at: Ints, seed: int) -> None:
    """Users onto these brokers."""
    if len(brokers) == 1 or len(users) == 0:
        at[users] = brokers[0]
        return
    if len(brokers) <= MOST_BROKERS:
        at[users] = brokers[_mapped(instance, users, brokers, seed)]
        return
    one, other = _halves(instance.ways.far, brokers)
    far = instance.ways.far
    home = instance.reach.brokers[users, 0]
    nearer = far[home][:, one].min(axis=1) <= far[home][:, other].min(axis=1)
    _map(instance, users[nearer], one, at, seed)
    _map(instance, users[~nearer], other, at, seed)


def _halves(far: Floats, brokers: Ints) -> tuple[Ints, Ints]:
    """Brokers nearer to one of two that are far from each other, half of them each."""
    among = far[np.ix_(brokers, brokers)]
    one, other = np.unravel_index(among.argmax(), among.shape)
    order = np.argsort(among[one] - among[other], kind="stable")
    return np.sort(brokers[order[: len(order) // 2]]), np.sort(brokers[order[len(order) // 2 :]])


def _mapped(instance: Instance, users: Ints, brokers: Ints, seed: int) -> Ints:
    """By user the number of its broker among these."""
    import mtkahypar

    maker = _maker(mtkahypar)
    mtkahypar.set_seed(seed)
    context = maker.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    nodes, edges, edge_weights, node_weights = _hypergraph(instance, users, brokers)
    context.set_mapping_parameters(len(brokers), UNEVEN)
    graph = maker.create_hypergraph(context, nodes, len(edges), edges, node_weights, edge_weights)
    fixed = np.concatenate([np.full(len(users), -1), np.arange(len(brokers))])
    graph.add_fixed_vertices(fixed.tolist(), len(brokers))
    links, prices = _target(instance.ways.far[np.ix_(brokers, brokers)])
    target = maker.create_target_graph(context, len(brokers), len(links), links, prices)
    found = graph.map_onto_graph(target, context)
    return np.array([found.block_id(node) for node in range(len(users))], np.int64)


_MAKERS: list[Any] = []


def _maker(library: Any) -> Any:
    """Mt-KaHyPar can be initialised once in a process."""
    if not _MAKERS:
        _MAKERS.append(library.initialize(1))
    return _MAKERS[0]


def _hypergraph(instance: Instance, users: Ints, brokers: Ints) -> tuple[int, list[list[int]], list[int], list[int]]:
    """Nodes: users, then brokers. Hyperedges: channels, then each user with its nearest broker."""
    traffic, price = instance.traffic, instance.scenario.settings.prices
    number = np.full(len(traffic.users), -1)
    number[users] = np.arange(len(users))
    kind = traffic.kind[users]
    many = np.diff(traffic.wants.offsets)[kind]
    starts = traffic.wants.offsets[kind]
    entries = np.repeat(starts - np.concatenate([[0], np.cumsum(many)[:-1]]), many) + np.arange(many.sum())
    channel, user = traffic.wants.items[entries], np.repeat(np.arange(len(users)), many)
    order = np.argsort(channel, kind="stable")
    bounds = np.searchsorted(channel[order], np.arange(traffic.channels + 1))
    pins = [user[order[bounds[c] : bounds[c + 1]]].tolist() for c in range(traffic.channels)]
    wanted = [c for c in range(traffic.channels) if len(pins[c]) > 1 and traffic.total[c] > 0]
    home = np.searchsorted(brokers, _home(instance, users, brokers))
    edges = [pins[c] for c in wanted] + [[at, len(users) + int(home[at])] for at in range(len(users))]
    slope = _slope(instance) * price.access
    weights = np.concatenate([traffic.total[wanted] * price.core, traffic.demand[users] * slope])
    whole = np.maximum(np.rint(weights / max(weights.max(initial=0.0), 1e-300) * UNITS * 100), 1).astype(np.int64)
    heavy = traffic.demand[users] / max(traffic.demand.max(initial=0.0), 1e-300) * UNITS
    node_weights = [*np.maximum(heavy, 1).astype(np.int64).tolist(), *([1] * len(brokers))]
    return len(users) + len(brokers), edges, whole.tolist(), node_weights


def _home(instance: Instance, users: Ints, brokers: Ints) -> Ints:
    """The nearest of these brokers, by user."""
    near = instance.reach.brokers[users]
    allowed = np.isin(near, brokers)
    found = near[np.arange(len(users)), allowed.argmax(axis=1)].astype(np.int64)
    nearest: Ints = np.where(allowed.any(axis=1), found, brokers[0])
    return nearest


def _slope(instance: Instance) -> float:
    """How much dearer a byte of access is, for each unit of distance from a user's nearest broker to its own."""
    near, far = instance.reach, instance.ways.far
    demand = instance.traffic.demand
    last = (near.brokers >= 0).sum(axis=1) - 1
    rows = np.arange(len(demand))
    apart = far[near.brokers[:, 0], near.brokers[rows, last]]
    dearer = near.costs[rows, last] - near.costs[:, 0]
    price = instance.scenario.settings.prices.access or 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = dearer / (apart * demand * price)
    slopes = slopes[np.isfinite(slopes)]
    return float(np.median(slopes)) if len(slopes) else 1.0


def _target(far: Floats) -> tuple[list[tuple[int, int]], list[int]]:
    one, other = np.triu_indices(len(far), 1)
    prices = np.maximum(np.rint(far[one, other] / max(far.max(), 1e-300) * UNITS), 1).astype(np.int64)
    return list(zip(one.tolist(), other.tolist(), strict=True)), prices.tolist()
