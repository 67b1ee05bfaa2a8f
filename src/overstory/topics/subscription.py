"""A subscription as the application holds it: ``nats-py``'s own, except that its messages may come by a cluster."""

from typing import Any

from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription


class TopicSubscription(Subscription):  # type: ignore[misc]
    """Callbacks, iteration, ``next_msg`` and limits are inherited. Its connection is a client of the layer."""

    async def unsubscribe(self, limit: int = 0) -> None:
        """Ends the subscription, at once or after so many messages in all."""
        if self._conn.is_closed:
            raise errors.ConnectionClosedError
        if self._closed:
            raise errors.BadSubscriptionError
        self._max_msgs = limit
        if limit == 0 or self._received >= limit:
            await self._ended()

    async def drain(self) -> None:
        """Ends the subscription; what has come is still given to the application."""
        await self._conn.forget(self)
        await self._pending_queue.join()
        self._closed = True
        self.stop()

    async def _ended(self) -> None:
        await self._conn.forget(self)
        self._closed = True
        if self._max_msgs == 0:
            self.stop()

    def stop(self) -> None:
        """Nothing more is given to the application."""
        self._stop_processing()

    def give(self, message: Msg) -> Any:
        """Puts a message where callbacks, iterators and ``next_msg`` find it. Returns an error if there is no room."""
        if self._closed or 0 < self._max_msgs <= self._received:
            return None
        self._received += 1
        size = len(message.data)
        too_much = 0 < self._pending_bytes_limit <= self._pending_size + size
        if too_much or self._pending_queue.full():
            return errors.SlowConsumerError(subject=message.subject, reply=message.reply, sid=self._id, sub=self)
        self._pending_size += size
        self._pending_queue.put_nowait(message)
        return None
