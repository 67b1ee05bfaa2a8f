"""Lazy covering: a covered subscription is not forwarded, but one that was forwarded before stays.

It sends fewer messages than active covering, because it never withdraws and has less to send again. Its tables are
larger.
"""

from overstory.routing import policy

NAME = "lazy"
SUMMARY = "a covered subscription is not forwarded, but is left where it was"


class Policy(policy.Policy):
    """Lazy covering: a covered subscription is not forwarded, but one that was forwarded before stays."""
