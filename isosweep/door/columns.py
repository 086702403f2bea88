"""Columns of the frames that no file of the analysis has, by name: type and meaning.

A count that may be missing is a float: missing is NaN, never 0. Each axis of `grid.axes` is a
further column. The columns of cells, choices and the frontier are in `analysis.tables`.
"""

from isosweep.analysis.columns import (
    BATCH,
    BUDGET,
    GENERATIONS,
    RUN_ID,
    SEED,
    Columns,
    count,
    flag,
    label,
    number,
    other,
)

_DOLLARS = number("Price of these device-hours, by hardware.dollars_per_hour. US dollars.")
_LOW = number("Lower end of its interval. A count.")
_HIGH = number("Upper end of its interval. A count.")

SWEEPS: Columns = {
    "name": label("Name of the sweep's directory. No unit."),
    "planned": other("When the sweep was last planned or launched. UTC."),
    "launched": flag("Whether the sweep was launched; False if only planned."),
    "model": label("Name of the model. No unit."),
    "task": label("Name of the task. No unit."),
    "budget_unit": label("Unit of the budgets."),
    "budgets": other("Compute budgets, ascending. In budget_unit."),
    "runs": number("Runs in the plan. A count."),
    "done": number("Runs that are done. A count."),
    "diverged": number("Runs that a health rule stopped. A count."),
    "failed": number("Runs that failed. A count."),
    "collapsed": number("Runs that are done and lost for good what they had gained. A count."),
    "verdict": label("Verdict of the newest analysis; all verdicts where variants differ."),
    "followed_by": label("Who follows the sweep now: user, machine and process."),
    "fault": label("Why the sweep cannot be read; empty where it can."),
}

PLAN: Columns = {
    "status": label("planned or rejected."),
    "budget": BUDGET,
    "n": GENERATIONS,
    "B": BATCH,
    "T": count("Update steps; of a rejected candidate, the number nearest to the budget. A count."),
    "seed": SEED,
    "planned_compute": number("Predicted compute of T steps. In budget_unit."),
    "planned_flops": number("Predicted FLOPs of T steps, without evaluation. FLOPs."),
    "device_hours": number(
        "Predicted device time up to this budget, with evaluation. Device-hours."
    ),
    "dollars": _DOLLARS,
    "run_id": RUN_ID,
    "rule": label("Setting whose rule a rejected candidate breaks first. No unit."),
    "reason": label("How a rejected candidate breaks that rule, with the numbers."),
}

RUNS: Columns = {
    "run_id": RUN_ID,
    "n": GENERATIONS,
    "B": BATCH,
    "seed": SEED,
    "T": count("Update steps of the whole run, as planned. A count."),
    "budget": number("The largest budget of this run. In budget_unit."),
    "learning_rate": number("Learning rate after warm-up. No unit."),
    "planned_flops": number("Predicted FLOPs of the whole run, without evaluation. FLOPs."),
    "device_hours": number(
        "Predicted device time of the whole run, with evaluation. Device-hours."
    ),
    "dollars": _DOLLARS,
    "standing": label(
        "State of the run by its files: not begun, queued, running, to extend, interrupted, "
        "failed, cancelled, diverged or done."
    ),
    "collapsed": flag("Whether the run is done and lost for good what it had gained."),
    "step": count("Update steps done. A count."),
    "spent": number("Measured compute so far. In budget_unit."),
    "reward": number("Held-out avg@k of the newest record. Reward."),
    "attempt": count("Number of the newest attempt; 0 before the first. A count."),
    "warnings": label("Health rules broken when the run last reported, with commas."),
    "reason": label("Reason for that state, where the run gave one."),
}

RECORDS: Columns = {
    "run_id": RUN_ID,
    "n": GENERATIONS,
    "B": BATCH,
    "seed": SEED,
    "step": count("Update steps before this evaluation. A count."),
    "spent": number("Measured compute before this evaluation. In budget_unit."),
    "rollouts": count("Completions sampled in training. A count."),
    "prompt_tokens": count("Tokens of the prompts. A count."),
    "completion_tokens": count("Tokens of the completions. A count."),
    "flops": number("FLOPs of training and generation so far. FLOPs."),
    "device_hours": number("Wall time of training so far, times devices. Device-hours."),
    "dollars": _DOLLARS,
    "reward": number(
        "avg@k: share of right answers over all held-out problems and their k samples. A share."
    ),
    "best_at_k": number("best@k: share of held-out problems with any of k samples right. A share."),
    "worst_at_k": number(
        "worst@k: share of held-out problems with all of k samples right. A share."
    ),
    "majority_at_k": number(
        "majority@k: share of held-out problems whose most common answer is right; missing where "
        "answers cannot be compared. A share."
    ),
    "problems": count("Number of held-out problems; 0 where only their mean is known. A count."),
    "samples_per_problem": count("Samples per held-out problem, k. A count."),
    "response_tokens": number("Mean length of the answers in this evaluation. Tokens."),
    "evaluation_seconds": number("Duration of this evaluation. Seconds."),
}

BEST_N: Columns = {
    "budget": BUDGET,
    "median": number("Rollouts per problem. A count."),
    "low": _LOW,
    "high": _HIGH,
    "open_below": flag("Whether n may lie below all that were run."),
    "open_above": flag("Whether n may lie above all that were run."),
}


def _of_n(name: str, text: str) -> Columns:
    """An n with its interval; missing without a spread between seeds."""
    return {
        name: number(f"{text}. A count."),
        f"{name}_low": _LOW,
        f"{name}_high": _HIGH,
        f"{name}_open_below": other("Whether it may lie below all n run."),
        f"{name}_open_above": other("Whether it may lie above all n run."),
    }


COMPARED: Columns = {
    "sweep": label("The sweep or variant, by what tells it from the others. No unit."),
    "budget": BUDGET,
    "n": count("The n that ran and is expected to reach the highest reward. A count."),
    "B": count("Problems per batch with it. A count."),
    **_of_n("n_star", "n*, the best n"),
    **_of_n("n_d", "n_d, the smallest n that is good enough"),
    "reward": number("Reward to expect with n and B. Reward."),
    "low": number("Lower end of its interval."),
    "high": number("Upper end of its interval."),
    "better": number(
        "Probability that this reward is above the first sweep's at that budget. A share."
    ),
}
