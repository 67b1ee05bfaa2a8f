"""All of ``overstory apply``: look, ask, measure, install, watch; with a canary, go on or go back."""

from collections.abc import Callable

import msgspec

from overstory.control import history as past
from overstory.control.applying import Look, Options, Outcome, Tell, install, look, move_clients
from overstory.control.brokers import Brokers
from overstory.control.measuring import Measured, Verdict, measure, verdict
from overstory.control.operating import rollback
from overstory.model.plan import Plan

SHOWN, DECLINED = "shown", "declined"


class Asked(msgspec.Struct, frozen=True):
    """What an operator asks for beside the plan."""

    watch: float = 5.0  # seconds to measure before and after
    canary: float | None = None  # the share of clients that is moved first
    limit: float = 0.1  # by which the measured cost may exceed the predicted one, as a share
    dry_run: bool = False


class Done(msgspec.Struct, frozen=True):
    """The state in which applying a plan ended."""

    state: str  # shown, declined, installed, rolled back, given up
    outcome: Outcome | None = None
    verdict: Verdict | None = None
    note: str = ""


async def carry_out(
    plan: Plan, brokers: Brokers, options: Options, asked: Asked, agree: Callable[[Look], bool], tell: Tell | None
) -> Done:
    """Shows, asks, and applies. With a canary it goes back by itself if the cost exceeds what was predicted."""
    found = await look(plan, brokers, options)
    agreed = agree(found)
    if asked.dry_run or not agreed:
        return Done(SHOWN if asked.dry_run else DECLINED)
    first, rest = _parted(found, asked.canary)
    before = await measure(brokers, found.scenario, asked.watch)
    outcome = await install(first, brokers, options, tell)
    if outcome.state != options.state:
        return Done(outcome.state, outcome, None, outcome.note)
    judged = await _judged(brokers, found, before, asked.watch)
    if asked.canary is None:
        return Done(outcome.state, outcome, judged)
    if judged.exceeds(asked.limit, partly=bool(rest.moves)):
        return await _gone_back(brokers, options, judged, tell)
    if not rest.moves:
        return Done(outcome.state, outcome, judged)
    await brokers.lead()
    more = await move_clients(rest, brokers, options)
    await brokers.release()
    # Brokers count all that have stayed under this plan; the others are counted here
    outcome = msgspec.structs.replace(
        outcome, asked=outcome.asked + more[0], moved=outcome.moved + more[1], stayed=more[2]
    )
    judged = await _judged(brokers, found, before, asked.watch)
    if judged.exceeds(asked.limit):
        return await _gone_back(brokers, options, judged, tell)
    return Done(past.INSTALLED, outcome, judged)


async def _gone_back(brokers: Brokers, options: Options, judged: Verdict, tell: Tell | None) -> Done:
    """Goes back to the plan before, since this one costs more than it may."""
    back = await rollback(brokers, msgspec.structs.replace(options, moves=None), tell)
    return Done(back.state, back, judged, f"the measured cost exceeds the predicted one: {_ratios(judged)}")


async def _judged(brokers: Brokers, found: Look, before: Measured, seconds: float) -> Verdict:
    after = await measure(brokers, found.scenario, seconds)
    return verdict(before, after, found.preview.core)


def _parted(found: Look, share: float | None) -> tuple[Look, Look]:
    """What is done first, and which clients are moved later."""
    if share is None:
        return found, msgspec.structs.replace(found, moves={})
    every = [(broker, name, to) for broker, names in sorted(found.moves.items()) for name, to in names.items()]
    first = max(1, round(share * len(every))) if every else 0
    parts: list[dict[int, dict[str, int]]] = [{}, {}]
    for place, (broker, name, to) in enumerate(every):
        parts[place >= first].setdefault(broker, {})[name] = to
    return msgspec.structs.replace(found, moves=parts[0]), msgspec.structs.replace(found, moves=parts[1])


def _ratios(judged: Verdict) -> str:
    predicted = "no prediction" if judged.predicted is None else f"{judged.predicted:.3f} predicted"
    return f"{judged.measured:.3f} of the cost before, {predicted}"
