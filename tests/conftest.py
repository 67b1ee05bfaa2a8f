"""Profiles: the default is quick; `make test-long` gives every law ten thousand examples."""

from hypothesis import HealthCheck, settings

RELAXED = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("default", max_examples=200, deadline=None, suppress_health_check=RELAXED)
settings.register_profile("long", max_examples=10_000, deadline=None, suppress_health_check=RELAXED)
settings.load_profile("default")
