"""Runs an experiment: those of its cells that have no result yet, beside each other in Spark's tasks.

Each result is stored as it comes, so whatever ends a run, the next one goes on from there. A cell that fails is told,
and kept with its reason; the others go on.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from overstory.errors import EngineError, OverstoryError, UsageError
from overstory.lab.experiment import Experiment, Parameters, Row, Settings
from overstory.lab.experiments import experiment_named
from overstory.lab.store import LastRun, Results, Store, Stored
from overstory.model.plan import Value


class Engine(Protocol):
    """Where cells run: the pipeline is one."""

    @property
    def parallelism(self) -> int: ...
    def run_task(self, function: Callable[[str], str], argument: str) -> str: ...


@dataclass(frozen=True)
class Run(Results):
    """What came of it: all results, in the order of the cells."""

    computed: int


@dataclass
class Advance:
    """How far a run is. Large cells count for more: by their brokers, if they have any."""

    done: int = 0
    every: int = 0
    weight_done: float = 0.0
    weight: float = 0.0
    began: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, settings: Settings) -> None:
        with self.lock:
            self.done += 1
            self.weight_done += weight_of(settings)

    @property
    def left(self) -> float | None:
        """Seconds, about; None while nothing is done."""
        if not self.weight_done:
            return None
        return (time.monotonic() - self.began) * (self.weight - self.weight_done) / self.weight_done


def weight_of(settings: Settings) -> float:
    brokers = settings.get("brokers", 1)
    return float(brokers) if isinstance(brokers, int) else 1.0


def parameters_of(experiment: Experiment, given: Parameters) -> dict[str, Value]:
    unknown = given.keys() - experiment.parameters.keys()
    if unknown:
        known = ", ".join(experiment.parameters) or "none"
        raise UsageError(f"experiment {experiment.name} has no parameter '{min(unknown)}'; it has {known}")
    parameters = dict(experiment.parameters) | dict(given)
    missing = [key for key, value in parameters.items() if value is None]
    if missing:
        raise UsageError(f"experiment {experiment.name} must be told '{missing[0]}': --set {missing[0]}=…")
    return parameters


def cells_of(experiment: Experiment, parameters: Parameters, quick: bool, only: Parameters) -> list[Settings]:
    """Those that have just these values, if ``only`` says any."""
    cells = list(experiment.cells(parameters, quick))
    unknown = only.keys() - {key for cell in cells for key in cell}
    if unknown:
        known = ", ".join(sorted({key for cell in cells for key in cell}))
        raise UsageError(f"cells of {experiment.name} have no setting '{min(unknown)}'; they have {known}")
    found = [cell for cell in cells if all(cell.get(key) == value for key, value in only.items())]
    if not found:
        raise UsageError(f"experiment {experiment.name} has no such cell; leave out --only to see what there is")
    return found


def run_experiment(
    name: str,
    given: Parameters,
    store: Path,
    engine: Engine,
    quick: bool = True,
    only: Parameters | None = None,
    watch: Callable[[Advance], None] = lambda _: None,
    tell: Callable[[Stored], None] = lambda _: None,
) -> Run:
    """``tell`` hears of each result as it comes."""
    experiment = experiment_named(name)
    parameters = parameters_of(experiment, given)
    cells = cells_of(experiment, parameters, quick, only or {})
    kept = Store(store, experiment)
    found = {
        position: stored for position, cell in enumerate(cells) if (stored := kept.get(cell)) and not stored.failure
    }
    todo = [position for position in range(len(cells)) if position not in found]
    advance = Advance(every=len(todo), weight=sum(weight_of(cells[position]) for position in todo))
    kept.note_run(LastRun(parameters, quick, dict(only or {})))
    watch(advance)

    def compute(position: int) -> Stored:
        stored = kept.put(cells[position], *_computed(engine, experiment, cells[position]))
        advance.add(cells[position])
        tell(stored)
        return stored

    if todo:
        one = experiment.alone or experiment.on_driver
        threads = ThreadPoolExecutor(1 if one else engine.parallelism)
        try:
            found.update(zip(todo, threads.map(compute, todo), strict=True))
        finally:
            threads.shutdown(cancel_futures=True)  # whoever interrupts a run does not wait for the rest of it
    return Run(experiment, [found[position] for position in range(len(cells))], len(todo))


def _computed(engine: Engine, experiment: Experiment, settings: Settings) -> tuple[list[Row], float, str | None]:
    """Rows, seconds, and why there are none."""
    began = time.monotonic()
    asked = json.dumps({"experiment": experiment.name, "settings": settings})
    try:
        found = json.loads(run_cell(asked) if experiment.on_driver else engine.run_task(run_cell, asked))
    except EngineError as error:
        found = {"rows": [], "failure": str(error)}
    return found["rows"], round(time.monotonic() - began, 3), found["failure"]


def run_cell(text: str) -> str:
    """In a task: a cell as JSON to its rows as JSON. Whatever goes wrong is a result, too."""
    asked: Mapping[str, Settings] = json.loads(text)
    try:
        rows = experiment_named(str(asked["experiment"])).run(asked["settings"])
        _check_rows(rows, asked["settings"])
    except OverstoryError as error:
        return json.dumps({"rows": [], "failure": str(error)})
    except Exception as error:
        return json.dumps({"rows": [], "failure": f"{type(error).__name__}: {error}"})
    return json.dumps({"rows": rows, "failure": None})


def _check_rows(rows: Sequence[Row], settings: Settings) -> None:
    """Rows are found again by their settings, so no number may take the name of one."""
    for row in rows:
        for name, value in settings.items():
            if row.get(name, value) != value:
                raise EngineError(f"a row has {row[name]} for the setting '{name}' = {value}; this is a fault of ours")
