"""What a NATS server's monitoring endpoint says of its subscriptions. Nothing is changed, and no client connects."""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any, NamedTuple

from overstory.errors import BrokerError, UsageError

PAGE = 1024  # connections that are asked for at once
PATIENCE = 10.0  # seconds for an answer
OURS = ("_", "$")  # subjects of NATS itself and of the layer begin so


class Subscription(NamedTuple):
    """A subscription, and how many messages it has been given."""

    client: str
    subject: str
    queue: str
    messages: int
    number: str

    @property
    def is_topic(self) -> bool:
        """Whether the layer could carry it: no wildcard, no queue group, nothing of NATS itself."""
        return not (self.queue or self.subject.startswith(OURS) or "*" in self.subject or ">" in self.subject)


class Sample(NamedTuple):
    """All subscriptions of some servers, at one time."""

    time: float
    servers: tuple[str, ...]
    subscriptions: tuple[Subscription, ...]


def sample(urls: Sequence[str]) -> Sample:
    """Asks each monitoring endpoint for its subscriptions.

    Raises a ``BrokerError`` if one does not answer as a NATS server's does.
    """
    names, found = [], []
    for url in urls:
        check_endpoint(url)
        names.append(str(_asked(url, "varz").get("server_name", url)))
        found += _subscriptions(url)
    return Sample(time.monotonic(), tuple(names), tuple(found))


def check_endpoint(url: str) -> None:
    """Raises a ``UsageError`` where this is no address of a monitoring endpoint."""
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https"):
        raise UsageError(
            f"'{url}' is no monitoring endpoint: it has to begin with http://, as http://127.0.0.1:8222, where "
            "nats-server -m 8222 listens"
        )


def _subscriptions(url: str) -> list[Subscription]:
    found, offset = [], 0
    while True:
        page = _asked(url, f"connz?subs=detail&limit={PAGE}&offset={offset}")
        connections = page.get("connections") or []
        for connection in connections:
            who = f"{page.get('server_id', url)}/{connection['cid']}"
            for each in connection.get("subscriptions_list_detail") or ():
                told = each["subject"], each.get("qgroup", ""), each.get("msgs", 0), str(each.get("sid", ""))
                found.append(Subscription(who, *told))
        offset += PAGE
        if offset >= page.get("total", 0) or not connections:
            return found


def _asked(url: str, path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/{path}", timeout=PATIENCE) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        raise BrokerError(f"{url} is no monitoring endpoint of NATS: /{path} gives {error.code}") from None
    except http.client.HTTPException:
        raise BrokerError(
            f"{url} speaks no HTTP, as the port for clients of a NATS server: its monitoring endpoint is another one, "
            "which nats-server -m 8222 opens, or http_port in its configuration"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise BrokerError(
            f"no monitoring endpoint answers at {url} ({reason}); start nats-server with -m 8222, or set http_port in "
            "its configuration"
        ) from None
    if not isinstance(found, dict) or ("server_id" not in found and "connections" not in found):
        raise BrokerError(f"{url} is no monitoring endpoint of NATS: /{path} says something else")
    return found


def rates(before: Sample, after: Sample) -> dict[str, float]:
    """Events a second by topic: what its subscription that got most was given between the samples."""
    seconds = max(after.time - before.time, 1e-3)
    known = {(each.client, each.number): each.messages for each in before.subscriptions}
    found: dict[str, float] = {}
    for each in after.subscriptions:
        if each.is_topic and (each.client, each.number) in known:
            events = (each.messages - known[each.client, each.number]) / seconds
            found[each.subject] = max(found.get(each.subject, 0.0), events)
    return found
