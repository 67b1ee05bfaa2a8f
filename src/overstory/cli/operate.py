"""overstory status, history, pause, resume, abort: look at a running network's plans, and steer their installation."""

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from overstory.broker.watching import Watched
from overstory.cli.apply import add_network, tell
from overstory.cli.output import print_json
from overstory.cli.tables import table


def add_to(commands: Any) -> None:
    status = commands.add_parser("status", help="which plan a running network uses, broker by broker")
    add_network(status)
    status.set_defaults(run=run_status)
    history = commands.add_parser("history", help="which plans were installed on a running network")
    add_network(history)
    history.set_defaults(run=run_history)
    for name, what in (
        ("drain", "move all clients away from a broker, and take it out of the way; one that is lost is left out"),
        ("join", "let a broker take part again"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("broker", metavar="BROKER", type=int, help="the number of the broker")
        add_network(command)
        command.add_argument(
            "--patience", type=float, default=60.0, metavar="SECONDS", help="for brokers to answer (default: 60)"
        )
        command.set_defaults(run=run_drain, action=name)
    for name, what in (
        ("pause", "stop installing plans and moving clients"),
        ("resume", "go on, and end an installation that was left half done"),
        ("abort", "give up an installation that no broker uses yet; one in use is ended"),
    ):
        command = commands.add_parser(name, help=what)
        add_network(command)
        command.add_argument(
            "--patience", type=float, default=60.0, metavar="SECONDS", help="for brokers to answer (default: 60)"
        )
        command.set_defaults(run=run_state, action=name)


def run_status(arguments: argparse.Namespace) -> None:
    from overstory.control.brokers import Brokers

    brokers = Brokers(arguments.to)
    found, watched = asyncio.run(_seen(brokers))
    if arguments.json:
        told = msgspec.to_builtins(found, str_keys=True)
        print_json({**told, "watched": msgspec.to_builtins(watched)})
        return
    by = f", led by {found.leader}" if found.leader else ""
    print(f"{found.state}: epoch {found.epoch} on {len(found.brokers)} brokers{by}")
    if found.silent or found.waits_for:
        print(f"waits for broker {', '.join(map(str, found.silent or found.waits_for))}")
    columns = ("broker", "epoch", "epochs", "clients", "subscriptions", "to move", "stay", "moved here")
    rows: list[list[object]] = [
        [
            broker,
            one.active,
            " ".join(_epoch(epoch, one.active) for epoch in one.epochs),
            one.clients,
            one.subscriptions,
            one.moving,
            one.stayed,
            one.moved,
        ]
        for broker, one in found.brokers.items()
    ]
    print(table(columns, rows))
    if watched is not None:
        print(about_window(watched))


async def _seen(brokers: Any) -> tuple[Any, Any]:
    """What all brokers say, and what a coordinator has said of the last window."""
    from overstory.control.operating import overview

    return await overview(brokers), await brokers.watched_last()


def about_window(watched: Watched) -> str:
    """The last window in a line: the one number to watch, and what would save most."""
    if watched.measured is None:
        return f"window {watched.window}: nothing was carried that a bound could be given for"
    saves = "; ".join(f"{what} would save {share:.1%}" for what, share in watched.savings.items())
    line = f"window {watched.window}: links carried {watched.measured:.3f} times what no plan undercuts"
    return f"{line}; {saves}" if saves else line


def _epoch(epoch: Any, active: int) -> str:
    if epoch.epoch == active:
        return f"{epoch.epoch} in use"
    if epoch.epoch < active:
        return f"{epoch.epoch} {'drained' if epoch.drained else 'drains'}"
    return f"{epoch.epoch} {'held' if epoch.held else 'prepared'}"


def run_history(arguments: argparse.Namespace) -> None:
    from overstory.control.brokers import Brokers
    from overstory.control.history import History, usual_folder

    seen = asyncio.run(Brokers(arguments.to).meet())
    folder = arguments.history or usual_folder(next(iter(seen.values())).network)
    entries = History(folder).entries()
    if arguments.json:
        print_json({"entries": msgspec.to_builtins(entries)})
        return
    rows: list[list[object]] = [
        [_time(entry.time), str(entry.epoch), entry.state, entry.planner or "–", entry.plan[:12], entry.note]
        for entry in entries
    ]
    print(table(("time", "epoch", "state", "planner", "plan", "note"), rows))


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def run_drain(arguments: argparse.Namespace) -> None:
    from overstory.control import draining
    from overstory.control.applying import Options
    from overstory.control.brokers import Brokers

    options = Options(history=arguments.history, patience=arguments.patience)
    action = draining.drain if arguments.action == "drain" else draining.join
    done = asyncio.run(action(Brokers(arguments.to), arguments.broker, options, tell))
    if arguments.json:
        print_json({"state": done.state, "epoch": done.outcome.epoch, "stayed": done.stayed})
        return
    stay = f"; {done.stayed} clients stay there" if done.stayed else ""
    print(f"{done.state}: epoch {done.outcome.epoch}{stay}")


def run_state(arguments: argparse.Namespace) -> None:
    from overstory.control import operating
    from overstory.control.applying import Options
    from overstory.control.brokers import Brokers

    options = Options(history=arguments.history, patience=arguments.patience)
    actions: dict[str, Callable[[Brokers], Coroutine[Any, Any, str]]] = {
        "pause": operating.pause,
        "resume": lambda brokers: operating.resume(brokers, options, tell),
        "abort": lambda brokers: operating.abort(brokers, options, tell),
    }
    state = asyncio.run(actions[arguments.action](Brokers(arguments.to)))
    if arguments.json:
        print_json({"state": state})
    else:
        print(state)
