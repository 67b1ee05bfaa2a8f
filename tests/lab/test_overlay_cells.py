"""Cells of overlay experiments: rows say what their settings were, so that measures find them."""

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiments import overlay_laws


def test_rows_keep_their_settings_and_measures_find_them() -> None:
    small = {"users": 20, "brokers": 3}
    cells = [cell | small for cell in overlay_laws.cells({}, True) if cell["seed"] == 1]
    cells = [cell for cell in cells if cell["access_core_ratio"] != 5.0]
    rows = [row for cell in cells for row in overlay.run(cell)]
    assert all(row | cell == row for row, cell in zip(rows, cells, strict=True))
    measures = overlay_laws.EXPERIMENT.measures
    assert all(measure(rows) for measure in measures.values())
    figures = overlay_laws.figures(rows)
    assert len(figures) == 4
    unlike = {
        core: overlay_laws.dearer(rows, overlay.MIXING, overlay.GREEDY, "metric", core) for core in overlay_laws.CORES
    }
    assert len({tuple(found.values()) for found in unlike.values()}) == 2
