"""The IsoCompute Playbook's own analysis (arXiv 2603.12151), to set beside ours.

1. For each n, B and seeds together, the record-breaking points: rewards in bins, and the first
   point (by compute) of every bin above all before it. 2. A monotone sigmoid through them (the
   paper does not give its form: ours is ScaleRL's). 3. The upper envelope over n, and the n that
   attains it. 4. log2 n*(C) = L / (1 + exp(-k (log10 C - log10 C0))) + b, whose end L + b is the
   plateau.

The paper gives no intervals. Here seeds are drawn again with replacement within every (n, B), and
all steps repeated: what an honest user of the method could say. Nor does it say when a plateau is
one; here: n* grew by a doubling or more, the plateau lies inside the grid, and the last budget
comes within half a doubling of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.growth import LEAST_CHANGE, SETTLED_WITHIN
from isosweep.analysis.statistics.intervals import Interval, central_quantiles
from isosweep.analysis.statistics.optima import BestGenerations
from isosweep.analysis.statistics.saturation import Saturation
from isosweep.analysis.statistics.sigmoids import fit_sigmoids
from isosweep.analysis.statistics.verdict import Reason, Verdict

BIN = 0.01
RESAMPLES = 50
# Steps of b in doublings; log2 n is scaled by a range that holds every law.
_START_STEP, _RANGE = 0.2, 32.0
_ENVELOPE = 100
_LEAST_POINTS = 3


@dataclass(frozen=True, kw_only=True)
class PlaybookFit:
    """One pass of the method. `best_n`: (budgets,); the law's parameters as in the paper.

    `asymptotes`: A by n, where the sigmoid could be fitted.
    """

    asymptotes: dict[int, float]
    best_n: FloatArray
    plateau: float
    settles_at: float
    verdict: Verdict
    on_bound: bool


@dataclass(frozen=True, kw_only=True)
class Playbook:
    """The method's answer, and intervals of it from resampled seeds (empty without seeds)."""

    fit: PlaybookFit
    resamples: tuple[PlaybookFit, ...] = field(default=())

    def intervals(
        self, read: Callable[[PlaybookFit], float | FloatArray], confidence: float
    ) -> list[Interval]:
        """Of each number that `read` takes from a pass; of no width without seeds."""
        drawn = [np.atleast_1d(read(fit)) for fit in (self.fit, *self.resamples)]
        _, low, high = central_quantiles(np.array(drawn[1:] or drawn), confidence)
        return [
            Interval(median=float(m), low=float(min(a, m)), high=float(max(b, m)))
            for m, a, b in zip(drawn[0], low, high, strict=True)
        ]


@dataclass(frozen=True)
class _Points:
    """All records of one n, by compute. `run`: (points,) index into the n's runs."""

    n: int
    base: float
    compute: FloatArray
    reward: FloatArray
    run: IntArray
    cells: tuple[tuple[int, ...], ...]  # runs of each (n, B)


def fit_playbook(curves: Sequence[Curve], budgets: Sequence[float]) -> Playbook | None:
    """None where fewer than two n have left enough records, or there is one budget."""
    points = [
        gathered
        for n in sorted({c.run.num_generations for c in curves})
        if (gathered := _gather(n, curves)) is not None
    ]
    if len(points) < 2 or len(budgets) < 2:
        return None
    rng = np.random.default_rng(0)
    several = any(len(runs) > 1 for of in points for runs in of.cells)
    chosen: list[list[IntArray | None]] = [[None] * len(points)]
    for _ in range(RESAMPLES if several else 0):
        chosen.append(
            [np.concatenate([rng.choice(runs, len(runs)) for runs in of.cells]) for of in points]
        )
    fits = _fit_all(points, chosen, np.array(sorted(budgets)))
    return Playbook(fit=fits[0], resamples=tuple(fits[1:]))


def _gather(n: int, curves: Sequence[Curve]) -> _Points | None:
    mine = [c for c in curves if c.run.num_generations == n and c.base_reward is not None]
    past = [(c.compute[c.compute > 0], c.reward[c.compute > 0]) for c in mine]
    if sum(len(compute) for compute, _ in past) < _LEAST_POINTS:
        return None
    compute = np.concatenate([c for c, _ in past])
    order = np.argsort(compute, kind="stable")
    run = np.repeat(np.arange(len(mine)), [len(c) for c, _ in past])
    cells: dict[int, list[int]] = {}
    for i, curve in enumerate(mine):
        cells.setdefault(curve.run.problems_per_batch, []).append(i)
    return _Points(
        n=n,
        base=float(np.mean([c.reward[0] for c in mine])),
        compute=compute[order],
        reward=np.concatenate([r for _, r in past])[order],
        run=run[order],
        cells=tuple(tuple(runs) for runs in cells.values()),
    )


def record_breaking(compute: FloatArray, reward: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The first point of every bin above all bins before it; `compute` ascends."""
    bins = np.floor(reward / BIN + 1e-9)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(bins)[:-1]])
    kept = bins > before
    return compute[kept], reward[kept]


def _fit_all(
    points: Sequence[_Points], chosen: list[list[IntArray | None]], budgets: FloatArray
) -> list[PlaybookFit]:
    """A pass for every choice of runs: the sigmoids of all passes are fitted together."""
    broken = []
    for runs_of in chosen:
        for of, runs in zip(points, runs_of, strict=True):
            here = np.ones(len(of.run), bool) if runs is None else np.isin(of.run, runs)
            broken.append(record_breaking(of.compute[here], of.reward[here]))
    width = max(len(compute) for compute, _ in broken)
    compute, reward = (np.full((len(broken), width), np.nan) for _ in range(2))
    for i, (at, values) in enumerate(broken):
        compute[i, : len(at)], reward[i, : len(at)] = at, values
    base = np.tile([of.base for of in points], len(chosen))[:, None]
    weight = np.ones_like(reward)[:, None, :]
    fits = fit_sigmoids(compute, reward[:, None, :], weight, base)
    grid = np.geomspace(budgets[0], budgets[-1], _ENVELOPE)
    at = np.log(np.concatenate([grid, budgets]))
    # (passes x n, computes)
    rising = special.expit(np.exp(fits.exponent) * (at - fits.midpoint))
    rewards = (base + (fits.asymptote - base) * rising).reshape(len(chosen), len(points), -1)
    asymptotes = fits.asymptote.reshape(len(chosen), len(points))
    log2_n = np.log2([of.n for of in points])
    best = log2_n[rewards.argmax(axis=1)]  # (passes, computes)
    *laws, on_bound = _laws(grid, best[:, :_ENVELOPE])
    return [
        _described(
            grid,
            *law,
            largest=float(log2_n[-1]),
            on_bound=bound,
            best_n=2.0 ** best[k, _ENVELOPE:],
            asymptotes={of.n: float(a) for of, a in zip(points, asymptotes[k], strict=True)},
        )
        for k, (*law, bound) in enumerate(zip(*laws, on_bound.tolist(), strict=True))
    ]


def _laws(compute: FloatArray, log2_best: FloatArray) -> tuple[FloatArray, ...]:
    """The law through log2 n* of every pass (passes, computes): least squares, b on a grid. L, k,
    log10 C0, b, and whether it lies on a bound: each (passes,)."""
    passes = len(log2_best)
    starts = log2_best.min(axis=1)[:, None] + np.arange(-2, 2.01, _START_STEP)
    # As shares of a range that no n exceeds, for the search takes A to lie between 0 and 1.
    scaled = np.repeat(log2_best[:, None, :] / _RANGE, starts.shape[1], axis=1)
    fits = fit_sigmoids(
        np.tile(compute, (passes, 1)), scaled, np.ones_like(scaled), starts / _RANGE
    )
    chosen = np.arange(passes), fits.objective.argmin(axis=1)
    b, plateau = starts[chosen], fits.asymptote[chosen] * _RANGE
    steepness = np.exp(fits.exponent[chosen]) * math.log(10)
    middle = fits.midpoint[chosen] / math.log(10)
    return plateau - b, steepness, middle, b, fits.on_bound[chosen]


def law_log2_n(
    log10_compute: FloatArray | float, rise: float, steepness: float, middle: float, floor: float
) -> Any:
    """log2 n* by step 4's law: L = `rise`, k = `steepness`, log10 C0 = `middle`, b = `floor`."""
    return floor + rise * special.expit(steepness * (log10_compute - middle))


def _described(
    compute: FloatArray,
    L: float,
    k: float,
    middle: float,
    b: float,
    *,
    largest: float,
    **more: Any,
) -> PlaybookFit:
    """One pass with the verdict that its law amounts to."""
    plateau = L + b
    curve = law_log2_n(np.log10(compute), L, k, middle, b)
    left = plateau - curve[-1]
    verdict: Verdict
    if curve[-1] - curve[0] < LEAST_CHANGE:
        verdict = "constant"
    elif left <= SETTLED_WITHIN and plateau <= largest + 1e-6:
        verdict = "saturated"
    else:
        verdict = "growing"
    turn = middle + math.log(max(L / SETTLED_WITHIN - 1, 1e-9)) / k
    return PlaybookFit(
        plateau=float(2.0**plateau),
        settles_at=float(10.0**turn),
        verdict=verdict,
        **more,
    )


def playbook_saturation(playbook: Playbook | None, frontier: Frontier) -> Saturation:
    """The method's answer in the terms of ours. It has no "not identified" but lack of data."""
    confidence, grid = frontier.confidence, frontier.measured
    if playbook is None:
        lack = Reason(kind="playbook lacks data", confidence=confidence, measured=grid)
        return Saturation(verdict="not identified", reason=lack, optima=())
    fit = playbook.fit

    (plateau,) = playbook.intervals(lambda fit: fit.plateau, confidence)
    (settles_at,) = playbook.intervals(lambda fit: fit.settles_at, confidence)
    best_n = playbook.intervals(lambda fit: fit.best_n, confidence)
    return Saturation(
        verdict=fit.verdict,
        reason=Reason(
            kind="playbook",
            confidence=confidence,
            measured=grid,
            law_end=plateau,
            on_bound=fit.on_bound,
        ),
        optima=tuple(
            BestGenerations(
                budget=at.budget,
                best=round(best.median),
                candidates=tuple(n for n in grid if best.low <= n <= best.high),
                interval=best,
                left_censored=False,
                right_censored=False,
            )
            for at, best in zip(frontier.budgets, best_n, strict=True)
        ),
        plateau=plateau if fit.verdict == "saturated" else None,
        settles_at=settles_at if fit.verdict == "saturated" else None,
    )
