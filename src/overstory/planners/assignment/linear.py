"""Linear programmes through OR-Tools: a sparse matrix in, values and prices out.

``solved`` is as exact as numbers are. Large programmes whose solution is only rounded are solved in two steps.
``roughly_solved`` is a first-order method: its value is within some percent of the least, but thousands of variables
are a little above 0. ``at_a_vertex`` goes on, and then solves the programme of the variables above 0 alone by the
simplex method. Its result is a vertex, where few variables are above 0, and its value is next to the least.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, csr_matrix, hstack

from overstory.model.network import Floats

FEW = 30_000  # columns up to which the simplex method is used; beyond, a first-order one
FEW_TO_ROUND = 5_000  # the same, of programmes that are nearly solved
SECONDS = 300.0
ROUGH = 1e-2  # by how much the first-order method may miss limits and the value, relative to them
FINE = 1e-3  # the same, before the simplex method
USED = 1e-3  # a variable that is not more than that is 0


class Programme(NamedTuple):
    """The least cost of variables from 0 up to ``upper`` whose rows are between ``low`` and ``high``."""

    cost: Floats
    upper: Floats
    matrix: csr_array
    low: Floats
    high: Floats


class Solution(NamedTuple):
    value: float
    variables: Floats
    duals: Floats  # by row: how much the value grows with its bound
    is_vertex: bool = True


def solved(cost: Floats, upper: Floats, matrix: csr_array, low: Floats, high: Floats) -> Solution | None:
    """The least cost of variables from 0 up to ``upper`` whose rows are between ``low`` and ``high``; None where there
    are none."""
    return _solved("glop" if len(cost) <= FEW else "pdlp", cost, upper, matrix, low, high)


def roughly_solved(programme: Programme) -> Solution | None:
    """As ``solved``, with a value that is near the least and limits that are nearly kept; exact where that is quick."""
    if len(programme.cost) <= FEW_TO_ROUND:
        return _solved("glop", *programme)
    found = _solved("pdlp", *programme, near=ROUGH)
    return None if found is None else found._replace(is_vertex=False)


def at_a_vertex(programme: Programme, rough: Solution) -> Solution:
    """Solves a programme for those variables alone that a good solution has above 0. Where they fall short, it is the
    rough solution."""
    if rough.is_vertex:
        return rough
    good = _solved("pdlp", *programme, near=FINE)
    if good is None:
        return rough
    cost, upper, matrix, low, high = programme
    used, short = good.variables > USED, np.flatnonzero(low > 0)  # a row that may fall short has a dear variable more
    count = int(used.sum())
    more = csr_array((np.ones(len(short)), (short, np.arange(len(short)))), shape=(len(low), len(short)))
    some = csr_array(hstack([csr_array(matrix)[:, np.flatnonzero(used)], more], format="csr"))
    dear = np.full(len(short), 2.0 * float(cost.max()))
    ends = np.concatenate([upper[used], np.full(len(short), np.inf)])
    found = _solved("glop", np.concatenate([cost[used], dear]), ends, some, low, high)
    if found is None or found.variables[count:].max(initial=0.0) > USED:
        return rough
    variables = np.zeros(len(cost))
    variables[used] = found.variables[:count]
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
