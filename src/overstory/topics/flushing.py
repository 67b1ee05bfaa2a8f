"""When a NATS server has taken what was sent to it."""

from typing import Any


async def taken(connection: Any) -> None:
    """Returns once the server has read all that the connection has sent, and answered what it refuses.

    ``flush`` alone does not promise that: ``nats-py`` sends its PING ahead of commands that wait in its buffer. When
    the answer is here these have been written, so the PING of a second ``flush`` comes behind them."""
    await connection.flush()
    await connection.flush()
