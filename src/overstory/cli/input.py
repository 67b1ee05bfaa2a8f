"""What commands read: events, and other things that come one a line."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from overstory.errors import EventError, UsageError

AS_JSON = 'write it as {"name": value, …}'


def event_in(text: str, which: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except json.JSONDecodeError as error:
        what = f"{which} is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise EventError(what, text, error.pos, AS_JSON) from None
    except (ValueError, RecursionError) as error:
        raise EventError(f"{which} is not JSON that can be read: {error}", text, 0) from None
    if not text.isascii() or "\\u" in text:
        try:
            json.dumps(event, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise EventError(f"{which} has a lone surrogate, which is no character", text, 0) from None
    if not isinstance(event, dict):
        raise EventError(f"{which} is not a JSON object", text, 0, AS_JSON)
    return event


def events_in(path: str) -> Iterator[dict[str, Any]]:
    for number, line in lines_of(path):
        yield event_in(line, f"line {number} of {path}")


def lines_of(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers."""
    try:
        with sys.stdin if path == "-" else open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; give the path of a text file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8; convert it, or unzip it, first") from None
