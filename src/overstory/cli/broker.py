"""overstory broker: run a broker."""

import argparse
import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from overstory.broker.config import DEFAULT_LISTEN, Config, checked, read_config
from overstory.errors import UsageError

if TYPE_CHECKING:
    from overstory.broker.server import Server


def add_to(commands: Any) -> None:
    broker = commands.add_parser("broker", help="run an MQTT broker with content filters")
    broker.add_argument("config", metavar="CONFIG", nargs="?", help="a TOML file (see docs/broker.md)")
    broker.add_argument("--listen", metavar="HOST:PORT", help=f"where to listen (default: {DEFAULT_LISTEN})")
    broker.add_argument("--store", metavar="FILE", help="keep sessions and retained messages in this file")
    broker.add_argument("--monitor", metavar="HOST:PORT", help="serve /metrics and /healthz there")
    broker.set_defaults(run=run_broker)


def run_broker(arguments: argparse.Namespace) -> int:
    config = Config() if arguments.config is None else read_config(arguments.config)
    given = {name: getattr(arguments, name) for name in ("listen", "store", "monitor")}
    config = checked(msgspec.structs.replace(config, **{k: v for k, v in given.items() if v is not None}))
    try:
        import uvloop
    except ImportError:
        raise UsageError("a broker needs uvloop; install it with: pip install uvloop") from None
    return uvloop.run(_serve(config))


async def _serve(config: Config) -> int:
    from overstory.broker.joining import joining_of
    from overstory.broker.logs import Log
    from overstory.broker.monitor import Monitor
    from overstory.broker.process import prepare_process
    from overstory.broker.server import Server
    from overstory.kernels.compiling import MUST_COMPILE

    if MUST_COMPILE:
        print("compiling the kernels, a minute or two, this once …", file=sys.stderr)
    server = Server(config, Log(config.log), joining_of(config))
    stopped = asyncio.Event()
    server.on_failure = stopped.set
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    prepare_process()
    await server.start()
    monitor = Monitor(server, config.monitor)
    await monitor.start()
    _say(server)
    await stopped.wait()
    await monitor.stop()
    await server.stop()
    if server.failed is not None:
        raise server.failed
    return 0


def _say(server: "Server") -> None:
    host = server.config.listen.rpartition(":")[0]
    print(f"listening on {host}:{server.port}", flush=True)
