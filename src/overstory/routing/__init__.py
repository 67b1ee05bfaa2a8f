"""How events travel: the law, and the router that obeys it. docs/routing.md explains both and has a glossary.

The files in reading order:

- ``law`` is the reference executor.
- ``router`` has the inputs of a broker's mind, and the rules that it keeps.
- ``messages`` has what routers tell each other. ``share`` is one broker's part of a plan.
- ``state`` is what a router knows: an ``epoch`` for each plan, in it a ``flow`` for each tree, in it an ``outlet`` for
  each neighbour.
- ``policy`` decides what an outlet tells its neighbour. ``policies`` has all policies, and ``window`` the statistics
  that some of them use. ``wave`` and ``tombstones`` serve epochs.
- ``neighbours`` handles the messages of neighbours. ``moves`` takes a subscription from one flow to another.
- ``frames`` are publications as arrays. ``table``, the forwarding table, finds their next hops; it numbers these in
  ``ways``.
"""
