"""Scribe (Castro et al., 2002) over Pastry: a tree for each channel, the union of the routes of its subscribers to the
node that its key belongs to. Nodes on the way that are no subscribers help, and leave once nobody is below them.

A keep-alive goes along each link of each tree in each interval. Until then what is below a crashed node gets nothing.
A node whose parent has crashed subscribes anew, and takes what is below it along. A channel whose root has crashed
moves to the node that its key then belongs to, and so it does when a nearer node comes.
"""

from collections.abc import Iterable

from overstory.errors import UsageError
from overstory.lab.platforms.pastry import Pastry, hashed
from overstory.lab.platforms.platform import Published

OF_CHANNELS = 7  # the salt of their keys


class Tree:
    """Of a channel: parents, children, and who of them is subscribed."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.parent: dict[int, int] = {}
        self.children: dict[int, set[int]] = {root: set()}
        self.subscribed: set[int] = set()

    def __contains__(self, node: int) -> bool:
        return node in self.children


class Scribe:
    """Scribe on Pastry as a ``Platform``."""

    def __init__(self, nodes: int, salt: int = 0) -> None:
        self.pastry = Pastry(nodes, salt)
        self.trees: dict[int, Tree] = {}
        self.gone: set[int] = set()  # crashed, and not yet missed

    def create(self, channel: int) -> int:
        self.trees.setdefault(channel, Tree(self.pastry.root(self._key(channel))))
        return 1

    def _key(self, channel: int) -> int:
        return hashed(channel, OF_CHANNELS)

    def _tree(self, channel: int) -> Tree:
        if channel not in self.trees:
            raise UsageError(f"there is no channel {channel}; create it first")
        return self.trees[channel]

    def subscribe(self, node: int, channel: int) -> int:
        tree = self._tree(channel)
        tree.subscribed.add(node)
        return self._attach(tree, node, channel)

    def _attach(self, tree: Tree, node: int, channel: int) -> int:
        """Walks towards the root until it meets the tree."""
        messages = 0
        while node not in tree or (node != tree.root and node not in tree.parent):
            after = self.pastry.next_hop(node, self._key(channel))
            above = tree.root if after is None else after
            tree.children.setdefault(node, set())
            if above == node or self._is_below(tree, above, node):
                above = tree.root
            known = above in tree
            tree.children.setdefault(above, set()).add(node)
            tree.parent[node] = above
            messages += 1
            if known and (above == tree.root or above in tree.parent):
                break
            node = above
        return messages

    def _is_below(self, tree: Tree, node: int, other: int) -> bool:
        """Whether a node is below another, so that it cannot be its parent."""
        while node in tree.parent:
            node = tree.parent[node]
            if node == other:
                return True
        return False

    def unsubscribe(self, node: int, channel: int) -> int:
        tree = self._tree(channel)
        tree.subscribed.discard(node)
        return self._prune(tree, node)

    def _prune(self, tree: Tree, node: int) -> int:
        """Nodes leave that are neither subscribed nor needed."""
        messages = 0
        while node in tree and node != tree.root and not tree.children[node] and node not in tree.subscribed:
            above = tree.parent.pop(node)
            del tree.children[node]
            tree.children[above].discard(node)
            messages += 1
            node = above
        return messages

    def publish(self, channel: int) -> Published:
        tree = self._tree(channel)
        ahead, reached, messages = [tree.root], set(), 1  # the publisher tells the root
        while ahead:
            node = ahead.pop()
            if node in self.gone:
                continue
            reached.add(node)
            messages += len(tree.children[node])
            ahead += sorted(tree.children[node])
        return Published(frozenset(reached & tree.subscribed), messages)

    def edges(self, channel: int) -> int:
        return len(self._tree(channel).parent)

    def keep_alives(self) -> int:
        return sum(len(tree.parent) for tree in self.trees.values())

    def crash(self, nodes: Iterable[int]) -> None:
        for node in sorted(set(nodes) & self.pastry.id_of.keys()):
            self.pastry.fail(node)
            self.gone.add(node)

    def repair(self) -> int:
        gone, self.gone = self.gone, set()
        return sum(self._repaired(channel, tree, gone) for channel, tree in self.trees.items()) if gone else 0

    def come_back(self, node: int) -> int:
        """Channels whose keys are now nearest to the node move to it."""
        self.pastry.join(node)
        return sum(
            self._moved(tree, node) for channel, tree in self.trees.items() if self._root(channel) == node != tree.root
        )

    def _root(self, channel: int) -> int:
        return self.pastry.root(self._key(channel))

    def _moved(self, tree: Tree, node: int) -> int:
        """The old root is the new one's child, if anybody needs it."""
        above, old = tree.parent.pop(node, None), tree.root
        if above is not None:
            tree.children[above].discard(node)
        tree.children.setdefault(node, set()).add(old)
        tree.parent[old], tree.root = node, node
        return 1 + self._prune(tree, old)

    def _repaired(self, channel: int, tree: Tree, gone: set[int]) -> int:
        orphans = set()
        for node in sorted(gone & tree.children.keys()):
            orphans |= tree.children.pop(node) - gone
            above = tree.parent.pop(node, None)
            if above in tree.children:
                tree.children[above].discard(node)
        tree.subscribed -= gone
        for node in orphans:
            tree.parent.pop(node, None)
        if tree.root in gone:
            tree.root = self.pastry.root(self._key(channel))
            above = tree.parent.pop(tree.root, None)
            if above is not None:
                tree.children[above].discard(tree.root)
                orphans |= {above} if above != tree.root else set()
            tree.children.setdefault(tree.root, set())
        loose = sorted(node for node in tree.children if node != tree.root and node not in tree.parent)
        return sum(self._attach(tree, node, channel) for node in loose)
