"""Progress: a percentage and the time left where somebody looks, names of steps elsewhere, and never an error."""

import io
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from overstory.cli import progress as module
from overstory.cli.progress import Progress
from overstory.pipeline.pipeline import Pipeline


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Working:
    """A pipeline of which Spark does one task after the other."""

    def __init__(self, *tasks: tuple[int, int]) -> None:
        self.left: Iterator[tuple[int, int]] = iter(tasks)

    def tasks(self) -> tuple[int, int]:
        return next(self.left)  # fails after the last, as Spark does when it is closed


def screen_of(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Not a fixture, as pytest puts its own standard error in place after those."""
    found = Screen()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(module, "PATIENCE", -1.0)
    monkeypatch.setattr(module, "PERIOD", 3600.0)  # drawn when the test says so
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return found


def shown(screen: Screen) -> str:
    text = screen.getvalue()
    screen.seek(0)
    screen.truncate()
    return text


def watching(progress: Progress, *tasks: tuple[int, int]) -> None:
    progress.watch(cast(Pipeline, Working(*tasks)))


def test_a_terminal_shows_the_step_a_percentage_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    with Progress() as progress:
        clock = iter(range(0, 10_000, 2))
        monkeypatch.setattr(progress._bars, "get_time", lambda: float(next(clock)))
        watching(progress, (0, 8), (2, 8), (4, 8), (6, 8))
        progress.tell("matching events")
        for _ in range(4):
            shown(screen)
            progress.draw()
        line = shown(screen)
    for word in ("matching events", "75%", "6/8", "tasks", "left", "0:0"):
        assert word in line, line
    assert "-:--:--" not in line


def test_the_next_stage_is_measured_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    with Progress() as progress:
        watching(progress, (7, 8), (1, 8), (0, 0), (3, 4))
        progress.tell("matching events")
        for wanted in ("88%", "12%", "12%", "75%"):
            shown(screen)
            progress.draw()
            assert wanted in shown(screen)


def test_what_fails_while_drawing_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    with Progress() as progress:
        watching(progress)
        progress.tell("matching events")
        progress.draw()
        progress.note("what stays [to be read]")
    assert "Traceback" not in screen.getvalue()
    assert "what stays [to be read]" in screen.getvalue()


def test_elsewhere_there_are_the_steps_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        watching(progress, (1, 2))
        progress.tell("matching events")
        progress.note("a note")
    assert capsys.readouterr() == cast(Any, ("", "matching events …\na note\n"))
