"""Records of simulated runs, in the format of real ones, with the noise of evaluation.

Every held-out problem has a difficulty of its own; successes are binomial. Pure: numbers in,
records out.
"""

import math
from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import special

from isosweep.analysis.simulation.worlds import Floats, World
from isosweep.compute import Compute
from isosweep.costs.steps import Ints, budget_of, steps_for
from isosweep.plan.cells import Plan, PlannedRun, predicted
from isosweep.store.records import Record


class Evaluated(TypedDict):
    """How runs are evaluated; without `counts` of single problems records have rewards alone, as
    those of runs that are imported often have."""

    num_problems: int
    samples_per_problem: int
    counts: NotRequired[bool]


Seed = int | Sequence[int] | np.random.Generator

# Earliest record, as a share of a run's last budget.
_FIRST_RECORD = 1e-3


def simulate_records(
    world: World,
    plan: Plan,
    seed: Seed,
    **evaluation: Unpack[Evaluated],
) -> dict[str, tuple[Record, ...]]:
    """Records of every run of the plan, by run id, in the format of real ones.

    Taken at step 0, at every milestone and so often a decade as the world says, as the worker does.
    """
    num_problems, samples = evaluation["num_problems"], evaluation["samples_per_problem"]
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(0.0, world.difficulty_sd, num_problems)
    # Mean success over problems as a function of a shift common to all of them.
    shifts = np.linspace(-30, 30, 2401)
    means = special.expit(shifts[:, None] + difficulty).mean(axis=1)

    def evaluate(rewards: Floats) -> NDArray[np.int64]:
        """Successes of every problem: (records, problems), binomial with these means."""
        shift = np.interp(rewards, means, shifts)
        rates = special.expit(shift[:, None] + difficulty)
        return np.asarray(rng.binomial(samples, rates))

    def told(row: NDArray[np.int64]) -> dict[str, Any]:
        """What a record says of an evaluation."""
        if not evaluation.get("counts", True):
            return {"mean_reward": float(row.mean()) / samples}
        return {"successes": tuple(row.tolist()), "samples_per_problem": samples}

    (base,) = evaluate(np.array([world.base_reward]))
    records: dict[str, tuple[Record, ...]] = {}
    costs = _costs_per_step(plan)
    often = world.records_per_decade
    steps = [_recorded_steps(run, costs[run.run_id], often) for run in plan.runs]
    compute = [
        budget_of(taken, costs[run.run_id]) for run, taken in zip(plan.runs, steps, strict=True)
    ]
    curves = world.curves(plan.runs, compute, rng)
    for run, taken, rewards in zip(plan.runs, steps, curves, strict=True):
        if rewards is None:
            records[run.run_id] = ()
            continue
        # Every run starts from the same weights and is evaluated with the same seed.
        rows = [base, *evaluate(rewards)]
        records[run.run_id] = tuple(
            Record(
                step=int(step),
                compute=_compute_at(run, int(step)),
                **told(row),
                completion_tokens=1.0,
                unix_time=0.0,
            )
            for step, row in zip((0, *taken), rows, strict=True)
        )
    return records


def _costs_per_step(plan: Plan) -> dict[str, float]:
    """Planned compute of one step of every run, in the plan's budget unit."""
    last = {(cell.run_id, cell.budget): cell for cell in plan.cells}
    return {run.run_id: last[run.run_id, run.milestones[-1]].cost_of_step for run in plan.runs}


def _recorded_steps(run: PlannedRun, cost: float, per_decade: float) -> Ints:
    last = run.milestones[-1]
    number = math.ceil(-math.log10(_FIRST_RECORD) * per_decade)
    grid = last * 10.0 ** (-np.arange(number + 1) / per_decade)
    steps = steps_for(np.concatenate([grid, run.milestones]), cost, 1)
    return np.unique(np.minimum(steps, run.num_steps))


def _compute_at(run: PlannedRun, step: int) -> Compute:
    """Compute, but for tokens, that the plan says a run has spent after `step` updates."""
    return Compute(
        generations=step,
        rollouts=step * run.num_generations * run.problems_per_batch,
        training_flops=step / run.num_steps * predicted(run.planned_flops),
        device_seconds=step / run.num_steps * predicted(run.seconds),
    )
