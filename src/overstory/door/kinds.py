"""Generated scenarios of any kind, by the command line's own parser: the same options, limits and words."""

from pathlib import Path
from typing import Any

from overstory.cli import parser
from overstory.door.folders import Where, new_folder
from overstory.door.scenario import Scenario, read_scenario
from overstory.errors import UsageError

NOT_FOR_US = ("help", "json", "seed")  # what a program has no use for, or what has a parameter of its own


def make_scenario(kind: str, folder: Where = None, *, seed: int = 0, **options: Any) -> Scenario:
    """A generated scenario of any kind that ``overstory scenario make --help`` lists, such as ``topics``. ``options``
    are those of the kind, with ``_`` for ``-``; a switch such as ``opposed`` is True."""
    path = new_folder(folder, str(kind))
    arguments = parser().parse_args(["scenario", "make", *_words(kind, path, options), f"--seed={seed}"])
    notes = arguments.make(arguments)
    return Scenario(read_scenario(path).model, tuple(notes))


def _words(kind: str, folder: Path, options: dict[str, Any]) -> list[str]:
    """The arguments as they would be written after ``overstory scenario make``."""
    wrong = next((name for name in options if name in NOT_FOR_US), None)
    if wrong or kind.startswith("-"):
        raise UsageError(f"there is no option '{wrong}' of a scenario" if wrong else f"'{kind}' is no kind of scenario")
    words = [kind, str(folder)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [] if value is False or value is None else [f"{option}={value}"]
    return words
