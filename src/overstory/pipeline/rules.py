"""A plan on a scenario, as the arrays that the meter's kernel reads: see ``kernels.metering.Rules``."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.metering import EVERY, NONE, Rules
from overstory.kernels.steering import NUMBER_BITS
from overstory.model.access import Toll, access_of
from overstory.model.delays import in_micros
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.forest import forest_of
from overstory.pipeline.groups import Groups, access_rows, groups_of
from overstory.pipeline.lookups import looked_up, offsets_of
from overstory.pipeline.numbered import Numbered
from overstory.pipeline.predicates import Predicates
from overstory.pipeline.steered import Steering, steering_of
from overstory.routing.written_out import written_out

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Metered:
    """What the kernel counts with, and what its counts mean."""

    rules: Rules
    given: Numbered
    predicates: Predicates
    publishers: Ints  # ids of clients, ascending: the kernel's numbers of publishers
    publisher_brokers: Ints  # their ids
    up: Toll  # of the publishers' links
    clients: Ints  # that are in a group
    client_group: Ints
    down: Toll  # of their links

    @cached_property
    def steering(self) -> Steering:
        """What the trees of steered flows are found with. On a large network it takes a while, so it is made late."""
        gateways = self.rules.gateway[self.rules.gateway != NONE]
        hosts = np.unique(np.concatenate([self.rules.group_broker, self.rules.summary_broker, gateways]))
        return steering_of(self.given, np.union1d(self.rules.publisher_broker, gateways), hosts)


def metered(scenario: Scenario, plan: Plan, publishers: Ints) -> Metered:
    """``publishers`` are those of the log."""
    given = Numbered(scenario, plan)
    publishers = np.unique(publishers)
    groups, links = groups_of(given), access_of(scenario)
    publisher_brokers = given.broker_of(publishers)
    up = links.up(publishers, publisher_brokers)
    rules = _rules(given, groups, publishers, up)
    return Metered(
        rules,
        given,
        given.predicates,
        publishers,
        publisher_brokers,
        up,
        groups.clients,
        groups.of_client,
        links.down(groups.clients, given.broker_of(groups.clients)),
    )


def listed(scenario: Scenario, plan: Plan, known: Metered) -> Metered:
    """The same with every member listed, for what is counted by flow and member."""
    if not (known.rules.member_flow == EVERY).any():
        return known
    return metered(scenario, written_out(scenario, plan), known.publishers)


def _rules(given: Numbered, groups: Groups, publishers: Ints, up: Toll) -> Rules:
    network, members = given.network, groups.members
    trees, access = forest_of(given), access_rows(given, groups)
    flow_events = [
        NONE if text == EVERYTHING else given.predicates.number(text) for text in given.plan.flows["events"].to_pylist()
    ]
    return Rules(
        member_offsets=offsets_of(members["predicate"], len(given.predicates)),
        member_flow=members["flow"],
        member_group=members["group"],
        member_part=members["part"],
        member_row=members["row"],
        member_count=members["count"],
        member_no_local=members["no_local"],
        group_broker=groups.broker,
        group_size=groups.size,
        publisher_broker=network.positions(given.broker_of(publishers)),
        publisher_group=looked_up(publishers, groups.clients, groups.of_client),
        publisher_delay=in_micros(up.delays).astype(np.int64),
        flow_events=np.array(flow_events, np.int64),
        **_for_everyone(given, np.array(flow_events, np.int64)),
        flow_watched=np.unique(given.rows[0]),
        flow_is_watched=np.isin(np.arange(len(given.flow_ids)), given.rows[0]),
        **trees,
        **access,
        link_source=network.sources,
        link_target=network.targets,
        link_delay=in_micros(network.delays).astype(np.int64),
        coalesce=np.array([given.scenario.settings.coalesce]),
        headers=np.array([given.scenario.settings.headers]),
        flow_number_bits=np.where(given.ordered, NUMBER_BITS, 0),
        **_summaries(given),
        gateway=given.gateways,
    )


def _for_everyone(given: Numbered, flow_events: Ints) -> dict[str, Ints]:
    """The flows that serve every subscription, by the predicate of their events; what is true is behind all others."""
    flows = np.flatnonzero(given.serves_all)
    keys = np.where(flow_events[flows] == NONE, len(given.predicates), flow_events[flows])
    order = np.argsort(keys, kind="stable")
    return {"every_offsets": offsets_of(keys[order], len(given.predicates) + 1), "every_flow": flows[order]}


def _summaries(given: Numbered) -> dict[str, NDArray[Any]]:
    """The summaries of hosts in steered flows, by predicate."""
    flows, sources, targets, predicate = given.rows
    mine = (sources == targets) & given.steered[flows]
    order = np.argsort(predicate[mine], kind="stable")
    flow, broker = flows[mine][order], given.network.positions(sources[mine][order])
    has_summary = np.zeros(len(given.flow_ids) * len(given.network) if len(flow) else 1, bool)
    has_summary[flow * len(given.network) + broker] = True
    return {
        "summary_offsets": offsets_of(predicate[mine][order], len(given.predicates)),
        "summary_flow": flow,
        "summary_broker": broker,
        "has_summary": has_summary,
    }
