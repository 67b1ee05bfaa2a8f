"""What an operator, or a coordinator, asks a broker for over HTTP: its plans, and to install, use and let go of them.

Who changes something names itself and gives its *fencing number*. A broker follows the highest number that it has
heard, and refuses whoever comes with a lower one: of two coordinators only one gets through. Reading needs no number.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from overstory.broker.facts import AT
from overstory.broker.leading import RefusedError
from overstory.broker.observing import late, observed, sample, set_rate
from overstory.broker.packages import decode_package
from overstory.broker.server import Server
from overstory.broker.standing import Address, Standing, Subscribed, Where, addresses_of, standing_of
from overstory.broker.watching import Watched
from overstory.errors import OverstoryError
from overstory.model.folders import KNOWN_BY
from overstory.routing.messages import LATE

JSON, BYTES = "application/json", "application/octet-stream"
OK, BAD, CONFLICT, ABSENT = "200 OK", "400 Bad Request", "409 Conflict", "404 Not Found"
Answer = tuple[str, str, bytes]  # status, content type, body


class Admin:
    """The administration of one broker."""

    def __init__(self, server: Server) -> None:
        self._server, self._state = server, server.state
        self._get: dict[str, Callable[[dict[str, str]], Answer]] = {
            "/status": lambda _: _json(self.standing()),
            "/plan": self._plan,
            "/clients": lambda _: _json({name: one.number for name, one in self._state.sessions.items()}),
            "/subscriptions": lambda _: _json(self.subscriptions()),
            "/scenario": lambda _: self._scenario(),
            "/where": self._where,
            "/watched": lambda _: _json(self._state.watched),
            "/observed": lambda _: _packed(observed(self._server)),
            "/late": lambda _: _packed(late(self._server)),
            "/sample": lambda query: _packed(sample(self._server, _number(query, "after") if "after" in query else 0)),
        }
        self._post: dict[str, Callable[[dict[str, str], bytes], None]] = {
            "/lead": lambda _, __: None,
            "/release": lambda _, __: self._fabric.lead.release(),
            "/prepare": lambda _, body: self._epochs.install(body),
            "/activate": lambda query, _: self._epochs.activate(_number(query, "epoch")),
            "/retire": lambda query, _: self._epochs.retire(_number(query, "epoch")),
            "/give-up": lambda query, _: self._epochs.give_up(_number(query, "epoch")),
            "/forget": lambda query, _: self._fabric.forget(_number(query, "broker")),
            "/abort": lambda query, _: self._epochs.retire(_number(query, "epoch")),
            "/pause": lambda _, __: self._fabric.lead.pause(True),
            "/resume": lambda _, __: self._fabric.lead.pause(False),
            "/move": self._move,
            "/place": lambda _, body: self._place(body),
        }

    @property
    def _fabric(self) -> Any:
        if self._server.peers is None:
            raise RefusedError("this broker is alone: it has no plan; give it a scenario, a plan and a link")
        return self._server.peers.fabric

    @property
    def _epochs(self) -> Any:
        return self._fabric.epochs

    def announce(self, admin: str) -> None:
        """Tells all brokers where this one is to be found."""
        if self._server.peers is not None:
            clients = self._server.config.public or self._server.config.listen
            address = Address(admin, clients)
            self._fabric.facts.say(AT, "", msgspec.json.encode(address))

    # Requests

    def answer(self, method: str, target: str, body: bytes) -> Answer | None:
        """The answer to a request; None if it is not for the administration."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        try:
            if method == "GET" and parts.path in self._get:
                return self._get[parts.path](query)
            if method == "POST" and parts.path == "/sampling":  # who observes changes nothing that a plan depends on
                set_rate(self._server, query.get("rate", ""))
                return _json({"rate": self._state.sampling.rate})
            if method == "POST" and parts.path == "/watched":
                self._state.watched = msgspec.json.decode(body, type=Watched)
                return _json(self._state.watched)
            if method == "POST" and parts.path in self._post:
                self._follow(parts.path, query)
                self._post[parts.path](query, body)
                self._server.wake()
                return _json(self.standing())
        except RefusedError as error:
            return CONFLICT, JSON, msgspec.json.encode({"error": str(error)})
        except (OverstoryError, ValueError, msgspec.MsgspecError) as error:
            return BAD, JSON, msgspec.json.encode({"error": str(error)})
        return None

    def _follow(self, path: str, query: Mapping[str, str]) -> None:
        """Follows the coordinator that asks, or refuses it."""
        who = _number(query, "fence"), query.get("name", ""), time.monotonic()
        if path == "/lead":
            self._fabric.lead.take(*who, force="force" in query)
        else:
            self._fabric.lead.follow(*who, works=path not in ("/pause", "/resume"))

    def _move(self, query: Mapping[str, str], body: bytes) -> None:
        """Asks clients to move, by name. With ``leaves`` they are told that this broker is left for good."""
        asked = msgspec.json.decode(body, type=dict[str, int])
        self._fabric.moving.ask(asked, "leaves" in query)

    def _place(self, body: bytes) -> None:
        """Moves late subscriptions of clients here to these flows, and passes over those that are late no more, or on
        their way already."""
        router = self._state.router
        for number, flows in msgspec.json.decode(body, type=dict[int, list[int]]).items():
            home = router.state.homes.get(number)
            is_late = home is not None and (self._epochs.active, LATE) in home.joined
            if is_late and not router.is_on_its_way(number):
                self._fabric.act(router.move(number, *flows))

    # What is said

    def standing(self) -> Standing:
        """The broker at this moment."""
        return standing_of(self._fabric, time.monotonic())

    def subscriptions(self) -> list[Subscribed]:
        """All subscriptions whose host this broker is."""
        names = {session.number: name for name, session in self._state.sessions.items()}
        active = self._epochs.active
        return [
            Subscribed(
                id_,
                home.client,
                names.get(home.client, ""),
                str(home.filter),
                home.no_local,
                home.version,
                not home.planned,
                (active, LATE) in home.joined,
            )
            for id_, home in self._state.router.state.homes.items()
            if not self._state.is_elsewhere(id_)
        ]

    def _plan(self, query: Mapping[str, str]) -> Answer:
        """The files of the folder of a plan that is here, by default of the one in use."""
        epoch = _number(query, "epoch") if "epoch" in query else self._epochs.active
        came = self._epochs.came.get(epoch)
        if came is not None:
            return OK, BYTES, msgspec.msgpack.encode(decode_package(came.data).source)
        if epoch not in self._epochs.installed or self._server.config.plan is None:
            return ABSENT, JSON, msgspec.json.encode({"error": f"epoch {epoch} is not here any more"})
        return OK, BYTES, msgspec.msgpack.encode(files_in(self._server.config.plan))

    def _scenario(self) -> Answer:
        """The files of the scenario that the network began with, without its events."""
        if self._server.config.scenario is None:
            return ABSENT, JSON, msgspec.json.encode({"error": "this broker is alone"})
        files = files_in(self._server.config.scenario)
        kept = {name: data for name, data in files.items() if not name.startswith("events")}
        return OK, BYTES, msgspec.msgpack.encode(kept)

    def _where(self, query: Mapping[str, str]) -> Answer:
        client = query.get("client", "")
        session = self._state.sessions.get(client)
        broker = self._state.config.number if session is not None else self._fabric.roaming.owner_of(client)
        home = self._fabric.moving.home_of(client)
        address = addresses_of(self._fabric).get(home if home is not None else self._state.config.number)
        return _json(Where(client, broker, home, "" if address is None else address.clients))


def files_in(folder: str) -> dict[str, bytes]:
    """The files of the folder of a plan or a scenario, by name."""
    known = set(KNOWN_BY.values())
    found = {one.name: one for one in sorted(Path(folder).iterdir()) if one.is_file()}
    return {name: one.read_bytes() for name, one in found.items() if name in known or name.endswith(".parquet")}


def _json(value: Any) -> Answer:
    return OK, JSON, msgspec.json.encode(value)


def _packed(value: Any) -> Answer:
    return OK, BYTES, msgspec.msgpack.encode(value)


def _number(query: Mapping[str, str], name: str) -> int:
    """A number of a query. Raises a ``ValueError`` that names it."""
    text = query.get(name, "")
    if not text.isdecimal():
        raise ValueError(f"{name} is to be a number, not '{text}'")
    return int(text)
