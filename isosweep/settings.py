"""The groups of settings of what is asked: types, defaults, units and rules of each.

`conf/*.yaml` only chooses values. Every broken rule is a SettingError with the nearest choice.
"""

import difflib
import math
from dataclasses import dataclass, field
from typing import Any

from isosweep.architecture import Architecture
from isosweep.compute import BUDGET_UNITS
from isosweep.errors import SettingError

BUILTIN_MODEL = "builtin"


def require(holds: bool, setting: str, value: object, rule: str, nearest: object) -> None:
    if not holds:
        raise SettingError(setting, value, rule, str(nearest))


def closest(word: str, choices: tuple[str, ...]) -> str:
    matches = difflib.get_close_matches(word, choices, n=1, cutoff=0.0)
    return matches[0] if matches else choices[0]


def one_of(setting: str, value: str, choices: tuple[str, ...]) -> None:
    rule = f"must be one of {', '.join(choices)}"
    require(value in choices, setting, value, rule, f"{setting}={closest(str(value), choices)}")


def positive(group: str, instance: object, *names: str) -> None:
    for name in names:
        value = getattr(instance, name)
        if value is not None:
            require(
                math.isfinite(value) and value > 0,
                f"{group}.{name}",
                value,
                "must be a finite number above 0",
                f"{group}.{name}=1",
            )


def distinct(setting: str, values: list[int], least: int, why: str) -> None:
    require(bool(values), setting, values, "must list at least one value", f"{setting}=[{least}]")
    for value in values:
        require(value >= least, setting, value, why, f"{setting}=[{least}]")
    unique = sorted(set(values))
    require(
        len(unique) == len(values), setting, values, "lists a value twice", f"{setting}={unique}"
    )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A policy to train. `source` is `builtin` (made by isosweep and cached) or a hub name.

    `path` loads weights from a directory instead, and `architecture` is then read from its
    config.json; otherwise it is the model's published one. `revision` pins a hub model.
    """

    name: str
    source: str
    path: str | None = None
    revision: str | None = None
    architecture: Architecture

    def __post_init__(self) -> None:
        arch = self.architecture
        sizes = ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim")
        positive("model.architecture", arch, *sizes, "intermediate_size", "vocab_size")
        require(
            arch.num_heads % arch.num_kv_heads == 0,
            "model.architecture.num_kv_heads",
            arch.num_kv_heads,
            f"must divide num_heads={arch.num_heads}",
            f"model.architecture.num_kv_heads={math.gcd(arch.num_heads, arch.num_kv_heads)}",
        )
        if arch.num_experts:
            name = "model.architecture.num_experts_per_token"
            rule = f"must lie between 1 and num_experts={arch.num_experts}"
            holds = 1 <= arch.num_experts_per_token <= arch.num_experts
            require(holds, name, arch.num_experts_per_token, rule, f"{name}=1")
            positive("model.architecture", arch, "expert_intermediate_size")


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """How a GRPO step is taken; names are TRL's. The learning rate is constant after warm-up.

    `learning_rate` holds at `reference_completions` completions a step; `learning_rate_rule`
    scales it to n x B: `sqrt` (IsoCompute Playbook, arXiv 2603.12151), `constant` or `linear`.
    `micro_batch` is completions per device and forward pass; null takes the most that divides
    n x B / devices, fits the memory, and does not pass `max_micro_batch`. `num_iterations`
    updates are made with each batch of rollouts. `rollout_lag`: generations that rollouts wait
    before they are trained on; 0 is on-policy. `lora_rank` trains adapters on all linear maps.

    `zero_variance` groups, whose rollouts are all right or all wrong, are kept, left out of the
    loss (`drop`, ScaleRL, arXiv 2510.13786), or replaced by new problems, at most `max_draws`
    batches a step (`resample`, DAPO's dynamic sampling, arXiv 2503.14476); `planned_draws` is how
    many the planner counts on. A problem is `retire_at` a success rate and never drawn again.
    `aggregation`: `loss` is TRL's own of this `loss_type`, `problem` gives every problem the same
    weight. The last `overlong_share` of the length allowed is penalised (DAPO). Answers that
    near the limit are sent the text `interruption`, and get `interruption_tokens` more to finish.
    `importance_sampling_mode` and `importance_sampling_cap` say how the sampler's probabilities
    are corrected for where `generation.importance_sampling_correction` is on.
    `use_bias_correction_kl` weighs the KL term by the probability ratio (arXiv 2512.02556).
    """

    name: str
    loss_type: str
    beta: float
    use_bias_correction_kl: bool = False
    entropy_coef: float = 0.0
    epsilon: float
    epsilon_high: float
    scale_rewards: str
    importance_sampling_level: str = "token"
    importance_sampling_mode: str = "token_truncate"
    importance_sampling_cap: float = 2.0
    aggregation: str = "loss"
    zero_variance: str = "keep"
    max_draws: int = 1
    planned_draws: float = 1.0
    retire_at: float | None = None
    overlong_share: float | None = None
    mask_truncated_completions: bool = False
    interruption: str | None = None
    interruption_tokens: int = 0
    cast_lm_head_to_fp32: bool = False
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
    num_iterations: int = 1
    rollout_lag: int = 0
    lora_rank: int | None = None

    def __post_init__(self) -> None:
        # TRL's `bnpo` normalises by the local batch, so cells would not be comparable.
        one_of("recipe.loss_type", self.loss_type, LOSS_TYPES)
        one_of("recipe.learning_rate_rule", self.learning_rate_rule, LEARNING_RATE_RULES)
        one_of("recipe.scale_rewards", self.scale_rewards, ("group", "batch", "none"))
        level, mode = self.importance_sampling_level, self.importance_sampling_mode
        one_of("recipe.importance_sampling_level", level, ("token", "sequence"))
        one_of("recipe.importance_sampling_mode", mode, IMPORTANCE_SAMPLING_MODES)
        one_of("recipe.aggregation", self.aggregation, ("loss", "problem"))
        one_of("recipe.zero_variance", self.zero_variance, ("keep", "drop", "resample"))
        positive("recipe", self, "learning_rate", "reference_completions", "temperature")
        positive("recipe", self, "top_p", "max_grad_norm", "micro_batch", "max_micro_batch")
        positive("recipe", self, "num_iterations", "lora_rank", "max_draws")
        positive("recipe", self, "importance_sampling_cap")
        rule = "must be a finite number, 0 or more"
        for name in ("beta", "entropy_coef", "warmup_steps", "weight_decay", "rollout_lag"):
            value = getattr(self, name)
            holds = math.isfinite(value) and value >= 0
            require(holds, f"recipe.{name}", value, rule, f"recipe.{name}=0")
        self._check_groups()

    def _check_groups(self) -> None:
        rule = "a problem's mean needs a loss summed over tokens: recipe.loss_type=dapo or cispo"
        holds = self.aggregation == "loss" or self.loss_type in ("dapo", "cispo")
        require(holds, "recipe.aggregation", self.aggregation, rule, "recipe.aggregation=loss")
        draws = self.planned_draws
        most = self.max_draws if self.zero_variance == "resample" else 1
        rule = f"must lie between 1 and {most} (recipe.max_draws where zero_variance=resample)"
        name = "recipe.planned_draws"
        require(1 <= draws <= most, name, draws, rule, f"{name}={min(max(draws, 1), most):g}")
        for name, example in (("retire_at", 0.9), ("overlong_share", 0.2)):
            share, rule = getattr(self, name), "is a share: above 0, at most 1"
            holds = share is None or 0 < share <= 1
            require(holds, f"recipe.{name}", share, rule, f"recipe.{name}={example}")
        tokens, rule = (
            self.interruption_tokens,
            "must be 1 or more where recipe.interruption is set",
        )
        holds = self.interruption is None or tokens >= 1
        require(holds, "recipe.interruption_tokens", tokens, rule, "recipe.interruption_tokens=256")


LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "cispo")
IMPORTANCE_SAMPLING_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
LEARNING_RATE_RULES = ("sqrt", "constant", "linear")


def shortened(values: set[int]) -> str:
    """Sorted values as text, the middle of a long list left out."""
    texts = [str(value) for value in sorted(values)]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:4], "...", *texts[-3:]])


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """The candidates: every n x B x seed at every budget, for every value of the `axes`.

    A candidate is planned if its best whole number of steps lies in [`min_steps`, `max_steps`],
    spends within `tolerance` (a fraction) of the budget, does not exceed
    `max_completions_per_step` = n x B, and passes over the training problems at most `max_epochs`
    times. `completions_per_step` keeps only the pairs whose n x B it lists. `axes` maps a setting
    of the recipe, task or model (`recipe.num_iterations`), or `model` itself, to its values.
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
    completions_per_step: list[int] | None = None
    axes: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        distinct(
            "grid.num_generations",
            self.num_generations,
            2,
            "GRPO compares the rollouts of one problem with each other and needs n >= 2",
        )
        distinct("grid.problems_per_batch", self.problems_per_batch, 1, "B must be 1 or more")
        distinct("grid.seeds", self.seeds, 0, "seeds must be 0 or more")
        positive("grid", self, "min_steps", "max_steps", "max_completions_per_step", "max_epochs")
        if self.completions_per_step is not None:
            products = {n * B for n in self.num_generations for B in self.problems_per_batch}
            wanted = self.completions_per_step
            require(
                bool(products & set(wanted)),
                "grid.completions_per_step",
                wanted,
                f"no n x B of the grid is one of them; the products are {shortened(products)}",
                f"grid.completions_per_step=[{max(products)}]",
            )
        require(
            0 < self.tolerance < 0.5,
            "grid.tolerance",
            self.tolerance,
            "is the fraction of the budget by which a cell may miss it: between 0 and 0.5",
            "grid.tolerance=0.01",
        )
        require(
            self.min_steps <= self.max_steps,
            "grid.min_steps",
            self.min_steps,
            f"must not exceed grid.max_steps={self.max_steps}",
            f"grid.min_steps={self.max_steps} grid.max_steps={self.min_steps}",
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
        positive("evaluation", self, "samples_per_problem", "records_per_decade", "batch_size")
        positive("evaluation", self, "temperature")


@dataclass(frozen=True, kw_only=True)
class DifficultyConfig:
    """`mode=difficulty`: the base model's avg@k, `samples_per_problem` = k, on up to
    `max_problems` problems of the task's source. `batch_size` counts completions sampled at
    once, and changes no result that is stored already."""

    samples_per_problem: int = 16
    max_problems: int = 4096
    batch_size: int = 2048
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        positive("difficulty", self, "samples_per_problem", "max_problems", "batch_size")
        positive("difficulty", self, "temperature")


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
        one_of("tracking.name", self.name, ("mlflow", "none"))
        positive("tracking", self, "interval_s", "max_points")


@dataclass(frozen=True, kw_only=True)
class AnalysisConfig:
    """`confidence` of all intervals; `margin`: reward difference too small to matter.

    `metric`: what a problem's k samples score, `avg` (their mean, avg@k), `best` (1 if any is
    right, best@k: coverage) or `worst` (1 if all are, worst@k: sharpness). `method`: `isosweep`
    (a reward surface over compute, n and B, and competing laws) or `playbook` (the IsoCompute
    Playbook's own, arXiv 2603.12151). `extrapolate`: let `mode=recommend` go further beyond the
    largest budget than forecasts have been checked. `compute_axis`: the unit of compute to analyse
    by; null is the budgets' own. `difficulty`: only held-out problems whose success rate before
    training lies in this range: a name of `DIFFICULTIES`, [low, high], or null for all.
    """

    name: str
    confidence: float = 0.9
    margin: float = 0.02
    metric: str = "avg"
    method: str = "isosweep"
    extrapolate: bool = False
    compute_axis: str | None = None
    difficulty: Any = None

    def __post_init__(self) -> None:
        if self.compute_axis is not None:
            one_of("analysis.compute_axis", self.compute_axis, BUDGET_UNITS)
        if self.difficulty is not None:
            found = parse_difficulty("analysis.difficulty", self.difficulty)
            object.__setattr__(self, "difficulty", found)
        one_of("analysis.metric", self.metric, ("avg", "best", "worst"))
        one_of("analysis.method", self.method, ("isosweep", "playbook"))
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


# IsoCompute Playbook (arXiv 2603.12151): ranges of the base model's avg@16, ends included. Of the
# hard problems the extremely hard ones were never solved.
DIFFICULTIES = {"easy": (0.3, 0.6), "hard": (0.0, 0.0625), "extremely_hard": (0.0, 0.0)}


def parse_difficulty(setting: str, value: Any) -> tuple[float, float]:
    """The range of success rates that a name or [low, high] stands for; SettingError if none."""
    if isinstance(value, str) and value in DIFFICULTIES:
        return DIFFICULTIES[value]
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = value
        if all(isinstance(end, int | float) for end in value) and 0 <= low <= high <= 1:
            return float(low), float(high)
    rule = f"must be {', '.join(DIFFICULTIES)}, or a range [low, high] between 0 and 1"
    raise SettingError(setting, value, rule, f"{setting}=hard")


# Presets of `isosweep.simulator.worlds`.
WORLDS = ("easy", "hard", "flat", "growing", "overfitting", "unstable", "quiet")


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """`mode=simulate`: `sweeps` simulated sweeps in each of `worlds`, from `seed`.

    `midpoint`: compute, in the budget's unit, around which the best n grows; null puts it at the
    geometric middle of the budgets.
    """

    name: str = "default"
    worlds: list[str] = field(default_factory=lambda: list(WORLDS[:6]))
    sweeps: int = 50
    seed: int = 0
    midpoint: float | None = None

    def __post_init__(self) -> None:
        require(
            bool(self.worlds), "simulation.worlds", [], "names no world", "simulation.worlds=[easy]"
        )
        for world in self.worlds:
            one_of("simulation.worlds", world, WORLDS)
        positive("simulation", self, "sweeps", "midpoint")
        rule = "must be 0 or more"
        require(self.seed >= 0, "simulation.seed", self.seed, rule, "simulation.seed=0")
