"""Three NATS servers as a cluster and a leaf node, once for all tests of this folder that one worker runs."""

from collections.abc import Iterator

import pytest

from overstory.lab.nats_servers import Servers


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers(tmp_path_factory.mktemp("nats")) as running:
        yield running
