"""overlay-exact: the cheapest attachments and trees of small instances, proven.

Where there are few brokers, what a tree of any set of brokers costs is a table, and attachments are found by branch and
bound, or by CP-SAT (``solver=cp-sat``), which chooses for each channel the set of brokers that want it. Where every
client has one broker within reach, attachments are given, and each tree is an integer programme of its own (SCIP):
flows from the publishing broker to each end, on links that are paid once. Prices between brokers must be the same both
ways.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import InfeasibleError, UsageError
from overstory.kernels.nothing import NONE
from overstory.kernels.overlay_exact import Small, branch, cost, polish
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision
from overstory.planners.overlay.greedy_packing import packed
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.writing import tree_tables
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_BROKERS, MOST_USERS = 8, 64  # for CP-SAT
SOLVERS = BRANCH, CP_SAT = "branch", "cp-sat"
UNITS = 10**9  # that the largest cost is cut into
Links = list[tuple[int, int]]


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    instance = Instance(scenario, pipeline, parameters["channels"], True, parameters["traffic"])
    far = instance.ways.far
    if not np.allclose(far, far.T):
        raise UsageError("overlay-exact takes prices between brokers that are the same both ways")
    if parameters["solver"] not in SOLVERS:
        raise UsageError(f"solver={parameters['solver']}: it is one of {', '.join(SOLVERS)}")
    at = attached(instance, str(parameters["solver"]))
    return Decision(tree_tables(instance, at, lambda root, ends: optimal_tree(instance, root, ends)), {})


def attached(instance: Instance, solver: str = BRANCH) -> Ints:
    """By user its broker's position in a cheapest solution."""
    brokers = instance.reach.brokers
    if (brokers[:, 1:] == NONE).all():
        return brokers[:, 0].astype(np.int64)
    if len(instance.network) > MOST_BROKERS or len(brokers) > MOST_USERS:
        raise InfeasibleError(
            f"overlay-exact takes up to {MOST_BROKERS} brokers and {MOST_USERS} clients, or clients with one broker "
            "within reach; take overlay-search"
        )
    return (solve if solver == CP_SAT else branched)(instance)[0]


def small_of(instance: Instance) -> Small:
    given, size = instance.given, len(instance.network)
    access = np.full((len(given.kind), size), np.inf)
    user, place = np.nonzero(given.brokers >= 0)
    access[user, given.brokers[user, place]] = given.costs[user, place]
    wants = instance.wants_matrix().astype(np.int64)
    return Small(steiner_table(given.far, size), access, wants, instance.rates_matrix(), given.demand, given.capacity)


def branched(instance: Instance) -> tuple[Ints, float]:
    """By branch and bound: attachments, and what they cost."""
    small = small_of(instance)
    at = packed(instance)
    least = polish(small, at) if np.isfinite(cost(small, at)) else np.inf
    order = np.argsort(-small.demand, kind="stable")
    least = branch(small, order, at, least)
    if not np.isfinite(least):
        raise InfeasibleError("capacity: no attachment of all clients keeps within the capacities of brokers")
    return at, least


def solve(instance: Instance) -> tuple[Ints, float]:
    """By CP-SAT: attachments, and what they cost."""
    from ortools.sat.python import cp_model

    given, size = instance.given, len(instance.network)
    trees = steiner_table(given.far, size)
    scale = UNITS / max(_dearest(instance), 1e-300)
    model = cp_model.CpModel()
    users = len(given.kind)
    x = {
        (user, int(broker)): model.new_bool_var("")
        for user in range(users)
        for broker in given.brokers[user]
        if broker >= 0
    }
    for user in range(users):
        model.add_exactly_one(x[user, broker] for broker in range(size) if (user, broker) in x)
    for broker in np.flatnonzero(np.isfinite(given.capacity)).tolist():
        mine = [(user, x[user, broker]) for user in range(users) if (user, broker) in x]
        room = int(given.capacity[broker] * 1000)
        model.add(sum(int(np.ceil(given.demand[user] * 1000)) * var for user, var in mine) <= room)
    access = sum(
        round(given.costs[user, place] * scale) * x[user, int(broker)]
        for user in range(users)
        for place, broker in enumerate(given.brokers[user])
        if broker >= 0
    )
    core = [_channel(model, instance, channel, x, trees, scale) for channel in np.flatnonzero(given.total).tolist()]
    model.minimize(access + sum(core))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        raise InfeasibleError("capacity: no attachment of all clients keeps within the capacities of brokers")
    at = np.array([next(b for b in range(size) if (u, b) in x and solver.value(x[u, b])) for u in range(users)])
    return at, solver.objective_value / scale


def _dearest(instance: Instance) -> float:
    """More than any solution costs."""
    given = instance.given
    finite = np.where(np.isfinite(given.costs), given.costs, 0.0)
    return float(finite.max(axis=1).sum() + given.total.sum() * given.far.max() * len(given.far))


def _channel(
    model: Any, instance: Instance, channel: int, x: dict[tuple[int, int], Any], trees: Floats, scale: float
) -> Any:
    """The core of a channel: a variable that is at least what its tree costs, whichever set of brokers wants it."""
    given, size = instance.given, len(instance.network)
    sets = [model.new_bool_var("") for _ in range(1 << size)]
    model.add_exactly_one(sets)
    cost = model.new_int_var(0, 4 * UNITS, "")
    for user, broker in x:
        kind = given.kind[user]
        if channel in given.wants[given.want_offsets[kind] : given.want_offsets[kind + 1]]:
            model.add_bool_or([sets[mask] for mask in range(1 << size) if mask >> broker & 1]).only_enforce_if(
                x[user, broker]
            )
    sends = [
        (user, float(given.rates[i]))
        for user in range(len(given.kind))
        for i in range(given.send_offsets[user], given.send_offsets[user + 1])
        if given.sends[i] == channel
    ]
    for mask in range(1, 1 << size):
        terms = [
            round(rate * trees[mask, broker] * scale) * x[user, broker]
            for user, rate in sends
            for broker in range(size)
            if (user, broker) in x
        ]
        model.add(cost >= sum(terms)).only_enforce_if(sets[mask])
    return cost


def steiner_table(far: Floats, size: int) -> Floats:
    """By set of brokers, as bits, and broker: what a cheapest tree of both costs. Of all supersets the one with the
    least spanning tree, as every Steiner tree is the spanning tree of its nodes."""
    spanning = np.array([_spanning(far, [b for b in range(size) if mask >> b & 1]) for mask in range(1 << size)])
    least = spanning.copy()
    for broker in range(size):
        for mask in range(1 << size):
            if not mask >> broker & 1:
                least[mask] = min(least[mask], least[mask | 1 << broker])
    return np.array([[least[mask | 1 << broker] for broker in range(size)] for mask in range(1 << size)])


def _spanning(far: Floats, nodes: list[int]) -> float:
    if len(nodes) < 2:
        return 0.0
    inside, length = {nodes[0]}, 0.0
    while len(inside) < len(nodes):
        price, chosen = min((far[u, v], v) for u in inside for v in nodes if v not in inside)
        length += float(price)
        inside.add(chosen)
    return length


def optimal_tree(instance: Instance, root: int, ends: Ints) -> Links:
    """The links of a cheapest tree from a broker to others."""
    others = sorted(set(ends.tolist()) - {root})
    if not others:
        return []
    if len(instance.network) <= MOST_BROKERS:
        return _tree_by_supersets(instance, [root, *others])
    return steiner_by_flows(instance, root, others)


def _tree_by_supersets(instance: Instance, ends: list[int]) -> Links:
    far, size = instance.ways.far, len(instance.network)
    rest = [broker for broker in range(size) if broker not in ends]
    every = [ends + list(more) for count in range(len(rest) + 1) for more in combinations(rest, count)]
    nodes = min(every, key=lambda some: (_spanning(far, some), len(some)))
    inside, links = {nodes[0]}, []
    while len(inside) < len(nodes):
        _, source, chosen = min((far[u, v], u, v) for u in inside for v in nodes if v not in inside)
        here = chosen
        while here not in inside:  # along the cheapest path, whose brokers are then in the tree
            before = int(instance.ways.before[source, here])
            links.append((before, here))
            inside.add(here)
            here = before
        inside.add(chosen)
        nodes = [*nodes, *(node for node in inside if node not in nodes)]
    return links


def steiner_by_flows(instance: Instance, root: int, ends: list[int]) -> Links:
    """By SCIP: a unit of flow from the root to each end, on links that are paid once however many ends they serve."""
    from ortools.linear_solver import pywraplp

    network = instance.network
    solver = pywraplp.Solver.CreateSolver("SCIP")
    paid = [solver.BoolVar("") for _ in range(len(network.targets))]
    links_in: list[list[int]] = [[] for _ in range(len(network))]
    links_out: list[list[int]] = [[] for _ in range(len(network))]
    for link, (source, target) in enumerate(zip(network.sources.tolist(), network.targets.tolist(), strict=True)):
        links_out[source].append(link)
        links_in[target].append(link)
    for end in ends:
        flow = [solver.NumVar(0, 1, "") for _ in paid]
        for link, carried in enumerate(flow):
            solver.Add(carried <= paid[link])
        for node in range(len(network)):
            net = sum(flow[link] for link in links_in[node]) - sum(flow[link] for link in links_out[node])
            solver.Add(net == (1 if node == end else -1 if node == root else 0))
    for node in range(len(network)):  # a tree enters no node twice, and never its root
        solver.Add(sum(paid[link] for link in links_in[node]) <= (0 if node == root else 1))
    solver.Minimize(sum(float(price) * var for price, var in zip(network.prices.tolist(), paid, strict=True)))
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InfeasibleError("no tree joins the brokers of a channel")
    taken = [link for link, var in enumerate(paid) if var.solution_value() > 0.5]
    return [(int(network.sources[link]), int(network.targets[link])) for link in taken]
