"""overlay-search: users to brokers by the best of several starts, annealing, and local search with exact differences.

Starts: greedy packing, the minimum-cost flow of access under capacities, connected-facility sampling (so many brokers
are open, spread over the users, for several numbers; everybody goes to the nearest open one), and the partition of the
hypergraph of interests. Each is improved by relocations. From the best one two searches go on: everything that
``kernels.overlay_search`` has, until nothing saves any more or the rounds are used up; and the same after annealing
(``kernels.overlay_annealing``), which leaves the start's surroundings. The cheaper one is taken.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels import overlay_search as kernels
from overstory.kernels.nothing import NONE
from overstory.kernels.overlay_annealing import heat_pass, relieve
from overstory.kernels.overlay_exact import polish
from overstory.kernels.overlay_paper import pack
from overstory.kernels.overlay_state import Given, State, access_and_core, new_state
from overstory.kernels.steiner_router import Router, prepare
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision, relative_costs
from overstory.planners.overlay.exact import MOST_BROKERS, MOST_USERS, small_of
from overstory.planners.overlay.greedy_packing import packed, placed_anyhow
from overstory.planners.overlay.instance import Instance, room_for
from overstory.planners.overlay.moves import attaching, check_moves, first_moves
from overstory.planners.overlay.partition import MOST_PINS, partitioned
from overstory.planners.overlay.transport import transported
from overstory.planners.overlay.writing import check_core, plan_tables, wanting_brokers
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SAVES = 1e-7  # of the whole cost: what a step must save at least
ENDS = 4000  # of trees by which the worth of Steiner points is estimated, in all
MOST_CLOSED = 4000  # users of a broker that is tried to be closed
FEW_WANT = 12  # users of a broker who want a channel that it is tried to be closed for
LARGE = 200_000  # users; beyond, only one start is improved, by relocations alone
RANDOM_STARTS = 8  # of small instances
HOPELESS = 2.0  # times the best cost so far: such starts are not improved
SMALL = 200_000  # pairs of a user and a broker, up to which the partition is a start
ENOUGH = 2e-4  # of the cost: rounds that save less are the last
FLOWING = 2_000_000  # pairs of a user and a broker, up to which the minimum-cost flow of access is a start
SAMPLES = 8  # numbers of open brokers that are tried
HOT, COLD = 0.25, 0.02  # temperatures, relative to the mean cost of a user
HEATED = 4_100_000_000  # the work of annealing, at most: times the effort, as are the passes
OF_BROKER, OF_WANT = 27, 84  # the work of a user's broker, and of a channel that it wants; that of a pair of both is 1
PASSES, LEAST_PASSES = 9, 200  # for each broker within reach, which is where a user may go; and where these are few
PENALTIES = 0.3, 3.0  # of a byte above a capacity, relative to the mean cost of a byte: at first, and at last
ANNEALING, DRAWS = "annealing", 9973  # the name of what it finds, and draws of each pass, which users go around in


class Start(NamedTuple):
    name: str
    at: Ints


class Found(NamedTuple):
    """What a search came to."""

    at: Ints
    cost: float
    costs: dict[str, float]  # by start: after its first improvement; and of the result
    given: Given


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    core, most = check_core(parameters["core"]), check_moves(parameters["moves"])
    effort = check_effort(parameters["effort"])
    instance = Instance(scenario, pipeline, parameters["channels"], True, parameters["traffic"])
    found = searched(instance, int(str(parameters["rounds"])), seed, effort)
    before, at = _positions(instance, base["attachments"]), found.at
    told = attaching(instance, found.given, before, at)
    if most is not None:
        at = first_moves(instance, found.given, before, at, most)
    return Decision(
        plan_tables(instance, at, core), relative_costs(found.costs), room_for(instance, at), attaching=told
    )


def _positions(instance: Instance, attachments: pa.Table) -> Ints:
    """By user the position of its broker."""
    client, broker = (attachments[name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(client)
    return instance.network.positions(broker[order][np.searchsorted(client[order], instance.traffic.users)])


def check_effort(effort: object) -> int:
    """By how much annealing works longer than it does by default."""
    if not isinstance(effort, int) or isinstance(effort, bool) or effort < 1:
        raise UsageError(f"effort={effort}: it is a number from 1 on")
    return effort


def passes_for(users: int, brokers: int, wanted: float, effort: int) -> int:
    """How often annealing looks at every user, where so many brokers are within reach of each, and it wants so many
    channels."""
    work = users * (OF_BROKER * brokers + wanted * (OF_WANT + brokers))
    return min(int(HEATED * effort / max(work, 1)), effort * max(PASSES * brokers, LEAST_PASSES))


def searched(instance: Instance, rounds: int, seed: int, effort: int = 1) -> Found:
    draw = np.random.default_rng(seed)
    given = with_steiner_ratio(instance, packed(instance))
    best, name, tried = _best_start(instance, given, draw, seed)
    costs, states = {}, {name: best}
    users, brokers = given.brokers.shape
    passes = passes_for(users, brokers, instance.traffic.pins / max(users, 1), effort)
    if passes > 1:
        states[ANNEALING] = annealed(instance, best, draw, passes)
    for which, state in states.items():
        costs[which] = improved(state, draw, rounds)
    chosen = min(costs, key=lambda which: costs[which])
    at = states[chosen].at.copy()
    if len(instance.network) <= MOST_BROKERS and len(at) <= MOST_USERS:
        at = _polished(instance, [state.at for state in states.values()], draw)
    return Found(at, costs[chosen], tried | costs, given)


def _best_start(
    instance: Instance, given: Given, draw: np.random.Generator, seed: int
) -> tuple[State, str, dict[str, float]]:
    """The start that is cheapest after some relocations, its name, and what each start costs then."""
    large = len(instance.traffic.users) > LARGE
    best: State | None = None
    name, costs = "", dict[str, float]()
    for start in starts(instance, draw, seed, large):
        state = new_state(given, start.at, instance.access_at(start.at))
        if best is not None and sum(access_and_core(state)) > HOPELESS * costs[name]:
            continue
        _relocated(state, draw, 1 if large else 2)
        costs[start.name] = float(sum(access_and_core(state)))
        if best is None or costs[start.name] < costs[name]:
            best, name = state, start.name
    if best is None:
        raise AssertionError("greedy packing is always a start")
    return best, name, costs


def annealed(instance: Instance, state: State, draw: np.random.Generator, passes: int) -> State:
    """Where annealing from a state leads to; the state stays as it is."""
    given, users = state.given, len(state.at)
    cost, at = float(sum(access_and_core(state))), state.at.copy()
    heated = new_state(given, at, state.paid.copy())
    of_user, of_byte = cost / max(users, 1), cost / max(float(given.demand.sum()), 1e-300)
    for done in np.linspace(0.0, 1.0, passes).tolist():
        temperature = of_user * HOT * (COLD / HOT) ** done
        penalty = of_byte * PENALTIES[0] * (PENALTIES[1] / PENALTIES[0]) ** done
        heat_pass(heated, draw.permutation(users), draw.gumbel(size=DRAWS), temperature, penalty)
    too_full = relieve(heated)
    return state if too_full else heated


def _polished(instance: Instance, found: list[Ints], draw: np.random.Generator) -> Ints:
    """Small instances by the costs of all Steiner trees, instead of spanning trees that stand for them; from what was
    found, and from some random attachments."""
    small, brokers = small_of(instance), instance.reach.brokers
    for _ in range(RANDOM_STARTS):
        place = (draw.random(len(brokers)) * (brokers >= 0).sum(axis=1)).astype(np.int64)
        found.append(brokers[np.arange(len(brokers)), place].astype(np.int64))
    costs = [polish(small, at) for at in found]
    return found[int(np.argmin(costs))].copy()


def with_steiner_ratio(instance: Instance, at: Ints) -> Given:
    """The instance with what Steiner points save on spanning trees, as far as some trees of channels tell."""
    given = instance.given
    ratio = steiner_ratio(instance, at)
    return given._replace(steiner_ratio=np.array([ratio]))


def steiner_ratio(instance: Instance, at: Ints) -> float:
    """How much of the spanning tree of a channel's brokers its Steiner tree costs, on average."""
    offsets, members = wanting_brokers(instance, at)
    size = np.diff(offsets)
    some = np.flatnonzero(size > 2)
    some = some[:: max(int(size[some].sum()) // ENDS, 1)]
    if not len(some):
        return 1.0
    network = instance.network
    router = Router(prepare(network.offsets, network.targets, network.prices))
    near = (instance.ways.far + instance.ways.far.T) / 2
    spanning, steiner = 0.0, 0.0
    for channel in some.tolist():
        ends = members[offsets[channel] : offsets[channel + 1]]
        spanning += _spanning_length(near, ends)
        steiner += router.tree(int(ends[0]), ends[1:]).cost
    return min(steiner / spanning, 1.0) if spanning else 1.0


def _spanning_length(near: Floats, ends: Ints) -> float:
    from scipy.sparse.csgraph import minimum_spanning_tree

    return float(minimum_spanning_tree(near[np.ix_(ends, ends)]).sum())


def starts(instance: Instance, draw: np.random.Generator, seed: int, large: bool) -> Iterator[Start]:
    yield Start("greedy packing", packed(instance))
    if large:
        return
    if np.isfinite(instance.capacity).any() and instance.reach.brokers.size <= FLOWING:
        at = transported(instance)
        if at is not None:
            yield Start("least access", at)
    traffic = instance.traffic
    if len(traffic.users) > MOST_USERS and instance.reach.brokers.size <= SMALL and traffic.pins <= MOST_PINS:
        yield Start("partition", partitioned(instance, seed))
    for count in _numbers_of_open(len(instance.network)):
        at = sampled(instance, count, draw)
        if at is not None:
            yield Start(f"{count} open brokers", at)


def _numbers_of_open(brokers: int) -> list[int]:
    """From one broker to half of them, in equal steps of the logarithm."""
    found = np.unique(np.geomspace(1, max(brokers / 2, 1), SAMPLES).astype(np.int64))
    return [count for count in found.tolist() if count < brokers]


def sampled(instance: Instance, count: int, draw: np.random.Generator) -> Ints | None:
    """Everybody at the nearest of so many brokers, which are spread over users by their traffic: each is the one that
    a random user has nearest, a user far from those that are open being the more probable. None if they lack room."""
    reach, demand = instance.reach, instance.traffic.demand
    users = len(reach.brokers)
    is_open = np.zeros(len(instance.network), bool)
    paid = np.full(users, np.inf)
    for _ in range(count):
        weight = np.where(np.isinf(paid), demand, np.maximum(paid - reach.costs[:, 0], 0.0)) + 1e-12
        user = int(draw.choice(users, p=weight / weight.sum()))
        closed = reach.brokers[user][(reach.brokers[user] >= 0)]
        closed = closed[~is_open[closed]]
        if not len(closed):
            break
        is_open[closed[0]] = True
        allowed = is_open[reach.brokers] & (reach.brokers >= 0)
        paid = np.where(allowed, reach.costs, np.inf).min(axis=1)
    return nearest_of(instance, is_open)


def nearest_of(instance: Instance, is_open: NDArray[np.bool_]) -> Ints | None:
    """Everybody at the nearest broker of these that has room; None if somebody has none within reach."""
    reach, demand = instance.reach, instance.traffic.demand
    brokers = np.where(is_open[reach.brokers] & (reach.brokers >= 0), reach.brokers, NONE)
    load = np.zeros(len(is_open))
    order = np.argsort(-demand, kind="stable")
    at = pack(order, brokers, demand, instance.capacity, load)
    if (at == NONE).any():  # the others go wherever there is room
        lost = np.flatnonzero(at == NONE)
        at[lost] = pack(lost, reach.brokers, demand, instance.capacity, load)[lost]
    if (at == NONE).any():
        return None
    return placed_anyhow(instance, at, load)


def _relocated(state: State, draw: np.random.Generator, passes: int) -> None:
    least = SAVES * max(sum(access_and_core(state)), 1e-300)
    for _ in range(passes):
        _, moves = kernels.relocate(state, draw.permutation(len(state.at)), least)
        if moves == 0:
            return


def improved(state: State, draw: np.random.Generator, rounds: int) -> float:
    """Searches from a state, in place; returns its cost. Compound moves follow when relocations save nothing more."""
    cost = sum(access_and_core(state))
    least = SAVES * max(cost, 1e-300)
    users, brokers = len(state.at), len(state.given.far)
    journal = kernels.new_journal(max(4 * MOST_CLOSED, 1024))
    offsets = np.zeros(brokers + 1, np.int64)
    comers = kernels.who_may_come(state.given.brokers, brokers, offsets)
    tight = bool(np.isfinite(state.given.capacity).any())
    for _ in range(rounds):
        saved = 0.0
        for _ in range(10):
            gain, moves = kernels.relocate(state, draw.permutation(users), least)
            saved += gain
            if moves <= users // 1000:
                break
        if users > LARGE:  # compound moves look at whole trees, for each broker and channel
            break
        if tight:
            saved += kernels.swap(state, draw.permutation(users), least, journal)[0]
        keys = np.flatnonzero((state.count.ravel() > 1) & (state.count.ravel() <= FEW_WANT))
        saved += kernels.close_for_channels(state, draw.permutation(keys), FEW_WANT, least, journal)[0]
        saved += kernels.close_all(state, draw.permutation(brokers), MOST_CLOSED, least, journal)[0]
        saved += kernels.open_all(state, draw.permutation(brokers), offsets, comers, least, journal)[0]
        if saved < ENOUGH * cost:
            break
    return sum(access_and_core(state))
