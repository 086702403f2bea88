"""All settings of one sweep, and the rules that several groups keep together."""

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import (
    Listed,
    PositiveInt,
    Settings,
    SweepName,
    load,
    replaced,
)
from isosweep.config.difficulty import DifficultyConfig
from isosweep.config.evaluation import EvaluationConfig, on_all
from isosweep.config.hardware import HardwareConfig
from isosweep.config.launcher import LauncherConfig, TrainerConfig
from isosweep.config.model import ModelConfig
from isosweep.config.overrides import typed
from isosweep.config.recipe import GenerationConfig, RecipeConfig, splits
from isosweep.config.study import (
    CheckpointConfig,
    GridConfig,
    HealthConfig,
    ImportConfig,
    SearchConfig,
    TrackingConfig,
)
from isosweep.config.task import PARTS, TaskConfig, errors_at
from isosweep.errors import SettingError

# vLLM 0.31 refuses more (vllm/sampling_params.py).
VLLM_MAX_TEMPERATURE = 2.0
# Settings of a command that some modes alone read, with what is typed in the others.
OF_MODES: dict[str, tuple[tuple[str, ...], str]] = {
    "dry_run": (("launch",), "mode=launch dry_run=true, or mode=plan"),
    "runs": (("status", "cancel"), ""),
    "lines": (("status",), ""),
    "steps": (("plan",), "mode=plan"),
    "total": (("plan", "run", "launch", "difficulty"), "mode=plan"),
    "retry_failed": (("resume",), "mode=resume retry_failed=true"),
    "format": (
        (
            *("plan", "status", "cancel", "clean", "analyse", "compare", "next", "recommend"),
            *("import", "difficulty", "run", "launch", "resume"),
        ),
        "format=text",
    ),
}

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
    values = spaced.groups() if spaced else value if isinstance(value, list | tuple) else [value]
    budgets = [_number(item) for item in values]
    if not budgets or not all(0 < number < math.inf for number in budgets):
        raise ValueError("must be a finite number above 0, in budget_unit, or a list of these")
    if spaced is not None:
        first, last, count = budgets
        if not (first < last and count >= 2 and count.is_integer()):
            raise ValueError(
                "logspace takes two numbers, 0 < first < last, and how many budgets, 2 or more"
            )
        steps = int(count) - 1
        # Three digits, so that a budget can be typed again; the ends stay as they were given.
        inner = [float(f"{first * (last / first) ** (i / steps):.3g}") for i in range(1, steps)]
        budgets = [first, *inner, last]
    if len(set(budgets)) < len(budgets):
        raise ValueError("has a value twice; logspace rounds to three digits")
    return tuple(sorted(budgets))


def total_parts(total: str) -> tuple[str, str]:
    """Return the number of a total and its unit: h, usd, or nothing of FLOPs."""
    unit = next((each for each in ("h", "usd") if total.endswith(each)), "")
    return total.removesuffix(unit).rstrip(), unit


def _parse_total(value: Any) -> str | None:
    """`2000h`, `5000usd` or `3e20`, from a number or its text with a unit.

    Raises ValueError for anything else.
    """
    if value is None:
        return None
    text, unit = total_parts(str(value).casefold())
    number = _number(text)
    if not 0 < number < math.inf:
        raise ValueError(
            "must be device-hours (2000h), US dollars (5000usd) or FLOPs (3e20), of all runs"
        )
    few, all_digits = f"{number:g}", f"{number:.15g}"
    return f"{few if float(few) == number else all_digits}{unit}".replace("e+", "e")


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
    total: Annotated[str | None, BeforeValidator(_parse_total)] = None
    """In place of `budget`, what the whole sweep may take: device-hours (`2000h`, so 250 hours of 8
    GPUs), US dollars (`5000usd`) or FLOPs (`3e20`). It chooses budgets, and seeds unless
    `grid.seeds` is given: the plan that decides most often in simulated sweeps."""
    steps: PositiveInt | None = None
    """With `mode=plan` and no budget: update steps of single runs, one at each n and B of the grid.
    Says whether they fit, how long they take and what they cost; null: plan the budgets."""
    sweeps_dir: str = "sweeps"
    """Directory of all sweeps, of their shared runs (`runs/`) and of MLflow's database."""
    sweep: Listed[SweepName] | None = None
    """The sweep: its name in `sweeps_dir`, or its directory (with a /); a list for `mode=compare`.
    null: a new one is called `<model>-<task>-<hash of the plan>`, of existing ones it is the newest
    that was launched."""
    confirm: bool = False
    """Launch without the question that `launcher.confirm_above` asks; with `mode=clean`, move
    what it lists to `trash/`."""
    dry_run: bool = False
    """With `mode=launch`: show what would be submitted, and submit nothing."""
    trust: bool = False
    """Execute commands and functions in a stored sweep's settings (`launcher.on_finish`, task
    functions) although others may have written them."""
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
    variants: list[dict[str, Any]] = Field(default_factory=list)
    """What every combination of `grid.axes` has: its values by axis, its groups, and settings of
    the grid that differ."""
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
        self._check_command()
        for rule in _RULES:
            if rule.broken(self):
                raise rule.refusal(self)
        sets = self.evaluation.sets or {}
        if both := [name for name in self.task.parts if name in sets]:
            why = "is the name of a part of task.mixture, whose problems are a set already"
            raise SettingError(f"evaluation.sets.{both[0]}", "{...}", why)
        # Each set is held to the rules of a main evaluation.
        for (name, on), rule in itertools.product(on_all(self).items(), _RULES):
            if rule.broken(on):
                place, part = f"evaluation.sets.{name}", f"{PARTS}.{name}"
                task = part if name in self.task.parts else f"{place}.task"
                with errors_at(task), errors_at(place, "evaluation"):
                    raise rule.refusal(on)

    def _check_command(self) -> None:
        """Refuse settings that the mode would ignore, and several sweeps where it takes one."""
        for setting, (modes, nearest) in OF_MODES.items():
            value = getattr(self, setting)
            if (
                self.mode not in modes
                and value
                and value != type(self).model_fields[setting].default
            ):
                rule = f"is for mode={', '.join(modes)}; mode={self.mode} makes no use of it"
                raise SettingError(setting, typed(value), rule, nearest)
        if self.sweep is not None and len(self.sweep) != 1 and self.mode != "compare":
            rule = f"mode={self.mode} takes one sweep"
            raise SettingError("sweep", typed(self.sweep), rule, "sweep=NAME")

    @property
    def sampling_devices(self) -> int:
        """Devices of a node that sample the answers of one run."""
        return self.generation.sampling_devices(self.hardware.node_devices)

    @property
    def largest_engine(self) -> int:
        """Most devices, up to `generation.tensor_parallel`, that divide the node and the model."""
        arch, devices = self.model.architecture, self.sampling_devices
        sizes = range(self.generation.tensor_parallel, 0, -1)
        return next(size for size in sizes if devices % size == 0 and splits(arch, size))

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


@dataclass(frozen=True)
class Rule:
    """What several groups of settings keep together.

    `setting` is named where the config is `broken`; `rule` and `nearest` are texts in which {c}
    is the config.
    """

    setting: str
    broken: Callable[[SweepConfig], object]
    rule: str
    nearest: str = ""

    def refusal(self, c: SweepConfig) -> SettingError:
        """The refusal of a config that breaks it."""
        value: Any = c
        for name in self.setting.split("."):
            value = getattr(value, name)
        if isinstance(value, Settings):
            value = value.model_dump()["name"]
        return SettingError(self.setting, value, self.rule.format(c=c), self.nearest.format(c=c))


def _several_nodes(c: SweepConfig) -> bool:
    return c.hardware.nodes > 1


def _vllm(c: SweepConfig) -> bool:
    return c.generation.name == "vllm"


def _overlaps(c: SweepConfig) -> bool:
    return c.generation.overlap


def _has_positions(c: SweepConfig) -> bool:
    """Whether the model has room for the longest prompt and answer: vLLM starts with no more."""
    positions = c.model.architecture.max_position_embeddings
    longest = math.ceil(c.task.planned_prompt_tokens) + c.task.completion_limit
    return positions is None or longest <= positions


_TAKES = "and a run takes {c.hardware.nodes} nodes x {c.hardware.node_devices} devices"
_ONE_NODE = "{c.hardware.one_node}"
_IN_TURN = "generation.overlap=false"
_HOTTEST = f"vLLM takes at most {VLLM_MAX_TEMPERATURE:g}"
# In the order in which they are told: a rule that makes no sense once another is broken is below.
_RULES = (
    Rule(
        "search.max_compute",
        # Of a proposal, whatever chose the sweep's runs, it is the limit.
        lambda c: c.search.max_compute and not c.search.searches and c.mode != "next",
        "is a search's, and search=grid trains the whole plan",
    ),
    Rule(
        "mode",
        lambda c: c.search.searches and c.mode == "launch",
        "leaves its runs, and search={c.search.name} asks for the next ones as they end",
    ),
    Rule(
        "checkpoint.keep",
        lambda c: c.search.searches and c.checkpoint.keep in ("weights", "none"),
        "leaves no checkpoint to go on from, and search={c.search.name} trains runs a part at a "
        "time",
    ),
    Rule(
        "budget_unit",
        lambda c: c.trainer.name == "command" and c.unit == "device_hours",
        "cannot be predicted for a run, and trainer=command needs T in advance",
        "budget_unit=rollouts",
    ),
    Rule(
        "total",
        lambda c: c.total is not None and "budget" in c.given,
        "chooses the budgets itself",
        "either without the other",
    ),
    Rule(
        "total",
        lambda c: (c.total or "").endswith("usd") and c.hardware.dollars_per_hour is None,
        "is in dollars, and no price of a device is given",
        "hardware.dollars_per_hour=NUMBER (an hour of one device), or total in hours, as 2000h",
    ),
    Rule(
        "steps",
        lambda c: c.steps is not None and {"budget", "total"} & {*c.given},
        "describes single runs; with a budget T follows from it",
        "either without the other",
    ),
    Rule(
        "launcher",
        lambda c: _several_nodes(c) and c.launcher.name != "slurm",
        f"gives a run one node, {_TAKES}",
        f"launcher=slurm, or {_ONE_NODE}",
    ),
    Rule(
        "trainer",
        lambda c: _several_nodes(c) and c.trainer.name == "command",
        f"starts your command on one node, {_TAKES}",
        f"trainer=trl, or {_ONE_NODE}",
    ),
    Rule(
        "generation.sleep",
        lambda c: c.generation.sleep and c.hardware.device != "cuda",
        "vLLM gives its memory back on a GPU only, and hardware.device={c.hardware.device}",
    ),
    Rule(
        "recipe.temperature",
        lambda c: _vllm(c) and c.recipe.temperature > VLLM_MAX_TEMPERATURE,
        _HOTTEST,
    ),
    Rule(
        "evaluation.temperature",
        lambda c: _vllm(c) and c.evaluation.temperature > VLLM_MAX_TEMPERATURE,
        _HOTTEST,
    ),
    Rule(
        "generation",
        lambda c: _vllm(c) and c.model.architecture.num_experts and c.hardware.device == "cpu",
        "vLLM packs a mixture's experts on hardware.device=cpu, and samples with what it first "
        "read of them, whatever is trained; generation=transformers does not",
    ),
    Rule(
        "generation.tensor_parallel",
        lambda c: c.generation.tensor_parallel != c.largest_engine,
        "must divide the {c.sampling_devices} devices of a node "
        "(hardware.devices_per_run={c.hardware.devices_per_run}) and the model {c.model.name}: its "
        "{c.model.architecture.num_heads} heads, its {c.model.architecture.num_kv_heads} heads of "
        "keys and values (or be a multiple), the widths of its MLPs, its vocabulary",
        "generation.tensor_parallel={c.largest_engine}",
    ),
    Rule(
        "recipe.interruption",
        lambda c: (
            c.recipe.interruption is not None
            and (c.generation.tensor_parallel > 1 or c.hardware.sharding != "ddp")
        ),
        "continues some answers only, which neither the devices of one engine "
        "(generation.tensor_parallel={c.generation.tensor_parallel}) nor sharded weights "
        "(hardware.sharding={c.hardware.sharding}) can wait for",
    ),
    Rule(
        "task.max_completion_tokens",
        lambda c: _vllm(c) and not _has_positions(c),
        "vLLM starts with at most the {c.model.architecture.max_position_embeddings} positions of "
        "the model {c.model.name}, and prompts have {c.task.planned_prompt_tokens:g}",
    ),
    Rule(
        "generation.overlap",
        lambda c: (
            _overlaps(c) and (c.recipe.rollout_lag == 0 or c.recipe.updates_per_generation > 1)
        ),
        "needs recipe.rollout_lag of 1 or more, here {c.recipe.rollout_lag}, and one update a "
        "generation, here {c.recipe.updates_per_generation}",
        f"recipe.rollout_lag=1 recipe.mini_batches=1 recipe.num_iterations=1, or {_IN_TURN}",
    ),
    Rule(
        "generation.overlap",
        lambda c: (
            _overlaps(c)
            and (c.trainer.name == "command" or _several_nodes(c) or c.hardware.sharding != "ddp")
        ),
        "needs trainer=trl, one node, and the whole model on each device (hardware.sharding=ddp), "
        f"{_TAKES}",
        f"trainer=trl {_ONE_NODE} hardware.sharding=ddp, or {_IN_TURN}",
    ),
    Rule(
        "hardware.devices_per_run",
        lambda c: _overlaps(c) and c.hardware.device != "cpu" and c.hardware.devices_per_run == 1,
        "must be 2 or more with generation.overlap=true: one samples, the others train",
        f"hardware.devices_per_run=2, or {_IN_TURN}",
    ),
    Rule(
        "recipe.interruption_tokens",
        lambda c: (
            c.recipe.interruption is not None
            and c.recipe.interruption_tokens >= c.task.completion_limit
        ),
        "leaves nothing to interrupt of task.max_completion_tokens={c.task.completion_limit}",
    ),
    Rule(
        "recipe.cast_lm_head_to_fp32",
        lambda c: (
            c.recipe.cast_lm_head_to_fp32
            and c.recipe.lora_rank is not None
            and c.model.architecture.tie_word_embeddings
        ),
        "TRL cannot compute a head in float32 that is tied to the embedding, beside the adapters "
        "of recipe.lora_rank={c.recipe.lora_rank}",
    ),
)
