"""The same sweep by other metrics and on problems of other difficulty: does the answer change?

Easy problems gain by sharpening (worst@k), hard ones by coverage (best@k), and the best n with
them (IsoCompute Playbook, arXiv 2603.12151).
"""

from dataclasses import dataclass

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, Share
from isosweep.analysis.curves import SweepData, rescored
from isosweep.analysis.statistics.judgement import judge
from isosweep.analysis.statistics.saturation import Verdict
from isosweep.config.analysis import AnalysisConfig, Metric

# Success rates before training: never right, seldom, often.
BUCKETS = ((0.0, 0.0), (1e-9, 0.5), (0.5 + 1e-9, 1.0))
# On fewer problems the noise of evaluation drowns what n does.
_LEAST_PROBLEMS = 20


@dataclass(frozen=True, kw_only=True)
class View:
    """The answer at the largest budget by one metric, on some of the held-out problems."""

    metric: Metric
    """Score of a problem's samples: avg@k, best@k or worst@k."""
    difficulty: tuple[Share, Share] | None
    """Range of success rates before training; null for all problems."""
    num_problems: AtLeastOne
    """Held-out problems that count."""
    base_reward: Share
    """Reward before training, by this metric."""
    best_reward: float
    """Expected reward of the best n at the largest budget."""
    best: AtLeastOne
    """The n that came out best."""
    candidates: tuple[AtLeastOne, ...]
    """The n that cannot be distinguished from it."""
    verdict: Verdict
    """The verdict by this metric on these problems."""


def other_views(data: SweepData, config: AnalysisConfig) -> tuple[View, ...]:
    """best@k and worst@k on all problems, avg@k on each difficulty; () unless `data` is avg@k."""
    if data.metric != "avg":
        return ()
    wanted: list[tuple[Metric, tuple[float, float] | None]] = [("avg", None)]
    if any(curve.samples_per_problem > 1 for curve in data.curves):
        wanted += [("best", None), ("worst", None)]
        wanted += [("avg", bucket) for bucket in BUCKETS]
    views = (_view(data, config, metric, difficulty) for metric, difficulty in wanted)
    return tuple(view for view in views if view is not None)


def _view(
    data: SweepData, config: AnalysisConfig, metric: Metric, difficulty: tuple[float, float] | None
) -> View | None:
    """None where nothing was read, or on too few problems."""
    seen = rescored(data, metric, difficulty)
    problems = max((curve.successes.shape[1] for curve in seen.curves), default=0)
    if difficulty is not None and problems < _LEAST_PROBLEMS:
        return None
    _, frontier, saturation = judge(seen, config)
    bases = [curve.base_reward for curve in seen.curves if curve.base_reward is not None]
    if not frontier.budgets or not bases:
        return None
    last = frontier.budgets[-1]
    expected = last.best.expected
    return View(
        metric=metric,
        difficulty=difficulty,
        num_problems=problems,
        base_reward=float(np.mean(bases)),
        best_reward=last.best.cell.mean if expected is None else expected,
        best=last.best.num_generations,
        candidates=last.candidates,
        verdict=saturation.verdict,
    )
