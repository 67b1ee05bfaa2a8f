"""Publishers of a log are attached where they say, and keep their names."""

from pathlib import Path
from typing import Any

import pytest

from overstory.errors import DataError
from overstory.lab.importing import Import, Imported, import_scenario
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.pipeline import Pipeline

LOG = "who,n,broker\noslo,1,rome\nann,2,bern\nann,3,bern\nzoe,4,\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "links.csv").write_text("source,target\noslo,rome\nrome,bern\n")
    (tmp_path / "wanted.csv").write_text("client,filter,name\nrome,n > 1,many\nann,n = 1,\n")
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path


def imported(files: Path, made: str, pipeline: Pipeline, **further: Any) -> tuple[Imported, Scenario]:
    what = Import(
        files / "log.csv",
        str(files / "links.csv"),
        **({"publisher": "who", "subscriptions": str(files / "wanted.csv")} | further),
    )
    found = import_scenario(files / made, what, pipeline)
    return found, read_scenario(files / made)


def brokers(scenario: Scenario) -> dict[str, str]:
    """The names of brokers by the names of their clients."""
    ids = zip(scenario.clients["id"].to_pylist(), scenario.clients["broker"].to_pylist(), strict=True)
    return {scenario.client_names[client]: scenario.broker_names[broker] for client, broker in ids}


def test_by_column_by_name_and_by_file(files: Path, pipeline: Pipeline) -> None:
    found, scenario = imported(files, "made", pipeline)
    assert found.attached == {"by column": 2, "by name": 1, "by chance": 1}
    assert "clients attached: 2 by column, 1 by name, 1 by chance" in found.notes
    where = brokers(scenario)
    assert (where["oslo"], where["ann"], where["rome"]) == ("rome", "bern", "rome")
    assert scenario.subscription_names == {0: "many"}
    (files / "at.csv").write_text("client,broker\noslo,oslo\nzoe,bern\nzoee,bern\n")
    found, scenario = imported(files, "filed", pipeline, attach=files / "at.csv")
    assert found.attached == {"by file": 2, "by column": 1, "by name": 1}
    assert brokers(scenario) == {"oslo": "oslo", "ann": "bern", "rome": "rome", "zoe": "bern"}
    assert any("attaches 1 that neither publish nor subscribe (zoee, perhaps zoe)" in note for note in found.notes)


def test_a_column_that_names_no_brokers_attaches_only_if_it_has_to(files: Path, pipeline: Pipeline) -> None:
    (files / "log.csv").write_text(LOG.replace(",bern\nzoe", ",bärn\nzoe"))
    found, scenario = imported(files, "made", pipeline)
    assert any("'broker' of the log is an attribute alone" in note for note in found.notes)
    assert brokers(scenario)["oslo"] == "oslo"
    with pytest.raises(DataError, match=r"'broker' of .* publisher 'ann' is at bern and at bärn") as caught:
        imported(files, "told", pipeline, broker="broker")
    assert "\n" not in str(caught.value)
    assert not (files / "told").exists()
