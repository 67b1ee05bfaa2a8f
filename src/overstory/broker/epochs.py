"""The plans of one broker: which epochs it has, holds, uses and has drained, and what neighbours say of theirs.

1. The first epoch of a network is activated when all brokers hold it. A wave over the late tree tells: a broker tells a
   neighbour that it holds the plan once all its other neighbours have told it so.
2. Later epochs come in packages, from a coordinator (``admin``) or from a neighbour. A broker uses one when it holds it
   and the coordinator or a neighbour says that it is in use. So a coordinator that has told one broker has told all:
   the news goes from neighbour to neighbour.
3. A neighbour that is new, or has restarted, is told which epochs are here, and gets their packages. It installs what
   it lacks, and lets go of what nobody here has any more.
4. An epoch that has drained is kept until the coordinator says that it has drained everywhere, or until no neighbour
   has it: events that waited for a broker that was down may still come.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from overstory.broker.packages import Package, Portion, decode_package, place_in, portion_of, who_in
from overstory.broker.place import Place
from overstory.broker.places import Who, introduce
from overstory.errors import EpochError, LinkError


class Holds(msgspec.Struct, frozen=True, tag=True):
    """The sender holds the plan, and so do all brokers behind it."""

    epoch: int


class Active(msgspec.Struct, frozen=True, tag=True):
    """The sender uses the plan, and takes its events."""

    epoch: int


class Has(msgspec.Struct, frozen=True, tag=True):
    """The epochs of the sender, the one that it uses (0 if none) or began with, and the packages of those that came."""

    epochs: list[int]
    active: int
    first: int
    packages: list[bytes]


KINDS: tuple[type[Any], ...] = (Holds, Active, Has)


class Came(msgspec.Struct, frozen=True):
    """A package that has come, and what this broker reads of it."""

    data: bytes
    package: Package
    portion: Portion
    place: Place
    who: Who


class Epochs:
    """The epochs of one broker. ``fabric`` is what the broker does with its neighbours."""

    def __init__(self, fabric: Any) -> None:
        self._fabric, self._state = fabric, fabric.state
        self._me: int = fabric.state.config.number
        self.first: int = fabric.place.share.epoch  # that is activated by the wave
        self.came: dict[int, Came] = {}  # of the epochs that came in packages
        self.used: Came | None = None  # the last that was activated
        self.held: set[int] = set()
        self.drained: set[int] = set()
        self.frames: dict[int, int] = {}  # how many frames of events of each epoch have come
        self._said_holds: dict[int, set[int]] = {}
        self._heard_holds: dict[int, set[int]] = {}
        self._in_use = 0  # the latest epoch that somebody says is in use
        self.on_used: list[Callable[[], None]] = []  # called when another epoch is active
        self.on: dict[type, Callable[[int, Any], None]] = {Holds: self._holds, Active: self._active, Has: self._has}

    @property
    def active(self) -> int:
        """The epoch that is in use here; 0 if there is none yet."""
        active: int | None = self._state.router.state.active
        return 0 if active is None else active

    @property
    def installed(self) -> list[int]:
        """The epochs that are here, or about to be."""
        state = self._state.router.state
        return sorted({*state.epochs, *state.coming})

    @property
    def is_preparing(self) -> bool:
        """Whether an epoch is here that nobody uses yet, while another one is in use."""
        state = self._state.router.state
        if len(state.epochs) < 2 and not state.coming:  # it is asked in every turn
            return False
        return bool(state.active) and max(state.active, self._in_use) < max((*state.epochs, *state.coming))

    # What a coordinator, a disk or a neighbour says

    def install(self, data: bytes) -> None:
        """Installs the plan of a package; one that is here already stays. Raises an ``EpochError`` or ``LinkError``."""
        package = decode_package(data)
        epoch = package.epoch
        if epoch in self.came and self.came[epoch].package.plan == package.plan:
            return
        if self._state.router.state.has(epoch):
            raise EpochError(f"epoch {epoch} is another plan at broker {self._me}; look at 'overstory status'")
        portion = portion_of(package, self._me)
        place = place_in(package, portion, self._fabric.place, self._me)
        if not place.next_hops.keys() <= self._fabric.known_brokers:
            raise LinkError(f"the plan is for brokers that broker {self._me} does not know")
        outputs = self._state.router.install(place.share)
        self.came[epoch] = Came(data, package, portion, place, who_in(package, portion))
        self._state.journal.note("epoch", epoch, data)
        self._fabric.act(outputs)

    def activate(self, epoch: int) -> None:
        """Uses an epoch from now on, or as soon as this broker holds it. Raises an ``EpochError`` if it is not here."""
        if epoch < self.active:
            raise EpochError(f"broker {self._me} uses epoch {self.active}, which comes after epoch {epoch}")
        if not self._state.router.state.has(epoch):
            raise EpochError(f"broker {self._me} does not have epoch {epoch}; prepare it first")
        self._in_use = max(self._in_use, epoch)
        self._go_on()

    def retire(self, epoch: int) -> None:
        """Lets go of an epoch that has drained everywhere, or that was given up. Raises an ``EpochError``."""
        router = self._state.router
        if not router.state.has(epoch):
            return
        if epoch == self.active or epoch == self._in_use:
            raise EpochError(f"broker {self._me} uses epoch {epoch}; another one has to be activated first")
        outputs = router.retire(epoch)
        self._forget(epoch)
        self._fabric.act(outputs)

    def _forget(self, epoch: int) -> None:
        self.came.pop(epoch, None)
        self.held.discard(epoch)
        self.drained.discard(epoch)
        self._state.journal.note("unepoch", epoch)
        self._state.journal.note("retired", self._state.router.state.retired)

    def give_up(self, epoch: int) -> None:
        """Waits no longer for events of an older epoch that a broker took with it when it restarted."""
        if epoch in self._state.router.state.epochs and epoch < self.active:
            self._fabric.act(self._state.router.give_up(epoch))

    def recall(self, packages: list[bytes], active: int, retired: int) -> None:
        """Installs the plans that the disk has kept, and lets go of the first one if it was retired."""
        for data in packages:
            self.install(data)
        if self.first <= retired and self.first not in self.came:
            self._drop(self.first)
        if active in self.came:
            self.first = active
        self._go_on()

    # What the router says

    def holds(self, epoch: int) -> None:
        """The broker holds an epoch: its forwarding table is complete, and ready for events."""
        self.held.add(epoch)
        self._go_on()

    def has_drained(self, epoch: int) -> None:
        """An epoch has drained here. It is let go at once if no neighbour has it."""
        self.drained.add(epoch)
        retirements, up = self._state.router.state.retirements, self._state.router.state.up
        if all(peer in retirements and retirements[peer].has_left(epoch) for peer in up):
            self.retire(epoch)

    # What neighbours say

    def up(self, peer: int) -> None:
        """A neighbour is up that knows nothing of this broker: it is told of the epochs here."""
        for heard in (*self._said_holds.values(), *self._heard_holds.values()):
            heard.discard(peer)
        packages = [self.came[epoch].data for epoch in self.installed if epoch in self.came]
        if packages or self.active:
            self._fabric.tell(peer, Has(self.installed, self.active, self.first, packages))
        if self.active:
            self._fabric.tell(peer, Active(self.active))
        self._go_on()

    def _holds(self, peer: int, message: Holds) -> None:
        self._heard_holds.setdefault(message.epoch, set()).add(peer)
        self._go_on()

    def _active(self, peer: int, message: Active) -> None:
        self._in_use = max(self._in_use, message.epoch)
        self._fabric.neighbours[peer].take_events()
        self._go_on()

    def _has(self, peer: int, message: Has) -> None:
        """Installs what a neighbour has and this broker lacks. What nobody used here and it has not is let go."""
        state = self._state.router.state
        for data in message.packages:
            package = decode_package(data)
            is_new = not state.has(package.epoch) and not state.is_past(package.epoch)
            if is_new and self._me in package.portions:  # else the plan is without this broker
                self.install(data)
        if not self.active:
            for epoch in [one for one in self.installed if one < message.active and one not in message.epochs]:
                self._drop(epoch)
            latest = max(message.active, message.first)
            if latest > self.first and state.has(latest):
                self.first = latest
        self._go_on()

    def _drop(self, epoch: int) -> None:
        """Lets go of an epoch that this broker never used, and nobody else has."""
        outputs = self._state.router.retire(epoch)
        self._forget(epoch)
        self._fabric.act(outputs)

    # Activation

    def _go_on(self) -> None:
        """Goes on with the wave of the first epoch, and activates what is held and in use elsewhere."""
        if not self.active:
            self._wave()
        epoch = self._in_use
        if epoch > self.active and epoch in self.held:
            self._activate(epoch)

    def _wave(self) -> None:
        first, late = self.first, set(self._fabric.place.late)
        if first not in self.held:
            return
        said, heard = self._said_holds.setdefault(first, set()), self._heard_holds.setdefault(first, set())
        for peer in sorted(late - said):
            if heard >= late - {peer}:
                said.add(peer)
                self._fabric.tell(peer, Holds(first))
        if heard >= late:
            self._in_use = max(self._in_use, first)

    def _activate(self, epoch: int) -> None:
        outputs = self._state.router.activate(epoch)
        came = self.came.get(epoch)
        if came is not None:
            self.used = came
            self._fabric.moved(came.place)
            self._state.plan_subscriptions.clear()
            introduce(self._state, came.place, came.who)
        self._state.journal.note("active", epoch)
        self._fabric.act(outputs)
        for peer in self._fabric.neighbours:
            self._fabric.tell(peer, Active(epoch))
        if self._fabric.on_active is not None:
            self._fabric.on_active()
        for action in self.on_used:
            action()
