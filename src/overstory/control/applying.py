"""Applies a plan to a running network: look first, then install, then move clients, and say what came of it.

``look`` computes everything that is shown, and the package that brokers will get. ``install`` sends just that package:
nothing is computed anew between the two. ``apply`` is both.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path

import msgspec

from overstory.broker.packages import encode_package
from overstory.broker.places import plan_print
from overstory.broker.standing import Standing
from overstory.control import history as past
from overstory.control.brokers import Brokers
from overstory.control.history import Entry, History, usual_folder
from overstory.control.installing import (
    ABORT,
    ACTIVATE,
    ACTIVATING,
    DRAINING,
    GIVE_UP,
    HELD,
    PREPARE,
    PREPARING,
    STABLE,
    Action,
    Course,
    Step,
    next_epoch,
    next_step,
)
from overstory.control.keeping import files_with, plan_in, scenario_in
from overstory.control.packing import Rebased, check_network, packed
from overstory.control.showing import Preview, preview_of
from overstory.errors import BrokerError, OverstoryError, StalePlanError
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario

PAUSE = 0.05  # seconds between two looks
LONGEST_PAUSE = 0.5  # while a plan is being prepared
BETWEEN = 9  # times as long as a look takes
PATIENCE = 60.0  # seconds in which a phase has to get on
AT_ONCE = 100  # clients
Tell = Callable[[str, Step], None]


class UnderWayError(OverstoryError):
    """Another plan is being installed, or one was left half installed."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is applied."""

    scenario: Scenario | None = None  # that the plan was made for; None: the one that the network began with
    files: dict[str, bytes] = {}  # of the plan's folder, for the history
    moves: int | None = None  # clients that are moved at most; None: all that the plan wants elsewhere
    history: Path | None = None  # the folder; None: the usual one
    patience: float = PATIENCE  # seconds
    state: str = past.INSTALLED  # what the history calls it when it is done
    move_patience: float = 120.0  # seconds for clients to move
    at_once: int = AT_ONCE  # clients that are on their way in the whole network
    via: Scenario | None = None  # whose links and prices trees are packed by, if others than those of the scenario
    force: bool = False  # takes the lead from another coordinator


class Look(msgspec.Struct, frozen=True):
    """What would be applied, and what would come of it."""

    epoch: int
    previous: int
    plan: str  # fingerprint
    planner: str
    package: bytes
    rebased: Rebased
    preview: Preview
    moves: dict[int, dict[str, int]]  # by the broker where clients are: their names, and where they are to go
    scenario: Scenario
    files: dict[str, bytes]  # of the plan, with what it was made for


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    state: str  # installed, rolled back, given up
    epoch: int
    previous: int
    rebased: Rebased
    preview: Preview
    seconds: dict[str, float]  # until prepared, activated (since all held it), drained, moved
    asked: int = 0  # clients that were asked to move
    moved: int = 0
    stayed: int = 0  # clients that were asked, and came back
    note: str = ""


async def apply(plan: Plan, brokers: Brokers, options: Options | None = None, tell: Tell | None = None) -> Outcome:
    """Applies a plan to a running network.

    Raises a ``StalePlanError``, ``UnderWayError`` or ``RefusedError``; the network is as it was.
    """
    options = options or Options()
    return await install(await look(plan, brokers, options), brokers, options, tell)


async def look(plan: Plan, brokers: Brokers, options: Options) -> Look:
    """Looks at the network, and says what applying a plan would do."""
    seen = await brokers.meet()
    check_settled(brokers, seen)
    network = next(iter(seen.values())).network
    running = await brokers.scenario()
    scenario = options.scenario or running
    check_network(scenario, plan, network)
    members = {broker: one for broker, one in seen.items() if broker not in brokers.joining}
    active = agreed_epoch(members)
    files, live = await brokers.plan_files(active), await brokers.subscriptions()
    moves = moves_of(plan, await brokers.clients(), options.moves)
    moving = None if options.moves is None else frozenset(client for client, _, _ in moves)
    epoch = next_epoch(seen)
    source = files_with(scenario, options.files) if options.files else {}
    made = packed(options.via or scenario, plan, epoch, live, source, moving)
    package = encode_package(msgspec.structs.replace(made.package, network=network))
    by_broker: dict[int, dict[str, int]] = {}
    for client, here, there in moves:
        by_broker.setdefault(here, {})[scenario.client_names.get(client, str(client))] = there
    before = scenario_in(files, running), plan_in(files)
    preview = preview_of(before, (scenario, plan), len(moves), len(package))
    who = plan_print(plan), plan.header.planner
    return Look(epoch, active, *who, package, made.rebased, preview, by_broker, scenario, source)


def agreed_epoch(members: Mapping[int, Standing]) -> int:
    """The epoch that all brokers use. Raises a ``StalePlanError`` that names one that uses another epoch, or has
    another plan under this one."""
    active = max(one.active for one in members.values())
    plans = {broker: {one.epoch: one.plan for one in standing.epochs} for broker, standing in members.items()}
    used = [(members[broker].active, found.get(active, "")) for broker, found in plans.items()]
    most = max(used, key=used.count)
    for (broker, standing), (epoch, plan) in zip(members.items(), used, strict=True):
        if (epoch, plan) != most:
            what = f"uses epoch {standing.active}" if epoch != most[0] else "has another plan under it"
            raise StalePlanError(
                f"brokers disagree about epoch {most[0]}: broker {broker} {what}; nothing was changed; "
                "see 'overstory status'"
            )
    return active


def check_settled(brokers: Brokers, seen: Mapping[int, Standing]) -> None:
    """Raises an error if not all brokers answer, or if an installation is under way."""
    silent = sorted(brokers.addresses.keys() - seen.keys())
    if silent:
        raise BrokerError(f"broker {silent[0]} does not answer; nothing was changed; see 'overstory status'")
    lost = sorted({broker for one in seen.values() for broker in one.lost} - brokers.left_out)
    if lost:
        raise BrokerError(f"broker {lost[0]} cannot be reached by others; nothing was changed; see 'overstory status'")
    members = {broker: one for broker, one in seen.items() if broker not in brokers.joining}
    step = next_step(frozenset(brokers.addresses) - brokers.joining, members)
    if step.state != STABLE:
        raise UnderWayError(
            f"epoch {step.epoch} is {step.state}: an installation is under way, or was left so; "
            "end it with 'overstory resume' or 'overstory abort'"
        )
    if any(one.paused for one in seen.values()):
        raise UnderWayError("the network is paused; let it go on with 'overstory resume'")


def moves_of(plan: Plan, clients: Mapping[int, Mapping[str, int]], most: int | None) -> list[tuple[int, int, int]]:
    """The clients that are elsewhere than a plan wants: who, where, and where to; those that save most first."""
    now = {number: broker for broker, numbers in clients.items() for number in numbers.values()}
    rows = plan.attachments.to_pylist()
    found = [(row["client"], now[row["client"]], row["broker"]) for row in rows if row["client"] in now]
    found = [move for move in found if move[1] != move[2]]
    order = {int(client): place for place, client in enumerate(plan.header.attaching.get("clients", ()))}
    found.sort(key=lambda move: (order.get(move[0], len(order)), move[0]))
    return found if most is None else found[:most]


async def install(look: Look, brokers: Brokers, options: Options, tell: Tell | None = None) -> Outcome:
    """Installs what was looked at. Gives up cleanly if brokers do not hold the plan in time."""
    history = History(options.history or usual_folder(look.scenario.network_fingerprint))
    seen = await brokers.lead(options.force)
    installation = Installation(brokers, look.package, options, tell)
    try:
        check_settled(brokers, seen)
        if next_epoch(seen) != look.epoch:
            raise StalePlanError("another plan has been installed since this one was shown; look again")
        if not history.entries():
            files = await brokers.plan_files(look.previous)
            present = max(seen.values(), key=lambda one: one.active).epochs[0].plan
            history.add(Entry(past.now(), look.previous, present, "", past.INSTALLED, brokers.name), files)
        history.add(_entry(look, brokers, past.BEGAN), look.files)
        note = await installation.run(look.epoch)
        moved = (0, 0, 0) if note else await move_clients(look, brokers, options, installation)
    finally:
        await brokers.release()
    state = past.GIVEN_UP if note else options.state
    history.add(_entry(look, brokers, state, note))
    asked, went, stayed = moved
    return Outcome(
        state=state,
        epoch=look.epoch,
        previous=look.previous,
        rebased=look.rebased,
        preview=look.preview,
        seconds=installation.seconds,
        asked=asked,
        moved=went,
        stayed=stayed,
        note=note,
    )


class Installation:
    """An installation under way: asks what is next, does it, and looks again."""

    def __init__(self, brokers: Brokers, package: bytes | None, options: Options, tell: Tell | None = None) -> None:
        self._brokers, self._package, self._options, self._tell = brokers, package, options, tell
        self.seconds: dict[str, float] = {}

    async def run(self, epoch: int, forward: bool = True) -> str:
        """Goes on until the network is stable. Returns why it was given up; nothing if it was not."""
        began = time.monotonic()
        course = Course(
            frozenset(self._brokers.addresses), epoch, self._options.patience, forward, self._package is not None
        )
        if self._package is not None:
            await self._brokers.prepare(self._package)
        while True:
            asked = time.monotonic()
            step = course.turn(await self._brokers.status(), time.monotonic())
            looked = time.monotonic() - asked
            if course.has_changed and self._tell is not None:
                self._tell(step.state, step)
            self._note(step, began)
            if course.is_over:
                return course.note
            for broker in self._brokers.left_out if step.state == DRAINING else ():
                await self._brokers.forget(broker)
            if course.is_stuck:
                who = ", ".join(map(str, step.waits_for))
                raise BrokerError(
                    f"epoch {epoch} is {step.state}, and waits for broker {who}; "
                    "when it is back, go on with 'overstory resume'"
                )
            await self._do(step.actions)
            if step.state != HELD or not step.actions:  # which it has not while the network is paused
                await asyncio.sleep(pause_after(step.state, looked))

    async def _do(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            if action.kind == PREPARE:
                if self._package is not None:
                    await self._brokers.prepare(self._package, action.brokers)
            elif action.kind == ACTIVATE:
                await self._brokers.activate(action.epoch, action.brokers)
            elif action.kind == GIVE_UP:
                await self._brokers.give_up(action.epoch, action.brokers)
            elif action.kind == ABORT:
                await self._brokers.abort(action.epoch, action.brokers)
            else:
                await self._brokers.retire(action.epoch, action.brokers)

    def _note(self, step: Step, began: float) -> None:
        """Notes how long phases took: until all held the plan, from there until all used it, and until all drained."""
        now = time.monotonic() - began
        if step.state in (HELD, ACTIVATING, DRAINING, STABLE):
            self.seconds.setdefault("prepared", round(now, 3))
        if step.state in (DRAINING, STABLE):
            self.seconds.setdefault("activated", round(now - self.seconds["prepared"], 3))
        if step.state == STABLE:
            self.seconds.setdefault("drained", round(now - self.seconds["prepared"] - self.seconds["activated"], 3))


def pause_after(state: str, looked: float) -> float:
    """The seconds until brokers are asked again, which has just taken so long. While a plan is being prepared nobody
    waits for their answers, but on a full machine events wait for whoever asks: a tenth of the time is enough."""
    return min(max(PAUSE, BETWEEN * looked), LONGEST_PAUSE) if state == PREPARING else PAUSE


async def move_clients(
    look: Look, brokers: Brokers, options: Options, installation: Installation | None = None
) -> tuple[int, int, int]:
    """Asks clients to move, some at a time, and waits until they have, or stay. Returns how many were asked, went and
    stayed."""
    waiting = in_turns(look.moves)
    if not waiting:
        return 0, 0, 0
    began, asked = time.monotonic(), 0
    while True:
        seen = await brokers.status()
        moving = sum(one.moving for one in seen.values())
        late = time.monotonic() - began > options.move_patience or any(one.paused for one in seen.values())
        if late or not (moving or waiting):
            break
        now, waiting = waiting[: max(0, options.at_once - moving)], waiting[max(0, options.at_once - moving) :]
        if now:
            asked += len(now)
            await brokers.move({here: {name: to for at, name, to in now if at == here} for here, _, _ in now})
        await asyncio.sleep(PAUSE)
    if installation is not None:
        installation.seconds["moved"] = round(time.monotonic() - began, 3)
    stayed = sum(one.stayed for one in seen.values())
    return asked, max(0, asked - stayed - moving), stayed


def in_turns(moves: Mapping[int, Mapping[str, int]]) -> list[tuple[int, str, int]]:
    """Moves in the order in which clients are asked, brokers in turns: where each is, its name, where it is to go."""
    lists = [[(broker, *move) for move in names.items()] for broker, names in sorted(moves.items())]
    return [move for turn in zip_longest(*lists) for move in turn if move is not None]


def _entry(look: Look, brokers: Brokers, state: str, note: str = "") -> Entry:
    return Entry(past.now(), look.epoch, look.plan, look.planner, state, brokers.name, note)
