"""How fast sigmoids are fitted: `python benchmarks/fits.py`.

200 simulated runs x 1,000 bootstrap samples over held-out problems, on one core: all at once
(`isosweep.analysis.statistics.sigmoids`), by a loop of `scipy.optimize.curve_fit`, and by the
procedure of ScaleRL (arXiv 2510.13786: a grid over A and C_mid, SciPy for the exponent, the least
error wins). The loops are timed on a random share of the fits, and scaled. All minimise the same
weighted sum of squares; how their optima compare is printed too.
"""

import time
import warnings
from argparse import Namespace
from typing import Any

import numpy as np
from frame import Goal, benchmark
from scipy.optimize import OptimizeWarning, curve_fit

from isosweep.analysis.simulation.presets import delayed_worlds
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.statistics.sigmoids import EXPONENTS, MIDPOINT_FACTOR, fit_sigmoids
from isosweep.config.hydra import config_of
from isosweep.plan.study import resolve

GOALS = {
    "speed": Goal("seconds a fit, curve_fit over ours", "at least", 100.0),
    "optimum": Goal("share with curve_fit's optimum to 1e-6, or better", "at least", 0.999),
    "gridded": Goal("share with the optimum of ScaleRL's grid, or better", "at least", 0.999),
}
QUICK = {"samples": 300, "looped": 500, "gridded": 1}
RUNS, PROBLEMS, K = 200, 256, 8


def simulated(samples: int) -> tuple[Any, Any, Any, Any]:
    """Compute (runs, records); reward and weight (runs, samples, records); base (runs, samples)."""
    generations = [2 * 2**i for i in range(10)]
    overrides = [
        f"grid.num_generations={generations}",
        "grid.problems_per_batch=[2,4,8,16,32]",
        "grid.seeds=[0,1,2,3]",
        "grid.max_completions_per_step=100000",
        "grid.min_steps=1",
        "grid.tolerance=0.4",
        "grid.max_epochs=1e9",
        "budget=1e13",
        "grid.max_steps=1000000",
        "hardware.memory_gb=1000",
    ]
    plan = resolve(config_of(overrides)).plan
    rng = np.random.default_rng(0)
    # Half the runs have passed C_mid by far, half have hardly reached it.
    records = {}
    for midpoint, runs in ((5e11, plan.runs[::2]), (5e12, plan.runs[1::2])):
        world = delayed_worlds(midpoint, 2, 1024)["easy"]
        made = simulate_records(world, plan, rng, num_problems=PROBLEMS, samples_per_problem=K)
        records.update({run.run_id: made[run.run_id] for run in runs})
    assert len(records) == RUNS, len(records)
    drawn = rng.multinomial(PROBLEMS, np.full(PROBLEMS, 1 / PROBLEMS), samples)
    width = max(len(r) for r in records.values()) - 1
    compute = np.full((RUNS, width), np.nan)
    reward = np.full((RUNS, samples, width), np.nan)
    base = np.empty((RUNS, samples))
    for i, held_out in enumerate(records.values()):
        successes = np.array([record.successes for record in held_out])
        means = drawn @ successes.T / (PROBLEMS * K)  # (samples, records)
        count = len(held_out) - 1
        compute[i, :count] = [record.compute.flops for record in held_out[1:]]
        base[i], reward[i, :, :count] = means[:, 0], means[:, 1:]
    return compute, reward, PROBLEMS * K / np.maximum(reward * (1 - reward), 1e-3), base


def curve(logs: Any, base: float, asymptote: float, midpoint: float, exponent: float) -> Any:
    """Reward at log compute `logs`; `midpoint` and `exponent` are logarithms."""
    power = np.clip(-np.exp(exponent) * (logs - midpoint), -700, 700)
    return base + (asymptote - base) / (1 + np.exp(power))


def objective(logs: Any, reward: Any, weight: Any, base: float, theta: Any) -> float:
    """Weighted sum of squares, which all minimise."""
    return float((weight * (curve(logs, base, *theta) - reward) ** 2).sum())


def by_scipy(logs: Any, reward: Any, weight: Any, base: float) -> float:
    """The least objective that curve_fit finds from one sensible start; inf if it gives up."""
    reach = np.log(MIDPOINT_FACTOR)
    low = (0.0, logs[0] - reach, np.log(EXPONENTS[0]))
    high = (1.0, logs[-1] + reach, np.log(EXPONENTS[1]))
    start = (min(0.99, reward.max() + 0.02), float(np.median(logs)), 0.0)
    try:
        theta, _ = curve_fit(
            lambda x, *p: curve(x, base, *p),
            logs,
            reward,
            p0=start,
            sigma=1 / np.sqrt(weight),
            bounds=(low, high),
        )
    except RuntimeError:
        return float("inf")
    return objective(logs, reward, weight, base, theta)


def by_scalerl(logs: Any, reward: Any, weight: Any, base: float) -> float:
    """ScaleRL's grid: A by 0.005, 100 values of C_mid, the exponent by curve_fit."""
    best = float("inf")
    first, last = np.exp(logs[0]), np.exp(logs[-1])
    for asymptote in np.arange(max(0.45, base), 0.8001, 0.005):
        for midpoint in np.log(np.linspace(first, last, 100)):
            try:
                theta, _ = curve_fit(
                    lambda x, q, a=asymptote, m=midpoint: curve(x, base, a, m, q),
                    logs,
                    reward,
                    p0=(0.0,),
                    sigma=1 / np.sqrt(weight),
                )
            except RuntimeError:
                continue
            fitted = (asymptote, midpoint, theta[0])
            best = min(best, objective(logs, reward, weight, base, fitted))
    return best


def beside(
    name: str, fit: Any, number: int, data: tuple[Any, Any, Any, Any], ours: Any, each_us: float
) -> tuple[float, float]:
    """Print how `number` fits of `fit` compare with `ours` at `each_us` microseconds a fit.

    Returns how many times as long one takes, and the share where ours is as good to 1e-6 or better.
    """
    compute, reward, weight, base = data
    chosen = np.random.default_rng(1).choice(ours.size, number, replace=False)
    gaps = []
    began = time.perf_counter()
    for index in chosen:
        i, j = divmod(int(index), ours.shape[1])
        given = np.isfinite(compute[i])
        logs = np.log(compute[i, given])
        theirs = fit(logs, reward[i, j, given], weight[i, j, given], base[i, j])
        gaps.append(ours[i, j] / theirs - 1)
    each = (time.perf_counter() - began) / number
    gap, times = np.array(gaps), each * 1e6 / each_us
    print(
        f"{name}: {each * 1e3:.2f} ms a fit ({number} fits), {times:,.0f} "
        f"times as long; same optimum to 1e-6 {np.mean(np.abs(gap) <= 1e-6):.2%}, "
        f"ours better {np.mean(gap < -1e-6):.2%}, theirs better {np.mean(gap > 1e-6):.2%} "
        f"(by at most {max(gap.max(), 0):.1e})"
    )
    return times, float(np.mean(gap <= 1e-6))


OPTIONS = {
    "--samples": (1000, "bootstrap samples of each run"),
    "--looped": (1000, "fits by curve_fit"),
    "--gridded": (6, "fits by ScaleRL's grid"),
}


def measure(options: Namespace) -> dict[str, float]:
    """Fit all at once and some one by one; the figures of the goals."""
    warnings.simplefilter("ignore", OptimizeWarning)
    data = simulated(options.samples)
    began = time.perf_counter()
    ours = fit_sigmoids(*data).objective
    seconds = time.perf_counter() - began
    each_us = seconds / ours.size * 1e6
    print(f"{ours.size:,} fits at once: {seconds:.2f} s, {each_us:.1f} us a fit")
    figures = {}
    if options.looped:
        times, share = beside("curve_fit", by_scipy, options.looped, data, ours, each_us)
        figures |= {"speed": times, "optimum": share}
    if options.gridded:
        _, share = beside("ScaleRL", by_scalerl, options.gridded, data, ours, each_us)
        figures["gridded"] = share
    return figures


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
