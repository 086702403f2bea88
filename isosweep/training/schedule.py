"""What goes by how far a run is: its records, and its end, by compute."""

from dataclasses import dataclass

from isosweep.compute import BudgetUnit, Compute


@dataclass(frozen=True)
class Schedule:
    """Budgets of a run in `unit`, least first, and how many records it has a decade of FLOPs."""

    milestones: tuple[float, ...]
    unit: BudgetUnit
    records_per_decade: int

    def is_over(self, spent: Compute) -> bool:
        """Whether the largest budget is reached."""
        return spent.has_reached(self.milestones[-1], self.unit)

    def record_due(self, previous: Compute, spent: Compute) -> bool:
        """Whether going from `previous` to `spent` meets a milestone or a log-spaced grid point.

        The grid is in FLOPs and independent of budgets: extending a run changes no record.
        """
        if self._grid_points(spent) > self._grid_points(previous):
            return True
        return any(
            spent.has_reached(milestone, self.unit)
            and not previous.has_reached(milestone, self.unit)
            for milestone in self.milestones
        )

    def _grid_points(self, spent: Compute) -> int:
        """How many points 10^(k / records_per_decade) FLOPs, k = 0, 1, ..., are reached."""
        count = 0
        while spent.has_reached(10 ** (count / self.records_per_decade), "flops"):
            count += 1
        return count
