"""``overstory topics``: clusters of topics on a platform that runs: what they would save, and the coordinator."""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.output import print_json
from overstory.cli.tables import table
from overstory.errors import UsageError
from overstory.topics.prices import OBSERVED, Prices

if TYPE_CHECKING:
    from overstory.topics.watching import Would

MOST_CLUSTERS = 10  # that are listed
USUAL = Prices()


def add_to(commands: Any) -> None:
    topics = commands.add_parser("topics", help="clusters of topics on a platform that runs")
    actions = topics.add_subparsers(metavar="ACTION", required=True)
    watch = actions.add_parser(
        "watch",
        help="what clusters would save on NATS servers, without touching anything",
        description="Reads the subscriptions of NATS servers from their monitoring endpoints, and rates by sampling. "
        "Tells what clusters of topics would save. Nothing is changed, and no client connects.",
    )
    watch.add_argument("url", nargs="+", metavar="URL", help="a monitoring endpoint, as http://127.0.0.1:8222")
    watch.add_argument("--seconds", type=float, default=2.0, help="between the two samples (default: %(default)s)")
    _add_prices(watch)
    watch.add_argument("--json", action="store_true", help="print one JSON object")
    watch.set_defaults(run=run_watch)
    run = actions.add_parser(
        "run",
        help="the coordinator of clusters, for clients of overstory.topics",
        description="Forms clusters of topics for clients that use overstory.topics.client, until it is interrupted. "
        "It prints a timeline of clusters. Killed and started again with its journal it goes on.",
    )
    run.add_argument("url", nargs="+", metavar="URL", help="all servers, as nats://127.0.0.1:4222")
    run.add_argument(
        "--journal",
        type=Path,
        default=Path("overstory-topics.db"),
        metavar="FILE",
        help="what it remembers (default: %(default)s)",
    )
    run.add_argument("--metrics", type=int, metavar="PORT", help="serve numbers for Prometheus there, on loopback")
    run.add_argument(
        "--observe",
        type=float,
        default=OBSERVED,
        metavar="SECONDS",
        help="for which nobody may publish a topic without the layer before it is in a cluster (default: %(default)s)",
    )
    run.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: %(default)s)")
    _add_prices(run)
    run.add_argument("--json", action="store_true", help="print the timeline as lines of JSON")
    run.set_defaults(run=run_run)


def _add_prices(command: Any) -> None:
    command.add_argument(
        "--subscription",
        type=float,
        default=USUAL.subscription,
        metavar="PRICE",
        help="of a subscription in an interval; an event that is delivered costs 1 (default: %(default)s)",
    )
    command.add_argument(
        "--interval",
        type=float,
        default=USUAL.interval,
        metavar="SECONDS",
        help="for which a subscription is paid (default: %(default)s)",
    )


def prices_in(arguments: argparse.Namespace) -> Prices:
    if arguments.subscription < 0 or arguments.interval <= 0:
        raise UsageError("--subscription has to be 0 or more, and --interval more than 0 seconds")
    return Prices(subscription=arguments.subscription, association=arguments.subscription, interval=arguments.interval)


def run_watch(arguments: argparse.Namespace) -> None:
    prices = prices_in(arguments)
    if not 0 < arguments.seconds <= 3600:
        raise UsageError("--seconds has to be more than 0 and at most 3600")
    from overstory.topics.monitoring import rates, sample
    from overstory.topics.watching import would

    before = sample(arguments.url)
    time.sleep(arguments.seconds)
    after = sample(arguments.url)
    found = would(after, rates(before, after), prices)
    if arguments.json:
        print_json(found._asdict() | {"seconds": arguments.seconds, "prices": prices._asdict()})
    else:
        print("\n".join(_in_words(found, prices)))


def _in_words(found: "Would", prices: Prices) -> list[str]:
    rows = [
        ["subscriptions", found.subscriptions, found.subscriptions_then],
        ["deliveries a second", round(found.deliveries, 1), round(found.deliveries_then, 1)],
        [f"cost in {prices.interval:g} s", round(found.cost), round(found.cost_then)],
    ]
    saved = 1 - found.cost_then / found.cost if found.cost else 0.0
    lines = [
        f"{', '.join(found.servers)}: {found.clients:,} clients, {found.topics:,} topics, {found.events:,.1f} events a "
        "second",
        table(["", "now", "with clusters"], rows),
        f"a subscription for {prices.interval:g} s costs {prices.subscription:g} times what a delivery does; clusters "
        f"save {saved:.1%}, and nothing costs less than {found.bound:,.0f}",
    ]
    if found.served_plainly:
        lines.append(f"{found.served_plainly:,} subscriptions with wildcards or queue groups would stay as they are")
    for names, size in list(zip(found.clusters, found.sizes, strict=True))[:MOST_CLUSTERS]:
        lines.append(
            f"  {size:,} clients: {', '.join(names[:6])}{' …' if len(names) > 6 else ''} ({len(names)} topics)"
        )
    if len(found.clusters) > MOST_CLUSTERS:
        lines.append(f"  and {len(found.clusters) - MOST_CLUSTERS:,} more clusters; --json lists all")
    return lines


def run_run(arguments: argparse.Namespace) -> None:
    prices = prices_in(arguments)
    for url in arguments.url:
        if not url.startswith(("nats://", "tls://", "ws://", "wss://")):
            raise UsageError(f"'{url}' is no NATS server: it has to begin with nats://, as nats://127.0.0.1:4222")
    if not 0 <= arguments.observe <= 3600:
        raise UsageError("--observe has to be from 0 to 3600 seconds")
    if not arguments.journal.absolute().parent.is_dir():
        raise UsageError(f"--journal {arguments.journal}: there is no such folder; make it first")
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_coordinated(arguments, prices))


async def _coordinated(arguments: argparse.Namespace, prices: Prices) -> None:
    try:
        from overstory.topics.service import Service
    except ModuleNotFoundError:
        raise UsageError("nats-py is not installed; install overstory[nats]") from None
    from overstory.topics.metrics import Timeline, serve

    service = Service(arguments.url, arguments.journal, prices, arguments.seed, arguments.observe)
    await service.start()
    if arguments.metrics is not None:
        serve(service.coordination, arguments.metrics)
    service.after_round = Timeline(service.coordination, sys.stdout, as_json=arguments.json).write
    print("the coordinator runs" + (", and goes on from its journal" if service.restored else ""), file=sys.stderr)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    await service.stop()
