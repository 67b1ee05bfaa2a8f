"""One Spark for all tests that need it."""

from collections.abc import Iterator

import pytest

from overstory.pipeline.pipeline import Pipeline


@pytest.fixture(scope="session")
def pipeline() -> Iterator[Pipeline]:
    with Pipeline("local[2]") as started:
        yield started
