"""What is asked of the records."""

from dataclasses import dataclass, field
from typing import Any

from isosweep.compute import BUDGET_UNITS
from isosweep.config.difficulty import parse_difficulty
from isosweep.config.rules import one_of, positive, require

# Files of one figure: NAME.png, NAME.svg, NAME.pdf, and NAME-dark.png.
FORMATS = ("png", "svg", "pdf", "dark_png")


@dataclass(frozen=True, kw_only=True)
class AnalysisConfig:
    """`confidence` of all intervals; `margin`: reward difference too small to matter.

    `metric`: what a problem's k samples score, `avg` (their mean, avg@k), `best` (1 if any is
    right, best@k: coverage) or `worst` (1 if all are, worst@k: sharpness). `method`: `isosweep`
    (a reward surface over compute, n and B, and competing laws) or `playbook` (the IsoCompute
    Playbook's own, arXiv 2603.12151). `extrapolate`: let `mode=recommend` go further beyond the
    largest budget than forecasts have been checked. `compute_axis`: the unit of compute to analyse
    by; null is the budgets' own. `difficulty`: only held-out problems whose success rate before
    training lies in this range: a name of `DIFFICULTIES`, [low, high], or null for all. `formats`:
    the files of every figure, of `FORMATS`; none where empty. The report draws its own.
    """

    name: str
    confidence: float = 0.9
    margin: float = 0.02
    metric: str = "avg"
    method: str = "isosweep"
    extrapolate: bool = False
    compute_axis: str | None = None
    difficulty: Any = None
    formats: list[str] = field(default_factory=lambda: list(FORMATS))

    def __post_init__(self) -> None:
        if self.compute_axis is not None:
            one_of("analysis.compute_axis", self.compute_axis, BUDGET_UNITS)
        if self.difficulty is not None:
            found = parse_difficulty("analysis.difficulty", self.difficulty)
            object.__setattr__(self, "difficulty", found)
        one_of("analysis.metric", self.metric, ("avg", "best", "worst"))
        one_of("analysis.method", self.method, ("isosweep", "playbook"))
        for name in self.formats:
            one_of("analysis.formats", name, FORMATS)
        rule = "must lie between 0.5 and 1"
        holds = 0.5 < self.confidence < 1
        require(holds, "analysis.confidence", self.confidence, rule, "analysis.confidence=0.9")
        positive("analysis", self, "margin")

    def view(self, axes: dict[str, Any]) -> str:
        """Name of this view of one variant's records; empty for the plain one."""
        named = [f"{name}={value}" for name, value in axes.items()]
        if self.metric != "avg":
            named.append(f"{self.metric}@k")
        if self.compute_axis is not None:
            named.append(self.compute_axis)
        if self.difficulty is not None:
            named.append("difficulty={:g}-{:g}".format(*self.difficulty))
        if self.method != "isosweep":
            named.append(self.method)
        return ",".join(named).replace("/", "_")
