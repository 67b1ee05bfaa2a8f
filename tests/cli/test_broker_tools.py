"""The commands that talk to a broker: pub, sub and bench."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from overstory.cli import main

from ..broker.running import PATIENCE, Running, broker, environment


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with broker() as made:
        yield made


def test_pub_and_sub(running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"mqtt://127.0.0.1:{running.port}"
    command = [sys.executable, "-m", "overstory.cli", "sub", "price > 3", "--topics", "quotes/#", "--url", url]
    with subprocess.Popen([*command, "--count", "3"], stdout=subprocess.PIPE, text=True, env=environment()) as sub:
        running.wait(lambda state: len(state.subscriptions) == 1)
        events = tmp_path / "events.jsonl"
        events.write_text('{"price": 4, "tags": ["a", "b"]}\n{"price": 1}\n{"price": 5.5, "symbol": "A"}\n')
        assert main(["pub", "quotes/x", "--url", url, "--events", str(events)]) == 0
        assert main(["pub", "quotes/y", "--url", url, "--attribute", "price=9", "--payload", "hi", "--qos", "2"]) == 0
        out, _ = sub.communicate(timeout=PATIENCE)
    assert out.splitlines() == [
        "quotes/x price=4 tags=['a', 'b']",
        "quotes/x price=5.5 symbol=A",
        "quotes/y price=9 hi",
    ]
    assert "published 3 events to quotes/x" in capsys.readouterr().err


@pytest.mark.parametrize("qos", ["0", "1", "2"])
@pytest.mark.parametrize("rate", ["0", "2000"])
def test_bench_checks_every_delivery(running: Running, qos: str, rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"mqtt://127.0.0.1:{running.port}"
    given = ["--messages", "400", "--subscribers", "5", "--matches", "2", "--qos", qos, "--rate", rate]
    assert main(["bench", "--url", url, *given, "--verify", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["messages"] == 400
    assert told["deliveries"] > 400
    assert (told["missing"], told["unwanted"], told["repeated"]) == (0, 0, 0)
    assert 0 < told["latency"]["p50"] <= told["latency"]["p99"] <= told["latency"]["max"]


def test_nobody_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pub", "x", "--url", "mqtt://127.0.0.1:1"]) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err
    assert main(["pub", "x", "--attribute", "nonsense"]) == 64
    assert main(["sub", "x >", "--url", "mqtt://127.0.0.1:1"]) == 1
