"""Attributes may have dots and backticks in their names, as the filter language allows, in every step."""

from pathlib import Path

import pyarrow as pa
import pytest

from overstory.lab.importing import Import, import_scenario
from overstory.model.scenario import read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import make_plan

LINKS = "source,target\n0,1\n1,2\n"
LOG = "order.price,device.fw,odd `tick`.x\n" + "".join(f"{number},v{number % 2},{number % 3}\n" for number in range(60))
WANTED = """client,filter
a,order.price >= 30
b,device.fw = 'v1'
c,"""
WANTED += '"""odd `tick`.x"" = 2"\n'


@pytest.mark.parametrize("memory", [1 << 30, 600])  # in one index, and in shards
def test_dotted_names_are_imported_shown_planned_and_scored(tmp_path: Path, pipeline: Pipeline, memory: int) -> None:
    for name, text in {"log.csv": LOG, "links.csv": LINKS, "wanted.csv": WANTED}.items():
        (tmp_path / name).write_text(text)
    what = Import(tmp_path / "log.csv", str(tmp_path / "links.csv"), subscriptions=str(tmp_path / "wanted.csv"))
    import_scenario(tmp_path / "made", what, pipeline)
    scenario = read_scenario(tmp_path / "made")
    assert scenario.attributes == {"order.price": pa.int64(), "device.fw": pa.string(), "odd `tick`.x": pa.int64()}
    assert pipeline.summary(scenario)["events"] == 60
    pipeline.memory, before = memory, pipeline.memory
    try:
        card = pipeline.score(scenario, make_plan("spt", scenario, pipeline, {})).card
    finally:
        pipeline.memory = before
    assert card.deliveries == 30 + 30 + 20
