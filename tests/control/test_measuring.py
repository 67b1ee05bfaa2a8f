"""What is measured on links is what the scenario prices: what it does not price is not predicted either."""

from overstory.broker.links import Traffic
from overstory.broker.reports import LinkReport, Report
from overstory.control.measuring import between


def report(broker: int, messages: int, traffic: Traffic) -> Report:
    links = [LinkReport(1 - broker, True, 0, traffic)]
    return Report(broker, True, True, 0, 0, messages, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, links)


def test_headers_count_where_they_are_priced() -> None:
    first = {0: report(0, 10, Traffic(event_bytes=100, header_bytes=5)), 1: report(1, 0, Traffic())}
    last = {0: report(0, 30, Traffic(event_bytes=500, header_bytes=65)), 1: report(1, 0, Traffic(event_bytes=7))}
    prices = {(0, 1): 2.0, (1, 0): 1.0}
    without, with_them = (between(first, last, prices, 1.0, headers) for headers in (False, True))
    assert (without.events, without.bytes, without.cost) == (20, 407, 807.0)
    assert (with_them.events, with_them.bytes, with_them.cost) == (20, 467, 927.0)
