"""How a plan is installed on all brokers, decided from what they say and from nothing else.

The rules that a maintainer may rely on:

1. ``next_step`` has no memory: whoever asks it with the same standings gets the same answer. So a coordinator that died
   is resumed by the next one, in any state.
2. No broker is told to use an epoch before all brokers hold it. Once one uses it, there is no way back: the others are
   told to use it, too. Until then the epoch can be given up.
3. An epoch is given up only if every broker answers, or by the coordinator that prepared it and has told nobody to use
   it: a silent broker might use it already.
4. An older epoch is retired once it has drained at every broker, and no frame of it waits anywhere or has come between
   two looks.

The states: *stable* (one epoch everywhere), *preparing*, *held*, *activating*, *draining*, *giving up*, and *waiting*
(for a broker that is silent, which nothing can be done without).
"""

from collections.abc import Mapping

import msgspec

from overstory.broker.standing import EpochStanding, Standing

STABLE, PREPARING, HELD, ACTIVATING = "stable", "preparing", "held", "activating"
DRAINING, GIVING_UP, WAITING = "draining", "giving up", "waiting"
STATES = (STABLE, PREPARING, HELD, ACTIVATING, DRAINING, GIVING_UP, WAITING)
PREPARE, ACTIVATE, RETIRE, ABORT, GIVE_UP = "prepare", "activate", "retire", "abort", "give up"
LONG = 5.0  # seconds after which events of an old epoch that are waited for, and wait nowhere, count as lost
Seen = Mapping[int, Standing]


class Action(msgspec.Struct, frozen=True):
    """What brokers are to be told."""

    kind: str
    epoch: int
    brokers: tuple[int, ...]


class Step(msgspec.Struct, frozen=True):
    """Where an installation is, what is to be done next, and whom it waits for."""

    state: str
    epoch: int
    actions: tuple[Action, ...] = ()
    waits_for: tuple[int, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.state == STABLE


class Course:
    """One installation on its way: what comes next, when it is given up, and when it is stuck. Time is given."""

    def __init__(
        self, brokers: frozenset[int], epoch: int, patience: float, forward: bool = True, own: bool = True
    ) -> None:
        """``own``: this coordinator has the package, and has told nobody to use it yet."""
        self._brokers, self.epoch, self._patience = brokers, epoch, patience
        self._forward, self._own = forward, own
        self._before: Seen | None = None
        self._at: tuple[str, tuple[int, ...]] = ("", ())
        self._since = self._moved = 0.0  # when something was done last, and when something changed
        self._left = 0  # subscriptions that are still to join the plan
        self.note = ""  # why it was given up
        self.is_over = self.is_stuck = self.has_changed = False

    def turn(self, seen: Seen, now: float) -> Step:
        """What brokers say, and what to do next. Afterwards the fields say where it is."""
        step = next_step(self._brokers, seen, self._before, self._forward, self._own)
        self._before = seen
        self.has_changed = (step.state, step.waits_for) != self._at
        left = sum(one.left for standing in seen.values() for one in standing.epochs)
        if self.has_changed or left != self._left:
            self._at, self._since, self._moved, self._left = (step.state, step.waits_for), now, now, left
        self.is_over = step.state == STABLE or (not self._forward and under_way(seen) != self.epoch)
        if step.state == HELD:
            self._own = False
        if now - self._moved > self._patience and not self.is_over:
            self._lose_patience(seen, step, now)
        if step.state == DRAINING and not step.actions and now - self._since > LONG:
            self._since = now
            step = msgspec.structs.replace(step, actions=lost_events(seen, self.epoch))
        is_paused = any(one.paused for one in seen.values()) and step.state in (PREPARING, HELD)
        return msgspec.structs.replace(step, actions=()) if is_paused else step

    def _lose_patience(self, seen: Seen, step: Step, now: float) -> None:
        """Gives up what nobody uses yet. What is in use cannot be given up: it is stuck until brokers are back."""
        if self._forward and not is_in_use(seen, self.epoch):
            self._forward, self._moved = False, now
            self.note = (
                f"broker {step.waits_for[0]} did not hold the plan in time" if step.waits_for else "it was paused"
            )
        else:
            self.is_stuck = True


def under_way(seen: Seen) -> int:
    """The epoch that an installation is about: the latest that any broker has."""
    return max((one.epoch for standing in seen.values() for one in standing.epochs), default=0)


def next_epoch(seen: Seen) -> int:
    """A number that no epoch has had."""
    return max((standing.latest for standing in seen.values()), default=0) + 1


def is_in_use(seen: Seen, epoch: int) -> bool:
    """Whether some broker uses an epoch, or a later one."""
    return any(standing.active >= epoch for standing in seen.values())


def next_step(
    brokers: frozenset[int], seen: Seen, before: Seen | None = None, forward: bool = True, own: bool = False
) -> Step:
    """What to do about the latest epoch. ``before`` is what brokers said the time before. Without ``forward`` an epoch
    that nobody uses is given up; ``own``: by the coordinator that prepared it."""
    epoch = under_way(seen)
    silent = tuple(sorted(brokers - seen.keys()))
    if is_in_use(seen, epoch):
        return _forward(brokers, seen, before, epoch, silent)
    holders = _holders(seen, epoch)
    if not forward:
        if silent and not own:
            return Step(WAITING, epoch, (), silent)
        return Step(GIVING_UP, epoch, (Action(ABORT, epoch, holders),), silent)
    lacking = tuple(sorted(seen.keys() - set(holders)))
    if lacking:
        return Step(PREPARING, epoch, (Action(PREPARE, epoch, lacking),), (*lacking, *silent))
    unheld = tuple(broker for broker in holders if not _held(seen[broker], epoch))
    if unheld or silent:
        return Step(PREPARING, epoch, (), (*unheld, *silent))
    return Step(HELD, epoch, (Action(ACTIVATE, epoch, holders),))


def _forward(brokers: frozenset[int], seen: Seen, before: Seen | None, epoch: int, silent: tuple[int, ...]) -> Step:
    """Some broker uses the epoch: all have to, and then the older ones go."""
    lacking = tuple(sorted(broker for broker, one in seen.items() if _at(one, epoch) is None))
    behind = tuple(sorted(broker for broker, one in seen.items() if one.active < epoch and broker not in lacking))
    if lacking or behind:
        actions = [Action(PREPARE, epoch, lacking)] if lacking else []
        actions += [Action(ACTIVATE, epoch, behind)] if behind else []
        return Step(ACTIVATING, epoch, tuple(actions), (*lacking, *behind, *silent))
    old = sorted({one.epoch for standing in seen.values() for one in standing.epochs if one.epoch < epoch})
    if not old:
        return Step(WAITING if silent else STABLE, epoch, (), silent)
    drained = [number for number in old if not silent and _is_quiet(brokers, seen, before, number)]
    if drained:
        who = {
            number: tuple(sorted(b for b, one in seen.items() if _at(one, number) is not None)) for number in drained
        }
        return Step(DRAINING, epoch, tuple(Action(RETIRE, number, who[number]) for number in drained))
    undrained = tuple(sorted(broker for broker, one in seen.items() if any(not _done(one, number) for number in old)))
    return Step(DRAINING, epoch, (), (*undrained, *silent))


def lost_events(seen: Seen, epoch: int) -> tuple[Action, ...]:
    """Brokers need not wait for events of older epochs that wait nowhere: they were lost with a broker that restarted.

    Only events of QoS 0 are lost so: others wait at the broker before until they are safe.
    """
    old = sorted({one.epoch for standing in seen.values() for one in standing.epochs if one.epoch < epoch})
    return tuple(
        Action(GIVE_UP, number, tuple(sorted(b for b, one in seen.items() if not _done(one, number))))
        for number in old
        if not any(found is not None and found.waiting for found in (_at(one, number) for one in seen.values()))
    )


def _is_quiet(brokers: frozenset[int], seen: Seen, before: Seen | None, epoch: int) -> bool:
    """Whether an epoch has drained everywhere, and no frame of it waits or has come since the last look."""
    if before is None or brokers - before.keys() or not all(_done(seen[broker], epoch) for broker in brokers):
        return False
    then = {broker: (before[broker].incarnation, _frames(before[broker], epoch)) for broker in brokers}
    now = {broker: (seen[broker].incarnation, _frames(seen[broker], epoch)) for broker in brokers}
    return then == now and all(_done(before[broker], epoch) for broker in brokers)


def _holders(seen: Seen, epoch: int) -> tuple[int, ...]:
    """The brokers that have an epoch."""
    return tuple(sorted(broker for broker, one in seen.items() if _at(one, epoch) is not None))


def _at(standing: Standing, epoch: int) -> EpochStanding | None:
    return next((one for one in standing.epochs if one.epoch == epoch), None)


def _held(standing: Standing, epoch: int) -> bool:
    found = _at(standing, epoch)
    return found is not None and found.held


def _done(standing: Standing, epoch: int) -> bool:
    """Whether an epoch has drained at a broker, or has gone, and nothing of it waits there."""
    found = _at(standing, epoch)
    return found is None or (found.drained and not found.waiting)


def _frames(standing: Standing, epoch: int) -> int:
    found = _at(standing, epoch)
    return 0 if found is None else found.frames
