"""The entities together, and the machines that serve requests: create, publish, subscribe, unsubscribe, and the local
updates that these may trigger.

Every message between two entities goes through ``send``, which checks that it is for such a one and counts it. Requests
run to their end one after the other, and each update holds the locks of the channels that it changes until then. The
kernel makes the same decisions in the same order; see its law.
"""

from collections.abc import Iterable, Sequence

from overstory.errors import UsageError
from overstory.kernels.tamara import GROWTH, KINDS, LITERAL, RECOVERING, UPDATES
from overstory.planners.topics.core import formulas
from overstory.planners.topics.core.covering import chosen_clusters, price_of, worth_of
from overstory.planners.topics.core.entities import Channel, Cluster, Topic, User
from overstory.planners.topics.core.formulas import Draws, Side, Tables, step
from overstory.planners.topics.core.messages import (
    Answer,
    Ask,
    Grant,
    Join,
    Leave,
    Lock,
    Look,
    Message,
    Notice,
    Update,
)
from overstory.planners.topics.replaying import Rules


class System:
    """``room`` is how many clusters there may be at once."""

    def __init__(self, users: int, rates: Sequence[float], costs: Tables, rules: Rules, room: int) -> None:
        self.users = [User(number) for number in range(users)]
        self.topics: list[Topic] = []
        self.clusters: dict[int, Cluster] = {}
        self.costs, self.rules, self.room = costs, rules, room
        self.draws = Draws(rules.seed)
        self.sent = [0] * len(KINDS)
        self.updates = dict.fromkeys(UPDATES, 0)
        for rate in rates:
            self.create_topic(rate)

    def send(self, to: Channel | User, message: Message) -> None:
        self.sent[message.kind] += 1
        to.receive(message)

    def tell(self, to: Channel | User, message: Message, times: int = 1) -> None:
        """An answer, or a message whose receiver only takes note of it."""
        self.sent[message.kind] += times

    # Requests

    def create_topic(self, rate: float = 0.0) -> int:
        """CREATE: a channel without subscribers. Returns its number."""
        self.topics.append(Topic(len(self.topics), rate))
        return len(self.topics) - 1

    def publish(self, topic: int) -> dict[int, tuple[int, int]]:
        """PUBLISH: by user how many copies it gets, and how many of them it shows: one at most. Of a topic that nobody
        wants nothing is lost, as nobody is there to lose it; one that was never created is refused."""
        if not 0 <= topic < len(self.topics):
            raise UsageError(f"there is no topic {topic}; create it first")
        copies: dict[int, int] = {}
        channels: list[Channel] = [self.topics[topic]]
        channels += [self.clusters[number] for number in sorted(self.topics[topic].clusters)]
        for channel in channels:
            for user in channel.members.rows:
                copies[user] = copies.get(user, 0) + 1
        return {user: (count, int(self.users[user].keeps(topic))) for user, count in copies.items()}

    def gain_interest(self, user: int, topic: int) -> None:
        """SUBSCRIBE."""
        one = self.users[user]
        served = one.has(topic)
        one.wants.add(topic)
        if not served:
            self._subscribe_to(one, topic)
            self._reconsider(one)

    def _subscribe_to(self, one: User, topic: int) -> None:
        self.send(self.topics[topic], Look(topic))
        self.tell(one, Look(topic))
        near = self._nearest(one, topic)
        if near is not None and self._joining(one, near, topic) < 0:
            self.join(one, near)
            self._after_joining(near)
        else:
            self.subscribe(one, topic)
            self._after_subscribing(one, topic)

    def lose_interest(self, user: int, topic: int) -> None:
        """UNSUBSCRIBE."""
        one = self.users[user]
        one.wants.discard(topic)
        if topic in one.direct:
            self.unsubscribe(one, topic)
        else:
            for number in sorted(one.clusters):
                if number in one.clusters and topic in one.clusters[number]:
                    self._leave_or_notify(one, self.clusters[number], topic)
        self._reconsider(one)

    def _leave_or_notify(self, one: User, cluster: Cluster, topic: int) -> None:
        if self._leaving(one, cluster) < 0:
            self.leave(one, cluster)
            if not len(cluster.members):
                self.destroy(cluster)
                return
        self.send(cluster, Notice(one.number, topic, False))
        if self._tossed(self._threshold(cluster, topic)):
            self.consider_removing(cluster, topic)

    def change_rate(self, topic: int, rate: float) -> None:
        """What a topic's channel finds out by counting its events."""
        one = self.topics[topic]
        fell = rate < one.rate
        for number in one.clusters:
            self.clusters[number].load += rate - one.rate
        one.rate = rate
        if fell:
            if len(one.members):
                self.consider_pairing(one)
            return
        for number in sorted(self.clusters):
            if number in self.clusters and topic in self.clusters[number].topics:
                self.consider_removing(self.clusters[number], topic)

    def _reconsider(self, one: User) -> None:
        if self.rules.mode == LITERAL:
            return
        assert self.rules.mode == RECOVERING
        for topic in sorted(one.wants):
            self.send(self.topics[topic], Look(topic))
            self.tell(one, Look(topic))
        before = set(one.clusters)
        if self.recover(one):
            for number in sorted(one.clusters):
                if number not in before and number in one.clusters:
                    self._after_joining(self.clusters[number])

    # Subscriptions

    def subscribe(self, one: User, topic: int) -> None:
        one.direct.add(topic)
        self.send(self.topics[topic], Join(one.number))

    def unsubscribe(self, one: User, topic: int) -> None:
        one.direct.discard(topic)
        self.send(self.topics[topic], Leave(one.number))

    def join(self, one: User, cluster: Cluster) -> None:
        self.send(cluster, Join(one.number))
        one.clusters[cluster.number] = cluster.topics
        for topic in sorted(cluster.topics & one.direct):
            self.unsubscribe(one, topic)

    def quit(self, one: User, cluster: Cluster) -> None:
        self.send(cluster, Leave(one.number))
        del one.clusters[cluster.number]

    def leave(self, one: User, cluster: Cluster) -> None:
        self.quit(one, cluster)
        for topic in sorted(cluster.topics & one.wants):
            if not one.has(topic):
                self.subscribe(one, topic)

    def _joining(self, one: User, cluster: Cluster, topic: int) -> float:
        size = len(cluster.members)
        found = step(self.costs.maintain, size) + cluster.load * step(self.costs.deliver, size)
        for each in sorted(cluster.topics & (one.direct | {topic})):
            fans = len(self.topics[each].members) - (each in one.direct)
            found -= step(self.costs.maintain, fans) + self.topics[each].rate * step(self.costs.deliver, fans)
        return found

    def _leaving(self, one: User, cluster: Cluster) -> float:
        size = len(cluster.members) - 1
        found = -step(self.costs.maintain, size) - cluster.load * step(self.costs.deliver, size)
        for topic in sorted(cluster.topics & one.wants):
            if not one.has(topic, without=cluster.number):
                fans = len(self.topics[topic].members)
                found += step(self.costs.maintain, fans)
                found += self.topics[topic].rate * step(self.costs.deliver, fans)
        return found

    def _nearest(self, one: User, topic: int) -> Cluster | None:
        best, most = None, -1
        for number in sorted(self.topics[topic].clusters):
            shared = len(self.clusters[number].topics & one.direct)
            if shared > most:
                best, most = self.clusters[number], shared
        return best

    def _most_filtered(self, one: User) -> Cluster | None:
        best, most = None, -1
        for number in sorted(one.clusters):
            filtered = len(one.clusters[number] - one.wants)
            if filtered > most:
                best, most = self.clusters[number], filtered
        return best

    def recover(self, one: User) -> bool:
        """Chooses the user's clusters anew, if that costs less."""
        now = 0.0
        for number in sorted(one.clusters):
            now += price_of(self.costs, one, self.clusters[number])
        for topic in sorted(one.wants & one.direct):
            now += worth_of(self.costs, one, self.topics[topic])
        chosen, cost = chosen_clusters(self.costs, one, self.topics, self.clusters)
        if cost >= now - 1e-9:
            return False
        before = sorted(one.clusters)
        for number in chosen:
            if number not in one.clusters:
                self.join(one, self.clusters[number])
        for number in before:
            if number not in chosen:
                self.leave(one, self.clusters[number])
                if not len(self.clusters[number].members):
                    self.destroy(self.clusters[number])
        return True

    # Local updates

    def _put(self, cluster: Cluster, topic: int) -> None:
        cluster.topics.add(topic)
        cluster.load += self.topics[topic].rate
        self.topics[topic].clusters.add(cluster.number)

    def _take(self, cluster: Cluster, topic: int) -> None:
        cluster.topics.discard(topic)
        cluster.load -= self.topics[topic].rate
        self.topics[topic].clusters.discard(cluster.number)

    def _tell_topics(self, cluster: Cluster) -> None:
        said = Update(cluster.number, tuple(sorted(cluster.topics)))
        for topic in cluster.topics:
            self.send(self.topics[topic], said)

    def _tell_members(self, cluster: Cluster, members: Iterable[int]) -> None:
        said = Update(cluster.number, tuple(sorted(cluster.topics)))
        for user in members:
            self.send(self.users[user], said)

    def pair(self, one: Topic, other: Topic) -> bool:
        """Two topics become a cluster of those who are directly subscribed to both, if there is room for another."""
        number = next((each for each in range(self.room) if each not in self.clusters), None)
        if number is None:
            return False
        cluster = self.clusters[number] = Cluster(number)
        self._put(cluster, one.number)
        self._put(cluster, other.number)
        self._tell_topics(cluster)
        for user in reversed(list(one.members.rows)):
            if other.number in self.users[user].direct:
                self._tell_members(cluster, [user])
                self.join(self.users[user], cluster)
        self.updates["paired"] += 1
        return True

    def add(self, cluster: Cluster, topic: int) -> None:
        self._put(cluster, topic)
        self.send(self.topics[topic], Update(cluster.number, tuple(sorted(cluster.topics))))
        self._tell_members(cluster, cluster.members.rows)
        for user in cluster.members.rows:
            if topic in self.users[user].direct:
                self.unsubscribe(self.users[user], topic)
        self.updates["added"] += 1

    def remove(self, cluster: Cluster, topic: int) -> None:
        self._take(cluster, topic)
        self.send(self.topics[topic], Update(cluster.number, tuple(sorted(cluster.topics))))
        self._tell_members(cluster, cluster.members.rows)
        for user in cluster.members.rows:
            if topic in self.users[user].wants and not self.users[user].has(topic):
                self.subscribe(self.users[user], topic)
        self.updates["removed"] += 1
        if len(cluster.topics) == 1:
            self.destroy(cluster)

    def destroy(self, cluster: Cluster) -> None:
        """Everyone leaves, and keeps getting what it wants; the number is free again."""
        self._tell_topics(cluster)
        while len(cluster.members):
            last = self.users[cluster.members.rows[-1]]
            self._tell_members(cluster, [last.number])
            self.leave(last, cluster)
        self._free(cluster)
        self.updates["destroyed"] += 1

    def _free(self, cluster: Cluster) -> None:
        for topic in sorted(cluster.topics, reverse=True):
            self._take(cluster, topic)
        del self.clusters[cluster.number]

    def merge(self, cluster: Cluster, other: Cluster) -> None:
        self._tell_topics(other)
        theirs = sorted(other.topics)
        for topic in theirs:
            if topic not in cluster.topics:
                self._put(cluster, topic)
        self._tell_members(cluster, cluster.members.rows)
        for user in cluster.members.rows:
            for topic in theirs:
                if topic in self.users[user].direct:
                    self.unsubscribe(self.users[user], topic)
        while len(other.members):
            last = self.users[other.members.rows[-1]]
            self._tell_members(cluster, [last.number])
            self.quit(last, other)
            if last.number not in cluster.members:
                self.join(last, cluster)
        self._free(other)
        self.updates["merged"] += 1

    # Surveys and what they trigger

    def _tossed(self, threshold: float) -> bool:
        return self.draws.uniform() < formulas.coin(self.rules.phi, threshold)

    def _survey(self, channel: Channel, topic: int | None = None) -> list[Answer]:
        """Asks all subscribers, or some, each drawn by itself."""
        people = channel.members.rows
        count = formulas.answers(self.rules.sampled, len(people))
        asked = list(people)
        if count < len(people):
            asked = [people[int(self.draws.uniform() * len(people))] for _ in range(count)]
        return [self._answer(self.users[user], topic) for user in asked]

    def _answer(self, one: User, topic: int | None) -> Answer:
        asked = Ask(topic)
        self.send(one, asked)
        found = Answer(tuple(one.direct), tuple(one.clusters), one.answer(asked))
        self.sent[found.kind] += 1
        return found

    def _side(self, cluster: Cluster) -> Side:
        return Side(len(cluster.members), len(cluster.topics), cluster.load)

    def _threshold(self, cluster: Cluster, topic: int) -> float:
        one = self.topics[topic]
        return formulas.add_threshold(self.costs, self._side(cluster), one.rate, len(one.members))

    def _adding(self, cluster: Cluster, topic: Topic, common: float) -> float:
        sizes = len(cluster.members), len(cluster.topics)
        return formulas.adding(self.costs, *sizes, topic.rate, len(topic.members), common)

    def _locked(self, asking: Channel, asked: Channel, common: float) -> bool:
        """Asks the other channel for its lock; the answer comes with its numbers."""
        self.send(asked, Lock(asking.address, common))
        granted = asked.lock(asking.address)
        self.tell(asking, Grant(granted, len(asked.members), ()))
        return granted

    def _after_joining(self, cluster: Cluster) -> None:
        if self._tossed(max(GROWTH * len(cluster.members), 3.0)):
            self.consider_merging(cluster)

    def _after_subscribing(self, one: User, topic: int) -> None:
        cluster = self._most_filtered(one)
        if cluster is not None:
            self.send(cluster, Notice(one.number, topic, True))
            if self._tossed(self._threshold(cluster, topic)) and self.consider_adding(cluster, topic):
                return
        fans = len(self.topics[topic].members)
        if fans and self._tossed(max(GROWTH * fans, 3.0)):
            self.consider_pairing(self.topics[topic])

    def consider_adding(self, cluster: Cluster, topic: int) -> bool:
        found = self._survey(cluster)
        size, fans = len(cluster.members), len(self.topics[topic].members)
        common = sum(topic in answer.direct for answer in found) / max(len(found), 1) * size
        if self._adding(cluster, self.topics[topic], min(common, float(fans))) >= 0:
            return False
        self.add(cluster, topic)
        return True

    def consider_removing(self, cluster: Cluster, topic: int) -> bool:
        found = self._survey(cluster, topic)
        size, width, fans = len(cluster.members), len(cluster.topics), len(self.topics[topic].members)
        wanted = sum(answer.wants for answer in found) / max(len(found), 1) * size
        costs, rate = self.costs, self.topics[topic].rate
        gain = costs.associate[width] - costs.associate[width - 1]
        gain += rate * (costs.notify + costs.deliver[size])
        gain -= formulas.at(costs.maintain, fans + wanted) - costs.maintain[fans]
        gain -= rate * (formulas.at(costs.deliver, fans + wanted) - costs.deliver[fans])
        if gain <= 0:
            return False
        self.remove(cluster, topic)
        return True

    def consider_pairing(self, one: Topic) -> bool:
        """The topic enters the cluster, or pairs with the topic, that most of its direct subscribers have."""
        found = self._survey(one)
        scale = len(one.members) / max(len(found), 1)
        joint = _most(number for answer in found for number in answer.clusters)
        if joint is not None and one.number not in self.clusters[joint[0]].topics:
            cluster = self.clusters[joint[0]]
            granted = self._locked(one, cluster, joint[1] * scale)
            common = min(joint[1] * scale, float(len(cluster.members)))
            if granted and self._adding(cluster, one, common) < 0:
                self.add(cluster, one.number)
                cluster.unlock(one.address)
                return True
            cluster.unlock(one.address)
        shared = _most(topic for answer in found for topic in answer.direct if topic != one.number)
        if shared is None:
            return False
        return self._pair_with(one, self.topics[shared[0]], shared[1] * scale)

    def _pair_with(self, one: Topic, other: Topic, common: float) -> bool:
        granted = self._locked(one, other, common)
        common = min(common, float(len(other.members)))
        fans = len(one.members), len(other.members)
        pays = formulas.pairing(self.costs, one.rate, fans[0], other.rate, fans[1], common) < 0
        done = granted and pays and self.pair(one, other)
        other.unlock(one.address)
        return done

    def consider_merging(self, cluster: Cluster) -> bool:
        found = self._survey(cluster)
        joint = _most(number for answer in found for number in answer.clusters if number != cluster.number)
        if joint is None:
            return False
        other = self.clusters[joint[0]]
        granted = self._locked(cluster, other, float(joint[1]))
        common = min(joint[1] * len(cluster.members) / max(len(found), 1), float(len(other.members)))
        width, load = len(cluster.topics), cluster.load
        for topic in sorted(other.topics - cluster.topics):
            width += 1
            load += self.topics[topic].rate
        pays = formulas.merging(self.costs, self._side(cluster), self._side(other), width, load, common) < 0
        if granted and pays:
            self.merge(cluster, other)
        other.unlock(cluster.address)
        return granted and pays

    def overall(self) -> tuple[float, float]:
        """MC and DC."""
        costs = self.costs
        maintenance = sum(costs.maintain[len(topic.members)] for topic in self.topics)
        dissemination = sum(topic.rate * (costs.notify + costs.deliver[len(topic.members)]) for topic in self.topics)
        for cluster in self.clusters.values():
            size = len(cluster.members)
            maintenance += costs.maintain[size] + costs.associate[len(cluster.topics)]
            load = sum(self.topics[topic].rate for topic in cluster.topics)
            dissemination += load * (costs.notify + costs.deliver[size])
        return maintenance, dissemination


def _most(numbers: Iterable[int]) -> tuple[int, int] | None:
    """The number that comes most often, of equals the lowest, and how often it does."""
    counts: dict[int, int] = {}
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1
    if not counts:
        return None
    best = min(counts, key=lambda number: (-counts[number], number))
    return best, counts[best]
