"""All settings of one sweep, and the rules that several groups keep together."""

import math
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from isosweep.compute import BudgetUnit
from isosweep.config import suggest
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.difficulty import DifficultyConfig
from isosweep.config.evaluation import EvaluationConfig
from isosweep.config.evaluation_sets import on_all
from isosweep.config.generation import GenerationConfig, splits
from isosweep.config.grid import GridConfig
from isosweep.config.hardware import HardwareConfig
from isosweep.config.health import HealthConfig
from isosweep.config.importing import ImportConfig
from isosweep.config.launcher import LauncherConfig
from isosweep.config.model import ModelConfig
from isosweep.config.overrides import as_typed
from isosweep.config.recipe import RecipeConfig
from isosweep.config.search import SearchConfig
from isosweep.config.settings import read, settings
from isosweep.config.simulation import SimulationConfig
from isosweep.config.task import TaskConfig
from isosweep.config.tracking import TrackingConfig
from isosweep.config.trainer import TrainerConfig
from isosweep.config.values import DirectoryName, Listed, MistypedError, PositiveInt
from isosweep.config.watch import WatchConfig
from isosweep.errors import SettingError

Mode = Literal[
    "run",
    "plan",
    "launch",
    "status",
    "list",
    "logs",
    "resume",
    "cancel",
    "clean",
    "analyse",
    "recommend",
    "advise",
    "compare",
    "calibrate",
    "simulate",
    "difficulty",
    "next",
    "dashboard",
    "watch",
    "import",
]
# vLLM 0.31 refuses more (vllm/sampling_params.py).
VLLM_MAX_TEMPERATURE = 2.0
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
        rule = "must be a finite number above 0, in budget_unit, or a list of these"
        plain = [suggest.number(item) for item in values]
        listed = plain[0] if len(plain) == 1 else f"[{','.join(plain)}]"
        raise MistypedError(rule, f"budget={listed}" if plain and all(plain) else "")
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


@settings("")
class SweepConfig:
    """Settings of the command and of the sweep."""

    mode: Mode
    """What the command does; docs/commands.md explains each mode."""
    budget: Annotated[tuple[float, ...], BeforeValidator(_parse_budgets)]
    """Compute that one cell may spend, in `budget_unit`: a number, a list (`[1e18,1e19]`) or a
    range (`logspace:1e18:1e20:3`)."""
    budget_unit: BudgetUnit
    """Unit of the budgets."""
    sweeps_dir: str
    """Directory of all sweeps, of their shared runs (`runs/`) and of MLflow's database."""
    name: DirectoryName | None = None
    """Name of this sweep, and of its directory in `sweeps_dir`; null: `<model>-<task>-<hash of the
    plan>`. For an existing sweep, the beginning of its name is enough."""
    sweep_dir: str | None
    """Directory of this sweep, anywhere; null: that of `name`. For an existing sweep, the beginning
    of its name in `sweeps_dir` is enough."""
    confirm: bool = False
    """Launch without the question that `launcher.confirm_above` asks; with `mode=clean`, remove
    what it lists."""
    dry_run: bool = False
    """With `mode=launch`: show what would be submitted, and submit nothing."""
    open_browser: bool = True
    """Let `mode=dashboard` and `mode=watch` open their page in a browser, where there is a terminal
    and a display."""
    takeover: bool = False
    """Follow a sweep that another process follows. That process then leaves; the runs continue."""
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
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    """Who trains the runs."""
    health: HealthConfig = field(default_factory=HealthConfig)
    """Rules by which a run is judged to go wrong."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When a run is checkpointed, and what is kept."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Which runs of the plan are trained."""
    simulation: SimulationConfig = field(default_factory=SimulationConfig)
    """What `mode=simulate` simulates."""
    difficulty: DifficultyConfig = field(default_factory=DifficultyConfig)
    """How `mode=difficulty` measures the base model."""
    watch: WatchConfig = field(default_factory=WatchConfig)
    """The page of `mode=watch`."""
    importing: ImportConfig = field(default_factory=ImportConfig)
    """`import` on the command line: which columns of a table are what, for `mode=import`."""
    given: Listed[str] = field(default_factory=list)
    """Settings that the command names. A sweep that is stored has settings of its own: those of the
    launcher count at `mode=resume`, and others that differ are refused where they would be ignored
    in silence."""
    loss_sources: dict[str, str] = field(default_factory=dict)
    """Sha256 of the modules of the losses of your own that the sweep names, by import path."""
    from_sweep: Listed[str] | None = None
    """`from` on the command line: sweeps, by directory or by name in `sweeps_dir`. `mode=recommend`
    and `mode=next` take one, `mode=compare` two or more. `mode=import` takes files and directories
    of logs."""
    runs: Listed[str] = field(default_factory=list)
    """Which runs `mode=status`, `logs` and `cancel` are about; empty: all. Give run ids or parts of
    them, globs, states (`running`, `not_begun`), or values (`n:8`, `seed:0`). Words of one kind add
    runs; words of different kinds must all match."""
    format: Literal["text", "json"] = "text"
    """What `mode=status`, `mode=list`, `mode=next`, `mode=recommend` and `mode=advise` print."""
    lines: PositiveInt = 200
    """Last lines that `mode=logs` prints of a log."""
    forget: Listed[str] = field(default_factory=list)
    """With `mode=clean`: deleted sweeps whose runs need not be kept, by the names that it
    prints."""
    retry_failed: bool = False
    """Let `mode=resume` try failed runs again."""

    def __post_init__(self) -> None:
        if self.dry_run and self.mode != "launch":
            rule = f"shows what mode=launch would submit; mode={self.mode} has no such preview"
            raise SettingError("dry_run", True, rule, "mode=launch dry_run=true, or mode=plan")
        if self.forget and self.mode != "clean":
            rule = f"is for mode=clean; mode={self.mode} removes nothing"
            raise SettingError("forget", ", ".join(self.forget), rule)
        if self.from_sweep and self.mode not in ("recommend", "next", "compare", "import"):
            rule = (
                f"is for mode=import, recommend, next, compare; mode={self.mode} asks for sweep_dir"
            )
            raise SettingError("from", ", ".join(self.from_sweep), rule)
        if self.name is not None and self.sweep_dir is not None:
            rule = f"and sweep_dir={self.sweep_dir}: each says which directory the sweep has"
            raise SettingError("name", self.name, rule)
        self._check_search()
        if self.trainer.name == "command" and self.unit == "device_hours":
            rule = "cannot be predicted for a run, and trainer=command needs T in advance"
            raise SettingError("budget_unit", self.unit, rule, "budget_unit=rollouts")
        self._check_nodes()
        self._check_vllm()
        self._check_overlap()
        self._check_interruption()
        self._check_allocation()
        self._check_noise()
        self._check_schedule()
        self._check_sharing()
        if (
            self.launcher.max_dollars is not None
            and self.hardware.dollars_per_hour is None
            # Of a sweep that is resumed, its own settings have the price.
            and self.mode != "resume"
        ):
            rule = "takes hardware.dollars_per_hour, what an hour of one device costs"
            nearest = "hardware.dollars_per_hour=NUMBER, or launcher.max_device_hours"
            raise SettingError("launcher.max_dollars", self.launcher.max_dollars, rule, nearest)
        architecture = self.model.architecture
        if self.hardware.shared_prompts and (
            architecture.num_experts or architecture.num_sliding_layers
        ):
            rule = "takes a model without experts whose layers all attend to the whole prompt"
            raise SettingError("hardware.shared_prompts", True, rule)
        # Each set is held to the rules of a main evaluation.
        on_all(self)
        cast, tied = self.recipe.cast_lm_head_to_fp32, architecture.tie_word_embeddings
        if self.recipe.lora_rank is not None and cast and tied:
            rule = (
                "TRL cannot compute a head in float32 that is tied to the embedding, beside the "
                f"adapters of recipe.lora_rank={self.recipe.lora_rank}"
            )
            raise SettingError("recipe.cast_lm_head_to_fp32", cast, rule)

    def _check_search(self) -> None:
        """Whether a search can follow its runs, and go on with those that have ended."""
        name, keep = f"search={self.search.name}", self.checkpoint.keep
        limit = self.search.max_compute
        if not self.search.searches:
            # Of a proposal, whatever chose the sweep's runs, it is the limit.
            if limit is not None and self.mode != "next":
                rule = "is a search's, and search=grid trains the whole plan"
                if self.mode == "resume":
                    rule = "mode=resume goes on with the search as it was begun; mode=run widens it"
                raise SettingError("search.max_compute", limit, rule)
            return
        if self.mode == "simulate" and self.search.kind == "tune":
            rule = "tunes settings, and mode=simulate is about n*(C)"
            raise SettingError("search", self.search.name, rule)
        if self.mode == "launch":
            rule = f"leaves its runs, and {name} asks for the next ones as they end"
            raise SettingError("mode", "launch", rule)
        if keep in ("weights", "none"):
            rule = f"leaves no checkpoint to go on from, and {name} trains runs a part at a time"
            raise SettingError("checkpoint.keep", keep, rule)

    def _check_interruption(self) -> None:
        """Whether an interrupted answer has room before and after the interruption."""
        if self.recipe.interruption is None:
            return
        answer, limit = self.recipe.interruption_tokens, self.task.completion_limit
        if answer >= limit:
            rule = f"leaves nothing to interrupt of task.max_completion_tokens={limit}"
            raise SettingError("recipe.interruption_tokens", answer, rule)
        mode, sharding = self.generation.mode, self.hardware.sharding
        if mode == "server" or sharding != "ddp":
            rule = (
                "continues some answers only, which a server or sharded weights cannot wait for "
                f"(generation.mode={mode}, hardware.sharding={sharding})"
            )
            raise SettingError("recipe.interruption", self.recipe.interruption, rule)

    def _check_nodes(self) -> None:
        """Whether everything that takes part in a run can take several nodes."""
        hardware, launcher = self.hardware, self.launcher
        if hardware.nodes == 1:
            return
        one = hardware.taking(min(hardware.devices_per_run, hardware.devices_per_node or 10**9))
        settings = " ".join(as_typed({f"hardware.{name}": value for name, value in one.items()}))

        def refused(setting: str, value: object, rule: str, nearest: str) -> SettingError:
            taken = f"a run takes {hardware.nodes} nodes x {hardware.node_devices} devices"
            return SettingError(setting, value, f"{rule}, and {taken}", f"{nearest}, or {settings}")

        if launcher.name in ("local", "inline"):
            name, alone = launcher.name, "runs on this machine alone"
            raise refused("launcher", name, alone, "launcher=slurm")
        command = launcher.command
        if launcher.name == "command" and command.file is None and not command.asks_for_nodes():
            rule = "asks for one node, with no {nodes} in submit or options"
            nearest = "launcher=slurm, kueue, pbs or skypilot"
            raise refused("launcher.command.submit", command.submit, rule, nearest)
        if launcher.name == "slurm" and not launcher.slurm.use_srun:
            setting, alone = "launcher.slurm.use_srun", "starts a job on its first node alone"
            raise refused(setting, "false", alone, f"{setting}=true")
        if self.trainer.name == "command":
            raise refused("trainer", "command", "starts your command on one node", "trainer=trl")
        if self.generation.mode == "server":
            rule = "sends weights to the server from one node"
            raise refused("generation.mode", "server", rule, "generation.mode=colocate")

    def _check_overlap(self) -> None:
        """Whether the next rollouts can be sampled while this generation is trained on."""
        if not self.generation.overlap:
            return
        recipe, mode, hardware = self.recipe, self.generation.mode, self.hardware
        reasons = (
            (
                recipe.rollout_lag == 0,
                "needs rollouts that wait: recipe.rollout_lag is 0, and must be 1 or more",
                "recipe.rollout_lag=1",
            ),
            (
                recipe.updates_per_generation > 1,
                f"needs one update a generation, and recipe.mini_batches={recipe.mini_batches} x "
                f"recipe.num_iterations={recipe.num_iterations} make "
                f"{recipe.updates_per_generation}",
                "recipe.mini_batches=1 recipe.num_iterations=1",
            ),
            (
                mode == "server",
                "starts its own generator, and generation.mode=server has another",
                "generation.mode=colocate",
            ),
            (
                self.trainer.name == "command",
                "is isosweep's own trainer's, and trainer.name=command trains otherwise",
                "trainer=trl",
            ),
            (
                hardware.nodes > 1,
                f"takes one node, and a run takes hardware.nodes={hardware.nodes}",
                "hardware.nodes=1",
            ),
        )
        for applies, rule, nearest in reasons:
            if applies:
                nearest = f"{nearest}, or generation.overlap=false"
                raise SettingError("generation.overlap", True, rule, nearest)
        self._check_split()

    def _check_split(self) -> None:
        """Whether the devices of a run can be split between a generator and its trainer."""
        hardware, devices = self.hardware, self.hardware.devices_per_run
        size, asked = self.generation.tensor_parallel, self.generation.overlap_devices
        works = self.splits
        if not works:
            least = size + (2 if hardware.sharding != "ddp" else 1)
            rule = (
                f"cannot be split: {size} or more sample (generation.tensor_parallel), and "
                f"{least - size} or more train with hardware.sharding={hardware.sharding}"
            )
            nearest = f"hardware.devices_per_run={least}, or generation.overlap=false"
            raise SettingError("hardware.devices_per_run", devices, rule, nearest)
        if asked is None or asked in works:
            return
        rule = f"must leave devices to train of hardware.devices_per_run={devices}"
        if hardware.device == "cpu":
            rule = "is one process beside the trainer on hardware.device=cpu"
        elif asked < devices and asked % size:
            rule = f"must be a multiple of generation.tensor_parallel={size}"
        elif asked < devices:
            rule = f"leaves one device, and hardware.sharding={hardware.sharding} trains on two"
        nearest = f"generation.overlap_devices={min(works, key=lambda g: abs(g - asked))}"
        raise SettingError("generation.overlap_devices", asked, rule, f"{nearest}, or null")

    def _check_noise(self) -> None:
        """Whether the noise of the runs' gradients can be measured, where that is asked for."""
        every, hardware, recipe = self.evaluation.noise_every, self.hardware, self.recipe
        if every is None:
            return
        reasons = {
            f"with hardware.sharding={hardware.sharding} each device has a part of the gradient": (
                hardware.sharding != "ddp"
            ),
            "hardware.compile=true would compile the policy again": hardware.compile,
            f"recipe.loss_type={recipe.loss_type} may count its calls": ":" in recipe.loss_type,
            "its equations take groups of one size, recipe.allocation=uniform": (
                recipe.allocation != "uniform"
            ),
            "the load-balancing loss of experts is no sum over rollouts": bool(
                self.model.architecture.num_experts
            ),
            "trainer.name=command computes the gradients": self.trainer.name == "command",
        }
        _refuse_without("evaluation.noise_every", every, reasons)

    def _check_schedule(self) -> None:
        """Whether what trains the runs can change settings within them, at amounts that repeat."""
        if self.recipe.schedule is None:
            return
        hardware = self.hardware
        reasons = {
            "needs amounts that a second execution spends alike, budget_unit=flops, rollouts or "
            "tokens, and budget_unit=device_hours is measured time": self.unit == "device_hours",
            "is isosweep's own trainer's, and trainer.name=command trains otherwise": (
                self.trainer.name == "command"
            ),
            f"needs hardware.sharding=ddp, and hardware.sharding={hardware.sharding}": (
                hardware.sharding != "ddp"
            ),
            "needs hardware.compile=false: batches of another shape are compiled again": (
                hardware.compile
            ),
            "acts on the learner, and mode=simulate draws rewards of n alone": (
                self.mode == "simulate"
            ),
        }
        _refuse_without("recipe.schedule", ", ".join(self.recipe.schedule), reasons)

    def _check_allocation(self) -> None:
        """Whether what trains the runs can have groups of many sizes."""
        allocation = self.recipe.allocation
        if allocation == "uniform":
            return
        if self.trainer.name == "command":
            rule = "is isosweep's own trainer's, and trainer.name=command trains otherwise"
            raise SettingError("recipe.allocation", allocation, rule, "recipe.allocation=uniform")
        if self.hardware.shared_prompts:
            rule = (
                "needs hardware.shared_prompts=false, which pads the prompts of a micro-batch to "
                "the largest group"
            )
            nearest = "hardware.shared_prompts=false"
            raise SettingError("recipe.allocation", allocation, rule, nearest)

    def _check_vllm(self) -> None:
        if self.generation.name != "vllm":
            return
        generation, device = self.generation, self.hardware.device
        if generation.sleep and device != "cuda":
            rule = f"vLLM gives its memory back on a GPU only, and hardware.device={device}"
            raise SettingError("generation.sleep", True, rule)
        for name, group in (("recipe", self.recipe), ("evaluation", self.evaluation)):
            if group.temperature > VLLM_MAX_TEMPERATURE:
                rule = f"vLLM takes at most {VLLM_MAX_TEMPERATURE:g}"
                raise SettingError(f"{name}.temperature", group.temperature, rule)
        if self.model.architecture.num_experts and device == "cpu":
            rule = (
                "vLLM packs a mixture's experts on hardware.device=cpu, and samples with what it "
                "first read of them, whatever is trained; generation=transformers does not"
            )
            raise SettingError("generation", "vllm", rule)
        self._check_tensor_parallel()
        self._check_context()
        if generation.mode == "server":
            self._check_server()

    def _check_context(self) -> None:
        """Whether the model has positions for the longest answers: vLLM starts with no more."""
        positions = self.model.architecture.max_position_embeddings
        prompt, limit = math.ceil(self.task.planned_prompt_tokens), self.task.completion_limit
        if positions is None or prompt + limit <= positions:
            return
        rule = (
            f"vLLM starts with at most the {positions} positions of the model {self.model.name}, "
            f"and prompts have {prompt}"
        )
        raise SettingError("task.max_completion_tokens", limit, rule)

    def _check_tensor_parallel(self) -> None:
        """Whether an engine's devices divide those that sample, and the model."""
        generation, arch = self.generation, self.model.architecture
        size, server = generation.tensor_parallel, generation.mode == "server"
        setting = "generation.server_devices" if server else "hardware.devices_per_run"
        nodes, devices = (
            self.hardware.nodes,
            generation.sampling_devices(self.hardware.node_devices),
        )
        # A split is in whole engines.
        if devices % size and not generation.overlap:
            rule = f"must divide {setting}={devices}"
            if nodes > 1:
                rule = (
                    f"must divide the {devices} devices that a run has on each of its {nodes} "
                    "nodes: an engine takes one node"
                )
        elif not splits(arch, size):
            rule = (
                f"must divide the model {self.model.name}: its {arch.num_heads} heads, its "
                f"{arch.num_kv_heads} heads of keys and values (or be a multiple), the widths of "
                "its MLPs, its vocabulary"
            )
        elif size > 1 and self.recipe.interruption is not None and not server:
            rule = (
                "continues some answers only, for which the devices of one engine cannot wait for "
                f"each other (generation.tensor_parallel={size})"
            )
            raise SettingError("recipe.interruption", self.recipe.interruption, rule)
        else:
            return
        works = next(s for s in range(size, 0, -1) if devices % s == 0 and splits(arch, s))
        nearest = f"generation.tensor_parallel={works}"
        raise SettingError("generation.tensor_parallel", size, rule, nearest)

    def _check_server(self) -> None:
        device, places = self.hardware.device, self.launcher.max_parallel
        if device != "cuda":
            rule = f"weights go to a server over NCCL, from a GPU, and hardware.device={device}"
            raise SettingError("generation.mode", "server", rule)
        if places != 1:
            rule = "must be 1: the vLLM server of generation.mode=server has one policy"
            raise SettingError("launcher.max_parallel", places, rule)

    def _check_sharing(self) -> None:
        """Whether several runs can share a device: each is one process with a part of it."""
        runs, places = self.launcher.runs_per_device, self.launcher.max_parallel
        if runs == 1:
            return
        if self.hardware.device == "cpu":
            rule = "shares GPUs, and hardware.device=cpu: launcher.max_parallel shares out cores"
        elif self.hardware.devices_per_run > 1:
            devices = self.hardware.devices_per_run
            rule = f"shares a device, and hardware.devices_per_run={devices} takes several whole"
        elif self.launcher.name in ("slurm", "command"):
            rule = "shares this machine's GPUs, and each job of a scheduler has devices of its own"
        elif places is not None and places < runs:
            rule = f"needs as many runs at once, and launcher.max_parallel={places}"
        elif self.unit == "device_hours":
            rule = "budget_unit=device_hours measures runs that have their devices to themselves"
        else:
            return
        raise SettingError("launcher.runs_per_device", runs, rule)

    @property
    def run_hardware(self) -> HardwareConfig:
        """The devices that train one run, as it has them: those that do nothing but sample are left
        out, and runs that share a device share its memory and speed evenly.

        What is spent beside the device (`hardware.*_overhead_s`) is not shared.
        """
        runs, hardware = self.launcher.runs_per_device, self.hardware
        if (sampling := self.generation.overlapping) and hardware.device != "cpu":
            return replace(hardware, devices_per_run=hardware.devices_per_run - sampling)
        if runs == 1:
            return hardware
        return replace(
            hardware,
            memory_gb=hardware.memory_gb / runs,
            peak_flops=hardware.peak_flops / runs,
            memory_bandwidth=hardware.memory_bandwidth / runs,
        )

    @property
    def splits(self) -> tuple[int, ...]:
        """How many devices of a run may do nothing but sample: whole engines, which leave enough to
        train; on a CPU a process beside all of them."""
        hardware, size = self.hardware, self.generation.tensor_parallel
        if hardware.device == "cpu":
            return (1,)
        least = 1 if hardware.sharding == "ddp" else 2
        return tuple(range(size, hardware.devices_per_run - least + 1, size))

    @property
    def devices_taken(self) -> float:
        """Devices that a run takes: a part of one where several runs share it; a server's too."""
        own = self.hardware.devices_per_run
        return self.devices - own + own / self.launcher.runs_per_device

    @property
    def devices(self) -> int:
        """Devices that one run occupies: its own, a server's, and on a CPU a core that samples
        beside those that train."""
        beside = int(self.generation.overlap and self.hardware.device == "cpu")
        return self.hardware.devices_per_run + self.generation.extra_devices + beside

    @property
    def budgets(self) -> tuple[float, ...]:
        """Budgets in `budget_unit`, ascending."""
        return self.budget

    @property
    def unit(self) -> BudgetUnit:
        """Unit of the budgets."""
        return self.budget_unit


# What earlier versions stored of the command that made a sweep.
_NOT_STORED = ("launcher_given", "budget_unit_given")


def _refuse_without(setting: str, value: object, reasons: Mapping[str, bool]) -> None:
    """Raise SettingError with the first of the `reasons` that applies; null is what works."""
    for reason, applies in reasons.items():
        if applies:
            raise SettingError(setting, value, reason, f"{setting}=null")


def sweep_config(plain: Any) -> SweepConfig:
    """The validated config of plain nested dictionaries: as stored in a sweep's `config.json`.

    Raises SettingError for an unknown key, a missing one, a value of the wrong type, or a broken
    rule.
    """
    return read(SweepConfig, {k: value for k, value in plain.items() if k not in _NOT_STORED})
