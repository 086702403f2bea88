"""The verdict for new problems of the same kind as the held-out ones."""

from dataclasses import dataclass

from isosweep.analysis.bounds import AtLeastOne, NotNegative
from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.judgement import judge
from isosweep.analysis.statistics.means import gather_means
from isosweep.analysis.statistics.problems import added_variance
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.config.analysis import AnalysisConfig


@dataclass(frozen=True, kw_only=True)
class NewProblems:
    """What the records say of further problems of the same kind."""

    num_problems: AtLeastOne
    """Held-out problems."""
    verdict: Verdict
    """The verdict for further ones."""
    variance: NotNegative | None
    """Variance that the choice of the held-out problems adds to differences between n, over what
    seeds give them; None without a spread between seeds."""


def judge_new_problems(data: SweepData, config: AnalysisConfig) -> NewProblems | None:
    """None unless `data` is avg@k of two known problems or more, the same in all runs."""
    if data.metric != "avg" or not all(curve.counted for curve in data.curves):
        return None
    sizes = {curve.successes.shape[1] for curve in data.curves if curve.steps.size}
    based = any(curve.base_reward is not None for curve in data.curves)
    if not based or len(sizes) != 1 or max(sizes) < 2:
        return None
    _, frontier, saturation = judge(data, config, new_problems=True)
    if not frontier.budgets:
        return None
    means = gather_means(data.readings)
    return NewProblems(
        num_problems=max(sizes),
        verdict=saturation.verdict,
        variance=None if means is None else added_variance(means, data),
    )
