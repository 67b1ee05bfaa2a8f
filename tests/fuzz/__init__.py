"""A fuzzer of the broker, led by coverage: ``python -m tests.fuzz FOLDER [-max_total_time=3600]``."""
