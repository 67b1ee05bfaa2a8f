"""overstory explain: what a plan decides, and why."""

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.cli.explain_client import client_for_programs, client_in_words
from overstory.cli.explain_decisions import are_in, explain_decisions
from overstory.cli.explain_moves import moves_in_words
from overstory.cli.explain_savings import savings_for_programs, savings_in_words
from overstory.cli.options import whole
from overstory.cli.output import print_json
from overstory.cli.tables import shown_down
from overstory.cli.words import MOST, WITHOUT_NAMES, Names, add_words, many, percents, plans_with_names
from overstory.errors import UsageError
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING, DearLink, Header, Plan
from overstory.model.regions import regions_of
from overstory.model.scenario import Scenario
from overstory.model.tables import PATHS, STEERED, STEINER
from overstory.pipeline.session import LOCAL
from overstory.planners.own import known_planners
from overstory.studio.text import plain, shortened

FEW = 5  # kinds of subscriptions that are named for each tree
LONGEST = 60  # characters of a filter
WAYS = {PATHS: "each event on its own cheapest paths", STEINER: "each event on its own Steiner tree"}


class Tree(NamedTuple):
    """A flow and whom it serves. Labels are names or filters with how many subscriptions have them, most first."""

    flow: int
    kind: str
    events: str
    links: int
    subscriptions: int
    labels: list[tuple[str, int]]


def add_to(commands: Any) -> None:
    explain = commands.add_parser(
        "explain",
        help="what a plan decides, in words",
        description="Says who made the plan and why: which subscriptions share which tree, which links are the "
        "dearest, and what the alternatives cost that the planner compared.",
    )
    explain.add_argument(
        "plan", metavar="PLAN", type=Path, help="the folder of the plan, or that of a coordinator: its decisions"
    )
    explain.add_argument(
        "--client",
        type=whole(0, 2**63 - 1),
        metavar="ID",
        help="of a plan of subscriber assignment: where else a client could be, and what speaks for here",
    )
    explain.add_argument(
        "--savings",
        action="store_true",
        help="of a plan of subscriber assignment: what one more box, broker or 10 ms would save",
    )
    explain.add_argument("--master", default=LOCAL, help="where Spark runs, for --savings (default: %(default)s)")
    add_words(explain)
    explain.set_defaults(run=run_explain, no_cache=False)


def run_explain(arguments: argparse.Namespace) -> None:
    if are_in(arguments.plan):
        explain_decisions(arguments.plan, arguments.all, arguments.json)
        return
    (plan,), names = plans_with_names([arguments.plan], arguments.scenario)
    if arguments.client is not None:
        _explain_client(plan, names, arguments)
        return
    if arguments.savings:
        _explain_savings(plan, names, arguments)
        return
    if arguments.json:
        print_json({"plan": str(arguments.plan), **_for_programs(plan, names)})
        return
    print(explained(plan, names, arguments.all))


def explained(plan: Plan, names: Names, everything: bool) -> str:
    """What a plan decides and why, in paragraphs; long lists are cut unless everything is asked for."""
    sections = [
        _planner(plan.header),
        _costs(plan.header, names),
        _alternatives(plan.header.alternatives),
        _steering(plan),
        moves_in_words(plan.header, names),
        _trees(plan, names, everything),
        _links(plan, names),
        [] if names.scenario is not None else [WITHOUT_NAMES],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _explain_client(plan: Plan, names: Names, arguments: argparse.Namespace) -> None:
    if names.scenario is None:
        raise UsageError("--client needs --scenario DIR, which has the delays and what the client wants")
    if arguments.json:
        print_json({"plan": str(arguments.plan), **client_for_programs(names.scenario, plan, arguments.client)})
        return
    print("\n".join(client_in_words(names.scenario, plan, arguments.client, names)))


def _explain_savings(plan: Plan, names: Names, arguments: argparse.Namespace) -> None:
    if names.scenario is None:
        raise UsageError("--savings needs --scenario DIR, which has the events and what subscribers want")
    if arguments.json:
        print_json({"plan": str(arguments.plan), **savings_for_programs(names.scenario, plan, arguments)})
        return
    print("\n".join(savings_in_words(names.scenario, plan, names, arguments)))


def _planner(header: Header) -> list[str]:
    planner = known_planners().get(header.planner)
    if planner is None:
        return [f"{header.planner}: not a planner of this version"]
    parameters = ", ".join(f"{name} {value}" for name, value in sorted(header.parameters.items())) or "none"
    return [
        f"{planner.name}: {planner.summary}.",
        f"guarantee: {planner.guarantee}",
        f"does badly: {planner.fails}",
        f"seed {header.seed}; parameters: {parameters}",
    ]


def _costs(header: Header, names: Names) -> list[str]:
    known = {name: float(value) for name, value in header.predicted.items() if isinstance(value, (int, float))}
    if "cost" not in known:
        return ["what it costs is not known; 'overstory score' measures it"]
    lines = [f"predicted cost: {names.money(known['cost'])} on the whole log"]
    if known.get("cost_held_out"):
        lines[0] += f", of that {names.money(known['cost_held_out'])} on held-out events, which no planner sees"
    bound = header.bounds.get("lower_bound")
    if isinstance(bound, (int, float)) and bound > 0 and "core" in known:
        least = f"{shown_down(float(bound))} {plain(names.currency)}".rstrip()
        lines.append(
            f"core, the traffic between brokers: {names.money(known['core'])}, at most "
            f"{percents(known['core'] / bound - 1)} above the certified least ({least})"
        )
    return lines


def _alternatives(costs: Mapping[str, float]) -> list[str]:
    """What the planner compared, cheapest first. Of the choice and what is as cheap only names are worth a word."""
    chosen = sorted(name for name, cost in costs.items() if cost == 1)
    others = sorted((cost, name) for name, cost in costs.items() if cost != 1)
    if not chosen:
        return []
    lines = [f"why: of {many(len(costs), 'configuration')}, the cheapest on events that it chooses by is"]
    lines[0] += " " + " and ".join(f"'{name}'" for name in chosen)
    lines[0] += ", which cost the same" if len(chosen) > 1 else ""
    if others:
        cost, name = others[0]
        lines.append(f"  next best: '{name}', {percents(cost - 1)} more")
        lines += [f"  one tree: {percents(cost - 1)} more" for cost, name in others[1:] if name == "one tree"]
    return lines


def _steering(plan: Plan) -> list[str]:
    """Why what is steered is steered: what it saves, and what it takes."""
    kinds = plan.flows["kind"].to_pylist()
    steered = sum(kind in STEERED for kind in kinds)
    if not steered:
        return []
    what = "everything is steered" if steered == len(kinds) else f"{many(steered, 'flow')} of {len(kinds):,} steered"
    known = plan.header.steering
    saves = f", as that saves {percents(known['saved'])} of the cost of one tree" if "saved" in known else ""
    lines = [f"{what}{saves}", *_regions(plan)]
    headers = known.get("header_bytes")
    lines.append("  headers: " + ("not priced" if headers is None else f"{headers:.1f} bytes of each copy"))
    entries, of_tree = (known.get(name) for name in ("entries", "entries_of_one_tree"))
    if entries is None:
        entries = _number(plan.header.predicted.get("entries_core"))
    if entries is not None:
        beside = "" if of_tree is None else f", where one tree has {of_tree:,.0f}"
        lines.append(f"  entries between brokers, for summaries and trees: {entries:,.0f}{beside}")
    return lines


def _regions(plan: Plan) -> list[str]:
    """How many regions there are, and how large they are."""
    lines = []
    for flow, gateway_of in sorted(regions_of(plan).items()):
        sizes = sorted(Counter(gateway_of.values()).values())
        of = f"of {many(sizes[0], 'broker')}" if sizes[0] == sizes[-1] else f"of {sizes[0]:,} to {sizes[-1]:,} brokers"
        lines.append(f"  flow {flow} goes by {many(len(sizes), 'region')} {of}, by their gateways")
    return lines


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _trees(plan: Plan, names: Names, everything: bool) -> list[str]:
    trees = trees_of(plan, names.scenario, None if everything else MOST)
    lines = [
        f"{many(plan.flows.num_rows, 'flow')} for {many(_distinct(plan.members), 'subscription')} of "
        f"{many(plan.attachments.num_rows, 'client')}; those that share a flow travel together:"
    ]
    for tree in trees:
        kind = "steered flow" if tree.kind in STEERED else "tree"
        way = WAYS.get(tree.kind) or many(tree.links, "link")
        events = "" if tree.events == EVERYTHING else f", for events with {shortened(plain(tree.events), LONGEST)}"
        lines.append(f"  {kind} {tree.flow}: {way}, {many(tree.subscriptions, 'subscription')}{events}")
        kinds = tree.labels if everything else tree.labels[:FEW]
        lines += [f"    {label}{f' ({count:,} subscriptions)' if count > 1 else ''}" for label, count in kinds]
        if len(kinds) < len(tree.labels):
            lines.append(f"    … and {len(tree.labels) - len(kinds):,} more; --all shows them")
    if len(trees) < plan.flows.num_rows:
        lines.append(f"  … and {many(plan.flows.num_rows - len(trees), 'more flow')}; --all shows them")
    return lines


def _distinct(members: pa.Table) -> int:
    return int(pc.count_distinct(members["subscription"]).as_py())


def trees_of(plan: Plan, scenario: Scenario | None, most: int | None = None) -> list[Tree]:
    """The flow with most subscriptions first, the smaller number on ties."""
    flows = plan.flows.sort_by("flow")
    numbers = flows["flow"].to_numpy()
    pairs = plan.members.group_by(["flow", "subscription"]).aggregate([]).sort_by("flow")
    bounds = np.searchsorted(pairs["flow"].to_numpy(), np.append(numbers, np.iinfo(np.int64).max))
    links = np.bincount(np.searchsorted(numbers, plan.trees["flow"].to_numpy()), minlength=len(numbers))
    order = np.lexsort((numbers, -np.diff(bounds)))[:most]
    return [
        Tree(
            flow=int(numbers[at]),
            kind=flows["kind"][at].as_py(),
            events=flows["events"][at].as_py(),
            links=int(links[at]),
            subscriptions=int(bounds[at + 1] - bounds[at]),
            labels=_labels(pairs["subscription"].slice(bounds[at], bounds[at + 1] - bounds[at]), scenario),
        )
        for at in order.tolist()
    ]


def _labels(subscriptions: pa.ChunkedArray, scenario: Scenario | None) -> list[tuple[str, int]]:
    """By their names, else by their filters; by their ids without a scenario."""
    if scenario is None:
        return [(f"subscription {number}", 1) for number in sorted(subscriptions.to_pylist())]
    rows = scenario.subscriptions.take(pc.index_in(subscriptions, value_set=scenario.subscriptions["id"]))
    texts = pc.coalesce(rows["name"], rows["filter"]) if "name" in rows.column_names else rows["filter"]
    counted = texts.value_counts()
    labels = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
    ordered = sorted(labels, key=lambda label: (-label[1], label[0]))
    return [(shortened(plain(text), LONGEST), count) for text, count in ordered]


def _links(plan: Plan, names: Names) -> list[str]:
    dearest = plan.header.dearest_links
    if not dearest:
        return []
    core = plan.header.predicted.get("core")
    of_core = ""
    if isinstance(core, (int, float)) and core > 0:
        of_core = f"; together {percents(sum(link.cost for link in dearest) / core)} of core"
    lines = [f"the dearest links, predicted on the whole log{of_core}:"]
    for link in dearest:
        flows = _flows_over(plan, link)
        by = f", used by {many(len(flows), 'tree')}: {_numbers(flows)}" if len(flows) else ""
        lines.append(f"  {names.one_way(link.source, link.target)}: {link.bytes:,} bytes, {names.money(link.cost)}{by}")
    return lines


def _flows_over(plan: Plan, link: DearLink) -> Ints:
    """Whose trees have the link, in either direction."""
    source, target = pc.field("source"), pc.field("target")
    there = (source == link.source) & (target == link.target)
    back = (source == link.target) & (target == link.source)
    return np.unique(plan.trees.filter(there | back)["flow"].to_numpy())


def _numbers(flows: Ints) -> str:
    first = ", ".join(map(str, flows[:FEW].tolist()))
    return first + (", …" if len(flows) > FEW else "")


def _for_programs(plan: Plan, names: Names) -> dict[str, object]:
    header = plan.header
    planner = known_planners().get(header.planner)
    trees = trees_of(plan, names.scenario)
    return {
        "planner": header.planner,
        "what it does": planner.summary if planner else "not a planner of this version",
        "guarantee": planner.guarantee if planner else "",
        "decides": list(planner.writes) if planner else [],
        "seed": header.seed,
        "parameters": header.parameters,
        "clients attached": plan.attachments.num_rows,
        "flows": plan.flows.num_rows,
        "members of the largest flow": trees[0].subscriptions if trees else 0,
        "tree links": plan.trees.num_rows,
        "filter rows": plan.filters.num_rows,
        "regions": {flow: len(set(gateways.values())) for flow, gateways in sorted(regions_of(plan).items())},
        "currency": names.currency,
        "predicted": header.predicted,
        "bounds": header.bounds,
        "alternatives": header.alternatives,
        "steering": header.steering,
        "attaching": header.attaching,
        "trees": [tree._asdict() | {"steered": tree.kind in STEERED} for tree in trees],
        "dearest links": [
            {
                "link": names.one_way(link.source, link.target),
                "source": link.source,
                "target": link.target,
                "bytes": link.bytes,
                "cost": link.cost,
                "trees": _flows_over(plan, link).tolist(),
            }
            for link in header.dearest_links
        ],
    }
