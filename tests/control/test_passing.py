"""How a coordinator lets time pass: windows end by the clock, and newcomers are placed in between."""

import asyncio
import itertools
from pathlib import Path

import pytest

from overstory.control.brokers import Brokers
from overstory.control.coordinating import BUSY, Coordinator, Setting
from overstory.control.deciding import Rules

SECONDS = 10.0


class Timed(Coordinator):
    """Its clock goes on only while it sleeps or works, and it notes what it does when."""

    def __init__(self, folder: Path, placing: float, places: float, windows: float) -> None:
        setting = Setting(Rules(placing=placing), seconds=SECONDS)
        super().__init__(Brokers("http://127.0.0.1:1"), folder, setting, lambda _: None)
        self.clock, self._takes = 0.0, {"place": places, "window": windows}
        self.done: list[tuple[str, float]] = []

    async def start(self) -> None: ...

    async def place(self) -> None:
        self._does("place")

    async def window(self) -> None:
        self._does("window")

    def _does(self, what: str) -> None:
        self.done.append((what, self.clock))
        self.clock += self._takes[what]

    async def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def times(self, what: str) -> list[float]:
        return [at for name, at in self.done if name == what]


def passed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, placing: float, places: float = 0.0, windows: float = 0.0
) -> Timed:
    """Three windows of a coordinator that needs so long to place, and for the end of a window."""
    made = Timed(folder, placing, places, windows)
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", lambda: made.clock)
        patched.setattr("asyncio.sleep", made.sleep)
        asyncio.run(made.run(3))
    return made


def test_windows_end_by_the_clock_whatever_they_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = passed(tmp_path, monkeypatch, placing=0.1, windows=3.0)
    assert made.times("window") == pytest.approx([10.0, 20.0, 30.0])
    late = passed(tmp_path, monkeypatch, placing=0.1, windows=7.0)  # no window is shorter than half of one
    assert late.times("window") == pytest.approx([10.0, 22.0, 34.0])


def test_newcomers_are_placed_every_tenth_of_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = passed(tmp_path, monkeypatch, placing=0.1)
    within = [at for at in made.times("place") if at < SECONDS]
    assert within == pytest.approx([float(second) for second in range(1, 10)])
    assert not passed(tmp_path, monkeypatch, placing=0.0).times("place")


def test_placing_takes_a_tenth_of_the_time_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = passed(tmp_path, monkeypatch, placing=0.01, places=0.2)
    begun = [at for at in made.times("place") if at < SECONDS]
    assert len(begun) * 0.2 <= BUSY * SECONDS
    assert all(after - before >= 0.2 / BUSY for before, after in itertools.pairwise(begun))
