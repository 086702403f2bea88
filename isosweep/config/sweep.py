"""All settings of one sweep."""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import Settings, load, replaced
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.difficulty import DifficultyConfig
from isosweep.config.evaluation import EvaluationConfig
from isosweep.config.evaluation_sets import on_all
from isosweep.config.generation import GenerationConfig
from isosweep.config.grid import GridConfig
from isosweep.config.hardware import HardwareConfig
from isosweep.config.health import HealthConfig
from isosweep.config.importing import ImportConfig
from isosweep.config.launcher import LauncherConfig
from isosweep.config.model import ModelConfig
from isosweep.config.recipe import RecipeConfig
from isosweep.config.search import SearchConfig
from isosweep.config.task import TaskConfig
from isosweep.config.together import broken_rules
from isosweep.config.tracking import TrackingConfig
from isosweep.config.trainer import TrainerConfig
from isosweep.config.values import DirectoryName, Listed, PositiveInt

Mode = Literal[
    "run",
    "plan",
    "launch",
    "status",
    "resume",
    "cancel",
    "clean",
    "analyse",
    "recommend",
    "compare",
    "difficulty",
    "next",
    "dashboard",
    "import",
]
_LOGSPACE = re.compile(r"logspace[(:]([^,:]+)[,:]([^,:]+)[,:]([^,:)]+)\)?")


def _parse_budgets(value: Any) -> tuple[float, ...]:
    """Budgets, ascending, from a number, its text, a list of them, or `logspace:1e18:1e20:5`.

    `logspace(1e18,1e20,5)`, which a shell and Hydra want quoted, means the same: 5 budgets from
    1e18 to 1e20, equal steps apart in log C. Raises ValueError for anything that is not a
    finite number above 0, and for duplicates.
    """
    spaced = _LOGSPACE.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if spaced is not None:
        return _logspace(*spaced.groups())
    values = list(value) if isinstance(value, list | tuple) else [value]
    budgets = [_number(item) for item in values]
    if not budgets or not all(math.isfinite(number) and number > 0 for number in budgets):
        raise ValueError("must be a finite number above 0, in budget_unit, or a list of these")
    return _ascending(budgets, "lists a value twice")


def _ascending(budgets: list[float], rule: str) -> tuple[float, ...]:
    """The budgets in order. Raises ValueError with `rule` where two are the same."""
    if len(set(budgets)) < len(budgets):
        raise ValueError(rule)
    return tuple(sorted(budgets))


def _logspace(low: str, high: str, count: str) -> tuple[float, ...]:
    first, last, number = _number(low), _number(high), _number(count)
    if not (0 < first < last < math.inf and number >= 2 and number.is_integer()):
        raise ValueError(
            "logspace takes two numbers, 0 < first < last, and how many budgets, 2 or more"
        )
    steps = int(number) - 1
    # Three digits, so that a budget can be typed again; the ends stay as they were given.
    inner = [float(f"{first * (last / first) ** (i / steps):.3g}") for i in range(1, steps)]
    rule = "gives a value twice: budgets between the ends are rounded to three digits"
    return _ascending([first, *inner, last], rule)


def _number(value: Any) -> float:
    """`value` as a float; NaN where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan


class SweepConfig(Settings):
    """Settings of the command and of the sweep."""

    mode: Mode = "run"
    """What the command does; docs/commands.md explains each mode."""
    budget: Annotated[tuple[float, ...], BeforeValidator(_parse_budgets)]
    """Compute that one cell may spend, in `budget_unit`: a number, a list (`[1e18,1e19]`) or a
    range (`logspace:1e18:1e20:3`)."""
    budget_unit: BudgetUnit = "flops"
    """Unit of the budgets."""
    sweeps_dir: str = "sweeps"
    """Directory of all sweeps, of their shared runs (`runs/`) and of MLflow's database."""
    name: DirectoryName | None = None
    """Name of this sweep, and of its directory in `sweeps_dir`; null: `<model>-<task>-<hash of the
    plan>`. For an existing sweep, the beginning of its name is enough."""
    sweep_dir: str | None = None
    """Directory of this sweep, anywhere; null: that of `name`. For an existing sweep, the beginning
    of its name in `sweeps_dir` is enough."""
    confirm: bool = False
    """Launch without the question that `launcher.confirm_above` asks; with `mode=clean`, move
    what it lists to `trash/`."""
    dry_run: bool = False
    """With `mode=launch`: show what would be submitted, and submit nothing."""
    trust: bool = False
    """Execute commands and functions in a stored sweep's settings (`launcher.on_finish`, task
    functions) although others may have written them. On a terminal, `mode=resume` asks."""
    model: ModelConfig
    """The policy."""
    task: TaskConfig
    """The problems."""
    recipe: RecipeConfig
    """How a step is taken."""
    grid: GridConfig
    """The candidates."""
    generation: GenerationConfig
    """What samples the rollouts."""
    evaluation: EvaluationConfig
    """Held-out evaluation."""
    launcher: LauncherConfig
    """Where runs execute."""
    hardware: HardwareConfig
    """The devices of one run."""
    tracking: TrackingConfig
    """Where runs are tracked."""
    analysis: AnalysisConfig
    """What is asked of the records."""
    trainer: TrainerConfig = Field(default_factory=TrainerConfig)
    """Who trains the runs."""
    health: HealthConfig = Field(default_factory=HealthConfig)
    """Rules by which a run is judged to go wrong."""
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    """When a run is checkpointed, and what is kept."""
    search: SearchConfig = Field(default_factory=SearchConfig)
    """Which runs of the plan are trained."""
    difficulty: DifficultyConfig = Field(default_factory=DifficultyConfig)
    """How `mode=difficulty` measures the base model."""
    importing: ImportConfig = Field(default_factory=ImportConfig)
    """`import` on the command line: which columns of a table are what, for `mode=import`."""
    given: Listed[str] = Field(default_factory=list)
    """Settings that the command names. A sweep that is stored has settings of its own: those of the
    launcher count at `mode=resume`, and others that differ are refused where they would be ignored
    in silence."""
    loss_sources: dict[str, str] = Field(default_factory=dict)
    """Sha256 of the modules of the losses of your own that the sweep names, by import path."""
    from_sweep: Listed[str] | None = None
    """`from` on the command line: sweeps, by directory or by name in `sweeps_dir`. `mode=recommend`
    and `mode=next` take one, `mode=compare` two or more. `mode=import` takes files and directories
    of logs."""
    runs: Listed[str] = Field(default_factory=list)
    """Which runs `mode=status` and `mode=cancel` are about; empty: all. Give run ids or parts of
    them, globs, states (`running`, `not_begun`), or values (`n:8`, `seed:0`). Words of one kind add
    runs; words of different kinds must all match."""
    format: Literal["text", "json"] = "text"
    """What modes print but those that plan and train: words, or one JSON document."""
    lines: PositiveInt = 200
    """Last lines of its logs that `mode=status` prints where `runs` chooses one run."""
    retry_failed: bool = False
    """Let `mode=resume` try failed runs again."""

    def _check(self) -> None:
        for refusal in broken_rules(self):
            raise refusal
        # Each set is held to the rules of a main evaluation.
        on_all(self)

    @property
    def run_hardware(self) -> HardwareConfig:
        """The devices that train one run: one that does nothing but sample is left out."""
        hardware = self.hardware
        if self.generation.overlap and hardware.device != "cpu":
            return replaced(hardware, devices_per_run=hardware.devices_per_run - 1)
        return hardware

    @property
    def devices_taken(self) -> int:
        """Devices that one run occupies: its own, and on a CPU the core that samples beside those
        that train."""
        on_cpu = self.generation.overlap and self.hardware.device == "cpu"
        return self.hardware.devices_per_run + on_cpu

    @property
    def budgets(self) -> tuple[float, ...]:
        """Budgets in `budget_unit`, ascending."""
        return self.budget

    @property
    def unit(self) -> BudgetUnit:
        """Unit of the budgets."""
        return self.budget_unit


def sweep_config(plain: Any) -> SweepConfig:
    """Return the validated config of plain nested dictionaries.

    Raises SettingError for an unknown key, a missing one, a value of the wrong type, or a broken
    rule.
    """
    return load(SweepConfig, plain)
