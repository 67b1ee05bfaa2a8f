"""What a planner may ask of the pipeline, which it gets as an argument and never imports."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from overstory.model.scenario import Scenario


class Steps(Protocol):
    def publishers(self, scenario: Scenario) -> NDArray[np.int64]:
        """The clients that published, ascending."""
