"""Where cells run in tests that need no Spark."""

from collections.abc import Callable


class Here:
    parallelism = 1

    def run_task(self, function: Callable[[str], str], argument: str) -> str:
        return function(argument)
