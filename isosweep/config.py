"""Where Hydra ends: the composed config becomes frozen, validated dataclasses.

Dataclasses own types, defaults, units and rules; `conf/*.yaml` only chooses values. Nothing
behind this module imports Hydra or OmegaConf.
"""

import difflib
import math
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf

from isosweep.compute import BUDGET_UNITS, BudgetUnit
from isosweep.errors import SettingError
from isosweep.flops import Architecture

MODES = ("run", "plan", "launch", "status", "resume", "cancel", "analyse")
BUILTIN_MODEL = "builtin"


def _require(holds: bool, setting: str, value: object, rule: str, nearest: object) -> None:
    if not holds:
        raise SettingError(setting, value, rule, str(nearest))


def _closest(word: str, choices: tuple[str, ...]) -> str:
    matches = difflib.get_close_matches(word, choices, n=1, cutoff=0.0)
    return matches[0] if matches else choices[0]


def _one_of(setting: str, value: str, choices: tuple[str, ...]) -> None:
    rule = f"must be one of {', '.join(choices)}"
    _require(value in choices, setting, value, rule, f"{setting}={_closest(str(value), choices)}")


def _positive(group: str, instance: object, *names: str) -> None:
    for name in names:
        value = getattr(instance, name)
        if value is not None:
            _require(
                math.isfinite(value) and value > 0,
                f"{group}.{name}",
                value,
                "must be a finite number above 0",
                f"{group}.{name}=1",
            )


def _distinct(setting: str, values: list[int], least: int, why: str) -> None:
    _require(bool(values), setting, values, "must list at least one value", f"{setting}=[{least}]")
    for value in values:
        _require(value >= least, setting, value, why, f"{setting}=[{least}]")
    unique = sorted(set(values))
    _require(
        len(unique) == len(values), setting, values, "lists a value twice", f"{setting}={unique}"
    )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A policy to train. Architecture numbers are the model's published `config.json`.

    `source` is `builtin` (made by isosweep and cached) or a Hugging Face hub name; `path` loads
    weights from a directory instead. `revision` pins a hub model.
    """

    name: str
    source: str
    path: str | None = None
    revision: str | None = None
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int

    def __post_init__(self) -> None:
        numbers = [f.name for f in fields(Architecture)]
        _positive("model", self, *numbers)

    @property
    def architecture(self) -> Architecture:
        return Architecture(**{f.name: getattr(self, f.name) for f in fields(Architecture)})


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """Problems with a checkable answer. Level = number of digits to sort.

    `template` holds `{digits}`; `answer` says how a completion is read: `exact` (it is the sorted
    digits and nothing else) or `last_number` (its last run of digits). `prompt_tokens` and
    `completion_tokens` are planned means per rollout; null means one token a character, which is
    exact for the built-in model. `max_completion_tokens` null means the longest answer + 1.
    """

    name: str
    levels: list[int]
    template: str
    answer: str
    num_train_problems: int
    num_eval_problems: int
    data_seed: int
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    max_completion_tokens: int | None = None

    def __post_init__(self) -> None:
        _one_of("task.answer", self.answer, ("exact", "last_number"))
        _distinct("task.levels", self.levels, 2, "sorting needs at least 2 digits")
        _require(
            "{digits}" in self.template,
            "task.template",
            self.template,
            "must contain {digits}",
            "task.template='s{digits}='",
        )
        _positive("task", self, "num_train_problems", "num_eval_problems", "prompt_tokens")
        _positive("task", self, "completion_tokens", "max_completion_tokens")
        total = self.num_train_problems + self.num_eval_problems
        each = math.ceil(total / len(self.levels))
        # A quarter of all strings belongs to tasks; half of that leaves the drawing quick.
        most = 10 ** min(self.levels) // 8
        enough = math.ceil(math.log10(8 * each))
        _require(
            each <= most,
            "task.num_train_problems",
            self.num_train_problems,
            f"with task.num_eval_problems={self.num_eval_problems} it asks for {each} distinct "
            f"problems of each level, and level {min(self.levels)} has room for {most}",
            f"task.levels=[{','.join(str(max(enough, level)) for level in self.levels)}]",
        )

    @property
    def mean_level(self) -> float:
        return sum(self.levels) / len(self.levels)

    @property
    def planned_prompt_tokens(self) -> float:
        """Mean tokens of a prompt that the planner assumes."""
        if self.prompt_tokens is not None:
            return self.prompt_tokens
        return len(self.template.replace("{digits}", "")) + self.mean_level

    @property
    def completion_limit(self) -> int:
        """Most tokens that a completion may have, end-of-sequence included."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return max(self.levels) + 1

    @property
    def planned_completion_tokens(self) -> float:
        """Mean tokens of a completion that the planner assumes, end-of-sequence included."""
        if self.completion_tokens is not None:
            return min(self.completion_tokens, float(self.completion_limit))
        return self.mean_level + 1


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """How a GRPO step is taken; names are TRL's. The learning rate is constant after warm-up.

    `learning_rate` holds at `reference_completions` completions a step; `learning_rate_rule`
    scales it to n x B: `sqrt` (IsoCompute Playbook, arXiv 2603.12151), `constant` or `linear`.
    `micro_batch` is completions per device and forward pass; null takes the most that divides
    n x B without passing `max_micro_batch`.
    """

    name: str
    loss_type: str
    beta: float
    epsilon: float
    epsilon_high: float
    scale_rewards: str
    learning_rate: float
    learning_rate_rule: str
    reference_completions: int
    warmup_steps: int
    temperature: float
    top_p: float
    max_grad_norm: float
    weight_decay: float
    adam_beta2: float
    micro_batch: int | None
    max_micro_batch: int

    def __post_init__(self) -> None:
        # TRL's `bnpo` normalises by the local batch, so cells would not be comparable.
        _one_of("recipe.loss_type", self.loss_type, ("grpo", "dr_grpo", "dapo", "cispo"))
        _one_of("recipe.learning_rate_rule", self.learning_rate_rule, LEARNING_RATE_RULES)
        _one_of("recipe.scale_rewards", self.scale_rewards, ("group", "batch", "none"))
        _positive("recipe", self, "learning_rate", "reference_completions", "temperature")
        _positive("recipe", self, "top_p", "max_grad_norm", "micro_batch", "max_micro_batch")
        rule = "must be a finite number, 0 or more"
        for name in ("beta", "warmup_steps", "weight_decay"):
            value = getattr(self, name)
            holds = math.isfinite(value) and value >= 0
            _require(holds, f"recipe.{name}", value, rule, f"recipe.{name}=0")


LEARNING_RATE_RULES = ("sqrt", "constant", "linear")


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """The candidates: every n x B x seed at every budget.

    A candidate is planned if its best whole number of steps lies in [`min_steps`, `max_steps`],
    spends within `tolerance` (a fraction) of the budget, does not exceed
    `max_completions_per_step` = n x B, and passes over the training problems at most `max_epochs`
    times.
    """

    name: str
    num_generations: list[int]
    problems_per_batch: list[int]
    seeds: list[int]
    tolerance: float
    min_steps: int
    max_steps: int
    max_completions_per_step: int
    max_epochs: float

    def __post_init__(self) -> None:
        _distinct(
            "grid.num_generations",
            self.num_generations,
            2,
            "GRPO compares the rollouts of one problem with each other and needs n >= 2",
        )
        _distinct("grid.problems_per_batch", self.problems_per_batch, 1, "B must be 1 or more")
        _distinct("grid.seeds", self.seeds, 0, "seeds must be 0 or more")
        _positive("grid", self, "min_steps", "max_steps", "max_completions_per_step", "max_epochs")
        _require(
            0 < self.tolerance < 0.5,
            "grid.tolerance",
            self.tolerance,
            "is the fraction of the budget by which a cell may miss it: between 0 and 0.5",
            "grid.tolerance=0.01",
        )
        _require(
            self.min_steps <= self.max_steps,
            "grid.min_steps",
            self.min_steps,
            f"must not exceed grid.max_steps={self.max_steps}",
            f"grid.min_steps={self.max_steps}",
        )


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Held-out evaluation: avg@k over all held-out problems, `samples_per_problem` = k.

    Records are taken at step 0, at milestones, and `records_per_decade` times per factor of ten
    of training FLOPs. `batch_size` counts completions sampled at once.
    """

    samples_per_problem: int = 8
    records_per_decade: int = 5
    batch_size: int = 2048
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _positive("evaluation", self, "samples_per_problem", "records_per_decade", "batch_size")
        _positive("evaluation", self, "temperature")


@dataclass(frozen=True, kw_only=True)
class HardwareConfig:
    """The device of one run. `peak_flops` (dense, per second, at `dtype`) is the datasheet's.

    `utilization` is the assumed share of the peak that a whole run achieves; it only turns FLOPs
    into the device-hours that the plan shows.
    """

    name: str
    device: str
    dtype: str
    gradient_checkpointing: bool
    peak_flops: float
    utilization: float

    def __post_init__(self) -> None:
        _one_of("hardware.device", self.device, ("cpu", "cuda"))
        _one_of("hardware.dtype", self.dtype, ("float32", "bfloat16"))
        _positive("hardware", self, "peak_flops")
        rule = "is a share of the peak: above 0, at most 1"
        holds = 0 < self.utilization <= 1
        _require(holds, "hardware.utilization", self.utilization, rule, "hardware.utilization=0.3")


@dataclass(frozen=True, kw_only=True)
class SlurmConfig:
    """What each Slurm job asks for. `additional` is passed to sbatch as it is."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    timeout_min: int = 240
    cpus_per_task: int = 8
    mem_gb: float | None = None
    gpus_per_node: int = 0
    setup: list[str] = field(default_factory=list)
    additional: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _positive("launcher.slurm", self, "timeout_min", "cpus_per_task", "mem_gb")
        rule = "must be 0 or more"
        value = self.gpus_per_node
        _require(
            value >= 0,
            "launcher.slurm.gpus_per_node",
            value,
            rule,
            "launcher.slurm.gpus_per_node=0",
        )


@dataclass(frozen=True, kw_only=True)
class LauncherConfig:
    """Where runs execute. `max_parallel` null: one run per GPU, or per core on a CPU machine
    (`local`); every run at once (`slurm`). A run that fails is tried `max_retries` more times."""

    name: str
    max_parallel: int | None = None
    max_retries: int = 2
    stop_grace_s: float = 60.0
    slurm: SlurmConfig = field(default_factory=SlurmConfig)

    def __post_init__(self) -> None:
        _one_of("launcher.name", self.name, ("local", "slurm"))
        _positive("launcher", self, "max_parallel", "stop_grace_s")
        rule = "must be 0 or more"
        _require(
            self.max_retries >= 0,
            "launcher.max_retries",
            self.max_retries,
            rule,
            "launcher.max_retries=0",
        )


@dataclass(frozen=True, kw_only=True)
class TrackingConfig:
    """MLflow. `uri` null: SQLite at `<sweeps_dir>/mlflow.db`. `max_points` bounds how many steps
    of a run's training metrics are sent (held-out records are always sent, all of them)."""

    name: str
    uri: str | None = None
    experiment: str = "isosweep"
    interval_s: float = 10.0
    max_points: int = 200

    def __post_init__(self) -> None:
        _one_of("tracking.name", self.name, ("mlflow", "none"))
        _positive("tracking", self, "interval_s", "max_points")


@dataclass(frozen=True, kw_only=True)
class AnalysisConfig:
    """`confidence` of all intervals; `margin`: reward difference too small to matter."""

    name: str
    confidence: float = 0.9
    margin: float = 0.02

    def __post_init__(self) -> None:
        rule = "must lie between 0.5 and 1"
        holds = 0.5 < self.confidence < 1
        _require(holds, "analysis.confidence", self.confidence, rule, "analysis.confidence=0.9")
        _positive("analysis", self, "margin")


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """One question asked. `budget` is compute per cell in `budget_unit`: a number or a list."""

    mode: str
    budget: Any
    budget_unit: str
    sweeps_dir: str
    sweep_dir: str | None
    model: ModelConfig
    task: TaskConfig
    recipe: RecipeConfig
    grid: GridConfig
    evaluation: EvaluationConfig
    launcher: LauncherConfig
    hardware: HardwareConfig
    tracking: TrackingConfig
    analysis: AnalysisConfig

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        _one_of("budget_unit", self.budget_unit, BUDGET_UNITS)
        object.__setattr__(self, "budget", parse_budgets(self.budget))

    @property
    def budgets(self) -> tuple[float, ...]:
        """Budgets in `budget_unit`, ascending."""
        budgets: tuple[float, ...] = self.budget
        return budgets

    @property
    def unit(self) -> BudgetUnit:
        return BUDGET_UNITS[BUDGET_UNITS.index(self.budget_unit)]


def parse_budgets(value: Any) -> tuple[float, ...]:
    """Budgets, ascending, from a number, its text, or a list of them.

    Raises SettingError for anything that is not a finite number above 0, and for duplicates.
    """
    values = list(value) if isinstance(value, list | tuple) else [value]
    example = "budget=1e11 or budget=[1e11,2e11]"
    _require(bool(values), "budget", value, "must hold at least one number", example)
    budgets = []
    for item in values:
        try:
            number = math.nan if isinstance(item, bool) else float(item)
        except (TypeError, ValueError):
            number = math.nan
        rule = "must be a finite number above 0, in budget_unit"
        nearest = f"budget={-number:g}" if -math.inf < number < 0 else example
        _require(math.isfinite(number) and number > 0, "budget", item, rule, nearest)
        budgets.append(number)
    unique = sorted(set(budgets))
    listed = ",".join(f"{b:g}" for b in unique)
    _require(
        len(unique) == len(budgets), "budget", value, "lists a value twice", f"budget=[{listed}]"
    )
    return tuple(unique)


def from_hydra(composed: DictConfig) -> SweepConfig:
    """The validated config of a composed Hydra config.

    Raises SettingError for an unknown key, a missing one, a value of the wrong type, or a broken
    rule.
    """
    plain = OmegaConf.to_container(composed, resolve=True)
    return from_mapping(plain)


def from_mapping(plain: Any) -> SweepConfig:
    """The validated config of plain nested dictionaries: as stored in a sweep's `config.json`."""
    config: SweepConfig = _build(SweepConfig, plain, "")
    return config


def _build(kind: Any, values: Any, where: str) -> Any:
    """An instance of dataclass `kind` from a dictionary; `where` is its dotted name."""
    types = get_type_hints(kind)
    prefix = f"{where}." if where else ""
    if not isinstance(values, dict):
        raise SettingError(where, values, "must be a group of settings", f"{where}={{}}")
    for key in values:
        if key not in types:
            known = tuple(types)
            rule = f"no such setting; here are {', '.join(known)}"
            nearest = prefix + _closest(str(key), known)
            raise SettingError(f"{prefix}{key}", values[key], rule, nearest)
    for item in fields(kind):
        optional = item.default is not MISSING or item.default_factory is not MISSING
        if not optional and item.name not in values:
            rule = "has no value and no default"
            raise SettingError(f"{prefix}{item.name}", "", rule, f"{prefix}{item.name}=VALUE")
    return kind(
        **{key: _typed(types[key], value, f"{prefix}{key}") for key, value in values.items()}
    )


def _typed(kind: Any, value: Any, setting: str) -> Any:
    """`value` as `kind`, which is one of the types the dataclasses above use."""
    if is_dataclass(kind):
        return _build(kind, value, setting)
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (option for option in get_args(kind) if option is not NoneType)
        return None if value is None else _typed(kind, value, setting)
    if get_origin(kind) is list:
        (element,) = get_args(kind)
        values = value if isinstance(value, list) else [value]
        return [_typed(element, item, setting) for item in values]
    if kind is Any or (get_origin(kind) is dict and isinstance(value, dict)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {int: ("a whole number", 1), float: ("a number", 1.0), str: ("text", "name")}
        wanted, example = names.get(kind, ("true or false", "true"))
        raise SettingError(setting, value, f"must be {wanted}", f"{setting}={example}")
    return value


def config_directory() -> Path:
    """The packaged `conf/` directory."""
    return Path(__file__).resolve().parent / "conf"
