"""What is left of a plan when its clients have moved: what still fits stays as it was, and only the rest changes.

1. A tree that lacks a broker where it now has a member, or where events now enter its flow, grows: by the cheapest path
   from each such broker, one after the other. No link is taken away.
2. A row of ``filters`` for a client that is attached elsewhere is left out. So is one on a link between brokers that
   does not cover what a client wants which is now behind it. Without a row, just what is wanted crosses a link. Where
   the summary of a region is left out, so are those of its hosts.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from overstory.filters import parse_filter
from overstory.model.network import Ints, Network
from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, STEERED, TREES
from overstory.planners.defaults import looked_up_in
from overstory.planners.trees.spt import paths_from
from overstory.routing.written_out import may_share

Tables = Mapping[str, pa.Table]
BROKER = "$broker"
MOST_COMPARED = 1_000_000


def refitted(scenario: Scenario, tables: Tables, before: pa.Table, publishers: Ints) -> dict[str, pa.Table]:
    """The tables of a plan whose attachments were ``before``."""
    clients, brokers = (tables["attachments"][name].to_numpy() for name in ("client", "broker"))
    old = looked_up_in(clients, *(before[name].to_numpy() for name in ("client", "broker")))
    moved = clients[old != brokers]
    if not len(moved):
        return dict(tables)
    hosts = _Hosts(scenario, tables, publishers)
    trees = _grown(scenario.network, tables, hosts)
    filters = _still_right(scenario, tables, trees, hosts, moved)
    return {**tables, "trees": trees, "filters": filters}


class _Hosts:
    """Where the members of flows are, and where events enter them."""

    def __init__(self, scenario: Scenario, tables: Tables, publishers: Ints) -> None:
        self.attachments = tuple(tables["attachments"][name].to_numpy() for name in ("client", "broker"))
        self.entering: list[int] = np.unique(self.broker_of(publishers)).tolist()
        self.events = dict(zip(tables["flows"]["flow"].to_pylist(), tables["flows"]["events"].to_pylist(), strict=True))
        subscriptions, members = scenario.subscriptions, tables["members"]
        ids = subscriptions["id"].to_numpy()
        self.clients = subscriptions["client"].to_numpy()
        self.texts = subscriptions["filter"]
        rows = looked_up_in(members["subscription"].to_numpy(), ids, np.arange(len(ids)))
        self.brokers = self.broker_of(self.clients)  # by subscription
        self.flow, self.row, self.part = members["flow"].to_numpy(), rows, members["part"]
        kinds = zip(*(tables["flows"][name].to_pylist() for name in ("flow", "members")), strict=True)
        self.everywhere = {flow for flow, kind in kinds if kind == ALL}
        pairs = np.unique(np.stack([self.flow, self.brokers[rows]]), axis=1)
        self._of = self._of_all()
        for flow, broker in pairs.T.tolist():
            self._of.setdefault(flow, set()).add(broker)

    def broker_of(self, clients: Ints) -> Ints:
        return looked_up_in(clients, *self.attachments)

    def _of_all(self) -> dict[int, set[int]]:
        """For flows that serve every subscription: the brokers where somebody may want some of their events."""
        if not self.everywhere:
            return {}
        coded = self.texts.combine_chunks().dictionary_encode()
        filters, codes = list(map(parse_filter, coded.dictionary.to_pylist())), np.asarray(coded.indices)
        shares = {flow: may_share(parse_filter(self.events[flow]), filters)[codes] for flow in self.everywhere}
        return {flow: set(np.unique(self.brokers[share]).tolist()) for flow, share in shares.items()}

    def of(self, flow: int, has_links: bool) -> set[int]:
        """All brokers that the flow's tree must hold. Nothing enters a flow without members and links."""
        found = self._of.get(flow, set())
        return found | set(self._entering(flow)) if found or has_links else found

    def _entering(self, flow: int) -> list[int]:
        boxes = parse_filter(self.events[flow]).boxes
        if any(BROKER not in box.sets for box in boxes):
            return self.entering
        return [broker for broker in self.entering if any(box.sets[BROKER].contains(broker) for box in boxes)]


def _grown(network: Network, tables: Tables, hosts: _Hosts) -> pa.Table:
    """The trees, each with the links that it needs to reach all brokers that it must hold."""
    trees, more = tables["trees"], []
    links: dict[int, list[tuple[int, int]]] = {}
    for flow, *ends in zip(*(trees[name].to_pylist() for name in TREES.schema.names), strict=True):
        links.setdefault(flow, []).append((ends[0], ends[1]))
    for flow, kind in zip(tables["flows"]["flow"].to_pylist(), tables["flows"]["kind"].to_pylist(), strict=True):
        if kind not in STEERED:
            inside = {broker for ends in links.get(flow, ()) for broker in ends}
            more += [(flow, *ends) for ends in _joined(network, inside, hosts.of(flow, flow in links))]
    added = np.array(more, np.int64).reshape(-1, 3)
    return pa.concat_tables([trees, pa.table(list(added.T), schema=TREES.schema)])


def _joined(network: Network, inside: set[int], wanted: set[int]) -> Iterator[tuple[int, int]]:
    """Links that join each wanted broker to the tree of those inside, or to one of them if there is no tree."""
    inside = set(inside)
    for broker in sorted(wanted - inside):
        if not inside:
            inside.add(broker)
            continue
        if broker in inside:
            continue
        (far,), (before,) = paths_from(network, network.positions(np.array([broker])))
        there = network.positions(np.array(sorted(inside)))
        at = int(there[far[there].argmin()])
        path = [at]
        while before[path[-1]] >= 0:
            path.append(int(before[path[-1]]))
        ids = network.ids[path].tolist()
        start = max(place for place, each in enumerate(ids) if each in inside)  # nearest to the broker
        yield from zip(ids[start:-1], ids[start + 1 :], strict=True)
        inside.update(ids[start:])


def _still_right(scenario: Scenario, tables: Tables, trees: pa.Table, hosts: _Hosts, moved: Ints) -> pa.Table:
    """The rows of ``filters`` without those that the moves have made wrong."""
    rows = tables["filters"]
    flows, sources, targets = (rows[name].to_numpy() for name in ("flow", "source", "target"))
    to_brokers = np.isin(targets, scenario.network.ids)
    kept = to_brokers | (hosts.broker_of(targets) == sources)
    doubtful = to_brokers & ~(rows["filter"].to_numpy() == EVERYTHING)
    if not doubtful.any():
        return rows.filter(pa.array(kept))
    covering, regions = _Covering(hosts, moved), _regions(tables)
    for flow in np.unique(flows[doubtful]).tolist():
        neighbours = _neighbours(trees, flow)
        for row in np.flatnonzero(doubtful & (flows == flow)).tolist():
            source, target = int(sources[row]), int(targets[row])
            region = {broker for broker, gateway in regions.get(flow, {}).items() if gateway == source == target}
            behind = region or _behind(neighbours, source, target)
            kept[row] = covering.holds(flow, rows["filter"][row].as_py(), behind)
    for flow, gateway_of in regions.items():
        said = kept & (flows == flow) & (sources == targets)
        whole = set(sources[said].tolist())
        for row in np.flatnonzero(said).tolist():
            kept[row] = gateway_of[int(sources[row])] in whole
    return rows.filter(pa.array(kept))


def _regions(tables: Tables) -> dict[int, dict[int, int]]:
    """By flow that has regions, the gateway of each broker."""
    found: dict[int, dict[int, int]] = {}
    for flow, broker, gateway in zip(*(column.to_pylist() for column in tables["regions"].columns), strict=True):
        found.setdefault(flow, {})[broker] = gateway
    return found


class _Covering:
    """Whether a row covers what those who moved want behind its link. After so many comparisons it is taken for one
    that does not: without it the plan is right as well."""

    def __init__(self, hosts: _Hosts, moved: Ints) -> None:
        self.hosts = hosts
        rows = np.flatnonzero(np.isin(hosts.clients, moved))
        self.everyone = [(int(hosts.brokers[row]), hosts.texts[row].as_py(), None) for row in rows.tolist()]
        self.by_flow: dict[int, list[tuple[int, str, str | None]]] = {}
        for at in np.flatnonzero(np.isin(hosts.row, rows)).tolist():
            row = int(hosts.row[at])
            wish = int(hosts.brokers[row]), hosts.texts[row].as_py(), hosts.part[at].as_py()
            self.by_flow.setdefault(int(hosts.flow[at]), []).append(wish)
        self._known: dict[tuple[str, str], bool] = {}

    def holds(self, flow: int, text: str, behind: set[int]) -> bool:
        events = self.hosts.events[flow]
        if text == events:
            return True
        wishes = self.everyone if flow in self.hosts.everywhere else self.by_flow.get(flow, [])
        wants = {(want, part) for broker, want, part in wishes if broker in behind}
        return all(self._covers(text, want, part, events) for want, part in wants)

    def _covers(self, text: str, *wanted: str | None) -> bool:
        parts = [f"({part})" for part in wanted if part is not None and part != EVERYTHING]
        want = " AND ".join(parts) or EVERYTHING
        if (text, want) not in self._known:
            known = len(self._known) < MOST_COMPARED
            self._known[text, want] = known and parse_filter(text).covers(parse_filter(want))
        return self._known[text, want]


def _neighbours(trees: pa.Table, flow: int) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    mine = trees["flow"].to_numpy() == flow
    for one, other in zip(*(trees[name].to_numpy()[mine].tolist() for name in ("source", "target")), strict=True):
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return found


def _behind(neighbours: dict[int, set[int]], source: int, target: int) -> set[int]:
    found, ahead = {target}, [target]
    while ahead:
        for broker in neighbours.get(ahead.pop(), set()) - found - {source}:
            found.add(broker)
            ahead.append(broker)
    return found
