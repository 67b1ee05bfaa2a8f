"""overstory explain PLAN --client ID: where a client is attached, where else it could be, and what speaks for each."""

from typing import Any, NamedTuple

import numpy as np

from overstory.cli.words import Names, many
from overstory.errors import UsageError
from overstory.filters import Filter, parse_filter
from overstory.model.access import access_of
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.limits import loads_of
from overstory.studio.assignments import from_root

MOST = 12  # brokers that are listed
BINDING = 0.98  # of the largest load, from which on a broker counts as full


class Choice(NamedTuple):
    """A broker that could serve a client."""

    broker: int
    delay: float  # milliseconds from the root
    slack: float  # milliseconds that the client allows beyond that; negative where it would be late
    load: float
    covers: bool  # whether its filter already lets in all that the client wants
    here: bool


def choices_of(scenario: Scenario, plan: Plan, client: int) -> list[Choice]:
    """The brokers at the end of the tree, those in time first, the ones that cover the client's wishes before others;
    and wherever the client is now."""
    if client not in set(scenario.clients["id"].to_pylist()):
        raise UsageError(f"there is no client {client} in the scenario")
    before, leaves = from_root(scenario, plan)
    present = int(plan.attachments["broker"].to_numpy()[plan.attachments["client"].to_numpy() == client][0])
    leaves = np.unique(np.append(leaves, scenario.network.positions(np.array([present]))))
    ids = scenario.network.ids[leaves]
    delay = before[leaves] + access_of(scenario).down(np.full(len(ids), client), ids).delays
    allowed, loads = _allowed(scenario, client), loads_of(scenario, plan)
    wishes, filters = _wishes(scenario, client), _filters(plan)
    found = [
        Choice(
            int(broker),
            float(late),
            float(allowed - late),
            float(loads[leaf]),
            all(filters[int(broker)].covers(wish) for wish in wishes) if int(broker) in filters else False,
            int(broker) == present,
        )
        for broker, late, leaf in zip(ids, delay, leaves, strict=True)
    ]
    return sorted(found, key=lambda each: (not each.here, each.slack < 0, not each.covers, each.delay, each.broker))


def _allowed(scenario: Scenario, client: int) -> float:
    row = scenario.clients.filter(np.asarray(scenario.clients["id"].to_numpy() == client))
    own = row["latest"][0].as_py() if "latest" in row.column_names else None
    usual = scenario.settings.limits.delay
    return float(own if own is not None else np.inf if usual is None else usual)


def _wishes(scenario: Scenario, client: int) -> list[Filter]:
    mine = scenario.subscriptions.filter(np.asarray(scenario.subscriptions["client"].to_numpy() == client))
    return [parse_filter(text) for text in mine["filter"].unique().to_pylist()]


def _filters(plan: Plan) -> dict[int, Filter]:
    rows = zip(plan.filters["target"].to_pylist(), plan.filters["filter"].to_pylist(), strict=True)
    return {target: parse_filter(text) for target, text in rows}


def client_in_words(scenario: Scenario, plan: Plan, client: int, names: Names) -> list[str]:
    choices = choices_of(scenario, plan, client)
    here, in_time = choices[0], [each for each in choices if each.slack >= 0]
    most = scenario.settings.limits.load
    lines = [
        f"client {client} is at {names.broker(here.broker)}: {here.delay:.1f} ms, {_slack(here.slack)}",
        f"  {many(len(in_time), 'broker')} of {len(choices):,} can serve it in time",
        f"  why here: {_why(here, in_time, most)}",
        "  others:",
    ]
    for each in choices[1 : MOST + 1]:
        covers = "lets in what it wants" if each.covers else "would have to let in more"
        full = ", full" if most is not None and each.load >= BINDING * most else ""
        way = f"{names.broker(each.broker)}: {each.delay:.1f} ms, {_slack(each.slack)}"
        lines.append(f"    {way}; load {each.load:.2f}{full}; its filter {covers}")
    if len(choices) > MOST + 1:
        lines.append(f"    … and {len(choices) - MOST - 1:,} more")
    return [*lines, *binding_in_words(scenario, plan, names)]


def _slack(slack: float) -> str:
    if slack == np.inf:
        return "and it allows anything"
    return f"{slack:.1f} ms to spare" if slack >= 0 else f"{-slack:.1f} ms too late"


def _why(here: Choice, in_time: list[Choice], most: float | None) -> str:
    free = [each for each in in_time if not each.here and (most is None or each.load < BINDING * most)]
    covering = [each for each in free if each.covers]
    if len(in_time) == 1 and here.slack >= 0:
        return "no other broker is in time"
    if here.slack < 0:
        return "it is late here; a broker in time was full, or nobody looked at delays"
    if not free:
        return "every other broker in time is full"
    if covering:
        return f"its filter lets in what the client wants anyway, as do those of {len(covering):,} others with room"
    return "no other filter with room lets in what the client wants: it would carry more events elsewhere"


def binding_in_words(scenario: Scenario, plan: Plan, names: Names) -> list[str]:
    """Brokers whose load is at its limit."""
    most = scenario.settings.limits.load_wanted or scenario.settings.limits.load
    if most is None:
        return []
    loads = loads_of(scenario, plan)
    full = scenario.network.ids[np.flatnonzero(loads >= BINDING * most)]
    if not len(full):
        return [f"no broker is at the load of {most:g} that is wanted"]
    some = ", ".join(names.broker(int(each)) for each in full[:MOST])
    return [
        f"{many(len(full), 'broker')} at the load of {most:g} that is wanted: {some}{', …' if len(full) > MOST else ''}"
    ]


def client_for_programs(scenario: Scenario, plan: Plan, client: int) -> dict[str, Any]:
    choices = [each._asdict() for each in choices_of(scenario, plan, client)]
    for each in choices:
        each["slack"] = None if each["slack"] == np.inf else each["slack"]
    return {"client": client, "choices": choices}
