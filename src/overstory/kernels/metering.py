"""What the meter's kernels read and count: a plan as rules, the trees of steered flows, rows of the log, totals."""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array
from overstory.kernels.nothing import NONE as NONE
from overstory.kernels.steering import Ports

EVERY = -2  # in place of a flow


class Rules(NamedTuple):
    """Brokers, links, flows, groups, publishers and predicates are numbers from 0. Where a predicate is NONE, it is
    true, or in a row of ``filters``: exact."""

    # Of predicate i, those between offsets i and i + 1: members for whom it is the filter
    member_offsets: Array
    member_flow: Array  # EVERY: all flows that serve every subscription, as far as the event enters them
    member_group: Array
    member_part: Array  # a predicate
    member_row: Array  # of the client's link in this flow: a predicate
    member_count: Array  # subscriptions of each client of the group
    member_no_local: Array  # whether they leave out what their own client publishes; the group then has one client
    group_broker: Array
    group_size: Array  # clients
    publisher_broker: Array
    publisher_group: Array
    publisher_delay: Array  # of the uplink
    flow_events: Array  # a predicate
    every_offsets: Array  # of predicate i, and last of what is always true: flows with that E for every subscription
    every_flow: Array
    flow_tree: Array  # NONE if the flow is steered
    flow_number_bits: Array  # of a header of a steered flow: those that number an event at each end
    summary_offsets: Array  # of predicate i: the summaries of hosts in steered flows that it is
    summary_flow: Array
    summary_broker: Array
    has_summary: Array  # by flow and broker; of length one if there are none
    gateway: Array  # by flow and broker: that of its region, NONE if the flow has none; of length one if none has
    flow_watched: Array  # the flows with rows: events may travel in them that nobody wants
    flow_is_watched: Array  # by flow
    place: Array  # by tree and by broker: the node, NONE if the broker is not in the tree
    nodes: Array  # see NODE
    edge_offsets: Array  # by node
    edge_node: Array
    edge_link: Array
    edge_row: Array  # a predicate
    access_offsets: Array  # by flow and broker: rows for clients; of length one if there are none
    access_group: Array
    access_row: Array  # a predicate
    link_source: Array
    link_target: Array
    link_delay: Array  # microseconds
    coalesce: Array  # one truth
    headers: Array  # one truth: whether the headers of steered frames count


# A node of a tree: its flow and broker, its parent and depth, and the links from the parent and to it. One row, since
# what a frame needs of a node is then fetched at once.
NODE = np.dtype([(name, np.int32) for name in ("flow", "broker", "parent", "depth", "down", "up")])


class Ways(NamedTuple):
    """The cheapest paths from brokers where events are published."""

    row: Array  # by broker: its line in ``link``, NONE if nobody publishes there
    link: Array  # by that line and by broker: the last link on the way to it, NONE where the way begins


NO_WAYS = Ways(np.empty(0, np.int64), np.empty((0, 0), np.int32))


class Ends(NamedTuple):
    """For each row and steered flow that it enters, the brokers that its event is to go to: one *instance* each.

    Where a flow has regions, each leg is an instance. The instances of row i are between ``offsets`` i and i + 1, the
    ends of instance k between ``end_offsets`` k and k + 1, ascending and without its root.
    """

    offsets: Array
    roots: Array  # by instance: the publishing broker, or the gateway where a leg begins
    flow: Array  # by instance
    end_offsets: Array
    ends: Array


class SteeredTrees(NamedTuple):
    """The ends of rows, and the links that lead to them, each behind those that lead to it."""

    ends: Ends
    link_offsets: Array  # by instance
    links: Array
    ports: Ports


class Rows(NamedTuple):
    """Events of a part of the log, by one publisher, that match the same predicates: how many, and their bytes."""

    part: Array
    publisher: Array
    offsets: Array
    predicates: Array
    events: Array
    bytes: Array


class Totals(NamedTuple):
    """What is counted, by part of the log; delays are of all parts."""

    link_frames: Array
    link_bytes: Array
    group_copies: Array  # for each client of the group
    group_bytes: Array
    group_delay: Array  # sum over the copies
    group_latest: Array  # the longest
    publisher_bytes: Array
    counts: Array


DELIVERIES, DUPLICATES, FALSE_POSITIVES, DISCARDS, EVENTS = range(5)
COUNTS = 5
PARTS = 3


def empty_totals(rules: Rules) -> Totals:
    links, groups = len(rules.link_delay), len(rules.group_broker)
    return Totals(
        np.zeros((PARTS, links), np.int64),
        np.zeros((PARTS, links), np.int64),
        np.zeros((PARTS, groups), np.int64),
        np.zeros((PARTS, groups), np.int64),
        np.zeros(groups, np.int64),
        np.zeros(groups, np.int64),
        np.zeros((PARTS, len(rules.publisher_broker)), np.int64),
        np.zeros((PARTS, COUNTS), np.int64),
    )
