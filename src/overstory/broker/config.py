"""What an operator may set, in a TOML file. Everything has a default."""

from pathlib import Path

import msgspec

from overstory.broker.pressure import Limits, LinkLimits, MoveLimits
from overstory.errors import UsageError
from overstory.wire.attributes import READERS

DEFAULT_LISTEN = "127.0.0.1:1883"
MOST_BROKERS = 1 << 22


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a broker."""

    listen: str = DEFAULT_LISTEN  # address and port; port 0: any that is free
    number: int = 0  # of this broker
    store: str | None = None  # the file for what survives a restart; without one, nothing does
    monitor: str | None = None  # address and port of /metrics, /healthz and of those who install plans
    admin_host: str | None = None  # under which others find that address (default: its host)
    public: str | None = None  # address and port under which clients find this broker (default: listen)
    log: str = "info"  # info, or warning for less
    types: dict[str, str] = {}  # of user properties: string, number, boolean or list; the others are untyped
    limits: Limits = Limits()
    scenario: str | None = None  # the folder of the network that this broker is in
    plan: str | None = None  # the folder of its plan
    link: str | None = None  # address and port for other brokers
    neighbours: dict[str, str] = {}  # the addresses of other brokers, by their numbers
    policy: str = "active"  # by which subscriptions are forwarded
    lease: float = 0.0  # seconds between renewals; 0: none
    window: LinkLimits = LinkLimits()
    moves: MoveLimits = MoveLimits()
    preparing: float = 0.03  # the share of its time that a plan may take that is being prepared; 0: all that it takes
    migrate: float = 0.0  # seconds between two looks for a client that would be cheaper elsewhere; 0: never
    sample: float = 0.03  # the share of what clients publish that is kept for whoever observes the network


def read_config(path: str) -> Config:
    """Reads a configuration file. Raises a ``UsageError`` that says what is wrong with it."""
    try:
        config = msgspec.toml.decode(Path(path).read_bytes(), type=Config)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; give the path of a TOML file") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no configuration of a broker: {error}; see docs/broker.md") from None
    return checked(config, path)


def checked(config: Config, where: str = "the configuration") -> Config:
    """The configuration, if it can be. Raises a ``UsageError`` otherwise."""
    address_of(config.listen)
    if config.monitor is not None:
        address_of(config.monitor)
    for name, type_ in config.types.items():
        if type_ not in READERS:
            raise UsageError(f"{where}: {name} is declared as '{type_}'; the types are {', '.join(READERS)}")
    if not 0 <= config.number < MOST_BROKERS:
        raise UsageError(f"{where}: the number of a broker is from 0 to {MOST_BROKERS - 1:,}, not {config.number}")
    if (config.scenario is None) != (config.plan is None) or (config.plan is None) != (config.link is None):
        raise UsageError(f"{where}: a broker in a network needs all of scenario, plan and link")
    for number, address in config.neighbours.items():
        if not number.isdecimal():
            raise UsageError(f"{where}: neighbours are named by their numbers, not '{number}'")
        address_of(address)
    _check_log(config, where)
    for field in msgspec.structs.fields(Limits):
        if getattr(config.limits, field.name) < (0 if field.name in MAY_BE_ZERO else 1):
            raise UsageError(f"{where}: the limit {field.name} is too small")
    if config.limits.receive_max > 65535 or config.limits.topic_aliases > 65535 or config.limits.keep_alive > 65535:
        raise UsageError(f"{where}: receive_max, topic_aliases and keep_alive are at most 65535")
    return config


def _check_log(config: Config, where: str) -> None:
    if config.log not in ("info", "warning"):
        raise UsageError(f"{where}: log is info or warning, not '{config.log}'")
    if config.moves.rate <= 0 or config.moves.leaving < 1 or config.moves.arriving < 1:
        raise UsageError(f"{where}: rate, leaving and arriving of moves are above 0")
    if config.migrate < 0:
        raise UsageError(f"{where}: migrate is a time in seconds, not {config.migrate}")
    if not 0 <= config.sample <= 1:
        raise UsageError(f"{where}: sample is a share, from 0 to 1, not {config.sample}")


MAY_BE_ZERO = ("keep_alive", "session_expiry", "topic_aliases", "connections", "subscriptions")


def address_of(text: str) -> tuple[str, int]:
    """The host and the port of an address."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"'{text}' is no address; write it as HOST:PORT, such as {DEFAULT_LISTEN}")
    return host.strip("[]") or "0.0.0.0", int(port)
