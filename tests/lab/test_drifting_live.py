"""An hour of shifting interests on real brokers, as small as can be."""

from overstory.lab.drifting_hours import SHIFT
from overstory.lab.drifting_live import SIZE, compare


def test_what_links_carry_without_new_plans_is_what_the_meter_says() -> None:
    small = SIZE | {"brokers": 6, "keywords": 6, "events": 150, "windows": 3, "shape": SHIFT, "seed": 1}
    compared = compare(small, 9.0)
    for driven in (compared.autopilot, compared.never):
        assert driven.events == 450
    assert compared.never.applied == 0
    assert 0.7 < compared.measured < 1.5  # late subscriptions find their flows a little later than the meter has it
