"""A plan on a scenario, as the arrays that the meter's kernel reads: see ``kernels.metering.Rules``."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from overstory.kernels.metering import NO_WAYS, NODE, NONE, Rules, Ways
from overstory.kernels.paths import root_forest
from overstory.kernels.ways import ways_from
from overstory.model.access import ClientLinks, Toll, access_of
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import STEERED
from overstory.pipeline.predicates import Predicates

Ints = NDArray[np.int64]
MICRO = 1000  # in a millisecond; delays are summed as integers, so that no sum depends on its order
MEMBER_COLUMNS = ("client", "flow", "predicate", "part", "row", "shy")


@dataclass(frozen=True, eq=False)
class Metered:
    """What the kernel counts with, and what its counts mean."""

    rules: Rules
    ways: Ways  # of steered flows, if there are any
    predicates: Predicates
    publishers: Ints  # ids of clients, ascending: the kernel's numbers of publishers
    publisher_brokers: Ints  # their ids
    up: Toll  # of the publishers' links
    clients: Ints  # that are in a group
    client_group: Ints
    down: Toll  # of their links


def metered(scenario: Scenario, plan: Plan, publishers: Ints) -> Metered:
    """``publishers`` are those of the log."""
    return _Build(scenario, plan, np.unique(publishers)).result()


class _Build:
    def __init__(self, scenario: Scenario, plan: Plan, publishers: Ints) -> None:
        self.scenario, self.plan, self.publishers = scenario, plan, publishers
        self.network = scenario.network
        self.predicates = Predicates()
        # Subscriptions come first, so that their numbers do not depend on the plan.
        self.subscription_predicate = self.predicates.numbers(scenario.subscriptions["filter"])
        self.flow_ids = plan.flows["flow"].to_numpy()
        self.flow_order = np.argsort(self.flow_ids)
        attached = plan.attachments["client"].to_numpy()
        order = np.argsort(attached)
        self.attached, self.attached_broker = attached[order], plan.attachments["broker"].to_numpy()[order]

    def broker_of(self, clients: Ints) -> Ints:
        found: Ints = self.attached_broker[np.searchsorted(self.attached, clients)]
        return found

    def flows(self, ids: Ints) -> Ints:
        """Numbers of flows, by their ids."""
        return self.flow_order[np.searchsorted(self.flow_ids[self.flow_order], ids)]

    @cached_property
    def is_broker_row(self) -> NDArray[np.bool_]:
        return np.isin(self.plan.filters["target"].to_numpy(), self.network.ids)

    @cached_property
    def rows(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Of the plan's filters: flows, both ends, predicates."""
        filters = self.plan.filters
        ends = filters["source"].to_numpy(), filters["target"].to_numpy()
        return self.flows(filters["flow"].to_numpy()), *ends, self.predicates.numbers(filters["filter"])

    def result(self) -> Metered:
        members = self._memberships()
        clients, groups, group_broker, group_size, members = self._groups(members)
        order = np.argsort(members["predicate"], kind="stable")
        members = {name: column[order] for name, column in members.items()}
        trees, access = self._trees(), self._access(clients, groups, group_broker)
        flow_events = [
            NONE if text == EVERYTHING else self.predicates.number(text)
            for text in self.plan.flows["events"].to_pylist()
        ]
        links: ClientLinks = access_of(self.scenario)
        publisher_brokers = self.broker_of(self.publishers)
        up = links.up(self.publishers, publisher_brokers)
        rules = Rules(
            member_offsets=_offsets(members["predicate"], len(self.predicates)),
            member_flow=members["flow"],
            member_group=members["group"],
            member_part=members["part"],
            member_row=members["row"],
            member_count=members["count"],
            member_shy=members["shy"],
            group_broker=group_broker,
            group_size=group_size,
            publisher_broker=self.network.positions(publisher_brokers),
            publisher_group=_looked_up(self.publishers, clients, groups),
            publisher_delay=_micro(up.delays),
            flow_events=np.array(flow_events, np.int64),
            flow_watched=np.unique(self.rows[0]),
            flow_is_watched=np.isin(np.arange(len(self.flow_ids)), self.rows[0]),
            **trees,
            **access,
            link_source=self.network.sources,
            link_target=self.network.targets,
            link_delay=_micro(self.network.delays),
            coalesce=np.array([self.scenario.settings.coalesce]),
        )
        down = links.down(clients, self.broker_of(clients))
        return Metered(
            rules,
            self._ways(rules.publisher_broker),
            self.predicates,
            self.publishers,
            publisher_brokers,
            up,
            clients,
            groups,
            down,
        )

    def _memberships(self) -> dict[str, Ints]:
        """Of each client, flow, filter and part, once."""
        table, members = self.scenario.subscriptions, self.plan.members
        ids = table["id"].to_numpy()
        order = np.argsort(ids)
        at = order[np.searchsorted(ids[order], members["subscription"].to_numpy())]
        client, flow = table["client"].to_numpy()[at], self.flows(members["flow"].to_numpy())
        found = {
            "client": client,
            "flow": flow,
            "predicate": self.subscription_predicate[at],
            "part": self.predicates.numbers(members["part"]),
            "row": self._client_rows(flow, client),
            "shy": table["no_local"].to_numpy()[at].astype(np.int64),
        }
        columns = np.stack([found[name] for name in MEMBER_COLUMNS]) if len(client) else np.empty((6, 0), np.int64)
        distinct, count = np.unique(columns, axis=1, return_counts=True)
        return dict(zip(MEMBER_COLUMNS, np.ascontiguousarray(distinct), strict=True)) | {"count": count}

    def _client_rows(self, flow: Ints, client: Ints) -> Ints:
        """The predicate of the row for a client's link in a flow, NONE if there is none."""
        flows, _, target, predicate = (column[~self.is_broker_row] for column in self.rows)
        return _pairs_looked_up((flow, client), (flows, target), predicate)

    def _groups(self, members: dict[str, Ints]) -> tuple[Ints, Ints, Ints, Ints, dict[str, Ints]]:
        """Clients, the group of each, the broker and the size of each group, and the memberships of groups.

        Clients of a broker whose memberships and rows have the same hashes are one group, but one that subscribes with
        ``no_local`` is a group by itself: it alone does not get what it publishes.
        """
        flows, _, target, predicate = (column[~self.is_broker_row] for column in self.rows)
        said = np.concatenate(
            [
                np.stack([members[name] for name in (*MEMBER_COLUMNS, "count")]),
                np.stack([target, flows, predicate] + [np.full(len(target), -2 - i) for i in range(4)]),
            ],
            axis=1,
        )
        clients, which = np.unique(said[0], return_inverse=True)
        brokers = self.network.positions(self.broker_of(clients))
        alone = np.zeros(len(clients), np.int64)
        shy = members["shy"] == 1
        single = np.searchsorted(clients, members["client"][shy])
        alone[single] = single + 1
        signatures = [brokers, alone, *(_hashes(said[1:], which, len(clients), seed) for seed in (1, 2))]
        _, first, groups = np.unique(np.stack(signatures), axis=1, return_index=True, return_inverse=True)
        groups = groups.reshape(-1)
        example = np.isin(members["client"], clients[first])
        kept = {name: column[example] for name, column in members.items()}
        kept["group"] = groups[np.searchsorted(clients, kept["client"])] if len(clients) else kept["client"]
        return clients, groups, brokers[first], np.bincount(groups, minlength=len(first)), kept

    def _access(self, clients: Ints, groups: Ints, group_broker: Ints) -> dict[str, Ints]:
        """Rows for clients, by flow and broker, once for each group. One for a client that is attached elsewhere has no
        effect."""
        flows, source, target, predicate = (column[~self.is_broker_row] for column in self.rows)
        here = source == self.broker_of(target) if len(target) else np.zeros(0, bool)
        flows, target, predicate = flows[here], target[here], predicate[here]
        if not len(flows):
            none = np.empty(0, np.int64)
            return {"access_offsets": np.zeros(1, np.int64), "access_group": none, "access_row": none}
        group = groups[np.searchsorted(clients, target)]
        distinct = np.unique(np.stack([flows * len(self.network) + group_broker[group], group, predicate]), axis=1)
        offsets = _offsets(distinct[0], len(self.flow_ids) * len(self.network))
        return {"access_offsets": offsets, "access_group": distinct[1].copy(), "access_row": distinct[2].copy()}

    @cached_property
    def steered(self) -> NDArray[np.bool_]:
        """By flow."""
        return np.array([kind == STEERED for kind in self.plan.flows["kind"].to_pylist()], bool)

    def _ways(self, entries: Ints) -> Ways:
        if not self.steered.any():
            return NO_WAYS
        network = self.network
        return ways_from(network.offsets, network.targets, network.prices, np.unique(entries))

    def _trees(self) -> dict[str, NDArray[Any]]:
        """All trees as one forest."""
        brokers = len(self.network)
        tree_flows = np.flatnonzero(~self.steered)
        flow_tree = np.full(len(self.steered), NONE, np.int64)
        flow_tree[tree_flows] = np.arange(len(tree_flows))
        tables = self.plan.trees
        tree = flow_tree[self.flows(tables["flow"].to_numpy())]
        one, other = (self.network.positions(tables[name].to_numpy()) for name in ("source", "target"))
        used = np.zeros(len(tree_flows) * brokers, bool)
        for keys in (tree * brokers + one, tree * brokers + other, self._lone(flow_tree)):
            used[keys] = True
        node_keys = np.flatnonzero(used)
        place = np.full(len(tree_flows) * brokers, NONE, np.int32)
        place[node_keys] = np.arange(len(node_keys))
        ends = place[tree * brokers + one], place[tree * brokers + other]
        here, there, offsets = _both_ways(*ends, len(node_keys))
        source, target = (node_keys % brokers)[here], (node_keys % brokers)[there]
        parent, depth = np.empty(len(node_keys), np.int64), np.empty(len(node_keys), np.int64)
        root_forest(offsets, there, parent, depth)
        flow = tree_flows[node_keys // brokers]
        return {
            "flow_tree": flow_tree,
            "place": place.reshape(len(tree_flows), brokers),
            "nodes": self._nodes(flow, node_keys % brokers, parent, depth),
            "edge_offsets": offsets,
            "edge_node": there,
            "edge_link": self.network.link_between(source, target),
            "edge_row": self._broker_rows(flow[here], source, target),
        }

    def _nodes(self, flow: Ints, broker: Ints, parent: Ints, depth: Ints) -> NDArray[np.void]:
        above = broker[parent]  # of a root anything: it is not asked for its links
        nodes = np.empty(len(broker), NODE)
        nodes["flow"], nodes["broker"], nodes["parent"], nodes["depth"] = flow, broker, parent, depth
        nodes["down"], nodes["up"] = self.network.link_between(above, broker), self.network.link_between(broker, above)
        return nodes

    def _lone(self, flow_tree: Ints) -> Ints:
        """Nodes of trees without links: the one broker of a flow's members, or of clients that have rows."""
        flow = self.flows(self.plan.members["flow"].to_numpy())
        table = self.scenario.subscriptions
        ids = table["id"].to_numpy()
        order = np.argsort(ids)
        at = order[np.searchsorted(ids[order], self.plan.members["subscription"].to_numpy())]
        broker = self.network.positions(self.broker_of(table["client"].to_numpy()[at]))
        with_links = np.unique(self.flows(self.plan.trees["flow"].to_numpy()))
        to_clients = ~self.is_broker_row
        flow = np.concatenate([flow, self.rows[0][to_clients]])
        broker = np.concatenate([broker, self.network.positions(self.rows[1][to_clients])])
        bare = ~np.isin(flow, with_links) & ~self.steered[flow]
        return flow_tree[flow[bare]] * len(self.network) + broker[bare]

    def _broker_rows(self, flow: Ints, source: Ints, target: Ints) -> Ints:
        flows, sources, targets, predicate = (column[self.is_broker_row] for column in self.rows)
        brokers = len(self.network)
        keys = flows, self.network.positions(sources) * brokers + self.network.positions(targets)
        return _pairs_looked_up((flow, source * brokers + target), keys, predicate)


def _both_ways(one: Ints, other: Ints, nodes: int) -> tuple[Ints, Ints, Ints]:
    """Undirected edges as directed ones, by their ends; and offsets by the first. Linear, where sorting is not."""
    ends = np.concatenate([one, other]), np.concatenate([other, one])
    matrix = coo_array((np.ones(len(ends[0]), bool), ends), shape=(nodes, nodes)).tocsr()
    matrix.sort_indices()
    offsets = matrix.indptr.astype(np.int64)
    return np.repeat(np.arange(nodes), np.diff(offsets)), matrix.indices.astype(np.int64), offsets


def _offsets(sorted_keys: Ints, count: int) -> Ints:
    return np.searchsorted(sorted_keys, np.arange(count + 1)).astype(np.int64)


def _looked_up(wanted: Ints, keys: Ints, values: Ints) -> Ints:
    """Of ascending keys; NONE where there is no such key."""
    if not len(keys):
        return np.full(len(wanted), NONE, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], NONE)


def _pairs_looked_up(wanted: tuple[Ints, Ints], keys: tuple[Ints, Ints], values: Ints) -> Ints:
    """The same for pairs, in any order."""
    seconds, second = np.unique(np.concatenate([keys[1], wanted[1]]), return_inverse=True)
    width = max(len(seconds), 1)
    known = keys[0] * width + second[: len(keys[1])]
    order = np.argsort(known)
    return _looked_up(wanted[0] * width + second[len(keys[1]) :], known[order], values[order])


def _hashes(said: Ints, which: Ints, count: int, seed: int) -> Ints:
    """One number for all that is said of a client, in any order."""
    running = np.full(said.shape[1], seed, np.int64)
    with np.errstate(over="ignore"):
        for column in said:
            running = _mixed(running * 31 + column)
        found = np.zeros(count, np.int64)
        np.add.at(found, which, running)
    return found


def _mixed(values: Ints) -> Ints:
    """``kernels.store.mixed`` of many."""
    x = values.view(np.uint64).copy()
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    x ^= x >> np.uint64(33)
    return x.view(np.int64)


def _micro(delays: NDArray[np.float64]) -> Ints:
    return np.rint(delays * MICRO).astype(np.int64)
