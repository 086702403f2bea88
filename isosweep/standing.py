"""What a plan would still have to train, given the runs that exist already."""

from collections.abc import Callable
from dataclasses import dataclass

from isosweep.paths import RunPaths
from isosweep.plan import Plan
from isosweep.state import read_state


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Run ids by how far they are: not begun, to be extended, trained to their last milestone.

    `left`: share of the plan's compute, in its budget's unit, that is still to be spent.
    """

    new: tuple[str, ...]
    extended: tuple[str, ...]
    done: tuple[str, ...]
    left: float

    def described(self) -> str:
        """One line for the terminal."""
        return (
            f"runs: {len(self.new)} new, {len(self.extended)} to extend, {len(self.done)} done; "
            f"{self.left:.0%} of their compute is still to be spent"
        )


def standing(plan: Plan, paths: Callable[[str], RunPaths]) -> Standing:
    """Compare the plan with the runs on disk, whichever sweep made them."""
    groups: dict[str, list[str]] = {"new": [], "extended": [], "done": []}
    spent = total = 0.0
    for run in plan.runs:
        last = run.milestones[-1]
        total += last
        state = read_state(paths(run.run_id))
        if state is None or state.step == 0:
            groups["new"].append(run.run_id)
            continue
        done = state.has_reached(last, plan.budget_unit)
        groups["done" if done else "extended"].append(run.run_id)
        spent += last if done else state.compute.spent(plan.budget_unit)
    found = {name: tuple(ids) for name, ids in groups.items()}
    return Standing(**found, left=1 - spent / total)
