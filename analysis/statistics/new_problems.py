"""The same sweep by other metrics and on other problems: does the answer change?

Easy problems gain by sharpening (worst@k), hard ones by coverage (best@k), and the best n with
them (IsoCompute Playbook, arXiv 2603.12151).
"""

from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, NotNegative, Share
from isosweep.analysis.curves import SweepData, rescored
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.judgement import judge
from isosweep.analysis.statistics.means import gather_means
from isosweep.analysis.statistics.problems import added_variance
from isosweep.analysis.statistics.saturation import Saturation
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.config.analysis import AnalysisConfig
from isosweep.metrics import METRICS, MetricName

# Success rates before training: never right, seldom, often.
BUCKETS = ((0.0, 0.0), (1e-9, 0.5), (0.5 + 1e-9, 1.0))
# On fewer problems the noise of evaluation drowns what n does.
_LEAST_PROBLEMS = 20


@dataclass(frozen=True, kw_only=True)
class View:
    """The answer at the largest budget by one metric, on some problems."""

    metric: MetricName
    """Score of a problem's samples, @k."""
    difficulty: tuple[Share, Share] | None
    """Range of success rates before training; null for all problems."""
    new_problems: bool
    """Whether it is of further problems of the same kind, and not of the held-out ones alone."""
    num_problems: AtLeastOne
    """Held-out problems that count."""
    base_reward: Share
    """Reward before training, by this metric."""
    best_reward: float
    """Expected reward of the best n at the largest budget; on further problems what it is on these,
    which are a random choice of them."""
    best: AtLeastOne
    """The n that came out best."""
    candidates: tuple[AtLeastOne, ...]
    """The n that cannot be distinguished from it."""
    interval: tuple[float, float] | None
    """Interval of n*, planned or not; null without a spread between seeds."""
    enough: tuple[float, float] | None = None
    """The same of the smallest n that is good enough."""
    verdict: Verdict
    """The verdict by this metric on these problems."""
    problem_variance: NotNegative | None = None
    """Variance that the choice of the held-out problems adds to differences between n, over what
    seeds give them; null without a spread between seeds, and unless of further problems."""


def all_views(
    data: SweepData, config: AnalysisConfig, frontier: Frontier, saturation: Saturation
) -> tuple[View, ...]:
    """avg@k, which is what was found, avg@k on new problems, every other metric that records tell
    on all problems, and avg@k on each difficulty; () unless `data` is avg@k of known problems."""
    if data.metric != "avg" or not all(curve.counted for curve in data.curves):
        return ()
    here = _view(data, "avg", None, frontier, saturation)
    views = [here]
    # Where runs have step 0 of their own, a difficulty is other problems in each.
    sizes = {curve.successes.shape[1] for curve in data.curves if curve.steps.size}
    if here is not None and here.num_problems > 1 and len(sizes) == 1:
        _, beyond, verdict = judge(data, config, new_problems=True)
        means = gather_means(data.readings)
        added = None if means is None else added_variance(means, data)
        there = _view(data, "avg", None, beyond, verdict)
        # Its surface takes a part of what is seen on these problems for their luck, and is drawn
        # towards no effect: right for what is sure, and no better a guess of the reward.
        views.append(
            there
            and replace(
                there,
                new_problems=True,
                best=here.best,
                best_reward=here.best_reward,
                problem_variance=added,
            )
        )
    if any(curve.samples_per_problem > 1 for curve in data.curves):
        told = [m for m in METRICS if m != "avg" and all(curve.tells(m) for curve in data.curves)]
        views += [_judged(data, config, metric, None) for metric in told]
        views += [_judged(data, config, "avg", bucket) for bucket in BUCKETS]
    return tuple(view for view in views if view is not None)


def _judged(
    data: SweepData,
    config: AnalysisConfig,
    metric: MetricName,
    difficulty: tuple[float, float] | None,
) -> View | None:
    """None on too few problems."""
    seen = rescored(data, metric, difficulty)
    if difficulty is not None and _num_problems(seen) < _LEAST_PROBLEMS:
        return None
    _, frontier, saturation = judge(seen, config)
    return _view(seen, metric, difficulty, frontier, saturation)


def _num_problems(data: SweepData) -> int:
    return max((curve.successes.shape[1] for curve in data.curves), default=0)


def _view(
    seen: SweepData,
    metric: MetricName,
    difficulty: tuple[float, float] | None,
    frontier: Frontier,
    saturation: Saturation,
) -> View | None:
    """None where nothing was read."""
    bases = [curve.base_reward for curve in seen.curves if curve.base_reward is not None]
    if not frontier.budgets or not bases:
        return None
    last = frontier.budgets[-1]
    expected = last.best.expected
    interval = saturation.optima[-1].interval if saturation.optima else None
    enough = saturation.optima[-1].enough if saturation.optima else None
    return View(
        metric=metric,
        difficulty=difficulty,
        new_problems=False,
        num_problems=_num_problems(seen),
        base_reward=float(np.mean(bases)),
        best_reward=last.best.cell.mean if expected is None else expected,
        best=last.best.num_generations,
        candidates=last.candidates,
        interval=None if interval is None else (interval.low, interval.high),
        enough=None if enough is None else (enough.interval.low, enough.interval.high),
        verdict=saturation.verdict,
    )
