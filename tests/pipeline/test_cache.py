"""The cache: what comes from it is what would be computed, and nothing else ever does."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.scenario import read_scenario
from overstory.pipeline import cache as module
from overstory.pipeline.cache import FOLDER, Cache, digest_of
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.profile import profile_of, warnings_of
from overstory.planners.chains import make_plan

WORK = {"checking events", "matching events", "bounding the least traffic", "counting matches", "counting traffic"}
NAMES = ("published", "rows", "bound", "warnings", "totals", "profile")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache") / "made"
    make_localized(folder, topology("waxman", 15, 1), Localized(keywords=20, events=1500, locality=0.3), seed=4)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A fresh copy, without a cache."""
    return Path(shutil.copytree(made, tmp_path / "net", ignore=shutil.ignore_patterns(FOLDER)))


class Asked:
    """A pipeline as another process would have it, on the Spark that is there already."""

    def __init__(self, running: Pipeline, cache: bool = True) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []
        self.pipeline = Pipeline("local[2]", tell=self.steps.append, cache=cache, note=self.notes.append)
        self.pipeline._spark = running.spark

    def about(self, folder: Path, effort: int = 10**9) -> bytes:
        """A scorecard, traffic and warnings, as bytes; ``steps`` are then the ones of those that do work."""
        self.steps.clear()
        scenario = read_scenario(folder)
        plan = make_plan("spt", scenario, self.pipeline, {}, 0)
        score = self.pipeline.score(scenario, plan, effort)
        found = warnings_of(self.pipeline, scenario), profile_of(self.pipeline, scenario)
        self.steps = [step for step in self.steps if step in WORK]
        return msgspec.json.encode((score.card, score.traffic.frames.tolist(), score.traffic.bytes.tolist(), found))


@pytest.fixture
def ask(pipeline: Pipeline) -> Iterator[Callable[..., Asked]]:
    started: list[Asked] = []

    def new(cache: bool = True) -> Asked:
        started.append(Asked(pipeline, cache))
        return started[-1]

    yield new
    for each in started:
        each.pipeline._spark = None  # it is not theirs to stop
        each.pipeline.close()


def entries(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in (folder / FOLDER).iterdir())


@pytest.mark.parametrize("effort", [10**9, 100])
def test_the_second_time_nothing_is_matched_and_all_is_the_same(
    folder: Path, ask: Callable[..., Asked], effort: int
) -> None:
    without, first, second = ask(cache=False), ask(), ask()
    expected = without.about(folder, effort)
    assert not (folder / FOLDER).exists()
    before = read_scenario(folder).fingerprint
    assert first.about(folder, effort) == expected
    assert set(first.steps) == set(without.steps) == WORK
    assert second.about(folder, effort) == expected
    assert not second.steps
    assert entries(folder) == sorted(NAMES)
    assert read_scenario(folder).fingerprint == before


def change_an_event(folder: Path) -> None:
    path = folder / "events.parquet"
    events = pq.read_table(path)
    sizes = events["$bytes"].to_pylist()
    at = events.schema.get_field_index("$bytes")
    pq.write_table(events.set_column(at, events.schema.field(at), pa.array([sizes[0] + 1, *sizes[1:]])), path)


def change_a_subscription(folder: Path) -> None:
    path = folder / "subscriptions.parquet"
    rows = pq.read_table(path)
    texts = rows["filter"].to_pylist()
    assert texts[0] != texts[-1]
    at = rows.schema.get_field_index("filter")
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array([texts[-1], *texts[1:]])), path)


@pytest.mark.parametrize("change", [change_an_event, change_a_subscription])
def test_a_scenario_that_has_changed_is_matched_again(
    folder: Path, ask: Callable[..., Asked], change: Callable[[Path], None]
) -> None:
    ask().about(folder)
    change(folder)
    expected, again = ask(cache=False).about(folder), ask()
    assert again.about(folder) == expected
    assert set(again.steps) == WORK


def test_other_code_does_not_find_what_this_code_kept(
    folder: Path, ask: Callable[..., Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ask().about(folder)
    monkeypatch.setattr(module, "code_fingerprint", lambda: "another")
    again = ask()
    assert again.about(folder) == expected
    assert set(again.steps) == WORK


def test_code_is_known_by_all_files_that_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Path(module.__file__).parents[1]
    copy = Path(shutil.copytree(ours, tmp_path / "overstory", ignore=shutil.ignore_patterns("__pycache__", "lab")))
    monkeypatch.setattr(module, "__file__", str(copy / "pipeline" / "cache.py"))
    usual = module.code_fingerprint.__wrapped__()
    for name in ("errors.py", "kernels/match.py", "filters/like.py", "model/values.py", "matching/index.py"):
        text = (copy / name).read_text()
        (copy / name).write_text(f"{text}\n")
        assert module.code_fingerprint.__wrapped__() != usual
        (copy / name).write_text(text)
    assert module.code_fingerprint.__wrapped__() == usual
    (copy / "cli" / "plan.py").write_text("")
    assert module.code_fingerprint.__wrapped__() == usual
    monkeypatch.setattr(module, "version", lambda name: f"{name} 0")
    assert module.code_fingerprint.__wrapped__() != usual


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_what_is_damaged_is_worked_out_again(
    folder: Path, ask: Callable[..., Asked], damage: Callable[[Path], None]
) -> None:
    expected = ask().about(folder)
    files = [
        path
        for path in (folder / FOLDER).rglob("*")
        if path.suffix in (".json", ".msgpack", ".npz", ".parquet") and path.is_file()
    ]
    assert len(files) >= 2 * len(NAMES)
    for path in files:
        damage(path)
    again, healed = ask(), ask()
    assert again.about(folder) == expected
    assert set(again.steps) == WORK
    assert healed.about(folder) == expected
    assert not healed.steps
    assert again.notes == healed.notes == []


def test_a_folder_that_cannot_be_written_to_is_said_once_and_no_error(folder: Path, ask: Callable[..., Asked]) -> None:
    (folder / FOLDER).write_text("in the way")
    expected, asked = ask(cache=False).about(folder), ask()
    assert asked.about(folder) == expected
    (note,) = asked.notes
    assert str(folder / FOLDER) in note
    assert "\n" not in note


def test_workers_elsewhere_share_no_folder() -> None:
    for master, caches in (("local[*]", True), ("local", True), ("spark://host:7077", False), ("yarn", False)):
        with Pipeline(master, cache=True) as pipeline:
            assert pipeline.caches == caches
    with Pipeline() as pipeline:
        assert not pipeline.caches


def cache_of(folder: Path, most: int) -> Cache:
    found = Cache(read_scenario(folder))
    found.most = most
    return found


def keep(cache: Cache, name: str, size: int, used: int) -> None:
    cache.keep_value(name, "x" * size)
    if (cache.folder / name).exists():
        os.utime(cache.folder / name, (used, used))


def test_what_was_not_used_for_the_longest_time_goes_first(folder: Path) -> None:
    cache = cache_of(folder, 3500)
    for number, name in enumerate("abc"):
        keep(cache, name, 1000, number)
    assert cache.find_value("a", str) == "x" * 1000  # now b is the one
    keep(cache, "d", 1000, 10)
    assert sorted(path.name for path in cache.folder.iterdir()) == ["a", "c", "d"]
    keep(cache, "e", 10_000, 11)  # more than there is room for, alone
    assert [path.name for path in cache.folder.iterdir()] == ["e"]


def test_the_room_grows_with_the_log(folder: Path) -> None:
    log = (folder / "events.parquet").stat().st_size
    assert Cache(read_scenario(folder)).most == module.MOST
    assert Cache(read_scenario(folder), most=1).most == module.TIMES_THE_LOG * log


def test_nothing_is_kept_of_a_log_that_changes_meanwhile(folder: Path) -> None:
    cache = Cache(read_scenario(folder))
    change_an_event(folder)
    cache.keep_value("value", 1)
    assert cache.find_value("value", int) is None
    assert not list(cache.folder.iterdir())


def test_what_a_dead_process_left_is_removed_in_time(folder: Path) -> None:
    cache = Cache(read_scenario(folder))
    cache.folder.mkdir()
    for name in ("old", "young"):
        (cache.folder / f"{module.UNFINISHED}{name}").mkdir()
    os.utime(cache.folder / f"{module.UNFINISHED}old", (1, 1))
    cache.keep_value("value", 1)
    assert sorted(path.name for path in cache.folder.iterdir()) == [f"{module.UNFINISHED}young", "value"]


def test_keys_tell_questions_apart(folder: Path) -> None:
    cache = Cache(read_scenario(folder))
    asked: list[tuple[str, list[str | bytes]]] = [
        ("rows", ["a", "b"]),
        ("rows", ["ab"]),
        ("rows", ["b", "a"]),
        ("bound", ["a", "b"]),
        ("rows", [b"a", "b", ""]),
    ]
    assert len({cache.key(kind, *parts) for kind, parts in asked}) == len(asked)


def test_a_second_command_does_not_start_spark(folder: Path, ask: Callable[..., Asked]) -> None:
    def told(pipeline: Pipeline) -> bytes:
        scenario = read_scenario(folder)
        plans = [make_plan(name, scenario, pipeline, {}, 0) for name in ("spt", "tree-search", "mult")]
        found = [pipeline.score(scenario, plan, 10**9).card for plan in plans]
        return msgspec.json.encode((found, profile_of(pipeline, scenario), pipeline.summary(scenario)))

    expected = told(ask().pipeline)
    with Pipeline("there is no such master", cache=True) as nowhere:
        nowhere.caches = True
        assert told(nowhere) == expected


def test_numbers_that_json_has_not_are_kept(folder: Path) -> None:
    cache = Cache(read_scenario(folder))
    cache.keep_value("value", [float("inf"), -float("inf")])
    assert cache.find_value("value", list[float]) == [float("inf"), -float("inf")]


def test_arrays_are_told_apart_by_all_that_they_hold() -> None:
    node = np.dtype([("a", np.int32), ("b", np.int32)])
    asked: list[list[np.ndarray[Any, Any]]] = [
        [np.arange(4)],
        [np.arange(4).reshape(2, 2)],
        [np.arange(2), np.arange(2, 4)],
        [np.arange(4).astype(np.int32)],
        [np.zeros(2, node)],
        [np.zeros(4, np.int32)],
        [np.arange(8)[::2]],
        [np.array([True])],
        [np.array(True)],
    ]
    assert len({digest_of(arrays) for arrays in asked}) == len(asked)
    assert digest_of([np.arange(8)[::2]]) == digest_of([np.array([0, 2, 4, 6])])


PROCESS = """
import sys
from pathlib import Path
from overstory.model.scenario import read_scenario
from overstory.pipeline.cache import Cache

cache = Cache(read_scenario(Path(sys.argv[1])))
cache.most = 30_000
for turn in range(150):
    name = f"value-{turn % 5}"
    expected = name * 1000
    found = cache.find_value(name, str)
    assert found in (None, expected), "a half"
    if found is None:
        cache.keep_value(name, expected)
    elif turn % 7 == 0:
        cache.drop(name)
"""


def test_processes_at_once_do_not_spoil_it(folder: Path) -> None:
    """There is room for four entries, and five are wanted, so that entries come and go all the time."""
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(folder)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in running:
        _, said = process.communicate()
        assert (process.returncode, said) == (0, "")
    cache = Cache(read_scenario(folder))
    assert {path.name[:6] for path in cache.folder.iterdir()} == {"value-"}
    for path in cache.folder.iterdir():
        assert cache.find_value(path.name, str) == path.name * 1000
