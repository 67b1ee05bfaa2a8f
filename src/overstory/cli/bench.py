"""overstory bench: try a broker, any MQTT 5 broker, and check every delivery."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from overstory.cli.options import SEED, whole
from overstory.cli.output import print_json
from overstory.cli.pub import URL
from overstory.errors import OverstoryError

FAILED = 1  # the exit code


class WrongDeliveryError(OverstoryError):
    """The broker delivered something else than the filters say."""


def add_to(commands: Any) -> None:
    bench = commands.add_parser("bench", help="measure an MQTT 5 broker, and check every delivery")
    bench.add_argument("--url", default=URL, metavar="URL", help=f"of the broker (default: {URL})")
    bench.add_argument(
        "--network", type=Path, metavar="FOLDER", help="measure all brokers of a network that 'overstory up' runs"
    )
    bench.add_argument("--messages", type=whole(1, 10**8), default=10_000, metavar="N", help="default: 10,000")
    bench.add_argument("--subscribers", type=whole(1, 10_000), default=10, metavar="N", help="default: 10")
    bench.add_argument("--matches", type=float, default=1.0, metavar="N", help="that want a message (default: 1)")
    bench.add_argument("--rate", type=float, default=0.0, metavar="N", help="messages a second (default: the maximum)")
    bench.add_argument("--qos", type=int, choices=(0, 1, 2), default=0, help="default: 0")
    bench.add_argument(
        "--size", type=whole(16, 10**6), default=200, metavar="BYTES", help="of a payload (default: 200)"
    )
    bench.add_argument("--seed", type=SEED, default=1, metavar="N", help="of filters and events (default: 1)")
    bench.add_argument("--verify", action="store_true", help="fail if a delivery is missing, unwanted or repeated")
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    bench.set_defaults(run=run_bench)


def run_bench(arguments: argparse.Namespace) -> int:
    import uvloop

    from overstory.broker.process import prepared_process
    from overstory.cli.watching import HOST, read_network, wait_until_quiet
    from overstory.client.trial import Settings, Trial

    names = [field.name for field in msgspec.structs.fields(Settings)]
    settings = Settings(**{name: getattr(arguments, name) for name in names})

    urls, served = [arguments.url], None
    if arguments.network is not None:
        places = read_network(arguments.network)
        urls = [f"mqtt://{HOST}:{place.clients}" for place in places]

        async def served() -> None:
            await asyncio.to_thread(wait_until_quiet, places)

    async def work() -> Any:
        return await Trial(urls, settings, served).run()

    print(f"sending {settings.messages:,} messages to {settings.subscribers:,} subscribers …", file=sys.stderr)
    with prepared_process():  # else its own pauses would count as the broker's
        result = uvloop.run(work())
    wrong = result.missing + result.unwanted + (result.repeated if settings.qos != 1 else 0)
    problem = f"{wrong:,} deliveries are not as the filters say; run it again with another --seed"
    fails = arguments.verify and wrong > 0
    if arguments.json:
        error = {"error": {"kind": WrongDeliveryError.__name__, "problem": problem}} if fails else {}
        print_json({**msgspec.to_builtins(result), **error})
        return FAILED if fails else 0
    print(f"messages    {result.messages:,} in {result.seconds:,.2f} s: {result.rate:,.0f} a second")
    print(f"deliveries  {result.deliveries:,}")
    print("latency     " + ", ".join(f"{name} {value:,.2f} ms" for name, value in result.latency.items()))
    print(f"checked     {result.missing:,} missing, {result.unwanted:,} unwanted, {result.repeated:,} repeated")
    if fails:
        raise WrongDeliveryError(problem)
    return 0
