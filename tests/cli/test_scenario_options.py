"""Options of ``scenario make`` and ``scenario import`` are refused in the user's words, before any work."""

from pathlib import Path

import pytest

from overstory import cli
from overstory.cli import scenario as scenario_command
from overstory.lab.localized import Localized

MAKE = ["scenario", "make", "localized", "made"]
IMPORT = ["scenario", "import", "made", "--events", "log.csv", "--topology", "zoo:Abilene"]
WRONG = [
    ([*MAKE, "--brokers", "0"], ["--brokers", "from 1 to"]),
    ([*MAKE, "--brokers", "many"], ["--brokers", "a whole number, not 'many'"]),
    ([*MAKE, "--brokers", "99999999999"], ["--brokers", "to 1,000,000"]),
    ([*MAKE, "--seed", "-1"], ["--seed", "from 0"]),
    ([*MAKE, "--keywords", "0"], ["--keywords", "from 1"]),
    ([*MAKE, "--subscribers-per-keyword", "0"], ["--subscribers-per-keyword", "from 1"]),
    ([*MAKE, "--locality", "0"], ["--locality", "a share of all brokers, more than 0 and at most 1, not 0"]),
    ([*MAKE, "--locality", "nan"], ["--locality", "not nan"]),
    ([*MAKE, "--events", "-5"], ["--events", "from 0"]),
    ([*MAKE, "--keywords-per-event", "0"], ["--keywords-per-event", "from 1"]),
    ([*MAKE, "--event-neighbourhood", "0"], ["--event-neighbourhood", "from 1"]),
    ([*MAKE, "--bytes", "1.5"], ["--bytes", "a whole number"]),
    ([*IMPORT, "--selectivity", "5"], ["--selectivity", "a share of all events, more than 0 and less than 1, not 5"]),
    ([*IMPORT, "--selectivity", "1"], ["--selectivity", "less than 1"]),
    ([*IMPORT, "--selectivity", "a lot"], ["--selectivity", "a number, not 'a lot'"]),
    ([*IMPORT, "--brokers", "-3"], ["--brokers", "from 1"]),
    ([*IMPORT, "--seed", "x"], ["--seed", "a whole number"]),
    ([*IMPORT, "--time-unit", "h"], ["--time-unit", "ns"]),
    ([*IMPORT, "--bad-values", "keep"], ["--bad-values", "refuse"]),
    ([*IMPORT, "--type", "temp"], ["--type temp", "COLUMN=TYPE"]),
    ([*IMPORT, "--subscriptions", "-5"], ["-5"]),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=lambda value: " ".join(value[-2:]))
def test_numbers_out_of_range(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("the work has begun")

    for name in ("topology", "pipeline_for"):
        if arguments[-2] != "--subscriptions":  # which the importer reads, before Spark starts
            monkeypatch.setattr(scenario_command, name, work)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("n\n1\n")
    assert cli.main(arguments) == 64
    said = capsys.readouterr().err.strip()
    assert all(word in said for word in words), said
    assert "\n" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_every_number_of_a_generated_scenario_is_an_option() -> None:
    fields = set(Localized.__struct_fields__)
    assert fields == {*scenario_command.PARAMETERS, "per_broker"}


def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(scenario_command, "topology", work)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert cli.main(["scenario", "make", "localized", "file/made"]) == 64
    assert "is a file, not a folder" in capsys.readouterr().err
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "x").touch()
    assert cli.main(MAKE) == 64
    assert "exists already" in capsys.readouterr().err
