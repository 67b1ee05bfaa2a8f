"""python -m benchmarks [--quick] [--json] [NAME ...]"""

import argparse
import json
import sys

import msgspec

from benchmarks.measure import table
from benchmarks.registry import SUBJECTS


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, beside bars and peers.")
    arguments.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUBJECTS)}; all by default")
    arguments.add_argument("--quick", action="store_true", help="small sizes, to see that all of it runs")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    unknown = [name for name in given.names if name not in SUBJECTS]
    if unknown:
        print(f"benchmarks: there is no subject {unknown[0]!r}; there are {', '.join(SUBJECTS)}", file=sys.stderr)
        return 64
    taken = []
    for name in given.names or SUBJECTS:
        print(f"measuring {name} ...", file=sys.stderr)
        taken += list(SUBJECTS[name](given.quick))
    if given.json:
        rows = [msgspec.to_builtins(m) | {"ratio": m.ratio, "verdict": m.verdict} for m in taken]
        print(json.dumps({"format_version": 1, "measurements": rows}))
    else:
        print(table(taken))
    return 0


sys.exit(main())
