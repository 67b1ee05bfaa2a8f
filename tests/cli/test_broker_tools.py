"""The commands that talk to a broker: pub, sub and bench."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from overstory.cli import main
from overstory.client.trial import Result, Trial

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


def test_wrong_deliveries_are_told_in_one_object(
    running: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial.run

    async def one_is_missing(self: Trial) -> Result:
        return msgspec.structs.replace(await trial(self), missing=1)

    monkeypatch.setattr(Trial, "run", one_is_missing)
    given = ["bench", "--url", f"mqtt://127.0.0.1:{running.port}", "--messages", "20", "--verify"]
    assert main([*given, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["missing"], told["error"]["kind"]) == (1, "WrongDeliveryError")
    assert main(given) == 1
    assert "1 deliveries are not as the filters say" in capsys.readouterr().err


def test_an_option_is_named_where_its_value_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "nowhere", "--policy", "foo"]) == 64
    assert "--policy 'foo' is not known; there are active, cost" in capsys.readouterr().err


def test_nobody_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pub", "x", "--url", "mqtt://127.0.0.1:1"]) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err
    assert main(["pub", "x", "--attribute", "nonsense"]) == 64
    assert main(["sub", "x >", "--url", "mqtt://127.0.0.1:1"]) == 1
