"""What a sweep asks by its grid and search, and what goes on beside its runs."""

import math
from dataclasses import field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AllowInfNan, BeforeValidator, Field

from isosweep.config.base import (
    Distinct,
    Listed,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Seeds,
    Settings,
    Share,
    Whole,
)
from isosweep.config.overrides import typed
from isosweep.errors import SettingError
from isosweep.health import RULES, HealthRule


class GridConfig(Settings, group="grid"):
    """The candidates: every n x B x seed at every budget, for every value of `axes`. A candidate
    becomes a cell if it satisfies all bounds below."""

    name: str
    """Name of this choice of settings."""
    num_generations: Distinct[Annotated[Whole, Ge(2)]]
    """Values of n, rollouts per problem; at least 2, because GRPO compares rollouts of one
    problem."""
    problems_per_batch: Distinct[PositiveInt]
    """Values of B, problems per batch."""
    seeds: Seeds[NonNegativeInt] = field(default_factory=lambda: [0, 1])
    """Random seeds, as a list: `[0,1,2]` trains every n x B three times."""
    tolerance: Annotated[float, Gt(0), Lt(0.5)] = 0.01
    """Largest difference between a cell's compute and its budget, as a fraction of the budget."""
    min_steps: PositiveInt = 10
    """Fewest update steps T of a cell."""
    max_steps: PositiveInt = 100_000
    """Most update steps T of a cell."""
    max_completions_per_step: PositiveInt = 65_536
    """Largest n x B."""
    max_epochs: Positive = 100.0
    """Most passes of a run over the training problems."""
    completions_per_step: Listed[Whole] | None = None
    """Only pairs whose n x B is in this list; null: all pairs."""
    axes: dict[str, Any] | None = None
    """Further axes with their values: a setting (`recipe.num_iterations: [1, 2]`), a group with its
    choices (`recipe: [dapo, scalerl]`), or named sets of settings (`variant: {plain: {}, with_kl:
    {recipe.beta: 0.01}}`)."""

    def _check(self) -> None:
        if self.completions_per_step is not None:
            products = {n * B for n in self.num_generations for B in self.problems_per_batch}
            if not products & set(self.completions_per_step):
                raise SettingError(
                    "grid.completions_per_step",
                    self.completions_per_step,
                    f"no n x B of the grid is one of them; the products are {_shortened(products)}",
                )
        if self.min_steps > self.max_steps:
            rule = f"must not exceed grid.max_steps={self.max_steps}"
            raise SettingError("grid.min_steps", self.min_steps, rule)


def _shortened(values: set[int]) -> str:
    """Sorted values as text, the middle of a long list left out."""
    texts = [str(value) for value in sorted(values)]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:4], "...", *texts[-3:]])


class SearchConfig(Settings, group="search"):
    """Which runs of the plan are trained, and how far. It changes no result of a run."""

    name: Literal["grid", "frontier", "optuna"] = "grid"
    """`grid`: all runs, to the last budget. `frontier`: one decision after another, the runs and
    budgets that say most about n*(C) for their compute. `optuna`: runs that an Optuna sampler
    chooses and its pruner ends."""
    max_compute: Positive | None = None
    """Most compute of all runs together, in `budget_unit`; null: the whole plan's."""
    # Optuna's samplers take seeds of 32 bits.
    seed: Annotated[Whole, Ge(0), Le(2**32 - 1)] = 0
    """Random seed of the search's decisions."""

    sampler: str | None = None
    """With `search=optuna`: import path of a sampler."""
    sampler_options: dict[str, Any] | None = None
    """The sampler's arguments, by name; its seed is `search.seed`."""
    pruner: str | None = None
    """With `search=optuna`: import path of a pruner. Its steps are compute in units of the smallest
    budget."""
    pruner_options: dict[str, Any] | None = None
    """The pruner's arguments, by name; its resources are 1 to the last step."""

    def _check(self) -> None:
        for name, usual in (("sampler", "TPESampler"), ("pruner", "HyperbandPruner")):
            if self.name == "optuna" and getattr(self, name) is None:
                rule = f"is what search=optuna chooses by, as optuna.{name}s.{usual}"
                raise SettingError(f"search.{name}", None, rule)
            for setting in (name, f"{name}_options"):
                value = getattr(self, setting)
                if value is not None and self.name != "optuna":
                    rule = f"is read by search=optuna, and this is search={self.name}"
                    raise SettingError(f"search.{setting}", value, rule)

    @property
    def searches(self) -> bool:
        """Whether runs are chosen."""
        return self.name != "grid"


def _known(name: Any) -> Any:
    names = tuple(rule.name for rule in RULES)
    if name not in names:
        raise ValueError(f"must be one of {', '.join(names)}")
    return name


# The name of a rule.
Rule = Annotated[str, BeforeValidator(_known)]

_Part = Annotated[float, Gt(0), Lt(1)]
_Times = Annotated[float, AllowInfNan(False), Gt(1)]


class HealthConfig(Settings, group="health"):
    """Limits of the health rules (docs/health.md); null switches a rule off. Means are over the
    last `window` steps."""

    window: Annotated[Whole, Ge(2)] = 20
    """Steps over which means are taken; at least 2."""
    collapse_share: _Part | None = 0.25
    """Least share of its best mean (over a quarter of a window) that training reward must keep."""
    entropy_rise: _Times | None = 3.0
    """Entropy must stay below this many times its first mean."""
    entropy_bound: Positive | None = None
    """Entropy must stay below this, in nats per token."""
    entropy_fall: _Part | None = 0.05
    """Entropy must stay above this share of its first mean."""
    truncated_share: _Part | None = 0.1
    """Largest share of completions that may be cut off."""
    logp_difference: Positive | None = 0.1
    """Largest mean difference of a token's log-probability between sampler and learner, in nats."""
    gradient_spike: _Times | None = 20.0
    """Largest gradient norm, as a multiple of the window's median."""
    stop: Listed[Rule] = Field(default_factory=lambda: ["non_finite", "collapse"])
    """Rules that end a run; the others only warn."""

    def thresholds(self, rule: HealthRule) -> tuple[float | None, ...] | None:
        """Those of the rule, in its order; None where it is switched off."""
        found = tuple(getattr(self, name) for name in rule.thresholds)
        return None if found and all(limit is None for limit in found) else found

    def judges(self, steps: int) -> bool:
        """Whether a run of so many steps with rollouts of their own has a mean to be judged by."""
        return steps >= self.window

    def _check(self) -> None:
        for rule in RULES:
            if rule.name in self.stop and self.thresholds(rule) is None:
                why = f"{rule.name} is switched off by health.{rule.thresholds[0]}=null"
                raise SettingError("health.stop", self.stop, why)
        if len(set(self.stop)) < len(self.stop):
            raise SettingError("health.stop", self.stop, "names a rule twice")


Keep = Literal["all", "resumable", "weights", "none"]


class CheckpointConfig(Settings, group="checkpoint"):
    """When a run is saved, and what is kept (docs/interruption.md). It changes no result. A
    checkpoint is also written at a run's end and when it is stopped."""

    share: Share = 0.02
    """Share of a run's time that checkpoints may take: one that takes d seconds is followed by the
    next after d / `share`, within the two bounds below."""
    min_interval_s: NonNegative = 30.0
    """Least seconds between two checkpoints, and before the first. Shorter intervals gain little: a
    restart (model, engine, libraries) takes as long."""
    max_interval_s: Positive = 3600.0
    """Most seconds between two checkpoints, even if they then take more than `share`: what a kill
    can cost, besides the current step. (Young, CACM 17(9), 1974: the best interval is sqrt(2 d x
    time between kills); for d = 60 s and a kill a day, 54 minutes.)"""
    keep: Keep = "resumable"
    """What is left after a run's end: `all` checkpoints, the last one whole (`resumable`: a larger
    budget continues from it), its `weights`, or `none`. During a run, the last complete one and the
    one being written are kept, or `all`."""

    def _check(self) -> None:
        if self.min_interval_s > self.max_interval_s:
            rule = f"is more than checkpoint.max_interval_s={self.max_interval_s:g}"
            raise SettingError("checkpoint.min_interval_s", self.min_interval_s, rule)


class TrackingConfig(Settings, group="tracking"):
    """Where results are shown: MLflow or Weights & Biases."""

    name: Literal["mlflow", "wandb", "none"]
    """`mlflow`, `wandb` (Weights & Biases), or `none`."""
    uri: str | None = None
    """MLflow's tracking URI; null: SQLite at `<sweeps_dir>/mlflow.db`. Or W&B's server; null:
    WANDB_BASE_URL, else wandb.ai."""
    experiment: str = "isosweep"
    """MLflow experiment, or W&B project."""
    entity: str | None = None
    """W&B user or team; null: the owner of the key."""
    offline: bool | None = None
    """Only write W&B's files, in `<sweep_dir>/wandb`, for a later `wandb sync`; null: as WANDB_MODE
    says, else if this machine has no key."""
    max_points: PositiveInt = 200
    """Most steps of a run's training metrics that are sent; all held-out records are sent."""

    def _check(self) -> None:
        for name in ("entity", "offline"):
            value = getattr(self, name)
            if self.name != "wandb" and value is not None:
                raise SettingError(f"tracking.{name}", value, "is W&B's", "tracking=wandb")


def _column(value: Any) -> Any:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    raise ValueError("names a column, or is a number that all rows share")


def _reward_range(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    numbers = isinstance(value, list | tuple) and all(type(end) in (int, float) for end in value)
    if not numbers or len(value) != 2 or not -math.inf < value[0] < value[1] < math.inf:
        raise ValueError("is [lowest,highest], two numbers, as [0,100] of percentages")
    return float(value[0]), float(value[1])


# A column by name, a number that all rows share, or null: guessed from the usual names.
Column = Annotated[str | float | None, BeforeValidator(_column)]
QUANTITIES = (
    *("n", "B", "completions", "step", "seed", "run", "compute", "reward"),
    *("standard_error", "problems", "samples", "successes"),
)


class ImportConfig(Settings, group="import"):
    """What a table of runs that were trained elsewhere has in its columns (docs/import.md)."""

    files: Listed[str] | None = None
    """What is read: files and directories of logs, or addresses of MLflow or W&B."""
    columns: dict[Literal[QUANTITIES], Column] | None = None  # type: ignore[valid-type]
    """Columns by quantity, such as {n: rollout.n, B: 64}: a column's name, or a number that all
    rows share; others are guessed from trainers' usual names. `completions` is n x B, in place of
    B. `seed`: without it, runs of one (n, B) are numbered. `run`: without it, a run is one (n, B,
    seed). `compute`: before the row, in `budget_unit`; without it, n x B x step rollouts.
    `reward`: held-out; rows without one only count compute. `standard_error`: of the reward.
    `successes`: for each held-out problem, how many of `samples` were right, in place of a reward.
    `problems` and `samples`: their numbers, for a binomial standard error."""
    per_step: bool = False
    """`compute` counts each row alone, and is summed over the rows of a run."""
    reward_range: Annotated[tuple[float, float] | None, BeforeValidator(_reward_range)] = None
    """Lowest and highest possible reward, such as [0,100] for percentages; null: [0,1]. Rewards are
    kept as shares of this range."""
    sets: dict[str, str] | None = None
    """Rewards on further evaluation sets: each set's name and column."""
    runs: str | None = None
    """A table with a row for each run (columns `run`, n, B, seed), for logs that lack these."""
    generations: str | None = None
    """A directory with a folder for each run, of its name, of what the model answered: verl's
    N.jsonl, TRL's completions_N.parquet or W&B's tables (docs/completions.md)."""
    experiment: str | None = None
    """Experiment of an MLflow store; null: the only one with runs."""
    reader: str | None = None
    """Reader of the files; null: chosen by their names. docs/import.md lists readers."""


def columns_of(config: ImportConfig) -> dict[str, Any]:
    """The column that is given for each quantity, None where it is guessed."""
    given = config.columns or {}
    return {name: given.get(name) for name in QUANTITIES}


def columns_typed(quantity: str, column: str) -> str:
    """Return the override that reads `quantity` from `column`."""
    return f"import.columns={typed({quantity: column})}"
