"""python -m overstory.broker.forkserver SCENARIO PLAN: starts the brokers of a network, each by a fork.

A fork takes milliseconds and shares the memory of what is loaded already; a new interpreter takes a second and 200 MB.
Requests come on standard input, one JSON object a line: the configuration of a broker, and its incarnation. The answer
is a line with the broker and its process. When standard input ends, all brokers end.
"""

import asyncio
import os
import selectors
import signal
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from overstory.broker.config import Config, checked
from overstory.broker.joining import Joining
from overstory.broker.logs import Log
from overstory.broker.monitor import Monitor
from overstory.broker.places import places_of, who_is_who
from overstory.broker.process import are_crowded, prepare_process, take_turns
from overstory.broker.server import Server
from overstory.broker.terrain import terrain_of
from overstory.errors import OverstoryError
from overstory.model.plan import read_plan
from overstory.model.scenario import read_scenario

PAUSE = 0.2  # seconds between looks at processes that have ended


class Request(msgspec.Struct, frozen=True):
    """A broker to be started."""

    config: Config
    incarnation: int
    log: str | None = None  # a file


class Started(msgspec.Struct, frozen=True):
    """A broker that was started."""

    broker: int
    pid: int


async def serve(config: Config, joining: Joining) -> int:
    """Runs one broker until it is told to end."""
    server = Server(config, Log(config.log), joining)
    stopped = asyncio.Event()
    server.on_failure = stopped.set
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    monitor = Monitor(server, config.monitor)
    await monitor.start()
    starting = loop.create_task(server.start())
    await stopped.wait()
    starting.cancel()
    await monitor.stop()
    await server.stop()
    return 0


def child(request: Request, joinings: dict[int, Joining]) -> NoReturn:
    """Turns this forked process into the broker that was asked for, until that broker ends."""
    import uvloop

    code = 1
    try:
        if request.log is not None:
            log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        config = checked(request.config)
        joining = joinings[config.number]
        place = msgspec.structs.replace(joining.place, incarnation=request.incarnation)
        addresses = {int(number): address for number, address in config.neighbours.items()}
        terrain = terrain_of(read_scenario(Path(config.scenario))) if config.migrate and config.scenario else None
        code = uvloop.run(serve(config, Joining(place, joining.who, addresses, terrain)))
    except OverstoryError as error:
        print(f"overstory: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def warm_up() -> None:
    """Loads all kernels, so that no broker has to, and makes the process fit for brokers."""
    from overstory.broker.__main__ import use_every_kernel
    from overstory.broker.warming import carry_between_two

    use_every_kernel()
    carry_between_two()
    prepare_process()


def main(scenario_folder: str, plan_folder: str) -> int:
    scenario, plan = read_scenario(Path(scenario_folder)), read_plan(Path(plan_folder))
    who = who_is_who(scenario, plan)
    joinings = {broker: Joining(place, who, {}) for broker, place in places_of(scenario, plan).items()}
    warm_up()
    if are_crowded(len(joinings)):
        take_turns()
    print("ready", flush=True)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    running: set[int] = set()
    while True:
        is_asked = selector.select(PAUSE)
        running -= ended(running)
        if not is_asked:
            continue
        line = os.read(0, 1 << 20)
        if not line:
            break
        while not line.endswith(b"\n"):
            line += os.read(0, 1 << 20)
        for part in line.splitlines():
            request = msgspec.json.decode(part, type=Request)
            pid = os.fork()
            if not pid:
                selector.close()
                child(request, joinings)
            running.add(pid)
            print(msgspec.json.encode(Started(request.config.number, pid)).decode(), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return 0


def ended(running: set[int]) -> set[int]:
    """The processes that have ended."""
    return {pid for pid in running if os.waitpid(pid, os.WNOHANG)[0]}


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
