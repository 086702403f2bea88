"""What is asked of the records."""

from dataclasses import field
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Gt, Lt
from pydantic import BeforeValidator

from isosweep.compute import BudgetUnit
from isosweep.config.difficulty import parse_difficulty
from isosweep.config.settings import settings
from isosweep.config.values import Listed, NonNegativeInt, Positive
from isosweep.metrics import MetricName

Method = Literal["isosweep", "playbook"]
Quantity = Literal["enough", "best"]

FigureWidth = Literal["one_column", "two_columns"]
Format = Literal["png", "svg", "pdf", "dark_png"]


def _range(value: Any) -> tuple[float, float] | None:
    return None if value is None else parse_difficulty(value)


@settings("analysis")
class AnalysisConfig:
    """Which view of the records is analysed, and what counts as a difference."""

    name: str
    """Name of this choice of settings."""
    confidence: Annotated[float, Gt(0.5), Lt(1)] = 0.9
    """Probability that every interval is meant to cover, a fraction."""
    margin: Positive = 0.02
    """Reward difference too small to matter, in units of `metric`."""
    quantity: Quantity = "enough"
    """The n whose course over compute the verdict is of: `enough`, the smallest that loses at most
    `margin` against the best; `best`, n*, which is the IsoCompute Playbook's."""
    growth_bound: Positive = 0.5
    """Growth of that n at the largest budgets below which it has stopped, in doublings per
    decade of compute: at 0.5, ten times the compute asks for 1.4 times the n."""
    metric: MetricName = "avg"
    """What a problem's k samples score: `avg` their mean (avg@k), `best` 1 if any is right (best@k,
    coverage), `worst` 1 if all are (worst@k, sharpness), `majority` 1 if their commonest answer is
    (majority@k)."""
    evaluation_set: str | None = None
    """Which of `evaluation.sets` is analysed; null: the main evaluation."""
    method: Method = "isosweep"
    """`isosweep`: a reward surface over compute, n and B, and competing laws; `playbook`: the
    IsoCompute Playbook's own (arXiv 2603.12151)."""
    readings_per_decade: NonNegativeInt = 0
    """Smaller budgets, per factor of ten of compute, at which every run is read as well: below the
    smallest budget, and between budgets that lie farther apart. Nothing more is trained."""
    decades: Annotated[float, Ge(0)] = 2.0
    """How far below the smallest budget, in factors of ten."""
    extrapolate: bool = False
    """Let `mode=recommend` go further beyond the largest budget than forecasts were checked."""
    compute_axis: BudgetUnit | None = None
    """Unit of compute to analyse by; null: the budgets' own."""
    difficulty: Annotated[tuple[float, float] | None, BeforeValidator(_range)] = None
    """Only held-out problems whose success rate before training lies in this range: a name of
    `DIFFICULTIES`, [low, high], or null for all."""
    formats: Listed[Format] = field(default_factory=lambda: list(get_args(Format)))
    """Files written of every figure, NAME.png and so on; `dark_png` is NAME-dark.png; none where
    empty. The report draws its own."""

    figure_width: FigureWidth = "two_columns"
    """Width of the files of figures: of one or two columns of a paper, 3.3 or 6.8 inches. They
    have no titles, which are a caption's."""

    @property
    def tolerance(self) -> float:
        """What the n that is judged may lose against the best. Reward."""
        return self.margin if self.quantity == "enough" and self.method == "isosweep" else 0.0

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
        if self.method != "isosweep":
            named.append(self.method)
        return ",".join(named).replace("/", "_")
