"""Which subscriptions all brokers can foresee in a plan: nobody has to tell them of these (``routing.foreseen``).

They are the members of flows that the plan has no filters for, and live subscriptions that it does not know, in the
late flow. Of each flow those are left out that cover others, or are covered: how far these go depends on the policy.
"""

from collections.abc import Iterable, Mapping

from overstory.broker.packages import Row
from overstory.broker.standing import Subscribed
from overstory.filters import Filter
from overstory.matching.covering import CoveringIndex
from overstory.routing.messages import LATE
from overstory.routing.share import FlowShare, Share
from overstory.wire.control import known_filter


def rows_of(shares: Mapping[int, Share], live: Mapping[int, list[Subscribed]]) -> list[Row]:
    """The subscriptions that brokers can foresee, flow by flow."""
    wanted: dict[int, list[tuple[int, int, int, Filter]]] = {}
    for host, share in shares.items():
        for member in share.members:
            one = (host, member.subscription, member.version, member.filter)
            wanted.setdefault(member.flow, []).append(one)
    planned = next(iter(shares.values())).planned
    for host, subscribed in live.items():
        for known in subscribed:
            if known.made and known.version > planned.get(known.id, -1) and host in shares:
                found = (host, known.id, known.version, known_filter(known.filter))
                wanted.setdefault(LATE, []).append(found)
    told = {number for share in shares.values() for number, flow in share.flows.items() if _is_told(flow)}
    return [
        (flow, host, id_, version, str(filter_))
        for flow, members in sorted(wanted.items())
        if flow not in told
        for host, id_, version, filter_ in unrelated(members)
    ]


def _is_told(flow: FlowShare) -> bool:
    """Whether subscriptions of a flow are told of: they may end at filters of the plan, at gateways, or go only where
    somebody advertises."""
    return bool(flow.rows or flow.gateway_of or not flow.everyone_advertises)


def unrelated(members: Iterable[tuple[int, int, int, Filter]]) -> list[tuple[int, int, int, Filter]]:
    """Those whose filters cover no other one, and are covered by none."""
    listed = list(members)
    index = CoveringIndex()
    related: set[int] = set()
    for _, _, _, wanted in listed:
        others = index.all_covering(wanted) | index.all_covered(wanted)
        number = index.add(wanted)
        if others:
            related |= {number, *others}
    return [one for number, one in enumerate(listed) if number not in related]
