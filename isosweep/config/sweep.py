"""All settings of one sweep, and the rules that several groups keep together."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from isosweep.compute import BudgetUnit
from isosweep.config.base import (
    Listed,
    MistypedError,
    PositiveInt,
    Settings,
    SweepName,
    load,
    replaced,
)
from isosweep.config.evaluation import EvaluationConfig, on_all
from isosweep.config.hardware import HardwareConfig
from isosweep.config.launcher import LauncherConfig, TrainerConfig
from isosweep.config.model import ModelConfig
from isosweep.config.overrides import as_typed, typed
from isosweep.config.recipe import GenerationConfig, RecipeConfig, splits
from isosweep.config.study import (
    AnalysisConfig,
    CheckpointConfig,
    DifficultyConfig,
    GridConfig,
    HealthConfig,
    ImportConfig,
    SearchConfig,
    TrackingConfig,
)
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError

Refusals = Iterator[SettingError]
# vLLM 0.31 refuses more (vllm/sampling_params.py).
VLLM_MAX_TEMPERATURE = 2.0
# Why some settings are refused with a trainer of the user's.
_OWN_TRAINER = "is isosweep's own trainer's, and trainer.name=command trains otherwise"
# By which the devices of a run sample and train in turn.
_IN_TURN = "generation.overlap=false"


def broken_rules(c: "SweepConfig") -> Refusals:
    """All that the config breaks, in the order in which it is told."""
    for rule in _RULES:
        yield from rule(c)


# Settings of a command that some modes alone read, with what is typed in the others.
_OF_MODES: dict[str, tuple[tuple[str, ...], str]] = {
    "dry_run": (("launch",), "mode=launch dry_run=true, or mode=plan"),
    "runs": (("status", "cancel"), ""),
    "lines": (("status",), ""),
    "steps": (("plan",), "mode=plan"),
    "retry_failed": (("resume",), "mode=resume retry_failed=true"),
    "format": (
        (
            *("plan", "status", "cancel", "clean", "analyse", "compare", "next", "recommend"),
            *("import", "difficulty"),
        ),
        "format=text",
    ),
}
# Files that hold what modes without a document for programs print.
_DOCUMENTS = {
    **dict.fromkeys(("run", "resume"), "analysis/answer.json in the sweep's directory"),
}


def _command_line(c: "SweepConfig") -> Refusals:
    """Settings that the mode would ignore; and several sweeps where it takes one."""
    for setting, field in type(c).model_fields.items():
        modes, nearest = _OF_MODES.get(setting, ((c.mode,), ""))
        value = getattr(c, setting)
        if c.mode in modes or not value or value == field.default:
            continue
        if setting == "format" and c.mode in _DOCUMENTS:
            nearest = f"{nearest}, and {_DOCUMENTS[c.mode]}"
        rule = f"is for mode={', '.join(modes)}; mode={c.mode} makes no use of it"
        yield SettingError(setting, typed(value), rule, nearest)
    if c.sweep is not None and len(c.sweep) != 1 and c.mode != "compare":
        rule = f"mode={c.mode} takes one sweep"
        yield SettingError("sweep", typed(c.sweep), rule, "sweep=NAME")


def _search(c: "SweepConfig") -> Refusals:
    """Whether a search can follow its runs, and go on with those that have ended."""
    name, limit = f"search={c.search.name}", c.search.max_compute
    if not c.search.searches:
        # Of a proposal, whatever chose the sweep's runs, it is the limit.
        if limit is not None and c.mode != "next":
            rule = "is a search's, and search=grid trains the whole plan"
            if c.mode == "resume":
                rule = "mode=resume goes on with the search as it was begun; mode=run widens it"
            yield SettingError("search.max_compute", limit, rule)
        return
    if c.mode == "launch":
        rule = f"leaves its runs, and {name} asks for the next ones as they end"
        yield SettingError("mode", "launch", rule)
    if c.checkpoint.keep in ("weights", "none"):
        rule = f"leaves no checkpoint to go on from, and {name} trains runs a part at a time"
        yield SettingError("checkpoint.keep", c.checkpoint.keep, rule)


def _budget(c: "SweepConfig") -> Refusals:
    """Whether runs know when they have spent it."""
    if c.trainer.name == "command" and c.unit == "device_hours":
        rule = "cannot be predicted for a run, and trainer=command needs T in advance"
        yield SettingError("budget_unit", c.unit, rule, "budget_unit=rollouts")
    if c.steps is not None and "budget" in c.given:
        rule = "describes single runs; with a budget T follows from it"
        yield SettingError("steps", c.steps, rule, "either without the other")


def _nodes(c: "SweepConfig") -> Refusals:
    """Whether everything that takes part in a run can take several nodes."""
    hardware, launcher = c.hardware, c.launcher
    if hardware.nodes == 1:
        return

    def refused(setting: str, value: object, rule: str, nearest: str) -> SettingError:
        taken = f"a run takes {hardware.nodes} nodes x {hardware.node_devices} devices"
        nearest = f"{nearest}, or {_one_node(hardware)}"
        return SettingError(setting, value, f"{rule}, and {taken}", nearest)

    if launcher.name in ("local", "inline"):
        yield refused("launcher", launcher.name, "runs on this machine alone", "launcher=slurm")
    if launcher.name == "ray":
        yield refused("launcher", "ray", "gives a job one node", "launcher=slurm")
    if c.trainer.name == "command":
        yield refused("trainer", "command", "starts your command on one node", "trainer=trl")


def _one_node(hardware: "HardwareConfig") -> str:
    """What gives a run devices of one node alone."""
    one = hardware.taking(min(hardware.devices_per_run, hardware.devices_per_node or 10**9))
    return " ".join(as_typed({f"hardware.{name}": value for name, value in one.items()}))


def _vllm(c: "SweepConfig") -> Refusals:
    """Whether vLLM can sample these answers of the model."""
    generation, device = c.generation, c.hardware.device
    if generation.name != "vllm":
        return
    if generation.sleep and device != "cuda":
        rule = f"vLLM gives its memory back on a GPU only, and hardware.device={device}"
        yield SettingError("generation.sleep", True, rule)
    for name, group in (("recipe", c.recipe), ("evaluation", c.evaluation)):
        if group.temperature > VLLM_MAX_TEMPERATURE:
            rule = f"vLLM takes at most {VLLM_MAX_TEMPERATURE:g}"
            yield SettingError(f"{name}.temperature", group.temperature, rule)
    if c.model.architecture.num_experts and device == "cpu":
        rule = (
            "vLLM packs a mixture's experts on hardware.device=cpu, and samples with what it "
            "first read of them, whatever is trained; generation=transformers does not"
        )
        yield SettingError("generation", "vllm", rule)
    yield from _tensor_parallel(c)
    # vLLM starts with no more positions than the model has.
    positions = c.model.architecture.max_position_embeddings
    prompt, limit = math.ceil(c.task.planned_prompt_tokens), c.task.completion_limit
    if positions is not None and prompt + limit > positions:
        rule = (
            f"vLLM starts with at most the {positions} positions of the model {c.model.name}, "
            f"and prompts have {prompt}"
        )
        yield SettingError("task.max_completion_tokens", limit, rule)


def _tensor_parallel(c: "SweepConfig") -> Refusals:
    """Whether an engine's devices divide those that sample, and the model."""
    generation, arch, nodes = c.generation, c.model.architecture, c.hardware.nodes
    size = generation.tensor_parallel
    devices = generation.sampling_devices(c.hardware.node_devices)
    rule = None
    if devices % size:
        rule = f"must divide hardware.devices_per_run={devices}"
        if nodes > 1:
            rule = (
                f"must divide the {devices} devices that a run has on each of its {nodes} "
                "nodes: an engine takes one node"
            )
    elif not splits(arch, size):
        rule = (
            f"must divide the model {c.model.name}: its {arch.num_heads} heads, its "
            f"{arch.num_kv_heads} heads of keys and values (or be a multiple), the widths of "
            "its MLPs, its vocabulary"
        )
    if rule is not None:
        works = next(s for s in range(size, 0, -1) if devices % s == 0 and splits(arch, s))
        nearest = f"generation.tensor_parallel={works}"
        yield SettingError("generation.tensor_parallel", size, rule, nearest)
    if size > 1 and c.recipe.interruption is not None:
        rule = (
            "continues some answers only, for which the devices of one engine cannot wait for "
            f"each other (generation.tensor_parallel={size})"
        )
        yield SettingError("recipe.interruption", c.recipe.interruption, rule)


def _overlap(c: "SweepConfig") -> Refusals:
    """Whether the next rollouts can be sampled while this generation is trained on."""
    if not c.generation.overlap:
        return
    recipe, hardware = c.recipe, c.hardware

    def refused(rule: str, nearest: str) -> SettingError:
        return SettingError("generation.overlap", True, rule, f"{nearest}, or {_IN_TURN}")

    if recipe.rollout_lag == 0:
        rule = "needs rollouts that wait: recipe.rollout_lag is 0, and must be 1 or more"
        yield refused(rule, "recipe.rollout_lag=1")
    if recipe.updates_per_generation > 1:
        rule = (
            f"needs one update a generation, and recipe.mini_batches={recipe.mini_batches} x "
            f"recipe.num_iterations={recipe.num_iterations} make {recipe.updates_per_generation}"
        )
        yield refused(rule, "recipe.mini_batches=1 recipe.num_iterations=1")
    if c.trainer.name == "command":
        yield refused(_OWN_TRAINER, "trainer=trl")
    whole = "" if hardware.sharding == "ddp" else "hardware.sharding=ddp"
    if hardware.nodes > 1:
        rule = f"takes one node, and a run takes hardware.nodes={hardware.nodes}"
        yield refused(rule, f"{_one_node(hardware)} {whole}".strip())
    if whole:
        rule = f"needs the whole model on each device, and hardware.sharding={hardware.sharding}"
        yield refused(rule, whole)
    if hardware.device != "cpu" and hardware.devices_per_run == 1:
        rule = "must be 2 or more with generation.overlap=true: one samples, the others train"
        nearest = f"hardware.devices_per_run=2, or {_IN_TURN}"
        yield SettingError("hardware.devices_per_run", 1, rule, nearest)


def _interruption(c: "SweepConfig") -> Refusals:
    """Whether an interrupted answer has room before and after the interruption."""
    if c.recipe.interruption is None:
        return
    answer, limit = c.recipe.interruption_tokens, c.task.completion_limit
    if answer >= limit:
        rule = f"leaves nothing to interrupt of task.max_completion_tokens={limit}"
        yield SettingError("recipe.interruption_tokens", answer, rule)
    if (sharding := c.hardware.sharding) != "ddp":
        rule = (
            "continues some answers only, which sharded weights cannot wait for "
            f"(hardware.sharding={sharding})"
        )
        yield SettingError("recipe.interruption", c.recipe.interruption, rule)


def _model(c: "SweepConfig") -> Refusals:
    """Whether the model can be computed as asked."""
    arch, cast = c.model.architecture, c.recipe.cast_lm_head_to_fp32
    if c.recipe.lora_rank is not None and cast and arch.tie_word_embeddings:
        rule = (
            "TRL cannot compute a head in float32 that is tied to the embedding, beside the "
            f"adapters of recipe.lora_rank={c.recipe.lora_rank}"
        )
        yield SettingError("recipe.cast_lm_head_to_fp32", cast, rule)


_RULES: tuple[Callable[["SweepConfig"], Refusals], ...] = (
    _command_line,
    _search,
    _budget,
    _nodes,
    _vllm,
    _overlap,
    _interruption,
    _model,
)


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
    ends = re.fullmatch(r"([\d.e+]+?)(?:\.\.|-| to )([\d.e+]+)", str(value))
    if ends is not None:
        nearest = f"budget=logspace:{ends[1]}:{ends[2]}:3"
        raise MistypedError("is no number; a range has a number of budgets", nearest)
    if hours := re.fullmatch(r"([\d.e+]+) ?h", str(value)):
        nearest = f"budget={hours[1]} budget_unit=device_hours"
        raise MistypedError("must be a number, in budget_unit", nearest)
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
    steps: PositiveInt | None = None
    """With `mode=plan` and no budget: update steps of single runs, one at each n and B of the grid.
    Says whether they fit, how long they take and what they cost; null: plan the budgets."""
    sweeps_dir: str = "sweeps"
    """Directory of all sweeps, of their shared runs (`runs/`) and of MLflow's database."""
    sweep: Listed[SweepName] | None = None
    """The sweep: its name in `sweeps_dir`, or its directory (with a /); a list for `mode=compare`.
    Of an existing sweep, the beginning of its name is enough. null: a new one is called
    `<model>-<task>-<hash of the plan>`, of existing ones it is the newest."""
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
