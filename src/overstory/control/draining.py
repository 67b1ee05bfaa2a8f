"""An operator takes a broker out of the network, or back in: ``drain``, ``join``, and a broker that is lost."""

import asyncio
import time

import msgspec

from overstory.broker.standing import Standing
from overstory.control.applying import PAUSE, Options, Outcome, Tell, check_settled, install, look
from overstory.control.brokers import Brokers
from overstory.control.keeping import files_of, files_with, plan_in, scenario_in
from overstory.control.leaving import avoiding, left, regrown, targets, without
from overstory.errors import UsageError
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario

DRAINED, JOINED, LOST = "drained", "joined", "left out"


class Drained(msgspec.Struct, frozen=True):
    """What came of it."""

    state: str  # drained, joined, left out; or given up
    outcome: Outcome
    stayed: int = 0  # clients that are still there


async def drain(brokers: Brokers, broker: int, options: Options, tell: Tell | None = None) -> Drained:
    """Moves everyone away from a broker, and takes it out of the way of others. One that does not answer is lost: the
    network gets a plan without it."""
    seen = await brokers.meet()
    if broker not in brokers.addresses:
        raise UsageError(f"there is no broker {broker}; there are {', '.join(map(str, sorted(brokers.addresses)))}")
    if broker not in seen:
        return await _lose(brokers, broker, options, tell)
    check_settled(brokers, seen)
    scenario, present = await _present(brokers, seen)
    via = avoiding(scenario, broker)
    plan = left(via, present, broker)
    await _move_away(brokers, broker, targets(scenario, plan, broker, (await brokers.clients())[broker]), options)
    outcome = await _applied(plan, scenario, via, brokers, options, tell)
    stayed = (await brokers.status())[broker].clients
    return Drained(DRAINED if not outcome.note else outcome.state, outcome, stayed)


async def join(brokers: Brokers, broker: int, options: Options, tell: Tell | None = None) -> Drained:
    """Lets a broker take part again."""
    seen = await brokers.meet()
    if broker not in brokers.addresses:
        brokers.joining.add(broker)
        seen = await brokers.meet()
    if broker not in seen:
        raise UsageError(f"broker {broker} does not answer; start it first")
    scenario, present = await _present(brokers, seen)
    plan = regrown(scenario, present, broker)
    outcome = await _applied(plan, scenario, None, brokers, options, tell)
    return Drained(JOINED if not outcome.note else outcome.state, outcome)


async def _lose(brokers: Brokers, broker: int, options: Options, tell: Tell | None) -> Drained:
    brokers.left_out.add(broker)
    seen = await brokers.meet()
    scenario, present = await _present(brokers, seen)
    via = without(scenario, broker)
    outcome = await _applied(left(via, present, broker), scenario, via, brokers, options, tell)
    return Drained(LOST if not outcome.note else outcome.state, outcome)


async def _present(brokers: Brokers, seen: dict[int, Standing]) -> tuple[Scenario, Plan]:
    """The plan in use, and the scenario that it was made for."""
    files = await brokers.plan_files(max(one.active for one in seen.values()))
    return scenario_in(files, await brokers.scenario()), plan_in(files)


async def _applied(
    plan: Plan, scenario: Scenario, via: Scenario | None, brokers: Brokers, options: Options, tell: Tell | None
) -> Outcome:
    """Applies a plan that was made here."""
    files = files_with(scenario, files_of(plan))
    ready = msgspec.structs.replace(options, scenario=scenario, via=via, files=files)
    return await install(await look(plan, brokers, ready), brokers, ready, tell)


async def _move_away(brokers: Brokers, broker: int, clients: dict[str, int], options: Options) -> None:
    """Asks all clients of a broker to go, and waits until they have, or stay."""
    if not clients:
        return
    await brokers.lead()
    await brokers.move({broker: clients}, leaves=True)
    ends = time.monotonic() + options.move_patience
    while (await brokers.status())[broker].moving and time.monotonic() < ends:
        await asyncio.sleep(PAUSE)
    await brokers.release()
