"""Subscription packing: active covering, where all messages that one change leads to on a link are packed into one."""

from overstory.routing.policies.active import Policy as Active

NAME = "packing"
SUMMARY = "active covering, with all that one change leads to on a link in one message"


class Policy(Active):
    """Subscription packing: active covering, with one message for each change and link."""

    packs = True
