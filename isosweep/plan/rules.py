"""The rules that a candidate must keep to be planned.

A rule is one entry of `RULES`, by the setting that it is about: adding one is one edit, here. The
order is that in which broken rules are reported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isosweep.costs.memory import state_bytes
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.evaluation import evaluations
from isosweep.plan.spec import evaluation_bytes


@dataclass(frozen=True)
class Rule:
    """What rejects a candidate.

    `broken` gives a mask, of a shape that broadcasts to (N, M, K). `reason` says with numbers why
    one candidate breaks it. `bounds_steps`: whether another budget would keep it.
    """

    broken: Callable[[Candidates], Any]
    reason: Callable[[Candidates, Place], str]
    bounds_steps: bool = False


def _pieces(table: Candidates) -> tuple[int, int, int]:
    """Devices, mini-batches and completions of a typed micro-batch, by which n x B is divided."""
    recipe = table.config.recipe
    return (
        table.config.run_hardware.devices_per_run,
        recipe.mini_batches,
        recipe.micro_batch or 1,
    )


def _divisible(table: Candidates) -> Any:
    """Whether devices and micro-batches share n x B evenly: (N, M, 1)."""
    devices, parts, size = _pieces(table)
    together = devices * (parts * size if table.config.recipe.micro_batch else 1)
    return (table.completions % together == 0)[..., None]


def _uncut(table: Candidates) -> Any:
    """Whether the devices' even shares cannot be cut into mini-batches of one size: (N, M, 1)."""
    devices, parts, _ = _pieces(table)
    uneven = table.completions % (devices * parts) != 0
    return ((table.completions % devices == 0) & uneven)[..., None]


def _product(table: Candidates, at: Place) -> str:
    n, B = table.num_generations[at.i], table.problems_per_batch[at.j]
    return f"n x B = {n} x {B} = {n * B}"


def _uneven(table: Candidates, at: Place) -> str:
    names = ("devices that train", "mini-batches", "completions of a micro-batch")
    pieces = zip(_pieces(table), names, strict=True)
    across = " x ".join(f"{count} {name}" for count, name in pieces if count > 1)
    return f"{_product(table, at)} is not a multiple of {across}"


def _out_of_memory(table: Candidates, at: Place) -> str:
    config, hardware = table.config, table.config.run_hardware
    state = state_bytes(config.model.architecture, config.recipe, hardware).total / 1e9
    return (
        f"{_product(table, at)} needs {table.memory.needed[at[:2]] / 1e9:,.1f} GB a device "
        f"({state:,.1f} for weights and optimiser, the rest for generation and activations), and "
        f"has {hardware.usable_bytes / 1e9:,.1f} GB"
    )


def _largest_evaluation(table: Candidates) -> float:
    """Bytes of the largest held-out evaluation by transformers, at the batch size that was set;
    without one it is as large as fits."""
    config = table.config
    if config.evaluation.batch_size is None or config.generation.name == "vllm":
        return 0.0
    return max(map(evaluation_bytes, evaluations(config)))


def _evaluation_too_large(table: Candidates) -> Any:
    return np.array(_largest_evaluation(table) > table.config.run_hardware.usable_bytes)


def _of_evaluation(table: Candidates, at: Place) -> str:
    has = table.config.run_hardware.usable_bytes / 1e9
    return (
        f"with {table.config.evaluation.batch_size:,} answers at once an evaluation needs "
        f"{_largest_evaluation(table) / 1e9:,.1f} GB a device, which has {has:,.1f}"
    )


def _off_budget(table: Candidates, at: Place) -> str:
    spent, budget = float(table.spent[at]), float(table.budgets[at.k])
    return (
        f"T = {table.steps[at]} spends {spent:.4g}, {abs(spent / budget - 1):.1%} off "
        f"{budget:.4g}; allowed {table.config.grid.tolerance:.1%}"
    )


def _problems(table: Candidates) -> str:
    """The problems of which a pass is counted."""
    name, part = table.config.task.scarcest
    return f"{part.num_train_problems} training problems" + (f" of part {name}" if name else "")


RULES: dict[str, Rule] = {
    "grid.max_completions_per_step": Rule(
        lambda t: (t.completions > t.config.grid.max_completions_per_step)[..., None],
        lambda t, at: f"{_product(t, at)} exceeds {t.config.grid.max_completions_per_step}",
    ),
    "task.num_train_problems": Rule(
        lambda t: t.problems_per_batch[None, :, None] > t.config.task.epoch_draws,
        lambda t, at: f"B = {t.problems_per_batch[at.j]} exceeds the {_problems(t)}",
    ),
    "recipe.mini_batches": Rule(_uncut, _uneven),
    "recipe.micro_batch": Rule(lambda t: ~_divisible(t), _uneven),
    "hardware.memory_gb": Rule(
        lambda t: _divisible(t) & (t.memory.micro_batch == 0)[..., None], _out_of_memory
    ),
    "evaluation.batch_size": Rule(_evaluation_too_large, _of_evaluation),
    "grid.min_steps": Rule(
        lambda t: t.steps < t.config.grid.min_steps,
        lambda t, at: f"T = {t.steps[at]} is below {t.config.grid.min_steps}",
        bounds_steps=True,
    ),
    "grid.max_steps": Rule(
        lambda t: t.steps > t.config.grid.max_steps,
        lambda t, at: f"T = {t.steps[at]} exceeds {t.config.grid.max_steps}",
        bounds_steps=True,
    ),
    "grid.tolerance": Rule(
        lambda t: np.abs(t.spent - t.budgets) > t.config.grid.tolerance * t.budgets,
        _off_budget,
        bounds_steps=True,
    ),
    "grid.max_epochs": Rule(
        lambda t: t.epochs > t.config.grid.max_epochs,
        lambda t, at: (
            f"T = {t.steps[at]} with B = {t.problems_per_batch[at.j]} passes "
            f"{t.epochs[at]:.4g} times over {_problems(t)}; allowed {t.config.grid.max_epochs:g}"
        ),
        bounds_steps=True,
    ),
}
