"""Linear programmes through OR-Tools: a sparse matrix in, values and prices out."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from overstory.model.network import Floats

FEW = 30_000  # columns up to which the simplex method is used; beyond, a first-order one
SECONDS = 300.0


class Solution(NamedTuple):
    value: float
    variables: Floats
    duals: Floats  # by row: how much the value grows with its bound


def solved(cost: Floats, upper: Floats, matrix: csr_array, low: Floats, high: Floats) -> Solution | None:
    """The least cost of variables from 0 up to ``upper`` whose rows are between ``low`` and ``high``; None where there
    are none."""
    from ortools.linear_solver.python import model_builder_helper as solver

    model: Any = solver.ModelBuilderHelper()  # whose stubs know one shape of arrays
    model.fill_model_from_sparse_data(np.zeros(len(cost)), upper, cost, low, high, csr_matrix(matrix))
    helper = solver.ModelSolverHelper("glop" if len(cost) <= FEW else "pdlp")
    helper.set_time_limit_in_seconds(SECONDS)
    helper.solve(model)
    if not helper.has_solution():
        return None
    return Solution(
        float(helper.objective_value()), np.asarray(helper.variable_values()), np.asarray(helper.dual_values())
    )
