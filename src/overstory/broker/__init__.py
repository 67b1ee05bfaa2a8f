"""A broker: MQTT in front, the router behind. docs/broker.md tells how to run it, and what it promises.

In reading order: ``config`` has what an operator may set. ``message`` is what is published. ``link`` is one connection
and ``session`` one client's session, both without I/O. ``core`` has what the packets do: ``connecting``,
``subscribing`` and ``publishing``, with ``retained``, ``wills`` and ``shared``; all that they know is in ``state``.
``tick`` takes many packets at once, ``slots`` has what its kernels know of sessions. ``pressure`` bounds what is kept.
``journal`` and ``identities`` keep what has to survive a restart. ``server`` is the shell with the sockets,
``monitor``, ``metrics`` and ``logs`` say how it goes.
"""
