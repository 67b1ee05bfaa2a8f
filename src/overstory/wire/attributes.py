"""What filters see of a message: its topic and levels, its user properties, and what a JSON payload says at its top.

A user property is untyped, unless the configuration declares its type; one that is there several times is a list. Of a
payload whose content type says JSON, the scalars and the lists of strings at the top level are attributes. A user
property goes before a JSON member of the same name, and the topic's own attributes before both.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from overstory.model.topics import topic_attributes
from overstory.model.values import Untyped
from overstory.wire.packets import Properties

Types = Mapping[str, str]
NO_TYPES: Types = {}


def _number(text: str) -> object:
    return Untyped(text).number()


def _boolean(text: str) -> object:
    return Untyped(text).boolean()


def _list(text: str) -> object:
    return [text]


READERS: dict[str, Callable[[str], object]] = {"string": str, "number": _number, "boolean": _boolean, "list": _list}


class Message(Protocol):
    """What attributes are read from."""

    @property
    def topic(self) -> str: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def properties(self) -> Properties: ...


def attributes_of(message: Message, types: Types = NO_TYPES) -> dict[str, Any]:
    """The attributes of a message."""
    found: dict[str, Any] = {}
    if is_json(message.properties):
        found |= json_attributes(message.payload)
    pairs = message.properties.get("user_properties", ())
    repeated: dict[str, list[str]] = {}
    for name, value in pairs:
        repeated.setdefault(name, []).append(value)
    for name, values in repeated.items():
        if len(values) > 1:
            found[name] = values
        else:
            read = READERS.get(types.get(name, ""))
            found[name] = Untyped(values[0]) if read is None else read(values[0])
    found.update(topic_attributes(message.topic))
    return found


def is_json(properties: Properties) -> bool:
    """Whether the content type says that the payload is JSON."""
    if "content_type" not in properties:  # most often
        return False
    content_type = str(properties.get("content_type", "")).partition(";")[0].strip().lower()
    return content_type == "application/json" or content_type.endswith("+json")


def json_attributes(payload: bytes) -> dict[str, Any]:
    """The members of a JSON object that filters can ask about. A payload that is none has no attributes."""
    try:
        members = msgspec.json.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):  # ValueError: it is not even UTF-8
        return {}
    if not isinstance(members, dict):
        return {}
    return {name: value for name, value in members.items() if _is_attribute(value)}


def _is_attribute(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(word, str) for word in value)
    return isinstance(value, bool | int | float | str)


def pairs_of(attributes: Mapping[str, object]) -> list[tuple[str, str]]:
    """Attributes as user properties: what ``attributes_of`` reads back. A list is a property that is repeated."""
    pairs = []
    for name, value in attributes.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            pairs.append((name, item if isinstance(item, str) else json.dumps(item)))
    return pairs
