"""overstory diff: what a second plan changes in a first one, the line that matters first."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overstory.cli.output import print_json
from overstory.cli.tables import table
from overstory.cli.words import (
    MOST,
    WITHOUT_NAMES,
    Names,
    add_words,
    in_words,
    listed,
    many,
    percents,
    plans_with_names,
)
from overstory.model.difference import Difference, FilterChange, TreeChange, difference
from overstory.model.plan import Plan
from overstory.model.tables import STEERED
from overstory.studio.text import plain, shortened

COSTS = ("cost", "core", "access", "upkeep", "cost_held_out")
LONGEST = 60  # characters of a filter
PREDICTED = (*COSTS, "duplicates", "mean_delay")
BASES = {"cost_held_out": "held-out events, which no planner sees", "cost": "the whole log"}


def add_to(commands: Any) -> None:
    diff = commands.add_parser(
        "diff",
        help="what differs between two plans",
        description="Says what the second plan saves, and what it changes in the first: links added (+) and removed "
        "(−) in each tree, clients that move, filter rows, regions, clients attached to each broker.",
    )
    diff.add_argument("plans", metavar="PLAN", type=Path, nargs=2, help="the folders of two plans, the older one first")
    add_words(diff)
    diff.set_defaults(run=run_diff)


def run_diff(arguments: argparse.Namespace) -> None:
    (one, other), names = plans_with_names(arguments.plans, arguments.scenario)
    same = one.header.scenario == other.header.scenario
    if arguments.json:
        print_json(_for_programs(one, other, difference(one, other), names) | {"same_scenario": same})
        return
    labels = _labels(one, other, arguments.plans)
    if not same:
        print("these plans are for different scenarios, so that their costs do not compare", file=sys.stderr)
    print(told_difference(one, other, labels, names, arguments.all))


def told_difference(one: Plan, other: Plan, labels: tuple[str, str], names: Names, everything: bool) -> str:
    """What the second plan saves and changes, in paragraphs; long lists are cut unless everything is asked for."""
    found = difference(one, other)
    parts = [headline(one, other, labels, found, names), _predictions(one, other, labels, names)]
    sections = [section(found, names, everything) for section in (_trees, _clients, _filters, _regions, _loads)]
    parts += ["\n".join(lines) for lines in sections if lines]
    return "\n\n".join(parts if names.scenario is not None else [*parts, WITHOUT_NAMES])


def _labels(one: Plan, other: Plan, folders: Sequence[Path]) -> tuple[str, str]:
    """The planners; the folders, if one planner made both."""
    if one.header.planner != other.header.planner:
        return one.header.planner, other.header.planner
    return str(folders[0]), str(folders[1])


def headline(one: Plan, other: Plan, labels: tuple[str, str], found: Difference, names: Names) -> str:
    """What the second plan saves, on which events, and how many links and trees it needs."""
    parts = [_saving(one, other, labels, names)]
    fewer = found.links[0] - found.links[1]
    parts.append(f"{many(abs(fewer), 'link')} {'fewer' if fewer > 0 else 'more'}" if fewer else "as many links")
    parts.append(_trees_instead(one, other))
    return ", ".join(parts)


def _saving(one: Plan, other: Plan, labels: tuple[str, str], names: Names) -> str:
    costs = _comparable(one, other)
    if costs is None:
        return (
            f"{labels[1]} against {labels[0]}: the plans tell no costs that compare ('overstory score' measures them)"
        )
    basis, before, after = costs
    if before == after:
        return f"{labels[1]} costs as much as {labels[0]} ({names.money(after)} on {BASES[basis]})"
    change = f"saves {percents(1 - after / before)}" if after < before else f"costs {percents(after / before - 1)} more"
    instead = f"{names.money(after)} instead of {names.money(before)} on {BASES[basis]}"
    return f"{labels[1]} {change} against {labels[0]} ({instead})"


def _comparable(one: Plan, other: Plan) -> tuple[str, float, float] | None:
    """The held-out costs, or those of the whole log where nothing was held out; None where the first cost nothing."""
    if one.header.scenario != other.header.scenario:
        return None
    for basis in BASES:
        before, after = (plan.header.predicted.get(basis) for plan in (one, other))
        if isinstance(before, (int, float)) and isinstance(after, (int, float)) and before > 0:
            return basis, float(before), float(after)
    return None


def _trees_instead(one: Plan, other: Plan) -> str:
    nouns = ["flow" if not {*plan.flows["kind"].to_pylist()}.isdisjoint(STEERED) else "tree" for plan in (one, other)]
    before, after = one.flows.num_rows, other.flows.num_rows
    text = f"{in_words(after)} {nouns[1]}{'' if after == 1 else 's'}"
    if before == after and nouns[0] == nouns[1]:
        return f"{text} as before"
    noun = f" {nouns[0]}{'' if before == 1 else 's'}" if nouns[0] != nouns[1] else ""
    return f"{text} instead of {in_words(before) if before else 'none'}{noun}"


def _predictions(one: Plan, other: Plan, labels: tuple[str, str], names: Names) -> str:
    rows: list[list[object]] = []
    for name in PREDICTED:
        values = [plan.header.predicted.get(name) for plan in (one, other)]
        unit = names.currency if name in COSTS else "ms" if name == "mean_delay" else ""
        rows.append([f"{name}, {unit}" if unit else name, *values])
    return table(("predicted", *labels), rows)


def _trees(found: Difference, names: Names, everything: bool) -> list[str]:
    lines = []
    shown = found.trees if everything else found.trees[:MOST]
    for tree in shown:
        lines.append(_tree_line(tree))
        links = [f"+ {names.both_ways(link)}" for link in tree.added]
        links += [f"− {names.both_ways(link)}" for link in tree.removed]
        lines += listed(links, everything)
    if len(shown) < len(found.trees):
        lines.append(f"… and {many(len(found.trees) - len(shown), 'more tree')}; --all shows them")
    if found.same_trees:
        lines.append(f"{many(found.same_trees, 'tree')} with the same links and subscriptions as before")
    return lines


def _tree_line(tree: TreeChange) -> str:
    before, after = tree.subscriptions
    if tree.first is None:
        return f"tree {tree.second} is new: {many(after, 'subscription')}, {many(len(tree.added), 'link')}"
    if tree.second is None:
        return f"tree {tree.first} is gone: {many(before, 'subscription')}, {many(len(tree.removed), 'link')}"
    was = f" (tree {tree.first} before)" if tree.first != tree.second else ""
    members = f"{many(after, 'subscription')} as before"
    if before != after or tree.shared != after:
        members = f"{many(after, 'subscription')} instead of {before:,}, {tree.shared:,} of them the same"
    return f"tree {tree.second}{was}: {members}; links: {len(tree.added):,} added, {len(tree.removed):,} removed"


def _clients(found: Difference, names: Names, everything: bool) -> list[str]:
    if not found.clients:
        return []
    lines = [
        f"{names.client(move.client)}: {names.broker(move.before)} → {names.broker(move.after)}"
        for move in found.clients
    ]
    return [f"{many(len(lines), 'client')} {'moves' if len(lines) == 1 else 'move'}:", *listed(lines, everything)]


def _filters(found: Difference, names: Names, everything: bool) -> list[str]:
    if not found.filters:
        return []
    lines = [_filter_line(change, names, everything) for change in found.filters]
    return [
        f"{many(len(lines), 'filter row')} {'changes' if len(lines) == 1 else 'change'}:",
        *listed(lines, everything),
    ]


def _filter_line(change: FilterChange, names: Names, everything: bool) -> str:
    tree = change.second if change.second is not None else change.first
    where = f"tree {tree}, {names.one_way(change.source, change.target)}"
    if change.before is None:
        return f"+ {where}: {_filter(change.after, everything)}"
    if change.after is None:
        return f"− {where}: {_filter(change.before, everything)}"
    return f"~ {where}: {_filter(change.before, everything)} → {_filter(change.after, everything)}"


def _filter(text: str | None, everything: bool) -> str:
    return plain(text or "") if everything else shortened(plain(text or ""), LONGEST)


def _regions(found: Difference, names: Names, everything: bool) -> list[str]:
    if not found.regions:
        return []
    lines = []
    for change in found.regions:
        tree = change.second if change.second is not None else change.first
        ends = ["none" if each is None else f"that of {names.broker(each)}" for each in (change.before, change.after)]
        lines.append(f"tree {tree}, {names.broker(change.broker)}: {ends[0]} → {ends[1]}")
    return ["regions of brokers, where they change:", *listed(lines, everything)]


def _loads(found: Difference, names: Names, everything: bool) -> list[str]:
    if not found.loads:
        return []
    lines = [f"{names.broker(load.broker)}: {load.before:,} → {load.after:,}" for load in found.loads]
    return ["clients attached to a broker, where that changes:", *listed(lines, everything)]


def _for_programs(one: Plan, other: Plan, found: Difference, names: Names) -> dict[str, object]:
    common = found.common_links
    costs = _comparable(one, other)
    return {
        "currency": names.currency,
        "saves": None if costs is None or not costs[1] else {"of": costs[0], "share": 1 - costs[2] / costs[1]},
        "predicted": {name: [plan.header.predicted.get(name) for plan in (one, other)] for name in PREDICTED},
        "changes": {
            "clients moved": len(found.clients),
            "flows": [one.flows.num_rows, other.flows.num_rows],
            "tree links only in the first": found.links[0] - common,
            "tree links only in the second": found.links[1] - common,
            "tree links in both": common,
            "filter rows": [one.filters.num_rows, other.filters.num_rows],
        },
        "trees": [_tree_for_programs(tree, names) for tree in found.trees],
        "same_trees": found.same_trees,
        "clients": [
            {
                **move._asdict(),
                "name": names.client(move.client),
                "names": [names.broker(move.before), names.broker(move.after)],
            }
            for move in found.clients
        ],
        "filters": [{**row._asdict(), "link": names.one_way(row.source, row.target)} for row in found.filters],
        "regions": [{**change._asdict(), "name": names.broker(change.broker)} for change in found.regions],
        "loads": [{**load._asdict(), "name": names.broker(load.broker)} for load in found.loads],
    }


def _tree_for_programs(tree: TreeChange, names: Names) -> dict[str, object]:
    """Links with their ends as ids and in words."""
    links = {
        key: [{"ends": link, "link": names.both_ways(link)} for link in rows]
        for key, rows in (("added", tree.added), ("removed", tree.removed))
    }
    return {**tree._asdict(), **links}
