"""A plan made ready for a running network: compared with what is there, rebased, and packed for all brokers.

1. A plan is for the brokers and links that it was made for, and for subscriptions by their ids. What it does not know,
   or knows with another filter, is late; what has ended since is left out. ``Rebased`` counts all that.
2. A client that is elsewhere than the plan wants has its subscriptions where it is, in the flows that reach that broker
   and have no filters of their own; else they are late. Where the plan wants it, brokers expect them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import msgspec
import pyarrow as pa

from overstory.broker.packages import Package, Portion, encode_portion, encode_rows
from overstory.broker.places import plan_print
from overstory.broker.standing import Subscribed
from overstory.control.foreseeing import rows_of
from overstory.errors import StalePlanError
from overstory.filters import Filter, parse_filter
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import STEERED
from overstory.routing.messages import LATE
from overstory.routing.share import Share, shares_of
from overstory.routing.written_out import written_out

Live = Mapping[int, list[Subscribed]]  # by broker


class Rebased(msgspec.Struct, frozen=True):
    """What a plan meets on a running network."""

    placed: int  # subscriptions that are in the plan's flows
    elsewhere: int  # of these, the ones of clients that the plan wants at another broker
    late: int  # live subscriptions that the plan does not know
    changed: int  # that the plan knows with another filter, or as another's: they are late
    ended: int  # that the plan knows, and that have ended since
    absent: int  # that the plan knows, and whose clients are not here

    @property
    def differs(self) -> bool:
        """Whether subscriptions have changed since the plan was made."""
        return bool(self.late or self.changed or self.ended)


class Packed(NamedTuple):
    """A plan ready to be installed, and what became of it."""

    package: Package
    rebased: Rebased


def check_network(scenario: Scenario, plan: Plan, network: str) -> None:
    """Raises a ``StalePlanError`` if a plan is for other brokers, links or subscriptions than a network has."""
    if scenario.network_fingerprint != network or plan.header.network not in ("", network):
        raise StalePlanError("the plan is for other brokers or links than the network has; plan again for this one")
    known = set(scenario.brokers["id"].to_pylist())
    ends = scenario.network.ids
    links = set(zip(ends[scenario.network.sources].tolist(), ends[scenario.network.targets].tolist(), strict=True))
    checks = {
        "brokers": set(plan.attachments["broker"].to_pylist()) - known,
        "links": {(u, v) for u, v in _pairs(plan.trees) if (u, v) not in links and (v, u) not in links},
        "subscriptions": set(plan.members["subscription"].to_pylist()) - set(scenario.subscriptions["id"].to_pylist()),
        "clients": set(plan.attachments["client"].to_pylist()) - set(scenario.clients["id"].to_pylist()),
    }
    for what, unknown in checks.items():
        if unknown:
            some = ", ".join(map(str, sorted(unknown)[:3]))
            raise StalePlanError(f"the plan has {what} that the network does not know, such as {some}; plan again")


def packed(
    scenario: Scenario,
    plan: Plan,
    epoch: int,
    live: Live,
    source: dict[str, bytes],
    moving: frozenset[int] | None = None,
) -> Packed:
    """Rebases a plan on what is live, and packs it. ``scenario`` is the one that the plan was made for; ``moving`` are
    the clients that are to move, all that are elsewhere by default."""
    whole = written_out(scenario, plan)
    rebasing = _Rebasing(scenario, whole, live)
    fitted = rebasing.plan()
    shares = shares_of(scenario, fitted, epoch, rebasing.versions)
    names = {scenario.client_names.get(id_, str(id_)): id_ for id_ in scenario.clients["id"].to_pylist()}
    by_id = {id_: name for name, id_ in names.items()}
    planned = next(iter(shares.values())).planned
    prices = next((share.prices for share in shares.values() if share.prices), {})
    package = Package(
        epoch,
        plan_print(plan),
        scenario.network_fingerprint,
        planned,
        [(*link, price) for link, price in prices.items()],
        scenario.settings.coalesce,
        {broker: sorted(share.flows[LATE].neighbours) for broker, share in shares.items()},
        names,
        {by_id[client]: broker for client, broker in rebasing.homes(moving).items() if client in by_id},
        {broker: encode_portion(_portion(scenario, rebasing, broker, share)) for broker, share in shares.items()},
        source,
        _links_of(fitted),
        encode_rows(rows_of(shares, live)),
    )
    return Packed(package, rebasing.rebased())


class _Rebasing:
    """A plan beside what is live."""

    def __init__(self, scenario: Scenario, plan: Plan, live: Live) -> None:
        self._plan = plan
        self._known = {row["id"]: row for row in scenario.subscriptions.to_pylist()}
        self._live = {one.id: (broker, one) for broker, all_ in live.items() for one in all_}
        self._made = {id_: found for id_, found in self._live.items() if found[1].made}
        self.wanted = _column_map(plan.attachments, "client", "broker")
        self.now = {found.client: broker for broker, found in self._made.values() if found.client in self.wanted}
        self.versions = {id_: found.version for id_, (_, found) in self._live.items()}
        self._brokers_of = _brokers_of(plan)
        self._steered = {row["flow"] for row in plan.flows.to_pylist() if row["kind"] in STEERED}
        self._with_rows = set(plan.filters["flow"].to_pylist())
        flows: dict[int, list[int]] = {}
        for row in plan.members.to_pylist():
            flows.setdefault(row["subscription"], []).append(row["flow"])
        self._flows = flows
        self._kept = {id_: self._keeps(id_) for id_ in flows}

    def _keeps(self, id_: int) -> bool:
        """Whether a subscription of the plan is in its flows."""
        known, found = self._known[id_], self._live.get(id_)
        if found is None:
            return False
        broker, live = found
        if not live.made:
            return self.wanted.get(known["client"]) == broker or known["client"] not in self.now
        if live.client != known["client"] or not _same(live, known):
            return False
        return broker == self.wanted[live.client] or all(self._reaches(flow, broker) for flow in self._flows[id_])

    def _reaches(self, flow: int, broker: int) -> bool:
        """Whether a flow serves a broker that it was not planned for."""
        return flow not in self._with_rows and (flow in self._steered or broker in self._brokers_of.get(flow, ()))

    def plan(self) -> Plan:
        """The plan with clients where they are, and without members that cannot be."""
        mask = [self._kept[id_] for id_ in self._plan.members["subscription"].to_pylist()]
        members = self._plan.members.filter(pa.array(mask, pa.bool_()))
        clients = self._plan.attachments["client"].to_pylist()
        brokers = [self.now.get(client, self.wanted[client]) for client in clients]
        attachments = self._plan.attachments.set_column(1, "broker", pa.array(brokers, pa.int64()))
        return replace(self._plan, members=members, attachments=attachments)

    def homes(self, moving: frozenset[int] | None) -> dict[int, int]:
        """Where clients are to be: as the plan has it, or where they are if they are not to move."""
        if moving is None:
            return self.wanted
        return {c: b if c in moving else self.now.get(c, b) for c, b in self.wanted.items()}

    def expected(self, broker: int) -> dict[int, list[int]]:
        """The subscriptions whose clients are elsewhere and are to come to a broker, and their flows."""
        return {
            id_: sorted(set(flows))
            for id_, flows in self._flows.items()
            if id_ in self._made
            and self.wanted.get(self._known[id_]["client"]) == broker != self._made[id_][0]
            and _same(self._made[id_][1], self._known[id_])
        }

    def rows(self, broker: int) -> Iterable[tuple[int, int, str, bool]]:
        """The plan's subscriptions of clients that are at a broker, or are to be."""
        for id_, kept in self._kept.items():
            row = self._known[id_]
            if kept and self.now.get(row["client"], self.wanted.get(row["client"])) == broker:
                yield row["client"], id_, row["filter"], row["no_local"]

    def rebased(self) -> Rebased:
        """What the plan meets."""
        made = self._made
        unknown = [id_ for id_ in made if id_ not in self._flows]
        changed = [id_ for id_ in made if id_ in self._flows and not self._kept[id_]]
        moved = [id_ for id_ in made if id_ in self._flows and made[id_][0] != self.wanted.get(made[id_][1].client)]
        gone = [id_ for id_ in self._flows if id_ not in self._live]
        absent = [id_ for id_ in self._flows if id_ in self._live and id_ not in made]
        placed = sum(kept for kept in self._kept.values())
        return Rebased(placed, len(moved), len(unknown), len(changed), len(gone), len(absent))


def _portion(scenario: Scenario, rebasing: _Rebasing, broker: int, share: Share) -> Portion:
    return Portion(
        list(share.flows.values()),
        list(share.members),
        sorted(share.clients),
        list(rebasing.rows(broker)),
        rebasing.expected(broker),
    )


def _same(live: Subscribed, known: Mapping[str, object]) -> bool:
    """Whether a live subscription is the one that the plan knows."""
    return live.no_local == known["no_local"] and (
        live.filter == known["filter"] or _normal(live.filter) == _normal(str(known["filter"]))
    )


@lru_cache(maxsize=100_000)
def _normal(text: str) -> Filter:
    return parse_filter(text)


def _pairs(trees: pa.Table) -> list[tuple[int, int]]:
    return list(zip(trees["source"].to_pylist(), trees["target"].to_pylist(), strict=True))


def _links_of(plan: Plan) -> dict[int, list[tuple[int, int]]]:
    """The links of each flow's tree."""
    found: dict[int, list[tuple[int, int]]] = {}
    for flow, link in zip(plan.trees["flow"].to_pylist(), _pairs(plan.trees), strict=True):
        found.setdefault(flow, []).append(link)
    return found


def _brokers_of(plan: Plan) -> dict[int, set[int]]:
    """The brokers of each flow's tree."""
    found: dict[int, set[int]] = {}
    for flow, (u, v) in zip(plan.trees["flow"].to_pylist(), _pairs(plan.trees), strict=True):
        found.setdefault(flow, set()).update((u, v))
    return found


def _column_map(rows: pa.Table, key: str, value: str) -> dict[int, int]:
    return dict(zip(rows[key].to_pylist(), rows[value].to_pylist(), strict=True))
