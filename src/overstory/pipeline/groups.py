"""Who wants what: clients that want the same at the same broker are one group, and so are the rows for them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.hashing import mix_all
from overstory.kernels.metering import EVERY, NONE
from overstory.pipeline.lookups import offsets_of, pairs_looked_up
from overstory.pipeline.numbered import Numbered

Ints = NDArray[np.int64]
MEMBER_COLUMNS = ("client", "flow", "predicate", "part", "row", "no_local")


class Groups(NamedTuple):
    clients: Ints  # that are in a group, by their ids, ascending
    of_client: Ints  # the group of each
    broker: Ints  # by group
    size: Ints  # by group: clients
    members: dict[str, Ints]  # what a client of each group is a member of, by predicate


def groups_of(given: Numbered) -> Groups:
    """Clients of a broker whose memberships and rows have the same hashes are one group, but one that subscribes with
    ``no_local`` is a group by itself: it alone does not get what it publishes."""
    members = _memberships(given)
    flows, _, target, predicate = (column[~given.is_broker_row] for column in given.rows)
    said = np.concatenate(
        [
            np.stack([members[name] for name in (*MEMBER_COLUMNS, "count")]),
            np.stack([target, flows, predicate] + [np.full(len(target), -2 - i) for i in range(4)]),
        ],
        axis=1,
    )
    clients, which = np.unique(said[0], return_inverse=True)
    brokers = given.network.positions(given.broker_of(clients))
    alone = np.zeros(len(clients), np.int64)
    no_local = members["no_local"] == 1
    single = np.searchsorted(clients, members["client"][no_local])
    alone[single] = single + 1
    signatures = [brokers, alone, *(_hashes(said[1:], which, len(clients), seed) for seed in (1, 2))]
    _, first, groups = np.unique(np.stack(signatures), axis=1, return_index=True, return_inverse=True)
    first, groups = _in_order(first, groups.reshape(-1), _first_predicates(members, clients))
    example = np.isin(members["client"], clients[first])
    kept = {name: column[example] for name, column in members.items()}
    kept["group"] = groups[np.searchsorted(clients, kept["client"])] if len(clients) else kept["client"]
    order = np.argsort(kept["predicate"], kind="stable")
    by_predicate = {name: column[order] for name, column in kept.items()}
    return Groups(clients, groups, brokers[first], np.bincount(groups, minlength=len(first)), by_predicate)


def _first_predicates(members: dict[str, Ints], clients: Ints) -> Ints:
    """By client the least predicate that is a filter of its; beyond all others if it has none."""
    found = np.full(len(clients), np.iinfo(np.int64).max)
    np.minimum.at(found, np.searchsorted(clients, members["client"]), members["predicate"])
    return found


def _in_order(first: Ints, groups: Ints, predicate: Ints) -> tuple[Ints, Ints]:
    """The same groups by their first predicates: what is counted of those who want the same stands side by side."""
    order = np.argsort(predicate[first], kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return first[order], number[groups]


def _memberships(given: Numbered) -> dict[str, Ints]:
    """Of each client, flow, filter and part, once."""
    table, members = given.scenario.subscriptions, given.plan.members
    at, flow = given.subscriptions, given.flows(members["flow"].to_numpy())
    part = given.predicates.numbers(members["part"])
    if given.serves_all.any():  # every subscription has a place in these flows, which is told once
        every = np.arange(table.num_rows)
        at, flow = np.concatenate([at, every]), np.concatenate([flow, np.full(len(every), EVERY)])
        part = np.concatenate([part, np.full(len(every), NONE)])
    client = table["client"].to_numpy()[at]
    found = {
        "client": client,
        "flow": flow,
        "predicate": given.subscription_predicate[at],
        "part": part,
        "row": _client_rows(given, flow, client),
        "no_local": table["no_local"].to_numpy()[at].astype(np.int64),
    }
    columns = np.stack([found[name] for name in MEMBER_COLUMNS]) if len(client) else np.empty((6, 0), np.int64)
    distinct, count = np.unique(columns, axis=1, return_counts=True)
    return dict(zip(MEMBER_COLUMNS, np.ascontiguousarray(distinct), strict=True)) | {"count": count}


def _client_rows(given: Numbered, flow: Ints, client: Ints) -> Ints:
    """The predicate of the row for a client's link in a flow, NONE if there is none."""
    flows, _, target, predicate = (column[~given.is_broker_row] for column in given.rows)
    return pairs_looked_up((flow, client), (flows, target), predicate)


def access_rows(given: Numbered, groups: Groups) -> dict[str, Ints]:
    """Rows for clients, by flow and broker, once for each group. One for a client that is attached elsewhere has no
    effect."""
    flows, source, target, predicate = (column[~given.is_broker_row] for column in given.rows)
    here = source == given.broker_of(target) if len(target) else np.zeros(0, bool)
    flows, target, predicate = flows[here], target[here], predicate[here]
    if not len(flows):
        none = np.empty(0, np.int64)
        return {"access_offsets": np.zeros(1, np.int64), "access_group": none, "access_row": none}
    group = groups.of_client[np.searchsorted(groups.clients, target)]
    distinct = np.unique(np.stack([flows * len(given.network) + groups.broker[group], group, predicate]), axis=1)
    offsets = offsets_of(distinct[0], len(given.flow_ids) * len(given.network))
    return {"access_offsets": offsets, "access_group": distinct[1].copy(), "access_row": distinct[2].copy()}


def _hashes(said: Ints, which: Ints, count: int, seed: int) -> Ints:
    """One number for all that is said of a client, in any order."""
    running = np.full(said.shape[1], seed, np.int64)
    with np.errstate(over="ignore"):
        for column in said:
            running = running * 31 + column
            mix_all(running)
        found = np.zeros(count, np.int64)
        np.add.at(found, which, running)
    return found
