"""The list of planners in ``overstory plan --help``: a line or two for each, by the problem that it solves."""

import inspect
import shutil
import textwrap

from overstory.planners.own import installed, known_planners
from overstory.planners.registry import OWN, PROBLEMS, Planner

INDENT, NAMES = "  ", 24  # before a name; characters up to where the words begin
LEAST_WIDTH, MOST_WIDTH = 60, 110


def planner_list() -> str:
    """All planners; those of others with all that they say of themselves, since no page of ours has it."""
    every = known_planners().values()
    parts = []
    for problem, (asks, first) in PROBLEMS.items():
        parts.append(_filled(f"{problem}: {asks}; begin with {first}", "", ""))
        parts += [_entry(planner) for planner in every if planner.problem == problem]
        parts.append("")
    failed = [_filled(f"{name} cannot be loaded: {reason}", "", INDENT) for name, reason in installed().items()]
    return "\n".join([*parts, *failed]).rstrip()


def _entry(planner: Planner) -> str:
    own, margin = planner.name in OWN, " " * NAMES
    name = f"{planner.name} (installed)" if own else planner.name
    words = " ".join((inspect.getdoc(planner.plan) or "").split()) if own else planner.summary
    lines = [_filled(words, f"{INDENT}{name}".ljust(NAMES - 1) + " ", margin)]
    return "\n".join([*lines, *(_filled(line, margin, margin) for line in (_details(planner) if own else ()))])


def _details(planner: Planner) -> list[str]:
    facts = {
        "guarantee": planner.guarantee,
        "does badly": planner.fails,
        "time": planner.time,
        "paper": planner.paper,
        "decides on": ", ".join(planner.writes),
        "parameters": ", ".join(f"{name}={value}" for name, value in planner.parameters.items()) or "none",
    }
    return [f"{name}: {fact}" for name, fact in facts.items()]


def _filled(text: str, first: str, others: str) -> str:
    wide = min(max(shutil.get_terminal_size().columns - 2, LEAST_WIDTH), MOST_WIDTH)
    return textwrap.fill(text, wide, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
