"""Profiles: the default is quick and the same every time; `make test-long` tries 10,000 new examples of each law."""

import os

from hypothesis import HealthCheck, settings

# Java lives too short in tests to gain by compiling well: two files of Spark tests took 108 s instead of 140.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
RELAXED = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("default", max_examples=50, deadline=None, suppress_health_check=RELAXED, derandomize=True)
settings.register_profile("long", max_examples=10_000, deadline=None, suppress_health_check=RELAXED)
settings.load_profile("default")
