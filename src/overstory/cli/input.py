"""What commands read: events, and other things that come one a line."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from overstory.errors import EventError, UsageError


def event_in(text: str, which: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except json.JSONDecodeError as error:
        raise EventError(f"{which} is not JSON: {error.msg[:1].lower()}{error.msg[1:]}", text, error.pos) from None
    except (ValueError, RecursionError) as error:
        raise EventError(f"{which} is not JSON that can be read: {error}", text, 0) from None
    if not text.isascii() or "\\u" in text:
        try:
            json.dumps(event, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise EventError(f"{which} has a lone surrogate, which is no character", text, 0) from None
    if not isinstance(event, dict):
        raise EventError(f"{which} is not a JSON object", text, 0, 'write it as {"name": value, …}')
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
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
