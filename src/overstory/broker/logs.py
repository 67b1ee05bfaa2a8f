"""Structured logs: one JSON object a line, on standard error."""

import sys
import time
from collections.abc import Mapping
from typing import TextIO

import msgspec

# Logged as warnings
LOUD = frozenset(("fault", "protocol_error", "session_full", "store_failed", "paused", "resumed")) | frozenset(
    ("link_ended", "link_silent", "neighbour_down")
)


class Log:
    """Writes what happens at a broker. ``least`` is the level from which on it does."""

    def __init__(self, least: str = "info", stream: TextIO | None = None) -> None:
        self._quiet = least == "warning"
        self._stream = stream

    def __call__(self, event: str, fields: Mapping[str, object]) -> None:
        loud = event in LOUD
        if self._quiet and not loud:
            return
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = {"time": stamp, "level": "warning" if loud else "info", "event": event, **fields}
        print(msgspec.json.encode(line).decode(), file=self._stream or sys.stderr, flush=True)
