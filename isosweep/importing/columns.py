"""Which column of a table is what: as the settings of `import` say, or by the usual names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from isosweep.compute import BudgetUnit
from isosweep.config.base import close
from isosweep.config.study import ImportConfig, columns_of, columns_typed
from isosweep.errors import SettingError

if TYPE_CHECKING:
    import pandas

# What readers call the file or directory that a row is from.
FILE = "file"
# Columns that a refusal lists, and letters of a name that means something at another's end.
_LISTED, _TELLING = 12, 6

# By quantity, what trainers and trackers call it, the surest first. A name also fits as the end of
# a longer one, after a dot or slash: W&B's and MLflow's exports put a group before it.
# verl: trainer/config/ppo_trainer.yaml; TRL: GRPOConfig; OpenRLHF, slime: their command lines;
# open-instruct: grpo_fast.py; prime-rl: OrchestratorConfig; NeMo-RL: grpo_math_1B.yaml.
USUAL: Mapping[str, tuple[str, ...]] = {
    "n": (
        *("n", "num_generations", "actor_rollout_ref.rollout.n", "rollout.n"),
        *("n_samples_per_prompt", "rollouts_per_example", "num_samples_per_prompt_rollout"),
        *("num_generations_per_prompt", "group_size"),
    ),
    "B": (
        *("B", "problems_per_batch", "data.train_batch_size", "rollout_batch_size"),
        *("num_unique_prompts_rollout", "num_prompts_per_step"),
    ),
    # TRL's and prime-rl's batches are of completions.
    "completions": ("generation_batch_size", "orchestrator.batch_size"),
    "step": ("step", "training/global_step", "global_step", "num_steps", "_step", "Step"),
    "seed": ("seed",),
    "run": ("run", "run_id", "run_name", "run.name", "experiment_name", "Name", FILE),
    "reward": (
        *("eval_reward", "eval/reward", "heldout/avg_at_k", "heldout_reward", "val_reward"),
        *("val/reward", "eval_accuracy", "eval/accuracy", "val/accuracy", "accuracy", "reward"),
    ),
    "standard_error": ("standard_error", "reward_standard_error", "stderr"),
    "problems": ("problems", "num_eval_problems"),
    "samples": ("samples", "samples_per_problem"),
    "successes": ("successes",),
}
# What updates on one batch of rollouts follow from, by trainers' names: verl takes
# B / ppo_mini_batch_size x ppo_epochs, TRL num_iterations x steps_per_generation /
# gradient_accumulation_steps.
UPDATES: Mapping[str, tuple[str, ...]] = {
    "mini_batch": ("ppo_mini_batch_size",),
    "epochs": ("ppo_epochs",),
    "iterations": ("num_iterations",),
    "parts": ("steps_per_generation",),
    "accumulated": ("gradient_accumulation_steps",),
}
# Compute so far, by unit: those of which a reward is most often a function first.
USUAL_COMPUTE: Mapping[BudgetUnit, tuple[str, ...]] = {
    "flops": ("flops", "compute/flops", "total_flops"),
    "tokens": ("tokens", "compute/tokens", "num_tokens", "total_tokens"),
    "device_hours": ("device_hours", "gpu_hours"),
    "rollouts": ("rollouts", "compute/rollouts", "episode", "episodes"),
}
# Of quantities, any of which a table needs: what they are in words.
_NEEDED: Mapping[tuple[str, ...], str] = {
    ("n",): "rollouts per problem",
    ("B", "completions"): "problems per batch",
    ("step", "compute"): "optimiser steps",
    ("reward", "successes"): "the held-out reward",
}
# Held-out rewards whose names have the data set and the number of samples in them: verl's, on its
# console and in its files, and OpenRLHF's.
_REWARDS = re.compile(
    r"(data\.)?(val(-core)?/.+/(mean@\d+|reward|test_score)|val/test_score/.+)|eval/eval_.+_pass1"
)
_TRAINING = re.compile(r"(^|[./_])train(ing)?[./_]")
# Columns of seconds or clocks: W&B's _runtime and _timestamp, Ray's time_total_s, transformers'
# train_runtime, verl's timing_s, the axis of a chart over time.
_TIME = re.compile(
    r"(^|[^a-z])(time|timing|runtime|timestamp|seconds?|secs?|minutes?|elapsed|duration)([^a-z]|$)"
)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What is read: of each quantity its column, or a number that all rows share, or nothing.

    `guessed`: the quantities whose columns nobody named; `unit`: of `compute`; `updates`: columns
    by the keys of `UPDATES`.
    """

    found: Mapping[str, str | float]
    guessed: tuple[str, ...]
    unit: BudgetUnit
    updates: Mapping[str, str]

    def has(self, quantity: str) -> bool:
        """Whether the table has that."""
        return quantity in self.found

    def refuse(self, quantity: str, rule: str, nearest: str = "") -> NoReturn:
        """Raise SettingError about the quantity's column."""
        given = self.found.get(quantity, "null")
        raise SettingError(f"import.columns.{quantity}", given, rule, nearest)


def find_columns(
    frame: "pandas.DataFrame", config: ImportConfig, unit: BudgetUnit | None
) -> Columns:
    """Return the table's columns. `unit`: of the budgets, where the user gave one.

    Raises SettingError for a column that does not exist, and where a quantity is missing.
    """
    names = [str(name) for name in frame.columns]
    listed = f"there are {first_names(names, _LISTED)}"
    found: dict[str, str | float] = {}
    guessed: list[str] = []
    for quantity, given in columns_of(config).items():
        name = guess_column(quantity, names)
        if isinstance(given, str) and given not in names:
            nearest = columns_typed(quantity, name or close(given, names, 1)[0])
            rule = f"no column is called so; {listed}"
            raise SettingError(f"import.columns.{quantity}", given, rule, nearest)
        if given is not None:
            # Numbers that all rows share are whole ones where they can be: B = 64.
            whole = isinstance(given, float) and given.is_integer()
            found[quantity] = int(given) if whole else given
        elif name is not None:
            found[quantity] = name
            guessed.append(quantity)
    own = unit or _unit(names, found)
    if "compute" not in found and (name := first_of(USUAL_COMPUTE[own], names)) is not None:
        found["compute"] = name
        guessed.append("compute")
    for name in (config.sets or {}).values():
        if name not in names:
            raise SettingError("import.sets", name, f"no column is called so; {listed}")
    for any_of, what in _NEEDED.items():
        if found.keys().isdisjoint(any_of):
            number = ", or a number that all share" if any_of[0] in ("n", "B") else ""
            nearest = f"import.columns={{{any_of[0]}:COLUMN}}{number}"
            rule = f"no column has a usual name of {what}; {listed}"
            raise SettingError(f"import.columns.{any_of[0]}", "null", rule, nearest)
    for quantity, column in found.items():
        if names.count(str(column)) > 1:
            raise SettingError(f"import.columns.{quantity}", column, "is the name of two columns")
    _require_no_times(found)
    updates = {key: first_of(usual, names) for key, usual in UPDATES.items()}
    return Columns(
        found=found,
        guessed=tuple(guessed),
        unit=own,
        updates={key: name for key, name in updates.items() if name is not None},
    )


def guess_column(quantity: str, names: Sequence[str]) -> str | None:
    """Return the column with a usual name of the quantity, or None."""
    if quantity != "reward":
        return first_of(USUAL.get(quantity, ()), names)
    # What a policy got in training is not held out, whatever else it is called.
    names = [name for name in names if not _TRAINING.search(name)]
    found = first_of(USUAL[quantity], names)
    likely = [name for name in names if _REWARDS.fullmatch(name)]
    if found not in (None, "reward") or not likely:
        return found
    # One column of this kind is the reward; of several none is guessed.
    return likely[0] if len(likely) == 1 else None


def first_of(usual: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the first of the usual names that a column has, as its own or at its end."""
    for each in usual:
        if each in names:
            return each
        # One letter, or a word like "step", ends the names of much else.
        ends = [name for name in names if re.search(rf"[./]{re.escape(each)}$", name)]
        if len(each) >= _TELLING and len(ends) == 1:
            return ends[0]
    return None


def is_run_name(column: str, config: ImportConfig) -> bool:
    """Whether a column has names of runs, which are text whatever they look like."""
    return column == columns_of(config)["run"] or first_of(USUAL["run"], [column]) is not None


def name_text(value: Any) -> Any:
    """The name that a number stands for, without the .0 that a column with gaps gives it."""
    if isinstance(value, float):
        return value if value != value else f"{value:.0f}" if value.is_integer() else repr(value)
    return str(value) if isinstance(value, int) else value


def _unit(names: Sequence[str], found: Mapping[str, str | float]) -> BudgetUnit:
    known = [str(found["compute"])] if "compute" in found else names
    unit = next((u for u, usual in USUAL_COMPUTE.items() if first_of(usual, known)), None)
    if unit is None and "compute" in found:
        rule = "does not say in which unit, so that the budgets' unit has to be given"
        nearest = "budget_unit=flops, tokens, rollouts or device_hours"
        raise SettingError("import.columns.compute", found["compute"], rule, nearest)
    return unit or "rollouts"


def _require_no_times(found: Mapping[str, str | float]) -> None:
    """Raise SettingError for steps or compute from a column that has a time by its name."""
    for quantity, nearest in (
        ("step", "import.columns={step:COLUMN} of update steps"),
        ("compute", "a column of device-hours, seconds x devices / 3600, named device_hours"),
    ):
        name = str(found.get(quantity, "")).lower()
        if _TIME.search(re.sub(r"time_?steps?", "", name)) and "hour" not in name:
            rule = "has a time in seconds by its name"
            raise SettingError(f"import.columns.{quantity}", found[quantity], rule, nearest)


def first_names(names: Sequence[str], number: int) -> str:
    """The first few of several names, and how many more there are."""
    more = len(names) - number
    return ", ".join(names[:number]) + (f" and {more} more" if more > 0 else "")
