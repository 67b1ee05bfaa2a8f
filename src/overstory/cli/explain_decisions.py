"""What a coordinator decided, window by window, and why."""

from pathlib import Path
from typing import Any

import msgspec

from overstory.cli.output import print_json
from overstory.control.coordinating import DECISIONS, decisions_in
from overstory.control.deciding import Decision

MOST = 20  # decisions that are told unless all are asked for


def are_in(folder: Path) -> bool:
    """Whether a folder is that of a coordinator."""
    return (folder / DECISIONS).is_file()


def explain_decisions(folder: Path, everything: bool, as_json: bool) -> None:
    """Prints the decisions, the latest last, with the numbers that each was made by."""
    decisions = decisions_in(folder)
    if as_json:
        print_json({"folder": str(folder), "decisions": _for_programs(decisions)})
        return
    shown = decisions if everything else decisions[-MOST:]
    if len(shown) < len(decisions):
        print(f"{len(decisions) - len(shown):,} earlier decisions are left out; --all tells them")
    for decision in shown:
        print(decision.told())
        print(f"    {', '.join(f'{name} {value:,.6g}' for name, value in decision.numbers.items()) or 'no numbers'}")


def _for_programs(decisions: list[Decision]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(decision) | {"told": decision.told()} for decision in decisions]
