"""Clients are moved between two real brokers while events come: nothing is missing, nothing comes twice."""

import asyncio
from pathlib import Path

from overstory.broker.admin import files_in
from overstory.control.applying import Options, apply
from overstory.control.brokers import Brokers
from overstory.lab.live import HOST, Network
from overstory.lab.moving_live import move, written
from overstory.model.plan import read_plan

CLIENTS = 5


def test_ours_follow_and_others_stay(tmp_path: Path) -> None:
    scenario, plans = written(tmp_path, CLIENTS)
    moved_once: list[int] = []
    with Network(scenario, plans[0], tmp_path / "logs") as network:

        async def here(plan: Path) -> None:
            brokers = Brokers(f"http://{HOST}:{network.ports[0].monitor}")
            options = Options(files=files_in(str(plan)), history=tmp_path / "history")
            moved_once.append((await apply(read_plan(plan), brokers, options)).moved)

        moved = asyncio.run(move(network, plans, CLIENTS, 2, here))
    assert (moved.missing, moved.repeated, moved.others_missing) == (0, 0, 0)
    assert moved.moves == 2 * CLIENTS
    assert moved_once == [CLIENTS, CLIENTS]
