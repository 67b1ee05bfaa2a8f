"""Amounts, counts and lists in words, and the names of brokers, clients and subscriptions."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from overstory.cli.engine import plan_for
from overstory.cli.tables import shown
from overstory.model.naming import told_apart
from overstory.model.plan import Plan, read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.studio.text import plain

NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
MOST = 10  # lines of a list, unless all are asked for
WITHOUT_NAMES = "numbers are ids; --scenario DIR shows names instead, and costs in the scenario's currency"


def money(value: float, currency: str) -> str:
    """A cost with its currency; without one as tables show numbers."""
    if not currency:
        return shown(float(value))
    return f"{value:,.1f} {plain(currency)}" if abs(value) >= 1000 else f"{shown(float(value))} {plain(currency)}"


def in_words(number: int) -> str:
    return NUMBERS[number] if number < len(NUMBERS) else f"{number:,}"


def many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percents(share: float) -> str:
    """A share of 0.038 is 3.8 %."""
    return f"{100 * share:.1f} %"


def listed(lines: Sequence[str], everything: bool, indent: str = "  ") -> list[str]:
    """The lines, indented; a long list is cut, with a count of what is left out."""
    kept = lines if everything or len(lines) <= MOST else lines[:MOST]
    left = len(lines) - len(kept)
    return [indent + line for line in [*kept, *([f"… and {left:,} more; --all shows them"] if left else [])]]


class Names:
    """What people call brokers, clients and subscriptions, if a scenario is at hand; else their ids.

    Where several have the same name, the id stands beside it.
    """

    def __init__(self, scenario: Scenario | None) -> None:
        self.scenario = scenario
        self.currency = scenario.settings.currency if scenario is not None else ""
        self._brokers = _printable(scenario.broker_names) if scenario is not None else {}
        self._clients = _printable(scenario.client_names) if scenario is not None else {}

    def broker(self, broker: int | None) -> str:
        return "nowhere" if broker is None else self._brokers.get(broker, f"broker {broker}")

    def client(self, client: int) -> str:
        return self._clients.get(client, f"client {client}")

    def end(self, number: int) -> str:
        """Of a link: a broker or a client."""
        return self._brokers.get(number) or self._clients.get(number) or str(number)

    def both_ways(self, link: tuple[int, int]) -> str:
        return f"{self.end(link[0])} – {self.end(link[1])}"

    def one_way(self, source: int, target: int) -> str:
        return f"{self.end(source)} → {self.end(target)}"

    def money(self, value: float) -> str:
        return money(value, self.currency)


def _printable(names: Mapping[int, str]) -> dict[int, str]:
    return {number: plain(name) for number, name in told_apart(names).items()}


def add_words(command: argparse.ArgumentParser) -> None:
    """The options of commands that describe plans in words."""
    command.add_argument("--scenario", metavar="DIR", type=Path, help="the plan's scenario, for names and the currency")
    command.add_argument("--all", action="store_true", help="do not cut long lists")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def plans_with_names(folders: Sequence[Path], scenario: Path | None) -> tuple[list[Plan], Names]:
    """Raises a ``StalePlanError`` if a scenario is given and a plan was made for another one."""
    if scenario is None:
        return [read_plan(folder) for folder in folders], Names(None)
    known = read_scenario(scenario)
    return [plan_for(folder, known) for folder in folders], Names(known)
