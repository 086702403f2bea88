"""A way to decide that tests know beforehand: every n to its first budget, then the best on."""

from collections.abc import Mapping

from isosweep.analysis.curves import SweepData
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.search import SearchConfig
from isosweep.plan.cells import Plan
from isosweep.search.steps import Decision, Step


def best_goes_on(
    plan: Plan,
    data: SweepData,
    pending: Mapping[str, float],
    config: SearchConfig,
    analysis: AnalysisConfig,
    count: int,
    seed: int,
) -> Decision:
    """All runs to their first milestone; the best of them there to its last; then a stop."""
    assert count > 0
    rewards = {(r.cell.run_id, r.cell.budget): r.reward for r in data.readings}
    first = [r for r in plan.runs if rewards[r.run_id, r.milestones[0]] is None]
    if first:
        steps = [_step(run.run_id, run.milestones[0]) for run in first]
    else:
        best = max(plan.runs, key=lambda run: rewards[run.run_id, run.milestones[0]] or 0.0)
        reached = rewards[best.run_id, best.milestones[-1]] is not None
        steps = [] if reached else [_step(best.run_id, best.milestones[-1])]
    wanted = tuple(step for step in steps if step.run_id not in pending)
    stop = None if wanted or pending else "the best goes no further"
    return Decision(steps=wanted[:count], considered=wanted, stop=stop)


def _step(run_id: str, milestone: float) -> Step:
    return Step(run_id=run_id, milestone=milestone, compute=1.0, value=0.5, why="it comes next")
