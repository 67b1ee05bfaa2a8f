"""The steered flows of one epoch at one broker: how frames go on in them, and what has come and gone.

1. An event that enters here goes to its *ends*: the brokers with a summary that matches it. The tree to them is found
   here, once, and travels in the headers of its frames (``steering``, ``wire.steering``).
2. A frame that comes with a header goes where the header says, and stays here if it says so. Nothing is matched at a
   broker where it only passes.
3. If the next hop of a frame is not up, this broker finds another way to all ends behind it, once more at every such
   place, up to ``MOST_DETOURS`` times. A header that is wrong is counted. An end that no way leads to is counted too,
   and the frame is *stranded*: whoever keeps it asks ``again`` when links have changed.
4. In a flow with regions, the *gateway* of a region is an end for events from other regions. From there they go to the
   ends in the region, along a tree that the gateway finds: as if they entered once more, but nowhere else.
5. For each end the events that were sent there are counted, and at an end those that have come from each broker. An
   event that comes twice stays once. By these counts an epoch drains, and a move ends (``epoch``, ``moves``).
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.nothing import NONE
from overstory.kernels.steering import NUMBER_BITS, RIGHT, Sent, encode_trees, ends_ahead, take_hop
from overstory.model.tables import STEERED
from overstory.routing.frames import NOBODY_STRANDED, NOTHING_WRONG, Entering, Frames, Ints, Routed, Steered, Stranded
from overstory.routing.link_state import LinkStates
from overstory.routing.share import FlowShare, Share
from overstory.routing.steering import Steering, steering_on
from overstory.wire.frames import are_same, constant
from overstory.wire.steering import MOST_DETOURS, UNKNOWN_FLOW, detours_of, first_byte

Bools = NDArray[np.bool_]


class Here(NamedTuple):
    """What the headers of frames say at this broker."""

    frames: Ints  # of each header
    flows: Ints  # of each header: a place among the steered flows
    stays: Bools  # of each header: whether the event stays here
    numbers: Ints  # of each header
    onward: Sent
    wrong: Ints  # of each header that cannot be followed: why (``wire.steering.FAULTS``)


class Steps(NamedTuple):
    """The next hops of frames in steered flows, with a header for each."""

    frames: Ints
    flows: Ints  # numbers of flows
    peers: Ints
    byte_offsets: Ints
    data: NDArray[np.uint8]
    stranded: Stranded = NOBODY_STRANDED


NOBODY = np.empty(0, np.int64)
NOTHING_SENT = Sent(NOBODY, NOBODY, np.zeros(1, np.int64), np.empty(0, np.uint8))
NO_STEPS = Steps(NOBODY, NOBODY, NOBODY, np.zeros(1, np.int64), np.empty(0, np.uint8))


class SteeredFlows:
    """The steered flows of one epoch at one broker."""

    def __init__(self, broker: int, share: Share, links: LinkStates) -> None:
        self.numbers = np.array([number for number, flow in share.flows.items() if flow.kind in STEERED], np.int64)
        self.place_of = {number: place for place, number in enumerate(self.numbers.tolist())}
        self.kinds = [share.flows[number].kind for number in self.numbers.tolist()]
        self.ordered = np.array([share.flows[number].ordered for number in self.numbers.tolist()], np.bool_)
        self.links = links
        self.whole = steering_on(share.prices) if len(self.numbers) else Steering.on({(broker, broker): 0.0})
        self.ids = self.whole.network.ids
        self.broker, self.position = broker, int(np.searchsorted(self.ids, broker))
        shape = len(self.numbers), len(self.ids)
        self.sent, self.received = np.zeros(shape, np.int64), np.zeros(shape, np.int64)  # by flow, and end or entry
        # By flow and broker: the gateway of its region, NONE in a flow without regions. By flow: whether this is one
        self._gateway = np.array([self._gateways_in(share.flows[number]) for number in self.numbers.tolist()], np.int64)
        self._gateway = self._gateway.reshape(shape)
        self._is_gateway = self._gateway[:, self.position] == self.position if len(self.numbers) else np.empty(0, bool)
        self.wrong: Counter[int] = Counter()  # headers that could not be followed, by what is wrong with them
        self.lost = 0  # ends that no way led to
        self._down: frozenset[tuple[int, int]] = frozenset()
        self._steering = self.whole
        self._around_down, self._around_steering = self._down, self.whole  # of detours

    def __len__(self) -> int:
        return len(self.numbers)

    def _gateways_in(self, flow: FlowShare) -> list[int]:
        """By position of a broker, the position of its gateway."""
        if not flow.gateway_of:
            return [NONE] * len(self.ids)
        found: list[int] = np.searchsorted(self.ids, [flow.gateway_of[each] for each in self.ids.tolist()]).tolist()
        return found

    @cached_property
    def gateways(self) -> list[int]:
        """The brokers that are the gateway of a region in some flow."""
        found: list[int] = self.ids[np.unique(self._gateway[self._gateway != NONE])].tolist()
        return found

    def gateway_for(self, flow: int, entry: int) -> int | None:
        """The gateway that sends a broker's events on to this one, by the number of a flow; None: there is none."""
        place = self.place_of[flow]
        own, other = self._gateway[place, [self.position, int(np.searchsorted(self.ids, entry))]].tolist()
        return None if own == other or own == self.position else int(self.ids[own])

    def is_inside(self, flow: int, broker: int) -> bool:
        """Whether a broker is in the region of this one, by the number of a flow; always, if the flow has none."""
        regions = self._gateway[self.place_of[flow]]
        return bool(regions[int(np.searchsorted(self.ids, broker))] == regions[self.position])

    def is_onward(self, flow: int, end: int) -> bool:
        """Whether this broker sends events on to that end, as the gateway of its region."""
        return bool(self._is_gateway[self.place_of[flow]]) and self.is_inside(flow, end)

    def turned(self, frames: Frames, here: Here) -> tuple[Bools, Bools]:
        """By frame and flow, whether an event goes on from here as from a gateway; by flow and end, whether there."""
        turned = np.zeros((len(frames), len(self)), np.bool_)
        stays = here.stays & (here.flows != NONE)
        frame, flow = here.frames[stays], here.flows[stays]
        entry = np.searchsorted(self.ids, frames.entries[frame])
        turned[frame, flow] = self._is_gateway[flow] & (self._gateway[flow, entry] != self.position)
        return turned, self._gateway == self.position

    @cached_property
    def turns(self) -> bool:
        """Whether this broker is a gateway."""
        return bool(self._is_gateway.any())

    @cached_property
    def is_plain(self) -> bool:
        """Whether there are steered flows, none of them ordered, and this broker is no gateway."""
        return len(self) > 0 and not self.ordered.any() and not self.turns

    @property
    def steering(self) -> Steering:
        """The network without the links that are believed to be down, and those of this broker that are not up."""
        down = self.links.down
        if down is not self._down:
            known = self._known_links
            self._down, self._steering = down, self.whole.without(frozenset(link for link in down if link in known))
        return self._steering

    @cached_property
    def _known_links(self) -> frozenset[tuple[int, int]]:
        network = self.whole.network
        ends = network.ids[network.sources].tolist(), network.ids[network.targets].tolist()
        return frozenset(zip(*ends, strict=True))

    # Frames that come with headers

    def here(self, frames: Frames) -> Here | None:
        """Reads the headers of frames; None if there are none."""
        return self.read(frames.steered) if len(frames.steered.flows) else None

    def read(self, steered: Steered) -> Here:
        """What headers say at this broker."""
        flows = self.places(steered.flows)
        known = flows != NONE
        ordered = np.zeros(len(flows), np.bool_)
        if not self.is_plain:
            ordered[known] = self.ordered[flows[known]]
        ports, digest = self.whole.ports, self.whole.digest
        met = take_hop(ports, self.position, steered.byte_offsets, steered.data, ordered, digest)
        if known.all() and not met.fault.any():  # most often
            return Here(steered.frames, flows, met.stays, met.number, met.onward, NOTHING_WRONG)
        fault = np.where(known, met.fault, UNKNOWN_FLOW)
        right = fault == RIGHT
        onward = met.onward if right.all() else _kept(met.onward, right[met.onward.tree])
        return Here(steered.frames, flows, met.stays & right, met.number, onward, fault[~right])

    def matched(self, frames: Frames, here: Here) -> Bools:
        """Which frames have to be matched: those that enter here, stay here, or have a flow with a tree."""
        distinct: dict[frozenset[int], bool] = {}
        for flows in frames.flows:
            if flows not in distinct:
                distinct[flows] = not flows <= self.place_of.keys()
        asked = np.fromiter((distinct[flows] for flows in frames.flows), np.bool_, len(frames))
        asked[here.frames[here.stays]] = True
        asked |= frames.origins == NONE
        return asked

    def places(self, flows: Ints) -> Ints:
        """The places of flows among the steered ones; NONE if a flow is not steered, or not known."""
        if len(flows) and are_same(flows):  # most often
            return constant(self.place_of.get(flows.item(0), NONE), len(flows))
        order = np.argsort(self.numbers)
        at = np.minimum(np.searchsorted(self.numbers, flows, sorter=order), max(len(order) - 1, 0))
        if not len(order):
            return np.full(len(flows), NONE)
        found: Ints = np.where(self.numbers[order[at]] == flows, order[at], NONE)
        return found

    # Where frames go

    def steps(self, here: Here | None, entering: Entering) -> Steps:
        """The next hops of frames that came with headers, and of those that enter here."""
        parts = [] if here is None else [(here.onward, here.frames, self.numbers[here.flows])]
        stranded = []
        for place in np.unique(entering.flows).tolist():
            mine = entering.flows == place
            sent, frames, unreached = self._departing(place, entering.frames[mine], entering.ends[mine])
            stranded.append(unreached)
            parts.append((sent, frames, np.full(len(frames), self.numbers[place])))
        made = [Steps(frames[s.tree], flows[s.tree], s.link, s.offsets, s.data) for s, frames, flows in parts]
        return self._around(_joined(made, stranded))

    def depart(self, entering: Entering) -> Steps:
        """The next hops of events that enter here, which are counted as sent."""
        steps = self.steps(None, entering)
        np.add.at(self.sent, (entering.flows, entering.ends), 1)
        self.lost += len(steps.stranded.frames)
        return steps

    def _departing(self, place: int, frames: Ints, ends: Ints) -> tuple[Sent, Ints, Stranded]:
        """The headers of events that enter here, in one flow; the frame of each tree; and the ends without a way."""
        steering = self.steering
        reached = steering.reaches(self.position, ends)
        numbers = self._numbered(place, ends) if self.ordered[place] else np.zeros(len(ends), np.int64)
        stranded = self._stranded(place, frames, ends, numbers, ~reached)
        frames, ends = frames[reached], ends[reached]
        starts = np.flatnonzero(np.diff(frames, prepend=NONE - 1))
        offsets = np.append(starts, len(frames))
        links = steering.trees(self.kinds[place], self.position, offsets, ends)
        roots = np.full(len(starts), self.position)
        written = numbers[reached] if self.ordered[place] else np.empty(0, np.int64)
        first = first_byte(self.whole.digest)
        sent = encode_trees(self.whole.ports, roots, *links, offsets, ends, written, first)
        return sent, frames[starts], stranded

    def _stranded(self, place: int, frames: Ints, ends: Ints, numbers: Ints, away: Bools) -> Stranded:
        """Those ends of events in one flow that are ``away``."""
        if not away.any():
            return NOBODY_STRANDED
        return Stranded(frames[away], np.full(int(away.sum()), self.numbers[place]), ends[away], numbers[away])

    def _numbered(self, place: int, ends: Ints) -> Ints:
        """The number of each event at each of its ends: how many were sent there before it."""
        order = np.argsort(ends, kind="stable")
        begins = np.flatnonzero(np.diff(ends[order], prepend=NONE))
        rank = np.empty(len(ends), np.int64)
        rank[order] = np.arange(len(ends)) - np.repeat(begins, np.diff(np.append(begins, len(ends))))
        found: Ints = self.sent[place, ends] + rank
        return found

    def _around(self, steps: Steps) -> Steps:
        """The steps, with other ways in place of those to neighbours that are not up. Links become peers."""
        peers = self.ids[self.whole.ports.targets[steps.peers]] if len(steps.peers) else steps.peers
        is_up = np.isin(peers, list(self.links.up))
        if is_up.all():
            return steps._replace(peers=peers)
        parts, stranded = [_some(steps._replace(peers=peers), is_up)], [steps.stranded]
        for at in np.flatnonzero(~is_up).tolist():
            found = self._detour(steps, at)
            parts.append(found)
            stranded.append(found.stranded)
        return _joined(parts, stranded)

    def _detour(self, steps: Steps, at: int) -> Steps:
        """Other next hops for all that lies behind one that is not up."""
        begin, end = int(steps.byte_offsets[at]), int(steps.byte_offsets[at + 1])
        place = self.place_of[int(steps.flows[at])]
        ends, numbers = np.empty(len(self.ids), np.int64), np.zeros(len(self.ids), np.int64)
        there = int(self.whole.ports.targets[steps.peers[at]])
        bits = NUMBER_BITS if self.ordered[place] else 0
        count = ends_ahead(self.whole.ports, there, steps.data, begin, end, bits, ends, numbers)
        order = np.argsort(ends[:count])
        detours = detours_of(int(steps.data[begin])) + 1
        return self._from_here(place, int(steps.frames[at]), ends[:count][order], numbers[:count][order], detours)

    def again(self, flow: int, ends: Ints, numbers: Ints) -> Steps:
        """The next hops of an event that was stranded here, by the number of its flow and ascending positions of its
        ends. Ends that no way leads to are stranded once more."""
        return self._from_here(self.place_of[flow], 0, ends, numbers, 0)

    @property
    def within_reach(self) -> Bools:
        """By position of a broker, whether a way leads there from here, as far as is known."""
        return self._steering_around().reaches(self.position, np.arange(len(self.ids)))

    def _from_here(self, place: int, frame: int, ends: Ints, numbers: Ints, detours: int) -> Steps:
        """The next hops of one event in one flow to these ends, over links that are not believed to be down."""
        steering = self._steering_around()
        reached = steering.reaches(self.position, ends) & (detours <= MOST_DETOURS)
        stranded = self._stranded(place, np.full(len(ends), frame), ends, numbers, ~reached)
        if not reached.any():
            return NO_STEPS._replace(stranded=stranded)
        offsets = np.array([0, int(reached.sum())])
        sent = encode_trees(
            self.whole.ports,
            np.array([self.position]),
            *steering.trees(self.kinds[place], self.position, offsets, ends[reached]),
            offsets,
            ends[reached],
            numbers[reached] if self.ordered[place] else np.empty(0, np.int64),
            first_byte(self.whole.digest, detours),
        )
        count = len(sent.link)
        peers = self.ids[self.whole.ports.targets[sent.link]]
        frames, flows = np.full(count, frame), np.full(count, self.numbers[place])
        return Steps(frames, flows, peers, sent.offsets, sent.data, stranded)

    def _steering_around(self) -> Steering:
        """The network without the links that are believed to be down, nor any of this broker that is not up."""
        away = {(self.broker, peer) for peer in self.beside if peer not in self.links.up}
        down = self.steering.down | away
        if self._around_down != down:
            self._around_down, self._around_steering = down, self.steering.without(down)
        return self._around_steering

    @cached_property
    def ports_here(self) -> tuple[int, int]:
        """The first of the links that leave this broker, and how many these are."""
        first, end = self.whole.network.offsets[self.position : self.position + 2].tolist()
        return first, end - first

    @cached_property
    def beside(self) -> list[int]:
        """The neighbours of this broker in the network, by port."""
        offsets, targets = self.whole.network.offsets, self.whole.network.targets
        return self.ids[targets[offsets[self.position] : offsets[self.position + 1]]].tolist()  # type: ignore[no-any-return]

    # What is counted

    def count(self, routed: Routed) -> None:
        """Counts the events that were sent to each end, and what went wrong."""
        if len(routed.entering.frames):
            np.add.at(self.sent, (routed.entering.flows, routed.entering.ends), 1)
        self.wrong.update(routed.wrong.tolist())
        self.lost += len(routed.stranded.frames)

    def arrive(self, place: int, entry: int, count: int = 1) -> None:
        """Counts events that have come to stay in a flow, by the broker where they entered, or that sent them on."""
        gateway = self.gateway_for(int(self.numbers[place]), entry)
        self.received[place, int(np.searchsorted(self.ids, entry if gateway is None else gateway))] += count

    def sent_by_end(self) -> dict[tuple[int, int], int]:
        """How many events have been sent, by the number of a flow and by end."""
        flows, ends = np.nonzero(self.sent)
        keys = zip(self.numbers[flows].tolist(), self.ids[ends].tolist(), strict=True)
        return dict(zip(keys, self.sent[flows, ends].tolist(), strict=True))

    def sent_to(self, place: int, end: int) -> int:
        """How many events have been sent to an end in a flow."""
        return int(self.sent[place, int(np.searchsorted(self.ids, end))])

    def give_up(self, entry: int, counts: Mapping[int, int]) -> None:
        """Events from a broker that have not come were lost: they count as if they had come."""
        at = int(np.searchsorted(self.ids, entry))
        for flow, count in counts.items():
            place = self.place_of[flow]
            self.received[place, at] = max(self.received[place, at], count)

    def has_all(self, entry: int, counts: Mapping[int, int]) -> bool:
        """Whether as many events have come from a broker as it has sent here, by the number of a flow."""
        at = int(np.searchsorted(self.ids, entry))
        return all(self.received[self.place_of[flow], at] >= count for flow, count in counts.items())


def _kept(sent: Sent, kept: Bools) -> Sent:
    """Some of the headers that were made."""
    steps = _some(Steps(sent.tree, sent.tree, sent.link, sent.offsets, sent.data), kept)
    return Sent(steps.frames, steps.peers, steps.byte_offsets, steps.data)


def _some(steps: Steps, kept: Bools) -> Steps:
    """Only some of the steps."""
    sizes = np.diff(steps.byte_offsets)
    offsets = np.concatenate([[0], np.cumsum(sizes[kept])])
    data = steps.data[np.repeat(kept, sizes)]
    return Steps(steps.frames[kept], steps.flows[kept], steps.peers[kept], offsets, data)


def _joined(parts: list[Steps], stranded: list[Stranded]) -> Steps:
    """Several lists of steps as one; and those who are stranded."""
    away = [some for some in stranded if len(some.frames)]
    left = Stranded(*map(np.concatenate, zip(*away, strict=True))) if away else NOBODY_STRANDED
    if len(parts) == 1:
        return parts[0]._replace(stranded=left)
    nothing = np.empty(0, np.int64)
    frames, flows, peers = (np.concatenate([nothing, *(part[field] for part in parts)]) for field in range(3))
    sizes = np.concatenate([nothing, *(np.diff(part.byte_offsets) for part in parts)])
    data = np.concatenate([np.empty(0, np.uint8), *(part.data for part in parts)])
    return Steps(frames, flows, peers, np.concatenate([[0], np.cumsum(sizes)]), data, left)
