"""What a plan would still have to train, given the runs that exist already."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from isosweep.plan.cells import Plan
from isosweep.store.paths import RunPaths
from isosweep.store.state import read_state


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Run ids by how far they are: not begun, to be extended, trained to their last milestone.

    `diverged`: ended before it by a health rule, and left as they are. `left`: share of the plan's
    compute, in its budget's unit, that is still to be spent.
    """

    new: tuple[str, ...]
    extended: tuple[str, ...]
    done: tuple[str, ...]
    diverged: tuple[str, ...]
    left: float

    def described(self) -> str:
        """One line for the terminal."""
        diverged = f", {len(self.diverged)} diverged" if self.diverged else ""
        return (
            f"runs: {len(self.new)} new, {len(self.extended)} to extend, {len(self.done)} done"
            f"{diverged}; {self.left:.0%} of their compute is still to be spent"
        )


def standing(plan: Plan, paths: Callable[[str], RunPaths], stop: Collection[str]) -> Standing:
    """Compare the plan with the runs on disk, whichever sweep made them.

    A run that has diverged by a rule of `stop` has nothing left to spend.
    """
    groups: dict[str, list[str]] = {"new": [], "extended": [], "done": [], "diverged": []}
    spent = total = 0.0
    for run in plan.runs:
        last = run.milestones[-1]
        total += last
        state = read_state(paths(run.run_id))
        if state is None or state.step == 0:
            groups["new"].append(run.run_id)
            continue
        if state.has_reached(last, plan.budget_unit):
            group = "done"
        else:
            group = "diverged" if state.ended_by(stop) else "extended"
        groups[group].append(run.run_id)
        spent += state.compute.spent(plan.budget_unit) if group == "extended" else last
    found = {name: tuple(ids) for name, ids in groups.items()}
    return Standing(**found, left=1 - spent / total)
