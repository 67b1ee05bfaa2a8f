"""How commands speak: plain text for people, one JSON object for programs."""

import json
import sys

from overstory.errors import DataError, OverstoryError, TextError

FORMAT_VERSION = 1


def print_json(result: dict[str, object]) -> None:
    print(json.dumps({"format_version": FORMAT_VERSION, **result}, ensure_ascii=False))


def print_error(error: OverstoryError, as_json: bool) -> None:
    if not as_json:
        print(f"overstory: {error}", file=sys.stderr)
        return
    details: dict[str, object] = {"kind": type(error).__name__, "problem": str(error).partition("\n")[0]}
    if isinstance(error, TextError):
        details |= {"position": error.position, "advice": error.advice}
    if isinstance(error, DataError) and error.problems:
        details["problems"] = [
            {"table": problem.table, "row": problem.row, "column": problem.column, "what": problem.what}
            for problem in error.problems
        ]
    print_json({"error": details})
