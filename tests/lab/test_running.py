"""Runs: resumed cell by cell, stored by what they depend on, and honest about what failed or changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from overstory.errors import DataError, EngineError, UsageError
from overstory.lab import store as store_module
from overstory.lab.code import code_fingerprint
from overstory.lab.experiment import Experiment, Row, Settings
from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.measuring import lines
from overstory.lab.running import Advance, run_cell, run_experiment
from overstory.lab.store import Store, difference
from overstory.lab.stored_runs import stored_runs

from .engines import Here

COMPUTED: list[Settings] = []
FACTOR = {"value": 1}


def cells(parameters: object, quick: bool) -> list[Settings]:
    return [{"seed": seed, "size": size} for seed in (1, 2) for size in ((1,) if quick else (1, 10))]


def run(settings: Settings) -> list[Row]:
    COMPUTED.append(settings)
    seed, size = int(str(settings["seed"])), int(str(settings["size"]))
    if size == 10 and seed == 2:
        raise ValueError("too large")
    return [settings | {"value": FACTOR["value"] * seed * size, "seconds": len(COMPUTED)}]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    made = Experiment("toy", "a toy", cells, run)
    monkeypatch.setitem(EXPERIMENTS, "toy", made)
    monkeypatch.setattr(store_module, "code_fingerprint", lambda module: f"{FACTOR['value']:016x}")
    COMPUTED.clear()
    FACTOR["value"] = 1
    return made


def test_nothing_is_computed_twice(toy: Experiment, tmp_path: Path) -> None:
    first = run_experiment("toy", {}, tmp_path, Here())
    assert [row["value"] for row in first.rows] == [1, 2]
    assert (first.computed, len(COMPUTED)) == (2, 2)
    again = run_experiment("toy", {}, tmp_path, Here())
    assert (again.rows, again.computed, len(COMPUTED)) == (first.rows, 0, 2)


def test_cells_that_two_experiments_share_are_computed_once(
    toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toy's second cell is the other's first."""

    def fewer(parameters: object, quick: bool) -> list[Settings]:
        return [{"seed": 2, "size": 1}, {"seed": 3, "size": 1}]

    monkeypatch.setitem(EXPERIMENTS, "other", replace(toy, name="other", cells=fewer))
    run_experiment("toy", {}, tmp_path, Here())
    found = run_experiment("other", {}, tmp_path, Here())
    assert [row["value"] for row in found.rows] == [2, 3]
    assert (found.computed, len(COMPUTED)) == (1, 3)
    runs = {run.experiment.name: run for run in stored_runs(tmp_path)}
    assert [row["value"] for row in runs["other"].rows] == [2, 3]
    assert (runs["toy"].cells, len(runs["toy"].results), runs["other"].stale) == (2, 2, 0)
    FACTOR["value"] = 3
    assert {run.experiment.name: run.stale for run in stored_runs(tmp_path)} == {"toy": 2, "other": 2}
    again = run_experiment("other", {}, tmp_path, Here())
    assert [each.changed for each in again.results] == ["value is 6, and was 2", "value is 9, and was 3"]
    assert run_experiment("toy", {}, tmp_path, Here()).computed == 1


@pytest.mark.parametrize("different", [{"alone": True}, {"run": lambda settings: run(settings)}])
def test_cells_that_are_computed_in_another_way_are_not_shared(
    toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, different: dict[str, Any]
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "other", replace(toy, name="other", **different))
    for name in ("toy", "other"):
        assert run_experiment(name, {}, tmp_path, Here()).computed == 2
    assert run_experiment("toy", {}, tmp_path, Here()).computed == 0


def test_what_failed_in_one_experiment_is_taken_from_another(
    toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(toy, name="other")
    monkeypatch.setitem(EXPERIMENTS, "other", other)
    cell: Settings = {"seed": 1, "size": 1}
    Store(tmp_path, toy).put(cell, [], 0.0, "it was killed")
    assert run_experiment("other", {}, tmp_path, Here()).computed == 2
    assert run_experiment("toy", {}, tmp_path, Here()).computed == 0
    stored = Store(tmp_path, toy).get(cell)
    assert stored is not None
    assert stored.failure is None


def test_a_failure_is_kept_and_tried_again(toy: Experiment, tmp_path: Path) -> None:
    found = run_experiment("toy", {}, tmp_path, Here(), quick=False)
    assert [row["value"] for row in found.rows] == [1, 10, 2]
    (failed,) = found.failed
    assert failed.failure == "ValueError: too large"
    assert run_experiment("toy", {}, tmp_path, Here(), quick=False).computed == 1
    (known,) = [each for each in stored_runs(tmp_path) if each.experiment.name == "toy"]
    assert (known.cells, len(known.failed)) == (4, 1)
    assert known.command(known.failed[0].settings) == "overstory lab run toy --full --only seed=2 --only size=10"


def test_a_run_that_is_killed_loses_nothing(toy: Experiment, tmp_path: Path) -> None:
    class Killed(Here):
        def run_task(self, function: Callable[[str], str], argument: str) -> str:
            if json.loads(argument)["settings"]["seed"] == 2:
                raise KeyboardInterrupt
            return function(argument)

    with pytest.raises(KeyboardInterrupt):
        run_experiment("toy", {}, tmp_path, Killed())
    assert run_experiment("toy", {}, tmp_path, Here()).computed == 1
    assert not [path for path in (tmp_path / "toy").iterdir() if path.name.startswith(".")]


def test_an_engine_that_fails_is_a_failed_cell(toy: Experiment, tmp_path: Path) -> None:
    class Broken(Here):
        def run_task(self, function: Callable[[str], str], argument: str) -> str:
            raise EngineError("a worker was killed")

    found = run_experiment("toy", {}, tmp_path, Broken())
    assert [each.failure for each in found.results] == ["a worker was killed"] * 2


def test_other_code_is_noticed(toy: Experiment, tmp_path: Path) -> None:
    run_experiment("toy", {}, tmp_path, Here())
    FACTOR["value"] = 3
    (known,) = stored_runs(tmp_path)
    assert (known.results, known.stale) == ([], 2)
    found = run_experiment("toy", {}, tmp_path, Here())
    assert found.computed == 2
    assert [each.changed for each in found.results] == ["value is 3, and was 1", "value is 6, and was 2"]
    (known,) = stored_runs(tmp_path)
    assert (len(known.changed), known.stale) == (2, 0)


def test_results_outlive_what_they_were_made_of(
    toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment("toy", {}, tmp_path, Here())

    def gone(parameters: object, quick: bool) -> list[Settings]:
        raise UsageError("the folder has gone")

    monkeypatch.setitem(EXPERIMENTS, "toy", replace(toy, cells=gone))
    (known,) = stored_runs(tmp_path)
    assert (known.cells, len(known.rows)) == (2, 2)


def test_differences() -> None:
    rows: list[Row] = [{"a": 1.0, "seconds": 3.0}]
    assert difference(rows, [{"a": 1.0 + 1e-12, "seconds": 9.0}], ("seconds",)) is None
    assert difference(rows, [{"a": 1.1, "seconds": 3.0}], ("seconds",)) == "a is 1.1, and was 1.0"
    assert difference(rows, [], ()) == "0 rows, where there were 1"


def test_a_store_of_another_version(toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment("toy", {}, tmp_path, Here())
    monkeypatch.setattr(store_module, "FORMAT", 2)
    with pytest.raises(DataError, match=r"another version \(1, not 2\); use another --store"):
        stored_runs(tmp_path)
    with pytest.raises(DataError, match="another version"):
        run_experiment("toy", {}, tmp_path, Here())


def test_a_result_that_is_none(toy: Experiment, tmp_path: Path) -> None:
    path = Store(tmp_path, toy).path_of({"seed": 1, "size": 1})
    path.parent.mkdir()
    path.write_text("nothing")
    with pytest.raises(DataError, match="not a result of the lab; remove it"):
        run_experiment("toy", {}, tmp_path, Here())


def test_a_store_that_cannot_be_written(toy: Experiment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="give another --store"):
        run_experiment("toy", {}, tmp_path / "file", Here())


@pytest.mark.parametrize(
    ("given", "only", "words"),
    [
        ({"color": 1}, {}, "no parameter 'color'; it has none"),
        ({}, {"color": 1}, "no setting 'color'; they have seed, size"),
        ({}, {"seed": 7}, "no such cell"),
    ],
)
def test_wrong_names(toy: Experiment, tmp_path: Path, given: dict[str, int], only: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_experiment("toy", dict(given), tmp_path, Here(), only=dict(only))


def test_there_is_no_such_experiment(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are trees-sampling"):
        run_experiment("nothing", {}, tmp_path, Here())
    assert json.loads(run_cell('{"experiment": "nothing", "settings": {}}'))["failure"].startswith("there is no")


def test_time_left() -> None:
    advance = Advance(every=2, weight=300, began=-100.0)
    assert advance.left is None
    advance.add({"brokers": 100})
    left = advance.left
    assert left is not None
    assert left > 0
    advance.add({"brokers": 200})
    assert (advance.done, advance.left) == (2, 0)


def test_code_is_known_by_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment does not count; a kernel that is imported over three corners does."""
    from overstory.lab import code

    path_of = code._path_of

    def fingerprint(name: str, edit: Callable[[str], str]) -> str:
        changed = tmp_path / "changed.py"
        changed.write_text(edit(path_of(name).read_text()))
        with monkeypatch.context() as patch:
            patch.setattr(code, "_path_of", lambda each: changed if each == name else path_of(each))
            return code_fingerprint.__wrapped__("overstory.lab.tree_cells")

    kernel = "overstory.kernels.tree_cost"
    usual = fingerprint(kernel, lambda text: text)
    assert usual == code_fingerprint("overstory.lab.tree_cells")
    assert fingerprint(kernel, lambda text: f"# why\n{text}") == usual
    assert fingerprint(kernel, lambda text: text.replace('"""What it costs', '"""What it took')) == usual
    assert fingerprint(kernel, lambda text: text.replace("cost += down[node]", "cost += up[node]")) != usual
    assert fingerprint("overstory.lab.claims", lambda text: f"{text}\nX = 1\n") == usual
    with monkeypatch.context() as patch:
        patch.setattr(code, "version", lambda package: "0.0" if package == "numba" else metadata.version(package))
        assert fingerprint(kernel, lambda text: text) != usual


def test_no_number_takes_the_name_of_a_setting(toy: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(settings: Settings) -> list[Row]:
        return [settings | {"size": 0.5}]

    monkeypatch.setitem(EXPERIMENTS, "toy", replace(toy, run=renamed))
    done = json.loads(run_cell(json.dumps({"experiment": "toy", "settings": {"seed": 1, "size": 1}})))
    assert "a row has 0.5 for the setting 'size' = 1" in done["failure"]


def test_rows_need_not_be_alike(toy: Experiment, tmp_path: Path) -> None:
    store = Store(tmp_path, toy)
    rows: list[Row] = [{"seed": 1, "total": 2.5}, {"seed": 1, "second": 60.0}, {"seed": 1, "total": None}]
    store.put({"seed": 1}, rows, 0.0)
    stored = store.get({"seed": 1})
    assert stored is not None
    assert stored.rows == rows  # a row without a total is not one whose total is unknown


def test_results_can_be_read_by_anybody(toy: Experiment, tmp_path: Path) -> None:
    run_experiment("toy", {}, tmp_path, Here())
    tables = [pq.read_table(path) for path in (tmp_path / "toy").glob("*.parquet")]
    assert sorted(table["value"].to_pylist() for table in tables) == [[1], [2]]


def test_an_experiment_says_where_it_runs(toy: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        parallelism = 1

        def run_task(self, function: Callable[[str], str], argument: str) -> str:
            raise AssertionError("it was to run on the driver")

    monkeypatch.setitem(EXPERIMENTS, "toy", replace(toy, on_driver=True))
    assert len(run_experiment("toy", {}, tmp_path, Nowhere()).rows) == 2


def test_what_is_not_known_is_not_drawn() -> None:
    rows: list[Row] = [{"way": "a", "x": 1, "y": None}, {"way": "a", "x": 2, "y": 3.0}, {"way": "b", "x": 1, "y": None}]
    drawn = {line.label: (line.x, line.y) for line in lines(rows, "x", "y", "way")}
    assert drawn == {"a": ([2.0], [3.0]), "b": ([], [])}
