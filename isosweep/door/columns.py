"""The columns of frames that no file of the analysis has: their meaning, and where it is read.

A count that may be missing is a float: missing is NaN, never 0. Each axis of `grid.axes` is a
further column. The columns of cells, choices and the frontier are in `analysis.tables`.
"""

from datetime import UTC, datetime
from typing import Any

from isosweep.analysis.columns import (
    BUDGET,
    Column,
    Columns,
    count,
    flag,
    label,
    number,
    other,
    planned,
)


def _counted(standing: str, text: str) -> Column[Any]:
    """How many of a sweep's runs stand so; missing where the sweep cannot be read."""
    return number(standing, lambda row: (row.counts or {}).get(standing), text)


def _known(name: str, text: str) -> Column[Any]:
    """A word; "" where it is not known."""
    return label(name, lambda row: getattr(row, name) or None, text)


# Read from what `modes.status.listed_sweep` returns.
SWEEPS: Columns = (
    label("name", "name", "Name of the sweep's directory. No unit."),
    other(
        "planned",
        lambda row: datetime.fromtimestamp(row.planned_unix_time, UTC),
        "When the sweep was last planned or launched. UTC.",
    ),
    flag("launched", "launched", "Whether the sweep was launched; False if only planned."),
    _known("model", "Name of the model. No unit."),
    _known("task", "Name of the task. No unit."),
    _known("budget_unit", "Unit of the budgets."),
    other(
        "budgets",
        lambda row: tuple(row.budgets),
        "Compute budgets, ascending. In budget_unit.",
    ),
    number(
        "runs",
        lambda row: sum(row.counts.values()) if row.counts else None,
        "Runs in the plan. A count.",
    ),
    _counted("done", "Runs that are done. A count."),
    _counted("diverged", "Runs that a health rule stopped. A count."),
    _counted("failed", "Runs that failed. A count."),
    number(
        "collapsed",
        "collapsed",
        "Runs that are done and lost for good what they had gained. A count.",
    ),
    label(
        "verdict", "verdict", "Verdict of the newest analysis; all verdicts where variants differ."
    ),
    label("followed_by", "followed_by", "Who follows the sweep now: user, machine and process."),
    label("fault", "fault", "Why the sweep cannot be read; empty where it can."),
)


# Read from a planned or a rejected candidate; fields that one of them lacks are None.
PLAN: Columns = (
    label("status", "status", "planned or rejected."),
    number("budget", "budget", BUDGET),
    *planned("", "n", "B"),
    count(
        "T",
        "num_steps",
        "Update steps; of a rejected candidate, the number nearest to the budget. A count.",
    ),
    *planned("", "seed"),
    number("planned_compute", "planned_compute", "Predicted compute of T steps. In budget_unit."),
    number(
        "planned_flops", "planned_flops", "Predicted FLOPs of T steps, without evaluation. FLOPs."
    ),
    number(
        "device_hours",
        "device_hours",
        "Predicted device time up to this budget, with evaluation. Device-hours.",
    ),
    number(
        "dollars",
        "dollars",
        "Price of these device-hours, by hardware.dollars_per_hour. US dollars.",
    ),
    *planned("", "run_id"),
    label("rule", "rule", "Setting whose rule a rejected candidate breaks first. No unit."),
    label("reason", "reason", "How a rejected candidate breaks that rule, with the numbers."),
)

# Read from a planned `run`, its `view`, its `standing` and its `state`.
RUNS: Columns = (
    *planned("run", "run_id", "n", "B", "seed"),
    count("T", "run.num_steps", "Update steps of the whole run, as planned. A count."),
    number(
        "budget",
        lambda row: row.run.milestones[-1],
        "The largest budget of this run. In budget_unit.",
    ),
    number("learning_rate", "run.learning_rate", "Learning rate after warm-up. No unit."),
    number(
        "planned_flops",
        "run.planned_flops",
        "Predicted FLOPs of the whole run, without evaluation. FLOPs.",
    ),
    number(
        "device_hours",
        "device_hours",
        "Predicted device time of the whole run, with evaluation. Device-hours.",
    ),
    number(
        "dollars",
        "dollars",
        "Price of these device-hours, by hardware.dollars_per_hour. US dollars.",
    ),
    label(
        "standing",
        "standing.value",
        "State of the run by its files: not begun, queued, running, to extend, interrupted, "
        "failed, cancelled, diverged or done.",
    ),
    flag(
        "collapsed",
        "collapsed",
        "Whether the run is done and lost for good what it had gained.",
    ),
    count("step", "state.step", "Update steps done. A count."),
    number("spent", "spent", "Measured compute so far. In budget_unit."),
    number("reward", "state.reward", "Held-out avg@k of the newest record. Reward."),
    count("attempt", "state.attempt", "Number of the newest attempt; 0 before the first. A count."),
    label(
        "warnings",
        lambda row: ", ".join(row.state.warnings),
        "Health rules broken when the run last reported, with commas.",
    ),
    label("reason", "view.reason", "Reason for that state, where the run gave one."),
)


# Read from a `run` and a `record` of it, with `scores` where single problems are known.
RECORDS: Columns = (
    *planned("run", "run_id", "n", "B", "seed"),
    count("step", "record.step", "Update steps before this evaluation. A count."),
    number("spent", "spent", "Measured compute before this evaluation. In budget_unit."),
    count("rollouts", "record.compute.rollouts", "Completions sampled in training. A count."),
    count("prompt_tokens", "record.compute.prompt_tokens", "Tokens of the prompts. A count."),
    count(
        "completion_tokens",
        "record.compute.completion_tokens",
        "Tokens of the completions. A count.",
    ),
    number("flops", "record.compute.flops", "FLOPs of training and generation so far. FLOPs."),
    number(
        "device_hours",
        lambda row: row.record.compute.spent("device_hours"),
        "Wall time of training so far, times devices. Device-hours.",
    ),
    number(
        "dollars",
        "dollars",
        "Price of these device-hours, by hardware.dollars_per_hour. US dollars.",
    ),
    number(
        "reward",
        "record.reward",
        "avg@k: share of right answers over all held-out problems and their k samples. A share.",
    ),
    number(
        "best_at_k",
        lambda row: getattr(row.scores, "best", None),
        "best@k: share of held-out problems with any of k samples right. A share.",
    ),
    number(
        "worst_at_k",
        lambda row: getattr(row.scores, "worst", None),
        "worst@k: share of held-out problems with all of k samples right. A share.",
    ),
    number(
        "majority_at_k",
        "majority",
        "majority@k: share of held-out problems whose most common answer is right; missing where "
        "answers cannot be compared. A share.",
    ),
    count(
        "problems",
        lambda row: len(row.record.successes),
        "Number of held-out problems; 0 where only their mean is known. A count.",
    ),
    count(
        "samples_per_problem",
        "record.samples_per_problem",
        "Samples per held-out problem, k. A count.",
    ),
    number(
        "response_tokens",
        "record.completion_tokens",
        "Mean length of the answers in this evaluation. Tokens.",
    ),
    number("evaluation_seconds", "record.seconds", "Duration of this evaluation. Seconds."),
)


# Of an estimate of n at one budget.
BEST_N: Columns = (
    number("budget", "budget", BUDGET),
    number("median", "median", "Rollouts per problem. A count."),
    number("low", "low", "Lower end of its interval. A count."),
    number("high", "high", "Upper end of its interval. A count."),
    flag("open_below", "open_below", "Whether n may lie below all that were run."),
    flag("open_above", "open_above", "Whether n may lie above all that were run."),
)


def _range(name: str, what: str) -> Columns:
    """An n of a `Range`, with its interval; missing without a spread between seeds."""

    def read(part: str) -> Any:
        return lambda row: getattr(getattr(row, name), part, None)

    def end(part: str) -> Any:
        return lambda row: getattr(getattr(getattr(row, name), "interval", None), part, None)

    return (
        number(name, end("median"), f"{what}. A count."),
        number(f"{name}_low", end("low"), "Lower end of its interval. A count."),
        number(f"{name}_high", end("high"), "Upper end of its interval. A count."),
        other(f"{name}_open_below", read("open_below"), "Whether it may lie below all n run."),
        other(f"{name}_open_above", read("open_above"), "Whether it may lie above all n run."),
    )


# Of `AtBudget` of a comparison.
COMPARED: Columns = (
    label("sweep", "entry", "The sweep or variant, by what tells it from the others. No unit."),
    number("budget", "budget", BUDGET),
    count("n", "best_n", "The n that ran and is expected to reach the highest reward. A count."),
    count("B", "best_batch", "Problems per batch with it. A count."),
    *_range("n_star", "n*, the best n"),
    *_range("n_d", "n_d, the smallest n that is good enough"),
    number("reward", "reward", "Reward to expect with n and B. Reward."),
    number("low", lambda row: row.interval and row.interval[0], "Lower end of its interval."),
    number("high", lambda row: row.interval and row.interval[1], "Upper end of its interval."),
    number(
        "better",
        "better",
        "Probability that this reward is above the first sweep's at that budget. A share.",
    ),
)
