"""One Spark session, started when it is first needed, kept warm and shared by all that Python asks for.

Steps are logged as ``overstory`` at the level INFO, and what a user should know at WARNING.
"""

import atexit
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from overstory.model.scenario import Scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.session import LOCAL

LOG = logging.getLogger("overstory")


class Choice(NamedTuple):
    """Where Spark runs, and whether what was matched and bounded is kept in the scenario's folder."""

    master: str = LOCAL
    cache: bool = True


class _Engine:
    """The pipeline that is warm, if there is one."""

    def __init__(self) -> None:
        self.choice = Choice()
        self.pipeline: Pipeline | None = None
        self.fingerprints: dict[Path, str] = {}  # of the scenarios that the pipeline remembers, by folder

    def close(self) -> None:
        pipeline, self.pipeline = self.pipeline, None
        self.fingerprints.clear()
        if pipeline is not None:
            pipeline.close()


_engine = _Engine()
atexit.register(_engine.close)


def warm() -> Pipeline:
    """The pipeline that everybody shares. Spark itself starts with the first step that needs it."""
    if _engine.pipeline is None:
        choice = _engine.choice
        _engine.pipeline = Pipeline(choice.master, tell=LOG.info, cache=choice.cache, note=LOG.warning)
    return _engine.pipeline


def pipeline_for(scenario: Scenario) -> Pipeline:
    """Returns the pipeline whose Spark session is kept warm. It remembers scenarios by their folders, so it begins anew
    if a folder holds another one."""
    if _engine.fingerprints.get(scenario.folder, scenario.fingerprint) != scenario.fingerprint:
        _engine.close()
    _engine.fingerprints[scenario.folder] = scenario.fingerprint
    return warm()


@contextmanager
def engine(master: str = LOCAL, *, cache: bool = True) -> Iterator[None]:
    """Chooses where Spark runs for as long as the block lasts: ``with ov.engine(master="local[2]"):``. A session that
    runs elsewhere is ended first, as there is one at a time. Without ``cache`` nothing is kept in folders."""
    before, chosen = _engine.choice, Choice(master, cache)
    if chosen == before:
        yield
        return
    _engine.close()
    _engine.choice = chosen
    try:
        yield
    finally:
        _engine.close()
        _engine.choice = before
