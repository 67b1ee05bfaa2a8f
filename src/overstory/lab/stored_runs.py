"""What the store has of the last run of each experiment: all that a report may show."""

from dataclasses import dataclass
from pathlib import Path

from overstory.errors import OverstoryError
from overstory.lab.experiment import Settings
from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.running import cells_of
from overstory.lab.store import LastRun, Results, Store


@dataclass(frozen=True)
class StoredRun(Results):
    """All results that there are of the code as it is now."""

    last: LastRun
    cells: int  # that the run asked for
    stale: int  # cells with results of other code alone

    @property
    def seeds(self) -> list[int]:
        return sorted({int(str(stored.settings["seed"])) for stored in self.results if "seed" in stored.settings})

    def command(self, only: Settings | None = None) -> str:
        """That repeats the run, or one cell of it."""
        given = {key: value for key, value in self.last.parameters.items() if value != self.experiment.parameters[key]}
        words = ["overstory lab run", self.experiment.name, "--quick" if self.last.quick else "--full"]
        words += [f"--set {key}={value}" for key, value in given.items()]
        chosen = self.last.only | (only or {})
        words += [f"--only {key}={_text(value)}" for key, value in chosen.items()]
        return " ".join(words)


def stored_runs(store: Path) -> list[StoredRun]:
    found = []
    for experiment in EXPERIMENTS.values():
        kept = Store(store, experiment)
        last = kept.last_run()
        if last is None:
            continue
        try:
            cells = cells_of(experiment, last.parameters, last.quick, last.only)
        except OverstoryError:  # what it was run on has gone; what came of it is still here
            cells = [stored.settings for stored in kept.every()]
        results = [stored for cell in cells if (stored := kept.get(cell)) is not None]
        found.append(StoredRun(experiment, results, last, len(cells), kept.stale(cells)))
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
