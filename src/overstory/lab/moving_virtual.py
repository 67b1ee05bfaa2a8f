"""Clients moved between the product's brokers in the simulator, while plans are installed and things fail, by seed.

python -m overstory.lab.moving_virtual FIRST LAST runs the schedules of these seeds, and says which were wrong.

They are the schedules of ``installing_virtual``, in which the subscriber is asked to go from broker to broker. It
follows, comes back, or goes to a third one. Brokers are killed only where they have disks: whose session is in the
memory of one broker alone loses it with that broker.
"""

import random
import sys

import msgspec

from overstory.broker.facts import AT
from overstory.broker.standing import Address
from overstory.lab.installing_virtual import KILLED, Drama, Ended, Plotted

MOVES = 4
FOLLOWS, RETURNS = 0.6, 0.2  # shares of what the client does; else it goes to any broker


class Moves(Drama):
    """One schedule of a network whose client moves."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._draw = random.Random(seed + 2)
        if not self.plotted.durable:
            self._pending = [one for one in self._pending if one.kind != KILLED]
        self._times = sorted(self._draw.uniform(0.0, 8.0) for _ in range(MOVES))
        self._began = 0.0
        self.asked = self.went = 0

    def _publish(self) -> None:
        super()._publish()
        self._began = self._began or self.network.now
        for broker, made in self.network.brokers.items():
            address = Address("", f"broker:{broker}")
            made.fabric.facts.say(AT, "", msgspec.json.encode(address))
        if self._times and self.network.now - self._began >= self._times[0]:
            self._times.pop(0)
            self._ask()
        self.follow()

    def _ask(self) -> None:
        """The broker that has the subscriber is told that it is to go elsewhere, as if under another plan."""
        made = self.network.brokers.get(self.network.broker_of(self.subscriber))
        if made is not None:
            self.asked += 1
            made.fabric.moving.ask({self.subscriber.name: self._draw.randrange(self.plotted.brokers)}, again=True)

    def follow(self) -> None:
        """The subscriber does what it likes when it is sent elsewhere."""
        told, self.subscriber.sent_to = self.subscriber.sent_to, None
        if told is None:
            return
        kind, broker = self._draw.random(), int(told.partition(":")[2])
        if kind >= FOLLOWS + RETURNS:
            broker = self._draw.randrange(self.plotted.brokers)
        if kind < FOLLOWS or kind >= FOLLOWS + RETURNS:
            self.went += 1
            self.network.reattach(self.subscriber, broker)

    def _is_over(self) -> bool:
        return not self._times and super()._is_over()


def moved(seed: int) -> tuple[Ended, Moves]:
    """Draws a schedule by its seed, and lets it happen."""
    schedule = Moves(seed)
    return schedule.run(), schedule


def main(first: int, last: int) -> int:
    wrong = asked = went = installed = 0
    for seed in range(first, last):
        try:
            ended, schedule = moved(seed)
            asked, went, installed = asked + schedule.asked, went + schedule.went, installed + ended.installed
            problem = "" if ended.is_right else f"{ended}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            wrong += 1
            print(f"seed {seed}: {problem}\n  {Plotted.drawn(seed)}", flush=True)
    print(f"{last - first} schedules, {installed} plans installed, asked {asked} times, went {went}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
