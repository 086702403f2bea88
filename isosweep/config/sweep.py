"""Where Hydra ends: the composed config becomes frozen, validated dataclasses.

Nothing behind this module imports Hydra or OmegaConf.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from isosweep.compute import BUDGET_UNITS, BudgetUnit
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.budgets import parse_budgets
from isosweep.config.difficulty import DifficultyConfig
from isosweep.config.evaluation import EvaluationConfig
from isosweep.config.generation import GenerationConfig
from isosweep.config.grid import GridConfig
from isosweep.config.hardware import HardwareConfig
from isosweep.config.health import HealthConfig
from isosweep.config.launcher import LauncherConfig
from isosweep.config.model import ModelConfig
from isosweep.config.recipe import RecipeConfig
from isosweep.config.rules import one_of, require
from isosweep.config.simulation import SimulationConfig
from isosweep.config.task import TaskConfig
from isosweep.config.tracking import TrackingConfig

Mode = Literal[
    "run",
    "plan",
    "launch",
    "status",
    "resume",
    "cancel",
    "analyse",
    "recommend",
    "compare",
    "calibrate",
    "simulate",
    "difficulty",
]
MODES: tuple[Mode, ...] = get_args(Mode)
# vLLM 0.31 refuses more (vllm/sampling_params.py).
VLLM_MAX_TEMPERATURE = 2.0


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """One question asked. `budget` is compute per cell in `budget_unit`: a number or a list.

    `from_sweep` (`from` on the command line): the sweeps, by directory or by name in `sweeps_dir`,
    that `mode=recommend` learns from (one) and `mode=compare` sets side by side (two or more).
    """

    mode: Mode
    budget: Any
    budget_unit: str
    sweeps_dir: str
    sweep_dir: str | None
    model: ModelConfig
    task: TaskConfig
    recipe: RecipeConfig
    grid: GridConfig
    generation: GenerationConfig
    evaluation: EvaluationConfig
    launcher: LauncherConfig
    hardware: HardwareConfig
    tracking: TrackingConfig
    analysis: AnalysisConfig
    health: HealthConfig = field(default_factory=HealthConfig)
    simulation: SimulationConfig = field(default_factory=SimulationConfig)
    difficulty: DifficultyConfig = field(default_factory=DifficultyConfig)
    from_sweep: list[str] | None = None

    def __post_init__(self) -> None:
        one_of("mode", self.mode, MODES)
        one_of("budget_unit", self.budget_unit, BUDGET_UNITS)
        object.__setattr__(self, "budget", parse_budgets(self.budget))
        self._check_vllm()
        self._check_interruption()
        tied = self.model.architecture.tie_word_embeddings
        rank = self.recipe.lora_rank
        holds = rank is None or not (self.recipe.cast_lm_head_to_fp32 and tied)
        rule = "TRL cannot compute a head in float32 that is tied to the embedding, beside adapters"
        name = "recipe.cast_lm_head_to_fp32"
        require(holds, name, self.recipe.cast_lm_head_to_fp32, rule, f"{name}=false")

    def _check_interruption(self) -> None:
        """Whether an interrupted answer has room before and after the interruption."""
        if self.recipe.interruption is None:
            return
        name, answer = "recipe.interruption_tokens", self.recipe.interruption_tokens
        limit = self.task.completion_limit
        rule = f"leaves nothing to interrupt of task.max_completion_tokens={limit}"
        require(answer < limit, name, answer, rule, "recipe.interruption=null")
        apart = self.generation.mode == "server" or self.hardware.sharding != "ddp"
        rule = "continues some answers only, which a server or sharded weights cannot wait for"
        nearest = "hardware.sharding=ddp generation.mode=colocate, or recipe.interruption=null"
        require(not apart, "recipe.interruption", self.recipe.interruption, rule, nearest)

    def _check_vllm(self) -> None:
        generation, device = self.generation, self.hardware.device
        rule = f"vLLM gives its memory back on a GPU only, and hardware.device={device}"
        holds = not generation.sleep or device == "cuda"
        require(holds, "generation.sleep", generation.sleep, rule, "generation.sleep=false")
        for group, temperature in (
            ("recipe", self.recipe.temperature),
            ("evaluation", self.evaluation.temperature),
        ):
            holds = generation.name != "vllm" or temperature <= VLLM_MAX_TEMPERATURE
            name, most = f"{group}.temperature", f"{VLLM_MAX_TEMPERATURE:g}"
            require(holds, name, temperature, f"vLLM takes at most {most}", f"{name}={most}")
        if generation.mode != "server":
            return
        rule = f"weights go to a server over NCCL, from a GPU, and hardware.device={device}"
        nearest = "generation.mode=colocate generation.server_url=null"
        require(device == "cuda", "generation.mode", generation.mode, rule, nearest)
        places = self.launcher.max_parallel
        rule = "a vLLM server holds one policy: with generation.mode=server runs go one at a time"
        name = "launcher.max_parallel"
        require(places == 1, name, places, rule, f"{name}=1")

    @property
    def budgets(self) -> tuple[float, ...]:
        """Budgets in `budget_unit`, ascending."""
        budgets: tuple[float, ...] = self.budget
        return budgets

    @property
    def unit(self) -> BudgetUnit:
        return BUDGET_UNITS[BUDGET_UNITS.index(self.budget_unit)]
