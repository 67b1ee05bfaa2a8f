"""Every benchmark runs, small; how fast it is says `make bench`."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_subject_runs_quickly() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    measurements = json.loads(result.stdout)["measurements"]
    assert len(measurements) > 20
    assert all(m["value"] > 0 and m["peer_value"] != 0 for m in measurements)


def test_an_unknown_subject_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks", "nonsense"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 64
    assert "'nonsense'" in result.stderr
