"""Subscription packing: active covering, where all that one change leads to on a link is one message."""

from overstory.routing.policies.active import Policy as Active

NAME = "packing"
SUMMARY = "active covering, with all that one change leads to on a link in one message"


class Policy(Active):
    packs = True
