"""Which records are analysed, and which difference counts."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt
from pydantic import BeforeValidator, Field

from isosweep.compute import BudgetUnit
from isosweep.config.base import Listed, NonNegativeInt, Positive, Settings
from isosweep.config.difficulty import parse_difficulty
from isosweep.metrics import MetricName

Quantity = Literal["enough", "best"]

Format = Literal["png", "svg", "pdf"]


def _range(value: Any) -> tuple[float, float] | None:
    return None if value is None else parse_difficulty(value)


class AnalysisConfig(Settings, group="analysis"):
    """Which records are analysed, and which difference counts."""

    confidence: Annotated[float, Gt(0.5), Lt(1)] = 0.9
    """Probability that each interval is meant to have."""
    margin: Positive = 0.02
    """Difference of the metric that is too small to matter."""
    quantity: Quantity = "enough"
    """Which n the verdict is about: `enough`, the smallest n that loses at most `margin` against
    the best; `best`, n*, as in the IsoCompute Playbook."""
    growth_bound: Positive = 0.5
    """Growth of that n at the largest budgets, in doublings per decade of compute, below which it
    has stopped. At 0.5, n grows 1.4 times with 10 times the compute."""
    metric: MetricName = "avg"
    """Score of a problem's k answers: `avg`, their mean (avg@k); `best`, 1 if any is right
    (best@k); `worst`, 1 if all are right (worst@k); `majority`, 1 if the commonest answer is right
    (majority@k)."""
    evaluation_set: str | None = None
    """Name in `evaluation.sets` to analyse; null: the main evaluation."""
    readings_per_decade: NonNegativeInt = 0
    """Smaller budgets at which every run is also read, for each factor of ten of compute: below the
    smallest budget, and between budgets further apart. This trains nothing more."""
    decades: Annotated[float, Ge(0)] = 2.0
    """How far below the smallest budget such readings go, in factors of ten."""
    extrapolate: bool = False
    """Let `mode=recommend` answer beyond the largest budget."""
    compute_axis: BudgetUnit | None = None
    """Unit of compute for the analysis; null: the budgets' unit."""
    difficulty: Annotated[tuple[float, float] | None, BeforeValidator(_range)] = None
    """Only held-out problems with these success rates before training: a name (`hard`) or [low,
    high]; null: all."""
    formats: Listed[Format] = Field(default_factory=list[Format])
    """Files of every figure in `figures/`, such as `[pdf]` for a paper. They have no titles; a
    caption has them. The report has its figures in any case."""

    @property
    def tolerance(self) -> float:
        """What the n that is judged may lose against the best. Reward."""
        return self.margin if self.quantity == "enough" else 0.0

    def view(self, axes: dict[str, Any]) -> str:
        """Name of this view of one variant's records; empty for the plain one."""
        named = [f"{name}={value}" for name, value in axes.items()]
        if self.evaluation_set is not None:
            named.append(f"set={self.evaluation_set}")
        if self.metric != "avg":
            named.append(f"{self.metric}@k")
        if self.compute_axis is not None:
            named.append(self.compute_axis)
        if self.difficulty is not None:
            named.append("difficulty={:g}-{:g}".format(*self.difficulty))
        if self.quantity != "enough":
            named.append(f"n={self.quantity}")
        return ",".join(named).replace("/", "_")
