"""From users at brokers to the tables of a plan. How brokers are joined (``core``) is what kind of flow carries events:

``steiner``   each event on its own Steiner tree: one steered flow
``paths``     each event along cheapest paths: one steered flow
``spanning``  a flow for each publishing broker and channel, on a minimum spanning tree of its participants
``tree``      one flow on one spanning tree (the paper's acyclic variant)
``unicast``   a copy for each broker, along the cheapest path: a steered flow for each, counted apart
``cheapest``  ``tree`` where nearly all of many brokers want every event, else ``steiner``

Members are ``all``: rows never grow with users times channels.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import InfeasibleError, UsageError
from overstory.kernels.overlay_paper import span_participants
from overstory.model.plan import EVERYTHING
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import ALL, FLOWS, MEMBERS, PATHS, STEINER, TREE, TREES
from overstory.planners.overlay.instance import Instance
from overstory.planners.trees import direct

Ints = NDArray[np.int64]
Tables = dict[str, pa.Table]
SPANNING, UNICAST, CHEAPEST = "spanning", "unicast", "cheapest"
CORES = (STEINER, PATHS, SPANNING, TREE, UNICAST, CHEAPEST)
MANY_BROKERS, NEARLY_ALL = 256, 0.995  # from which on, and the share that wants an event: see ``core_for``
MOST_LINKS = 12_000_000


def check_core(core: object) -> str:
    if core not in CORES:
        raise UsageError(f"core={core}: it is one of {', '.join(CORES)}")
    return str(core)


def plan_tables(instance: Instance, at: Ints, core: str) -> Tables:
    """Users at brokers, by position."""
    attachments, core = instance.attachments(at), core_for(instance, at, core)
    if core == UNICAST:
        nothing: Tables = {"attachments": attachments}
        found = direct.plan(instance.scenario, instance.pipeline, nothing, {}, 0)
        return nothing | found
    if core == SPANNING:
        flows, trees = _spanning(instance, at)
    else:
        flows, trees = _flows([EVERYTHING], TREE if core == TREE else core), _no_trees()
        if core == TREE:
            ids, (sources, targets) = instance.network.ids, minimum_spanning_tree(instance.network)
            trees = _trees(np.zeros(len(sources), np.int64), ids[sources], ids[targets])
    return {"attachments": attachments, "flows": flows, "members": MEMBERS.schema.empty_table(), "trees": trees}


def core_for(instance: Instance, at: Ints, core: str) -> str:
    """What ``cheapest`` stands for. Where all brokers want an event, its Steiner tree is the minimum spanning tree, the
    same for all such events: then to make a tree of hundreds of ends for each event saves nothing."""
    if core != CHEAPEST:
        return core
    network, traffic = instance.network, instance.traffic
    if len(network) < MANY_BROKERS or (network.back < 0).any():
        return STEINER
    wanting = np.diff(wanting_brokers(instance, at)[0]) @ traffic.total
    alike = np.array_equal(network.prices, network.prices[network.back])
    return TREE if alike and wanting >= NEARLY_ALL * len(network) * traffic.total.sum() else STEINER


def _publishing(instance: Instance, at: Ints) -> tuple[Ints, Ints]:
    """Each broker that publishes at all with each channel that somebody wants, so that no event is without a flow,
    whatever the planner has seen of the log."""
    publishers = np.searchsorted(instance.traffic.users, instance.pipeline.publishers(instance.scenario))
    entering, channels = np.unique(at[publishers]), instance.traffic.channels
    return np.repeat(entering, channels), np.tile(np.arange(channels), len(entering))


def _spanning(instance: Instance, at: Ints) -> tuple[pa.Table, pa.Table]:
    network = instance.network
    offsets, members = wanting_brokers(instance, at)
    roots, channel = _publishing(instance, at)
    most = int(np.diff(offsets)[channel].sum()) + len(roots)
    if most > MOST_LINKS:
        raise InfeasibleError(
            f"core={SPANNING} takes up to {most:,} links of trees, and {MOST_LINKS:,} are the most; take core={STEINER}"
        )
    symmetric = (instance.ways.far + instance.ways.far.T) / 2
    links = np.empty((max(len(roots) * (len(network) - 1), 1), 2), np.int64)
    ends = span_participants(symmetric, instance.ways.before, roots, channel, members, offsets, links)
    flow = np.repeat(np.arange(len(roots)), np.diff(ends))
    source, target = network.ids[links[: ends[-1]]].T
    return _flows(_events(instance, roots, channel), TREE), _trees(flow, source, target)


def tree_tables(instance: Instance, at: Ints, tree: Callable[[int, Ints], list[tuple[int, int]]]) -> Tables:
    """A plan with a flow for each publishing broker and channel, on the links that ``tree`` gives for a broker and
    those that want the channel; all by their positions."""
    offsets, members = wanting_brokers(instance, at)
    roots, channel = _publishing(instance, at)
    known: dict[tuple[int, bytes], list[tuple[int, int]]] = {}
    flow, links = [], []
    for number, (root, which) in enumerate(zip(roots.tolist(), channel.tolist(), strict=True)):
        ends = members[offsets[which] : offsets[which + 1]]
        key = root, ends.tobytes()
        if key not in known:
            known[key] = tree(root, ends)
        flow += [number] * len(known[key])
        links += known[key]
    source, target = instance.network.ids[np.array(links, np.int64).reshape(-1, 2)].T
    return {
        "attachments": instance.attachments(at),
        "flows": _flows(_events(instance, roots, channel), TREE),
        "members": MEMBERS.schema.empty_table(),
        "trees": _trees(np.array(flow, np.int64), source, target),
    }


def _events(instance: Instance, roots: Ints, channel: Ints) -> list[str]:
    ids, texts = instance.network.ids, instance.traffic.texts
    return [
        f"$broker = {broker} AND {texts[number]}"
        for broker, number in zip(ids[roots].tolist(), channel.tolist(), strict=True)
    ]


def wanting_brokers(instance: Instance, at: Ints) -> tuple[Ints, Ints]:
    """By channel the brokers that want it, ascending."""
    traffic, size = instance.traffic, len(instance.network)
    kinds = len(traffic.wants.offsets) - 1
    pairs = np.unique(traffic.kind * size + at)
    kind, broker = np.divmod(pairs, size)
    many = np.diff(traffic.wants.offsets)[kind]
    starts = traffic.wants.offsets[kind] if kinds else kind
    entries = np.repeat(starts - np.concatenate([[0], np.cumsum(many)[:-1]]), many) + np.arange(many.sum())
    keys = np.unique(traffic.wants.items[entries].astype(np.int64) * size + np.repeat(broker, many))
    return np.searchsorted(keys, np.arange(traffic.channels + 1) * size), keys % size


def _flows(events: list[str], kind: str) -> pa.Table:
    count = len(events)
    columns = {
        "flow": np.arange(count),
        "kind": pa.array([kind] * count, pa.string()),
        "events": pa.array(events, pa.string()),
        "associations": np.zeros(count, np.int64),
        "members": pa.array([ALL] * count, pa.string()),
    }
    return FLOWS.completed(pa.table(columns))


def _trees(flow: Ints, source: Ints, target: Ints) -> pa.Table:
    return pa.table({"flow": flow, "source": source, "target": target}, schema=TREES.schema)


def _no_trees() -> pa.Table:
    return TREES.schema.empty_table()
