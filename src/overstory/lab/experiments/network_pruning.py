"""The pruning paper's question on twenty real processes: broad subscriptions leave while events go on."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.live_pruning import Sizes, run_live
from overstory.lab.measuring import by_seed, lines, quotients, where
from overstory.lab.pruning_cells import QUICK as POLICIES

SHOWN = {
    "messages": "entries that crossed links, once the roots leave",
    "delay_ms": "mean delay of events while roots leave (ms)",
    "queue_frames": "frames that wait at one broker, at most",
}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    subscriptions, events, seeds = (124, 20, 1) if quick else (9_300, 300, 3)
    for seed in range(1, seeds + 1):
        for policy in POLICIES:
            yield {"policy": policy, "subscriptions": subscriptions, "degree": 30, "events": events, "seed": seed}


def run(settings: Settings) -> list[Row]:
    sizes = Sizes(*(int(str(settings[name])) for name in Sizes._fields))
    return [settings | run_live(str(settings["policy"]), sizes, int(str(settings["seed"])))]


def over_active(rows: Sequence[Row], policy: str, value: str) -> BySeed:
    return quotients(rows, value, {"policy": policy}, {"policy": "active"})


def over_predicted(rows: Sequence[Row], policy: str) -> BySeed:
    mine = where(rows, policy=policy)
    live, predicted = by_seed(mine, "messages"), by_seed(mine, "predicted_messages")
    return {seed: live[seed] / predicted[seed] for seed in live if predicted[seed]}


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = [row | {"at": 0} for row in rows]
    found = []
    for name, about in SHOWN.items():
        drawn = lines(shown, "at", name, "policy", POLICIES)
        found.append(Figure(f"network-pruning-{name.replace('_', '-')}", about, "", about, drawn, bars=True))
    return found


EXPERIMENT = Experiment(
    "network-pruning",
    "300 broad subscriptions leave twenty real processes: messages, delay and queues, beside the simulator's routers",
    cells,
    run,
    measures={
        "selective_over_active_messages": lambda rows: over_active(rows, "selective", "messages"),
        "cost_over_active_messages": lambda rows: over_active(rows, "cost", "messages"),
        "selective_over_active_delay": lambda rows: over_active(rows, "selective", "delay_ms"),
        "cost_over_active_delay": lambda rows: over_active(rows, "cost", "delay_ms"),
        **{f"{policy}_messages_over_predicted": partial(over_predicted, policy=policy) for policy in POLICIES},
    },
    figures=figures,
)
