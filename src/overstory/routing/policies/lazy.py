"""Lazy covering: a covered subscription is not forwarded, but what was forwarded stays.

Fewer messages than active covering, for it never withdraws and has less to send again; larger tables.
"""

from overstory.routing import policy

NAME = "lazy"
SUMMARY = "a covered subscription is not forwarded, but is left where it was"


class Policy(policy.Policy):
    pass
