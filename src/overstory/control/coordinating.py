"""The autopilot: observe, place, plan, decide, apply, window after window.

1. Each window is looked at when it is over. Late subscriptions are moved into the flows where they cost least; then
   ``piloting`` decides about the plan, and a plan that is to be applied goes the way of ``overstory apply``.
2. Whatever is decided is written down before it is done, with its numbers: also the decision to do nothing.
3. Between the ends of two windows late subscriptions are placed as they come, by the sample of the last window: who
   waited for the end of one would be late for half a window.
4. What the next window needs of this one is kept in the folder, so that a coordinator that is started again goes on
   where the one before stopped.
5. Planning runs in this process and, for large samples, on Spark: never in a broker's process.
"""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from overstory.broker.reports import Report
from overstory.broker.watching import Watched
from overstory.control.applying import Options, apply
from overstory.control.brokers import Brokers
from overstory.control.changing import messages_of_placing
from overstory.control.deciding import (
    KEEP,
    Change,
    Decision,
    Past,
    Placing,
    Rules,
    barred_from_placing,
    place,
)
from overstory.control.history import INSTALLED
from overstory.control.measuring import Measured, between, prices_of
from overstory.control.newcomers import Picture, newcomers, with_newcomers
from overstory.control.observing import LATE_FLOW, TODAY, Collecting, Observer
from overstory.control.piloting import Look, Planning, Seen, Turn, turn
from overstory.control.placing import placed, without
from overstory.control.shadow import saving_of_delay, savings_of
from overstory.errors import OverstoryError
from overstory.model.plan import LATE, Plan, read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.match import SHARES
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.session import LOCAL
from overstory.pipeline.workbench import Workbench
from overstory.planners.steps import Steps

SEEN, PLANS, WINDOWS = "seen", "plans", "windows"  # folders of the observed scenario, of plans, of what Spark reads
DECISIONS, STATE = "decisions.jsonl", "state.json"
SEEN_SHARE = SHARES[0] / 100  # of a sample: those events that late subscriptions are placed by
MOST_HERE = 100_000  # events of a sample that are planned for without Spark
BUSY = 0.1  # the share of its time that the coordinator spends on placing at most


class Kept(msgspec.Struct):
    """What the next window needs of this one."""

    window: int = 0
    past: Past = Past()
    subscriptions: frozenset[int] = frozenset()  # those that the last planning knew
    over_bound: float | None = None


class Setting(NamedTuple):
    """How a network is coordinated."""

    rules: Rules = Rules()
    planning: Planning = Planning()
    seconds: float = 60.0  # of a window
    memory: int = 2  # windows whose events are looked at
    rate: float | None = None  # that brokers sample; None: as they are configured
    dry_run: bool = False  # decides, and changes nothing
    master: str | None = None  # where Spark runs; None: only for large samples, and on this machine
    shadow: bool = True  # whether to say what one link more would save


class Coordinator:
    """Keeps a running network on the best plan. ``tell`` hears each decision."""

    def __init__(self, brokers: Brokers, folder: Path, setting: Setting, tell: Callable[[Decision], None]) -> None:
        self.brokers, self.folder, self.setting, self._tell = brokers, folder, setting, tell
        folder.mkdir(parents=True, exist_ok=True)
        state = folder / STATE
        self.kept = msgspec.json.decode(state.read_bytes(), type=Kept) if state.exists() else Kept()
        self._collecting = Collecting(brokers)
        self._observer = Observer(folder / SEEN, setting.memory)
        self._reports: dict[int, Report] = {}
        self._pipeline: Pipeline | None = None
        self._picture: Picture | None = None  # what newcomers are placed by, until the window ends
        self._met: frozenset[int] = (
            frozenset()
        )  # late subscriptions that were decided about since the last window ended

    async def start(self) -> None:
        """Begins the first window."""
        await self.brokers.meet()
        if self.setting.rate is not None:
            await self.brokers.sample_at(self.setting.rate)
        self._reports = await self.brokers.reports()

    async def run(self, windows: int | None = None) -> None:
        """Coordinates for so many windows, or for ever."""
        await self.start()
        done, ends = 0, time.monotonic()
        while windows is None or done < windows:
            ends = max(ends + self.setting.seconds, time.monotonic() + self.setting.seconds / 2)
            await self._pass(ends)
            await self.window()
            done += 1

    async def _pass(self, ends: float) -> None:
        """Lets a window pass, and meanwhile places who comes."""
        pause = wanted = self.setting.rules.placing * self.setting.seconds
        while wanted and time.monotonic() + pause < ends:
            await asyncio.sleep(pause)
            began = time.monotonic()
            await self.place()
            pause = max(wanted, (time.monotonic() - began) / BUSY)
        await asyncio.sleep(max(0.0, ends - time.monotonic()))

    async def place(self) -> None:
        """Places the subscriptions that have come late since the last time, by what is known of the last window. Where
        that says nothing of the network as it is now, they wait for the window's end."""
        picture, number, now = self._picture, self.kept.window, time.time()
        if picture is None:
            return
        try:
            told = await self.brokers.late()
            new = newcomers(told.values(), self._met)
            if not new or told.keys() != self.brokers.addresses.keys():
                return
            if {one.epoch for one in told.values()} != {picture.epoch}:
                self._picture = None
                return
            self._met |= new
            picture = with_newcomers(picture, told.values(), new)
            at = Look(number, now, picture.scenario, picture.scale, picture.plan)
            self._picture = picture._replace(plan=await self._place(at, Workbench(picture.scenario)))
        except OverstoryError as error:
            self._picture = None
            self._note(_prevented(number, now, error))

    def close(self) -> None:
        """Ends Spark, if it was started."""
        if self._pipeline is not None:
            self._pipeline.close()

    async def window(self) -> Turn | None:
        """Ends a window: looks, places, decides, and does what was decided. A broker that is silent is a reason to do
        nothing, and is written down as one."""
        number, now = self.kept.window, time.time()
        self.kept.window += 1
        self._picture, self._met = None, frozenset()
        try:
            found = await self._turn(number, now)
        except OverstoryError as error:
            self._note(_prevented(number, now, error))
            found = None
        (self.folder / STATE).write_bytes(msgspec.json.encode(self.kept))
        return found

    async def _turn(self, number: int, now: float) -> Turn | None:
        network = await self._collecting.look()
        scenario = self._observer.look(network, now)
        measured = await self._measured(scenario)
        if not sum(self._observer.log.sampled):
            numbers = {"published": float(sum(self._observer.log.published))}
            self._note(Decision(number, now, KEEP, "nothing was sampled", numbers))
            return None
        present = read_plan(self._observer.folder / TODAY)
        steps = self._steps(number, scenario)
        scenario = steps.scenario if isinstance(steps, Workbench) else read_scenario(self._snapshot(number))
        scale = self._observer.log.scale / max(len(self._observer.log.published), 1)
        present = await self._place(Look(number, now, scenario, scale, without_late(present)), steps)
        self._met = frozenset(one.number for broker in network.brokers for one in broker.subscriptions)
        if isinstance(steps, Workbench):
            epoch = max(one.epoch for one in network.brokers)
            self._picture = Picture(epoch, scenario, scale, present)
        seen = Seen(self.kept.subscriptions, self.kept.over_bound)
        at = Look(number, now, scenario, scale, present)
        done = turn(at, steps, self.kept.past, seen, self._rules(scenario), self.setting.planning)
        self.kept.subscriptions, self.kept.over_bound = done.seen
        for decision in done.decisions:
            self._note(decision)
        await self._watch(done, measured, at)
        if done.plan is not None and not self.setting.dry_run:
            await self._apply(done, scenario)
        return done

    async def _measured(self, scenario: Scenario) -> Measured:
        """What links have carried since the window before."""
        before, self._reports = self._reports, await self.brokers.reports()
        return between(before, self._reports, prices_of(scenario), self.setting.seconds, scenario.settings.headers)

    def _rules(self, scenario: Scenario) -> Rules:
        """The operator's rules; where they have no price of messages, that of the scenario."""
        rules = self.setting.rules
        price = rules.price_of_message or scenario.settings.prices.control
        return msgspec.structs.replace(rules, price_of_message=price)

    async def _place(self, at: Look, steps: Steps) -> Plan:
        """Moves late subscriptions to the flows where they cost least, if that pays for the move."""
        rules = self._rules(at.scenario)
        price = messages_of_placing(len(at.scenario.network)) * rules.price_of_message
        worth = price * SEEN_SHARE / (rules.horizon * at.scale)
        found = placed(at.present, at.scenario, steps, worth=worth, barred=rules.pinned_flows)
        targets: dict[int, list[int]] = {}
        for one in found.joined:
            if one.flow != LATE:
                targets.setdefault(one.subscription, []).append(one.flow)
        if not found.joined:
            return found.plan
        late = len({one.subscription for one in found.joined})
        is_paused = any(one.paused for one in (await self.brokers.status()).values())
        barred = barred_from_placing(at.time, is_paused, rules)
        decision = place(
            at.number, at.time, Placing(late, len(targets), sum(one.added for one in found.joined), price), barred
        )
        self._note(decision)
        if decision.action == KEEP:
            return at.present
        if not self.setting.dry_run:
            await self.brokers.lead()
            try:
                await self.brokers.place(targets)
            finally:
                await self.brokers.release()
        return found.plan

    async def _apply(self, done: Turn, scenario: Scenario) -> None:
        assert done.plan is not None
        assert done.proposal is not None
        folder = self.folder / PLANS / f"window-{done.window.number:06d}"
        shutil.rmtree(folder, ignore_errors=True)
        done.plan.write(folder)
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        outcome = await apply(done.plan, self.brokers, Options(scenario=scenario, files=files))
        if outcome.state == INSTALLED and self._picture is not None:
            self._picture = self._picture._replace(epoch=outcome.epoch, plan=done.plan)
        change = Change(done.window.number, done.proposal.plan, done.proposal.moves)
        self.kept.past = self.kept.past.after(change, self.setting.rules.returns)
        numbers = {f"seconds_{name}": seconds for name, seconds in outcome.seconds.items()}
        reason = f"epoch {outcome.epoch} was decided on; {outcome.moved} of {outcome.asked} clients have moved"
        self._note(Decision(done.window.number, time.time(), outcome.state, reason, numbers, done.proposal.plan))

    async def _watch(self, done: Turn, measured: Measured, at: Look) -> None:
        """Tells the brokers the one number to watch, for whoever asks them."""
        core = measured.cost * at.scenario.settings.prices.core
        savings: dict[str, float] = {}
        if self.setting.shadow:
            savings = savings_of(at.scenario, at.present) | saving_of_delay(at.scenario, self.setting.planning)
        watched = Watched(
            done.window.number,
            done.window.time,
            core,
            done.window.over_bound,
            core / done.bound if done.bound else None,
            done.window.events,
            at.scale,
            savings,
        )
        await self.brokers.watched(watched)

    def _note(self, decision: Decision) -> None:
        with open(self.folder / DECISIONS, "ab") as file:
            file.write(msgspec.json.encode(decision) + b"\n")
        self._tell(decision)

    def _steps(self, number: int, scenario: Scenario) -> Workbench | Pipeline:
        """Who plans: this process, or Spark."""
        if self.setting.master is None and sum(self._observer.log.sampled) <= MOST_HERE:
            return Workbench(scenario)
        if self._pipeline is None:
            self._pipeline = Pipeline(self.setting.master or LOCAL)
        return self._pipeline

    def _snapshot(self, number: int) -> Path:
        """A copy of the scenario under a name of its own: the pipeline knows scenarios by their folders."""
        copy = self.folder / WINDOWS / f"{number:06d}"
        shutil.rmtree(self.folder / WINDOWS, ignore_errors=True)
        shutil.copytree(self._observer.folder, copy)
        return copy


def without_late(plan: Plan) -> Plan:
    """Today's plan without the flow that stands for the late one."""
    late = plan.header.parameters.get(LATE_FLOW)
    if late is None:
        return plan
    mine = plan.members["subscription"].to_numpy()[plan.members["flow"].to_numpy() == late]
    return without(plan, mine)


def _prevented(number: int, now: float, error: OverstoryError) -> Decision:
    return Decision(number, now, KEEP, f"it cannot be done now: {str(error).splitlines()[0]}")


def decisions_in(folder: Path) -> list[Decision]:
    """The decisions that a coordinator has written down, the first one first."""
    lines = (folder / DECISIONS).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Decision) for line in lines if line]
