"""python -m tests.fuzz FOLDER [options of libFuzzer]: needs the package ``atheris``, which nothing else here does.

Inputs that reach something new are kept in FOLDER; one that breaks a rule is written beside it, and ends the run.
"""

import sys
from pathlib import Path

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

# Kernels cannot be instrumented, and are imported before.
import overstory.kernels.straight
import overstory.routing.compiled  # noqa: F401

with atheris.instrument_imports(include=["overstory.wire", "overstory.broker"]):
    from tests.fuzz.target import one_input, seeds


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (folder / f"seed-{number}").write_bytes(seed)
        one_input(seed)  # kernels are loaded before the clock of the fuzzer runs
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


main()
