"""Plans are installed while brokers, links and coordinators fail: in the simulator, and once with real processes.

``python -m overstory.lab.installing_virtual 0 1000`` and ``python -m overstory.lab.installing_live 0 50`` run more.
"""

import asyncio
from pathlib import Path

import pytest

from overstory.lab.installing_live import CUT, KILLED, Stage, Trouble
from overstory.lab.installing_virtual import Plotted, simulated
from overstory.lab.moving_virtual import moved


@pytest.mark.parametrize("seed", [8, 46, 92, *range(100, 109)])
def test_whatever_fails_the_network_ends_on_one_plan(seed: int) -> None:
    ended = simulated(seed)
    assert ended.is_right, (ended, Plotted.drawn(seed))


@pytest.mark.parametrize("seed", [0, 8, 14, 22, 37, 63, 96, 98, 100, 138, 149, 260, 330, 577, 623, 828])
def test_a_client_that_moves_meanwhile_gets_everything_once(seed: int) -> None:
    """In each of these an event was lost or came twice before: on another tree, with a version that was used, or where
    a broker restarted that a session had come to or was about to leave."""
    ended, schedule = moved(seed)
    assert ended.is_right, (ended, Plotted.drawn(seed))
    assert schedule.asked


def test_a_broker_and_a_link_fail_while_real_processes_switch_plans(tmp_path: Path) -> None:
    async def play() -> None:
        async with Stage(tmp_path) as stage:
            for seed, trouble in enumerate((Trouble(KILLED, 1, 0.1, 0.5), Trouble(CUT, 0, 0.1, 0.5))):
                ended = await stage.run(trouble, seed)
                assert ended.is_right, (ended, trouble)

    asyncio.run(play())
