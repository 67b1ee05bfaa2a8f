"""How events travel: the law, and the router that obeys it. See docs/routing.md.

In reading order: ``law`` is the reference executor; ``router`` the inputs of a broker's mind and the rules that it
keeps; ``messages`` what routers tell each other, ``share`` a broker's part of a plan. ``state`` is what a router knows:
an ``epoch`` for each plan, in it a ``flow`` for each tree, in it an ``outlet`` for each neighbour, which a ``policy``
decides on; ``policies`` has all of them, ``window`` the statistics of some. ``neighbours`` is what messages lead to,
``moves`` how a subscription changes flows. ``frames`` are publications as arrays; a ``table``, with ``ways``, says
where they go.
"""
