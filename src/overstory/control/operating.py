"""What operators do beside applying a plan: look, go back, pause, go on, and give up. Each ends in a named state."""

import msgspec

from overstory.broker.admin import files_in
from overstory.broker.standing import Standing
from overstory.control import history as past
from overstory.control.applying import Installation, Options, Outcome, Tell, UnderWayError, install, look
from overstory.control.brokers import Brokers
from overstory.control.history import Entry, History, usual_folder
from overstory.control.installing import STABLE, WAITING, Step, is_in_use, next_step, under_way
from overstory.control.keeping import plan_in, scenario_in
from overstory.errors import StalePlanError, UsageError

PAUSED = "paused"


class Overview(msgspec.Struct, frozen=True):
    """A network at one moment."""

    state: str  # one of ``installing.STATES``, or paused
    epoch: int  # the latest that is in use somewhere
    brokers: dict[int, Standing]
    silent: list[int]
    waits_for: list[int]
    leader: str  # the coordinator that is at work; empty if there is none


async def overview(brokers: Brokers) -> Overview:
    """What all brokers say, in one value."""
    seen = await brokers.meet()
    step = next_step(frozenset(brokers.addresses), seen)
    state = PAUSED if any(one.paused for one in seen.values()) else step.state
    leader = next((one.leader for one in seen.values() if one.leader), "")
    active = max(one.active for one in seen.values())
    silent = sorted(brokers.addresses.keys() - seen.keys())
    return Overview(state, active, dict(sorted(seen.items())), silent, list(step.waits_for), leader)


async def pause(brokers: Brokers) -> str:
    """Stops installations before they are activated, moves of clients, and the autopilot. Returns the state."""
    await _fenced(brokers)
    await brokers.pause(True)
    return PAUSED


async def resume(brokers: Brokers, options: Options, tell: Tell | None = None) -> str:
    """Lets everything go on, and ends an installation that a coordinator left. Returns the state."""
    seen = await _fenced(brokers)
    await brokers.pause(False)
    step = next_step(frozenset(brokers.addresses), seen)
    if step.state != STABLE and not _is_led(seen, brokers):
        seen = await brokers.lead(force=True)
        await _finish(brokers, options, tell, forward=_can_go_on(seen))
        await brokers.release()
    return await _state(brokers)


async def abort(brokers: Brokers, options: Options, tell: Tell | None = None) -> str:
    """Gives up an installation that nobody uses yet. One that is in use goes on to its end. Returns the state."""
    seen = await brokers.lead(force=True)
    epoch = under_way(seen)
    step = next_step(frozenset(brokers.addresses), seen)
    if step.state == STABLE:
        await brokers.release()
        raise UnderWayError("there is nothing to abort: the network is stable")
    if step.state == WAITING:
        await brokers.release()
        raise UnderWayError(f"broker {step.waits_for[0]} is silent, and might use epoch {epoch}; start it first")
    forward = is_in_use(seen, epoch)
    await _finish(brokers, options, tell, forward)
    network = next(iter(seen.values())).network
    History(options.history or usual_folder(network)).add(
        Entry(past.now(), epoch, "", "", past.INSTALLED if forward else past.ABORTED, brokers.name, "abort")
    )
    await brokers.release()
    return await _state(brokers)


async def rollback(brokers: Brokers, options: Options, tell: Tell | None = None) -> Outcome:
    """Goes back to the plan before the one in use. Raises a ``UsageError`` if there was none."""
    seen = await brokers.meet()
    first = next(iter(seen.values()))
    history = History(options.history or usual_folder(first.network))
    present = next((one.plan for one in first.epochs if one.epoch == first.active), "")
    target = history.before(present)
    if target is None:
        raise UsageError(f"the history {history.folder} has no plan to go back to")
    files = files_in(str(history.plan_folder(target.plan)))
    scenario = scenario_in(files, await brokers.scenario())
    back = msgspec.structs.replace(options, files=files, scenario=scenario, state=past.ROLLED_BACK)
    found = await look(plan_in(files), brokers, back)
    return await install(found, brokers, back, tell)


async def _fenced(brokers: Brokers) -> dict[int, Standing]:
    """Takes the number of whoever leads: to pause is allowed beside a coordinator that is at work."""
    seen = await brokers.meet()
    fences = {one.fence for one in seen.values()}
    leaders = {one.leader for one in seen.values() if one.leader}
    if len(fences) == 1 and len(leaders) == 1:
        brokers.fence, brokers.name = fences.pop(), leaders.pop()
        return seen
    return await brokers.lead()


def _is_led(seen: dict[int, Standing], brokers: Brokers) -> bool:
    """Whether a coordinator is at work, and was heard a moment ago."""
    return any(one.leader and one.heard < 2.0 for one in seen.values()) and bool(brokers.name)


def _can_go_on(seen: dict[int, Standing]) -> bool:
    """Whether an installation can be ended as it was meant: some broker uses it, or all have it."""
    epoch = under_way(seen)
    return is_in_use(seen, epoch) or all(any(one.epoch == epoch for one in s.epochs) for s in seen.values())


async def _finish(brokers: Brokers, options: Options, tell: Tell | None, forward: bool) -> None:
    """Goes on with what another coordinator began, from what brokers say."""
    seen = await brokers.status()
    epoch = under_way(seen)
    if forward and any(all(one.epoch != epoch for one in s.epochs) for s in seen.values()):
        raise StalePlanError(f"not all brokers have epoch {epoch}; they will get it from their neighbours")
    await Installation(brokers, None, options, tell).run(epoch, forward)


async def _state(brokers: Brokers) -> str:
    return (await overview(brokers)).state


def as_step(state: str, step: Step) -> str:
    """A step in words."""
    waits = f", waits for broker {', '.join(map(str, step.waits_for[:5]))}" if step.waits_for else ""
    return f"epoch {step.epoch}: {state}{waits}"
