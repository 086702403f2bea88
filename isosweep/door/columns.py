"""The columns of frames that no file of the analysis has: what they say, and how it is read.

A count that may be missing, and every other number, is a float: missing is NaN, never 0. Each axis
of `grid.axes` is a further column. Those of cells, choices and the frontier are
`analysis.tables`'s.
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
    """Of a sweep's runs those that stand so; missing where the sweep cannot be read."""
    return number(standing, lambda row: (row.counts or {}).get(standing), text)


def _known(name: str, text: str) -> Column[Any]:
    """A word that is "" where it is not known."""
    return label(name, lambda row: getattr(row, name) or None, text)


# Of what `modes.listing.listed_sweep` has.
SWEEPS: Columns = (
    label("name", "name", "Name of its directory. No unit."),
    other(
        "planned",
        lambda row: datetime.fromtimestamp(row.planned_unix_time, UTC),
        "When it was planned or launched last. UTC.",
    ),
    flag("launched", "launched", "Whether it was launched, and not only planned. Yes or no."),
    _known("model", "Name of the model. No unit."),
    _known("task", "Name of the task. No unit."),
    _known("budget_unit", "Unit of its budgets."),
    other(
        "budgets",
        lambda row: tuple(row.budgets),
        "Compute that one cell may spend, ascending. In budget_unit.",
    ),
    number(
        "runs",
        lambda row: sum(row.counts.values()) if row.counts else None,
        "Runs of its plan. A count.",
    ),
    _counted("done", "Of them, those at their end. A count."),
    _counted("diverged", "Of them, those that a health rule ended. A count."),
    _counted("failed", "Of them, those that failed. A count."),
    number(
        "collapsed",
        "collapsed",
        "Of those done, the ones that lost for good what they had gained, by the analysis. "
        "A count.",
    ),
    label("verdict", "verdict", "Of its newest analysis; of all variants', where they differ."),
    label("followed_by", "followed_by", "Who follows it now: user, machine and process."),
    label("fault", "fault", "What keeps it from being read."),
)


# Of a planned candidate or a rejected one, which lack some of each other's fields: None.
PLAN: Columns = (
    label("status", "status", "planned or rejected."),
    number("budget", "budget", BUDGET),
    *planned("", "n", "B"),
    count(
        "T", "num_steps", "Update steps; of a rejected one those nearest to the budget. A count."
    ),
    *planned("", "seed"),
    number(
        "planned_compute", "planned_compute", "What T steps are planned to spend. In budget_unit."
    ),
    number("planned_flops", "planned_flops", "The same, evaluation not counted. FLOPs."),
    number(
        "device_hours",
        "device_hours",
        "Predicted from the run's start to this budget, evaluation included. Device-hours.",
    ),
    number("dollars", "dollars", "What they cost by hardware.dollars_per_hour. US dollars."),
    *planned("", "run_id"),
    label("rule", "rule", "The setting that a rejected one breaks first. No unit."),
    label("reason", "reason", "How it breaks it, with the numbers."),
)

# Of a planned `run`, its `view`, how it is `standing` and its `state`.
RUNS: Columns = (
    *planned("run", "run_id", "n", "B", "seed"),
    count("T", "run.num_steps", "Update steps of the whole run. A count."),
    number(
        "budget",
        lambda row: row.run.milestones[-1],
        "The largest budget that it is read at. In budget_unit.",
    ),
    number("learning_rate", "run.learning_rate", "After warm-up. No unit."),
    number(
        "planned_flops", "run.planned_flops", "Of the whole run, evaluation not counted. FLOPs."
    ),
    number(
        "device_hours",
        "device_hours",
        "Predicted for the whole run, evaluation included. Device-hours.",
    ),
    number("dollars", "dollars", "What they cost by hardware.dollars_per_hour. US dollars."),
    label(
        "standing",
        "standing.value",
        "How far it is, by its files: not begun, queued, running, to extend, interrupted, failed, "
        "cancelled, diverged, done.",
    ),
    flag(
        "collapsed",
        "collapsed",
        "Whether it is done and lost for good what it had gained, by the analysis.",
    ),
    count("step", "state.step", "Update steps behind it. A count."),
    number("spent", "spent", "Measured compute behind it. In budget_unit."),
    number("reward", "state.reward", "Held-out avg@k of its newest record. Reward."),
    count("attempt", "state.attempt", "Its newest attempt; 0 before the first. A count."),
    label(
        "warnings",
        lambda row: ", ".join(row.state.warnings),
        "Health rules that it broke at its last word, with commas.",
    ),
    label("reason", "view.reason", "Why it stands so, where it said."),
)


# Of a `run` and a `record` of it, with `scores` of its problems where single ones are known.
RECORDS: Columns = (
    *planned("run", "run_id", "n", "B", "seed"),
    count("step", "record.step", "Update steps before this evaluation. A count."),
    number("spent", "spent", "Measured compute until then. In budget_unit."),
    count("rollouts", "record.compute.rollouts", "Completions sampled in training. A count."),
    count("prompt_tokens", "record.compute.prompt_tokens", "Tokens of their prompts. A count."),
    count("completion_tokens", "record.compute.completion_tokens", "Their own tokens. A count."),
    number("flops", "record.compute.flops", "Of training and generation. FLOPs."),
    number(
        "device_hours",
        lambda row: row.record.compute.spent("device_hours"),
        "Training's wall time times devices. Device-hours.",
    ),
    number("dollars", "dollars", "What they cost by hardware.dollars_per_hour. US dollars."),
    number(
        "reward", "record.reward", "avg@k: held-out problems x k samples that are right. A share."
    ),
    number(
        "best_at_k",
        lambda row: getattr(row.scores, "best", None),
        "Held-out problems with any of k samples right. A share.",
    ),
    number(
        "worst_at_k",
        lambda row: getattr(row.scores, "worst", None),
        "Held-out problems with all of k samples right. A share.",
    ),
    number(
        "majority_at_k",
        "majority",
        "Held-out problems whose commonest answer of k is right; missing where answers cannot be "
        "told apart. A share.",
    ),
    count(
        "problems",
        lambda row: len(row.record.successes),
        "Held-out problems; 0 where only their mean is known. A count.",
    ),
    count("samples_per_problem", "record.samples_per_problem", "k. A count."),
    number(
        "response_tokens",
        "record.completion_tokens",
        "Mean length of the evaluation's answers. Tokens.",
    ),
    number("evaluation_seconds", "record.seconds", "What the evaluation took. Seconds."),
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

# Of a step of `mode=next`'s document, with its `dollars`.
NEXT: Columns = (
    label("run_id", "run_id", "Name of the run. No unit."),
    count("n", "num_generations", "Rollouts per problem. A count."),
    count("B", "problems_per_batch", "Problems per batch. A count."),
    count("seed", "seed", "Seed of the training run. No unit."),
    number(
        "reached", "reached", "Budget that the run has reached; 0 if it is new. In budget_unit."
    ),
    number("milestone", "milestone", "Budget to train it to. In budget_unit."),
    number("compute", "compute", "Compute that this adds. In budget_unit."),
    number("device_hours", "device_hours", "Device time that it adds. Device-hours."),
    number("dollars", "dollars", "What the device time costs. US dollars."),
    number("loss_saved", "loss_saved", "Reward it is expected to save, over all budgets. Reward."),
    number(
        "verdict_decided",
        "verdict_decided",
        "Expected rise of the chance that two draws of the verdict agree. A share.",
    ),
    number("agree", "agree", "That chance after this run and all above it. A share."),
)
