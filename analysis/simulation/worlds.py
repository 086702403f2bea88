"""Simulated sweeps: worlds whose best n(C) is known exactly, and records as real runs write them.

In a world every (n, B) follows a saturating sigmoid in compute (ScaleRL, arXiv 2510.13786, eq. 1),

    R(C; n, B) = R0 + G(n, B) / (1 + (C_mid(n) / C)^b),
    G(n, B) = G / (1 + (x - x_sat)^2 / w^2) / (1 + (y - y_best)^2 / v^2),
    ln C_mid(n) = ln C_mid + c (x - x_sat),          x = log2 n, y = log2 B.

Larger n gains more in the end and starts later, so the best n rises with compute and settles at
n_sat: where C is far past C_mid only G counts. Between the two, log2 n* follows the logistic
1 - 1 / (1 + (C_mid / C)^b), the form that the IsoCompute Playbook (arXiv 2603.12151) fits.
Around the mean lie differences between seeds, slow wandering within a run, and the binomial noise
of evaluation over problems of different difficulty. Pure: numbers in, records out.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from isosweep.compute import Compute
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.records import Record

Floats = NDArray[np.float64]
_RECORDS_PER_DECADE = 5
# Earliest record, as a share of a run's last budget.
_FIRST_RECORD = 1e-3


@dataclass(frozen=True, kw_only=True)
class World:
    """How runs would come out. Compute is in the plan's budget unit, rewards are avg@k.

    `verdict`: what an analysis with unlimited data would say. `gain` G and `base_reward` R0;
    `saturation_n` n_sat; `width_n` w and `width_batch` v in doublings (inf: no effect);
    `midpoint` C_mid at n_sat, `delay` c per doubling of n, `exponent` b. `seed_gain_sd` and
    `seed_midpoint_sd`: spread between seeds of ln G and ln C_mid; `wander_sd`: of the reward
    around its run's curve, correlated over `wander_decades`; `difficulty_sd`: of problems, in
    logits. Past `overfit_from` the reward falls by `overfit_slope` per factor e of compute.
    With `collapse_probability` a run loses all it has gained at some point of its later half.
    """

    name: str
    verdict: str
    base_reward: float
    gain: float
    saturation_n: float
    width_n: float
    midpoint: float
    delay: float
    exponent: float
    best_batch: float = 128.0
    width_batch: float = 12.0
    seed_gain_sd: float = 0.03
    seed_midpoint_sd: float = 0.10
    wander_sd: float = 0.004
    wander_decades: float = 0.3
    difficulty_sd: float = 2.0
    overfit_from: float = math.inf
    overfit_slope: float = 0.0
    collapse_probability: float = 0.0

    def reward(self, compute: Floats, n: Floats | float, B: Floats | float) -> Floats:
        """Mean reward over seeds; arrays broadcast."""
        return self._curve(compute, self._gain(n, B), self._log_midpoint(n))

    def asymptote(self, n: float, B: float) -> float:
        """A: the reward of (n, B) with unlimited compute, overfitting left aside."""
        return self.base_reward + float(self._gain(n, B))

    def _gain(self, n: Floats | float, B: Floats | float) -> Floats:
        """G(n, B)."""
        x = np.log2(n / self.saturation_n) / self.width_n
        y = np.log2(B / self.best_batch) / self.width_batch
        return np.asarray(self.gain / (1 + x**2) / (1 + y**2))

    def _log_midpoint(self, n: Floats | float) -> Floats:
        """ln C_mid(n)."""
        doublings = np.log2(n / self.saturation_n)
        return np.asarray(math.log(self.midpoint) + self.delay * doublings)

    def _curve(self, compute: Floats, gain: Floats | float, midpoint: Floats | float) -> Floats:
        """Reward of a run with this gain and ln C_mid, overfitting included."""
        with np.errstate(divide="ignore"):
            logs = np.log(compute)
        risen = special.expit(self.exponent * (logs - midpoint))
        late = np.maximum(logs - math.log(self.overfit_from), 0.0)
        reward = self.base_reward + gain * risen - self.overfit_slope * late
        return np.asarray(np.clip(reward, 0.0, 1.0))

    def best_n(self, compute: float, least: float = 2.0, most: float = 65536.0) -> float:
        """n*(C) over real n in [least, most], to 1e-4 doublings."""
        x = np.arange(math.log2(least), math.log2(most) + 5e-5, 1e-4)
        rewards = self.reward(np.array(compute), 2.0**x, self.best_batch)
        return float(2.0 ** x[int(np.argmax(rewards))])


def _playbook(
    name: str,
    *,
    base: float,
    gain: float,
    rise: float,
    rate: float,
    smallest: float,
    midpoint: float,
) -> World:
    """A world whose log2 n*(C) rises as the Playbook's figures show.

    `rise` L, `rate` k per decade, `smallest` b of log2 n* = L / (1 + exp(-k (log10 C - log10
    C0))) + b; n_sat = 2^(L + b). At n = 2^b a third of the gain is lost in the end, as between
    the asymptotes of n = 8 and n = 512 on the easy set.
    """
    lost, exponent = 1 / 3, rate / math.log(10)
    width = rise * math.sqrt((1 - lost) / lost)
    # At small C the best x is where gain and delay balance: 2 x / (w^2 + x^2) = b c, x = L.
    delay = 2 * rise / (width**2 + rise**2) / exponent
    return World(
        name=name,
        verdict="saturated",
        base_reward=base,
        gain=gain,
        saturation_n=2.0 ** (rise + smallest),
        width_n=width,
        midpoint=midpoint,
        delay=delay,
        exponent=exponent,
    )


def worlds(midpoint: float, *, smallest_n: float, largest_n: float) -> dict[str, World]:
    """The presets, with C_mid at `midpoint`, for a grid of n from `smallest_n` to `largest_n`.

    `easy` and `hard` have the published laws (Playbook, B = 32; rewards and plateaus read off its
    figures), moved along n so that the plateau lies two doublings below the grid's largest n:
    no analysis could find a plateau outside the grid.
    """
    reach = math.log2(largest_n / smallest_n)
    plateau = largest_n / 4
    # The published rise where the grid has room for it, else from its smallest n to the plateau.
    easy_rise, hard_rise = (min(rise, max(reach - 2, 1.0)) for rise in (6.09, 4.47))
    easy = _playbook(
        "easy",
        base=0.45,
        gain=0.25,
        rise=easy_rise,
        rate=4.75,
        smallest=math.log2(plateau) - easy_rise,
        midpoint=midpoint,
    )
    hard = _playbook(
        "hard",
        base=0.04,
        gain=0.10,
        rise=hard_rise,
        rate=7.23,
        smallest=math.log2(plateau) - hard_rise,
        midpoint=midpoint,
    )
    flat = replace(easy, name="flat", verdict="flat", width_n=math.inf, delay=0.0)
    # The optimum runs off the grid: n_sat far above its largest n, and far from reached.
    growing = replace(
        easy,
        name="growing",
        verdict="growing",
        saturation_n=largest_n * 64,
        width_n=easy.width_n * 2,
        exponent=easy.exponent / 2,
    )
    overfitting = replace(easy, name="overfitting", overfit_from=midpoint * 2, overfit_slope=0.02)
    unstable = replace(easy, name="unstable", collapse_probability=0.1, seed_gain_sd=0.1)
    noiseless = replace(
        easy, name="quiet", seed_gain_sd=0.005, seed_midpoint_sd=0.02, wander_sd=0.001
    )
    presets = (easy, hard, flat, growing, overfitting, unstable, noiseless)
    return {world.name: world for world in presets}


def simulate_records(
    world: World,
    plan: Plan,
    rng: np.random.Generator,
    *,
    num_problems: int,
    samples_per_problem: int,
) -> dict[str, tuple[Record, ...]]:
    """Records of every run of the plan, by run id, in the format of real ones.

    Taken at step 0, at every milestone and five times a decade, as the worker does.
    """
    difficulty = rng.normal(0.0, world.difficulty_sd, num_problems)
    # Mean success over problems as a function of a shift common to all of them.
    shifts = np.linspace(-30, 30, 2401)
    means = special.expit(shifts[:, None] + difficulty).mean(axis=1)
    base = _evaluate(
        np.array([world.base_reward]), means, shifts, difficulty, samples_per_problem, rng
    )
    records = {}
    for run in plan.runs:
        cost = _cost_per_step(plan, run)
        steps = _recorded_steps(run, cost)
        compute = steps * cost
        rewards = _run_rewards(world, run, compute, rng)
        successes = _evaluate(rewards, means, shifts, difficulty, samples_per_problem, rng)
        # Every run starts from the same weights and is evaluated with the same seed.
        rows = [base[0], *successes]
        records[run.run_id] = tuple(
            Record(
                step=int(step),
                compute=_compute_at(plan, run, int(step), cost),
                successes=tuple(row.tolist()),
                samples_per_problem=samples_per_problem,
                completion_tokens=1.0,
                unix_time=0.0,
            )
            for step, row in zip((0, *steps.astype(int)), rows, strict=True)
        )
    return records


def _cost_per_step(plan: Plan, run: PlannedRun) -> float:
    """Planned compute of one step, in the plan's budget unit."""
    last = next(
        cell
        for cell in plan.cells
        if cell.run_id == run.run_id and cell.budget == run.milestones[-1]
    )
    return last.planned_compute / last.num_steps


def _recorded_steps(run: PlannedRun, cost: float) -> Floats:
    last = run.milestones[-1]
    number = math.ceil(-math.log10(_FIRST_RECORD) * _RECORDS_PER_DECADE)
    grid = last * 10.0 ** (-np.arange(number + 1) / _RECORDS_PER_DECADE)
    steps = np.floor(np.concatenate([grid, run.milestones]) / cost + 0.5)
    return np.unique(np.clip(steps, 1, run.num_steps))


def _run_rewards(
    world: World, run: PlannedRun, compute: Floats, rng: np.random.Generator
) -> Floats:
    """One run's true reward at each record, its own luck and wandering included: (records,)."""
    n, B = float(run.num_generations), float(run.problems_per_batch)
    luck = math.exp(rng.normal(-(world.seed_gain_sd**2) / 2, world.seed_gain_sd))
    gain = luck * world._gain(n, B)
    midpoint = world._log_midpoint(n) + rng.normal(0, world.seed_midpoint_sd)
    rewards = world._curve(compute, gain, midpoint) + _wandering(world, compute, rng)
    if rng.random() < world.collapse_probability:
        place = rng.integers(len(compute) // 2, len(compute))
        rewards[place:] = world.base_reward / 2
    return np.clip(rewards, 0.0, 1.0)


def _wandering(world: World, compute: Floats, rng: np.random.Generator) -> Floats:
    """A stationary autoregression in log compute: (records,)."""
    decades = np.diff(np.log10(compute), prepend=math.log10(compute[0]))
    noise = rng.normal(0, 1, len(compute))
    value, values = noise[0], [noise[0]]
    for gap, fresh in zip(decades[1:], noise[1:], strict=True):
        kept = math.exp(-gap / world.wander_decades)
        value = kept * value + math.sqrt(1 - kept**2) * fresh
        values.append(value)
    # It grows with training: before it there is nothing to wander from.
    grown = np.clip(
        (world._curve(compute, 1.0, math.log(world.midpoint)) - world.base_reward), 0, 1
    )
    return np.asarray(values) * world.wander_sd * np.sqrt(grown)


def _evaluate(
    rewards: Floats,
    means: Floats,
    shifts: Floats,
    difficulty: Floats,
    samples: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Successes of every problem: (records, problems), binomial with these means."""
    shift = np.interp(rewards, means, shifts)
    rates = special.expit(shift[:, None] + difficulty)
    return np.asarray(rng.binomial(samples, rates))


def _compute_at(plan: Plan, run: PlannedRun, step: int, cost_per_step: float) -> Compute:
    """Compute that the plan says a run has spent after `step` updates."""
    share = step / run.num_steps
    cost = step * cost_per_step
    rollouts = step * run.num_generations * run.problems_per_batch
    return Compute(
        generations=step,
        rollouts=rollouts,
        completion_tokens=round(cost) if plan.budget_unit == "tokens" else 0,
        training_flops=share * run.planned_flops,
        device_seconds=cost * 3600 if plan.budget_unit == "device_hours" else share * run.seconds,
    )
