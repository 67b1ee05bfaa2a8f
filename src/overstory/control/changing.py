"""What stands between two plans: who moves, which flows change, what the change costs, and what must stay as it is."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from overstory.control.deciding import Move, Rules
from overstory.model.difference import difference
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.planners.refitting import refitted

WAVES = 9  # messages on a link of a tree when a plan is installed, as they were counted on a live network
ROUNDS = 9  # messages on a link, when a subscription is placed
TABLES = "attachments", "flows", "members", "trees", "filters", "regions"


def moves_between(present: Plan, proposed: Plan) -> tuple[Move, ...]:
    """The clients that both plans attach, and to different brokers."""
    return tuple(
        Move(move.client, move.before, move.after)
        for move in difference(present, proposed).clients
        if move.before is not None and move.after is not None
    )


def changed_flows(present: Plan, proposed: Plan) -> frozenset[int]:
    """The flows of the present plan that the proposed one does not have with the same tree and the same members,
    under whatever number."""
    kept = set(_flows_of(proposed).values())
    return frozenset(flow for flow, what in _flows_of(present).items() if what not in kept)


def messages_of(entries: int, plan: Plan) -> int:
    """About how many messages cross links when a plan is installed: its entries, and on every link of every tree the
    waves that tell that all hold it, and that the plan before has drained."""
    return entries + WAVES * int(plan.trees.num_rows)


def messages_of_placing(brokers: int) -> int:
    """About how many messages cross links when one late subscription moves to a flow: three rounds of flushes with
    their echoes, a probe, and the subscription itself in the one flow and out of the other."""
    return ROUNDS * (brokers - 1)


def price_of(messages: int, moves: int, rules: Rules) -> float:
    """What a change costs: its entries, each of which crosses a link, and the clients that move."""
    return messages * rules.price_of_message + moves * rules.price_of_move


def with_clients_staying(
    scenario: Scenario, present: Plan, proposed: Plan, clients: Iterable[int], publishers: np.ndarray
) -> Plan:
    """The proposed plan with these clients where the present one has them. What no longer fits is made to."""
    stay = np.fromiter(clients, np.int64)
    if not len(stay):
        return proposed
    now = dict(zip(*(present.attachments[name].to_pylist() for name in ("client", "broker")), strict=True))
    known = proposed.attachments["client"].to_numpy()
    brokers = proposed.attachments["broker"].to_numpy().copy()
    for at in np.flatnonzero(np.isin(known, stay)).tolist():
        brokers[at] = now[int(known[at])]
    attachments = proposed.attachments.set_column(1, "broker", pa.array(brokers))
    tables = {name: getattr(proposed, name) for name in TABLES} | {"attachments": attachments}
    fitted = refitted(scenario, tables, proposed.attachments, publishers)
    return replace(proposed, **{name: fitted[name] for name in TABLES})


def _flows_of(plan: Plan) -> dict[int, tuple[object, ...]]:
    """What each flow is: its kind, its events, its links and its members."""
    links: dict[int, set[tuple[int, int]]] = {}
    for row in plan.trees.to_pylist():
        ends = sorted((row["source"], row["target"]))
        links.setdefault(row["flow"], set()).add((ends[0], ends[1]))
    members: dict[int, set[tuple[int, str | None]]] = {}
    for row in plan.members.to_pylist():
        members.setdefault(row["flow"], set()).add((row["subscription"], row["part"]))
    return {
        row["flow"]: (
            row["kind"],
            row["events"],
            frozenset(links.get(row["flow"], ())),
            frozenset(members.get(row["flow"], ())),
        )
        for row in plan.flows.to_pylist()
    }
