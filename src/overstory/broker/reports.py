"""What a broker in a network says of itself and its links, as JSON."""

import resource
from pathlib import Path

import msgspec

from overstory.broker.links import Traffic
from overstory.broker.server import Server
from overstory.routing.router import Router

KIB = 1024
TableRow = tuple[int, int, str]  # a flow, a neighbour, and the filter of an entry


class LinkReport(msgspec.Struct, frozen=True):
    """One link, as its sender sees it."""

    peer: int
    connected: bool
    waiting_bytes: int  # given to the link, and not handled by the neighbour
    traffic: Traffic
    error: str = ""  # why there was no connection the last time
    connections: int = 0  # how often one was made
    silence: float = 0.0  # seconds: the longest in which nothing was heard while there was a connection


class Report(msgspec.Struct, frozen=True):
    """A broker at one moment."""

    broker: int
    active: bool  # its plan is in use
    idle: bool  # nothing waits to be handled, or for a neighbour
    clients: int
    subscriptions: int
    messages_in: int
    messages_out: int
    plain: int  # messages that kernels could not decide about
    unanswered: int  # acknowledgements that wait until events are safe
    entries: int  # of the forwarding table
    entries_access: int  # those of them that are for clients
    waiting: int  # bytes of clients that are not handled yet
    lost: int  # frames that could not be handled
    groups: int  # shared groups whose home is here
    inbox: int  # frames of neighbours that wait to be handled
    stranded: int  # events of steered flows that wait for a way
    unreached: int  # events of QoS 0 in steered flows that were dropped, since no way led on and too many waited
    cpu_seconds: float
    memory_bytes: int
    links: list[LinkReport] = []
    header_faults: dict[str, int] = {}  # steered headers that could not be followed, by what was wrong with them


def report_of(server: Server) -> Report:
    """What can be said of a broker now."""
    state, peers = server.state, server.peers
    usage = resource.getrusage(resource.RUSAGE_SELF)
    links = []
    if peers is not None:
        links = [
            LinkReport(
                peer,
                link.connected,
                link.waiting_bytes,
                link.traffic,
                peers.errors.get(peer, ""),
                peers.made.get(peer, 0),
                link.silence,
            )
            for peer, link in peers.fabric.neighbours.items()
        ]
    tables = [epoch.table for epoch in state.router.state.epochs.values()]
    quiet = not server.tick.pending and not state.dirty and not server.core.chores
    if peers is not None:
        waits = any(link.waiting_bytes for link in links) or len(peers.fabric.stranding) > 0
        quiet = quiet and peers.fabric.is_idle and not waits
    return Report(
        state.config.number,
        peers is None or peers.fabric.is_active,
        quiet,
        len(state.links),
        len(state.subscriptions),
        state.counts.messages_in,
        state.counts.messages_out,
        state.counts.plain,
        len(state.answers),
        sum(table.entries_core + table.entries_access for table in tables),
        sum(table.entries_access for table in tables),
        server.tick.waiting,
        0 if peers is None else peers.fabric.lost,
        len(state.groups) if peers is None else peers.fabric.groups.homes,
        0 if peers is None else peers.fabric.waiting,
        0 if peers is None else len(peers.fabric.stranding),
        0 if peers is None else peers.fabric.stranding.lost,
        usage.ru_utime + usage.ru_stime,
        _memory(),
        links,
        state.router.header_faults,
    )


def rows_of(router: Router) -> list[TableRow]:
    """The forwarding table of a router for its neighbours, in an order that does not depend on how it came about."""
    active = router.state.active
    if active is None:
        return []
    flows = router.state.epochs[active].flows.items()
    found = {
        (number, hop, str(entry.filter))
        for number, flow in flows
        for (hop, _), entry in flow.entries.items()
        if hop in flow.share.neighbours
    }
    return sorted(found)


def _memory() -> int:
    """The memory that is this process's own. (What it shares with the fork server counts in parts.)"""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    return sum(int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:"))
