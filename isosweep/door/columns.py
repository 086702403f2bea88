"""The columns of every frame: type, meaning and unit, in their order.

A count that may be missing, and every other number, is a float: missing is NaN, never 0. Each axis
of `grid.axes` is a further column.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Frame = Literal["sweeps", "plan", "runs", "records", "cells", "choices", "frontier"]


class Column(NamedTuple):
    """`dtype`: of pandas, "object" for what has none; `text`: the meaning, and the unit."""

    dtype: Literal["int64", "float64", "str", "bool", "object"]
    text: str


_N = Column("int64", "Rollouts per problem. A count.")
_BATCH = Column("int64", "Problems per batch. A count.")
_SEED = Column("int64", "Seed of the training run. No unit.")
_STEPS = Column("int64", "Update steps, T. A count.")
_RUN = Column("str", "Name of the run, and of its directory in runs/. No unit.")
_BUDGET = Column("float64", "Compute that one cell may spend. In budget_unit.")
_MEASURED = Column("float64", "Mean of the rewards that were measured. Reward.")
_EXPECTED = Column(
    "float64", "Reward to expect of a new run, by the surface over compute, n and B. Reward."
)
_LOW, _HIGH = (
    Column("float64", f"{which} end of the interval of expected, at analysis.confidence. Reward.")
    for which in ("Lower", "Upper")
)

_SWEEPS = {
    "name": Column("str", "Name of its directory. No unit."),
    "planned": Column("object", "When it was planned or launched last. UTC."),
    "launched": Column("bool", "Whether it was launched, and not only planned. Yes or no."),
    "model": Column("str", "Name of the model. No unit."),
    "task": Column("str", "Name of the task. No unit."),
    "budget_unit": Column("str", "Unit of its budgets."),
    "budgets": Column("object", "Compute that one cell may spend, ascending. In budget_unit."),
    "runs": Column("float64", "Runs of its plan. A count."),
    "done": Column("float64", "Of them, those at their end. A count."),
    "diverged": Column("float64", "Of them, those that a health rule ended. A count."),
    "failed": Column("float64", "Of them, those that failed. A count."),
    "collapsed": Column(
        "float64",
        "Of those done, the ones that lost for good what they had gained, by the "
        "analysis. A count.",
    ),
    "verdict": Column("str", "Of its newest analysis; of all variants', where they differ."),
    "followed_by": Column("str", "Who follows it now: user, machine and process."),
    "fault": Column("str", "What keeps it from being read."),
}
_PLAN = {
    "status": Column("str", "planned or rejected."),
    "budget": _BUDGET,
    "n": _N,
    "B": _BATCH,
    "T": Column("int64", "Update steps; of a rejected one those nearest to the budget. A count."),
    "seed": _SEED,
    "planned_compute": Column("float64", "What T steps are planned to spend. In budget_unit."),
    "planned_flops": Column("float64", "The same, evaluation not counted. FLOPs."),
    "device_hours": Column(
        "float64", "Predicted from the run's start to this budget, evaluation included. "
        "Device-hours.",
    ),
    "run_id": _RUN,
    "rule": Column("str", "The setting that a rejected one breaks first. No unit."),
    "reason": Column("str", "How it breaks it, with the numbers."),
}  # fmt: skip
_RUNS = {
    "run_id": _RUN,
    "n": _N,
    "B": _BATCH,
    "seed": _SEED,
    "T": Column("int64", "Update steps of the whole run. A count."),
    "budget": Column("float64", "The largest budget that it is read at. In budget_unit."),
    "learning_rate": Column("float64", "After warm-up. No unit."),
    "planned_flops": Column("float64", "Of the whole run, evaluation not counted. FLOPs."),
    "device_hours": Column(
        "float64", "Predicted for the whole run, evaluation included. Device-hours."
    ),
    "standing": Column(
        "str", "How far it is, by its files: not begun, queued, running, to extend, interrupted, "
        "failed, cancelled, diverged, done.",
    ),
    "collapsed": Column(
        "bool", "Whether it is done and lost for good what it had gained, by the analysis.",
    ),
    "step": Column("int64", "Update steps behind it. A count."),
    "spent": Column("float64", "Measured compute behind it. In budget_unit."),
    "reward": Column("float64", "Held-out avg@k of its newest record. Reward."),
    "attempt": Column("int64", "Its newest attempt; 0 before the first. A count."),
    "warnings": Column("str", "Health rules that it broke at its last word, with commas."),
    "reason": Column("str", "Why it stands so, where it said."),
}  # fmt: skip
_RECORDS = {
    "run_id": _RUN,
    "n": _N,
    "B": _BATCH,
    "seed": _SEED,
    "step": Column("int64", "Update steps before this evaluation. A count."),
    "spent": Column("float64", "Measured compute until then. In budget_unit."),
    "rollouts": Column("int64", "Completions sampled in training. A count."),
    "prompt_tokens": Column("int64", "Tokens of their prompts. A count."),
    "completion_tokens": Column("int64", "Their own tokens. A count."),
    "flops": Column("float64", "Of training and generation. FLOPs."),
    "device_hours": Column("float64", "Training's wall time times devices. Device-hours."),
    "reward": Column("float64", "avg@k: held-out problems x k samples that are right. A share."),
    "best_at_k": Column("float64", "Held-out problems with any of k samples right. A share."),
    "worst_at_k": Column("float64", "Held-out problems with all of k samples right. A share."),
    "majority_at_k": Column(
        "float64",
        "Held-out problems whose commonest answer of k is right; missing where answers "
        "cannot be told apart. A share.",
    ),
    "problems": Column("int64", "Held-out problems; 0 where only their mean is known. A count."),
    "samples_per_problem": Column("int64", "k. A count."),
    "response_tokens": Column("float64", "Mean length of the evaluation's answers. Tokens."),
    "evaluation_seconds": Column("float64", "What the evaluation took. Seconds."),
}
_CELLS = {
    "budget": Column("float64", "Compute at which the run is read. In budget_unit."),
    "n": _N,
    "B": _BATCH,
    "T": _STEPS,
    "seed": _SEED,
    "run_id": _RUN,
    "planned_compute": Column("float64", "What T steps were planned to spend. In budget_unit."),
    "measured_compute": Column(
        "float64", "Spent at the record nearest to the budget; missing without a reward. In "
        "budget_unit.",
    ),
    "reward": Column(
        "float64", "Held-out reward, by analysis.metric; missing where the run has not come that "
        "far, or has fallen. Reward.",
    ),
    "reading": Column("str", "exact, interpolated, collapsed, diverged or missing."),
}  # fmt: skip
_CHOICES = {
    "budget": _BUDGET,
    "n": _N,
    "B": Column("int64", "The best problems per batch for this n. A count."),
    "batches_tried": Column("int64", "Values of B that were measured with this n. A count."),
    "T": _STEPS,
    "seeds": Column("int64", "Seeds that measured counts. A count."),
    "fallen": Column("int64", "Further seeds, which had collapsed or diverged. A count."),
    "measured": _MEASURED,
    "standard_error": Column("float64", "Of measured. Reward."),
    "expected": _EXPECTED,
    "low": _LOW,
    "high": _HIGH,
    "loss": Column("float64", "Expected to be lost against the best n. Reward."),
    "loss_upper": Column("float64", "Upper bound of loss, at analysis.confidence. Reward."),
    "probability_best": Column(
        "float64", "That no other n is better here. A share; missing where one n was read."
    ),
    "may_be_best": Column("bool", "Whether it cannot be told from the best."),
}
_FRONTIER = {
    "budget": _BUDGET,
    "n": Column("int64", "The n of the grid with the highest expected reward. A count."),
    "B": Column("int64", "Problems per batch with it. A count."),
    "T": _STEPS,
    "n_star": Column("float64", "Median of the best n, planned or not: n*(C). A count."),
    "n_star_low": Column("float64", "Lower end of its interval. A count."),
    "n_star_high": Column("float64", "Upper end of its interval. A count."),
    "open_below": Column("bool", "Whether the best n may lie below all that were run."),
    "open_above": Column("bool", "Whether the best n may lie beyond all that were run."),
    "candidates": Column("object", "The n that cannot be told from the best, ascending."),
    "measured": _MEASURED,
    "expected": _EXPECTED,
    "low": _LOW,
    "high": _HIGH,
}

COLUMNS: Final[Mapping[Frame, Mapping[str, Column]]] = {
    "sweeps": _SWEEPS,
    "plan": _PLAN,
    "runs": _RUNS,
    "records": _RECORDS,
    "cells": _CELLS,
    "choices": _CHOICES,
    "frontier": _FRONTIER,
}
