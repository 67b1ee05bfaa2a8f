"""Linear programmes through OR-Tools: a sparse matrix in, values and prices out.

``solved`` is as exact as numbers are. ``nearly_solved`` is for large programmes whose solution is only rounded: a
first-order method finds which variables matter, and the simplex method solves the programme of these alone. The result
is a vertex, so that few variables are above 0, and its value is above the least by far less than ``ROUGH``, where the
first-order method by itself would leave thousands of variables a little above 0.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, csr_matrix, hstack

from overstory.model.network import Floats

FEW = 30_000  # columns up to which the simplex method is used; beyond, a first-order one
FEW_TO_ROUND = 5_000  # the same, of programmes that are nearly solved
SECONDS = 300.0
ROUGH = 1e-2  # by how much the first-order method may miss bounds and the value, relative to them
USED = 1e-3  # a variable that is more than that matters


class Solution(NamedTuple):
    value: float
    variables: Floats
    duals: Floats  # by row: how much the value grows with its bound


def solved(cost: Floats, upper: Floats, matrix: csr_array, low: Floats, high: Floats) -> Solution | None:
    """The least cost of variables from 0 up to ``upper`` whose rows are between ``low`` and ``high``; None where there
    are none."""
    return _solved("glop" if len(cost) <= FEW else "pdlp", cost, upper, matrix, low, high)


def nearly_solved(cost: Floats, upper: Floats, matrix: csr_array, low: Floats, high: Floats) -> Solution | None:
    """As ``solved``, with a cost that may be a little more than the least."""
    if len(cost) <= FEW_TO_ROUND:
        return _solved("glop", cost, upper, matrix, low, high)
    rough = _solved("pdlp", cost, upper, matrix, low, high, ROUGH)
    if rough is None:
        return None
    used, short = rough.variables > USED, np.flatnonzero(low > 0)  # a row that may fall short has a dear variable more
    more = csr_array((np.ones(len(short)), (short, np.arange(len(short)))), shape=(len(low), len(short)))
    some = hstack([csr_array(matrix)[:, np.flatnonzero(used)], more], format="csr")
    dear = np.full(len(short), 2.0 * float(cost.max()))
    ends = np.concatenate([upper[used], np.full(len(short), np.inf)])
    found = _solved("glop", np.concatenate([cost[used], dear]), ends, csr_array(some), low, high)
    if found is None or found.variables[int(used.sum()) :].max(initial=0.0) > USED:
        return rough
    variables = np.zeros(len(cost))
    variables[used] = found.variables[: int(used.sum())]
    return found._replace(value=float(cost @ variables), variables=variables)


def _solved(
    method: str, cost: Floats, upper: Floats, matrix: csr_array, low: Floats, high: Floats, near: float | None = None
) -> Solution | None:
    from ortools.linear_solver.python import model_builder_helper as solver

    model: Any = solver.ModelBuilderHelper()  # whose stubs know one shape of arrays
    model.fill_model_from_sparse_data(np.zeros(len(cost)), upper, cost, low, high, csr_matrix(matrix))
    helper = solver.ModelSolverHelper(method)
    helper.set_time_limit_in_seconds(SECONDS)
    if near is not None:
        ends = f"eps_optimal_absolute: {near} eps_optimal_relative: {near}"
        helper.set_solver_specific_parameters(f"termination_criteria {{ simple_optimality_criteria {{ {ends} }} }}")
    helper.solve(model)
    if not helper.has_solution():
        return None
    return Solution(
        float(helper.objective_value()), np.asarray(helper.variable_values()), np.asarray(helper.dual_values())
    )
