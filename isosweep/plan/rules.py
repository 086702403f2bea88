"""The rules that a candidate must keep to be planned.

A rule is one entry of `RULES`: adding one is one edit, here. The order is that in which broken
rules are reported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isosweep.config.task import TaskConfig
from isosweep.costs.memory import state_bytes
from isosweep.costs.steps import Ints
from isosweep.plan.candidates import Candidate, Candidates
from isosweep.plan.spec import evaluation_batch


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What rejects a candidate.

    `setting` names it and is the setting that it is about. `broken` gives a mask, of a shape that
    broadcasts to (N, M, K). `reason` says with numbers why one candidate breaks it. `bounds_steps`:
    whether another budget, which buys other numbers of steps, would keep it.
    """

    setting: str
    broken: Callable[[Candidates], Any]
    reason: Callable[[Candidate], str]
    bounds_steps: bool = False


def _passes_too_often(table: Candidates) -> Any:
    """Whether the steps draw more problems than `grid.max_epochs` passes hold: (N, M, K)."""
    recipe, problems = table.config.recipe, table.config.task.epoch_draws
    drawn = table.steps * table.problems_per_batch[None, :, None] * recipe.planned_draws
    return drawn > table.config.grid.max_epochs * problems * recipe.updates_per_generation


def _uneven(c: Candidate) -> str:
    devices, size = c.config.run_hardware.devices_per_run, c.config.recipe.micro_batch
    if c.completions % devices:
        if c.config.hardware.devices_per_run > devices:
            return f"{c.product} is not a multiple of the {devices} devices that train"
        return f"{c.product} is not a multiple of hardware.devices_per_run={devices}"
    across = f" x {devices} devices" if devices > 1 else ""
    parts = c.config.recipe.mini_batches
    updates = f" x {parts} mini-batches" if parts > 1 else ""
    return f"{c.product} is not a multiple of {size}{across}{updates}"


def _cut_unevenly(table: Candidates) -> Any:
    """Whether the devices' even shares cannot be cut into mini-batches of one size: (N, M, 1)."""
    devices, parts = table.config.run_hardware.devices_per_run, table.config.recipe.mini_batches
    shared = table.completions % devices == 0
    return (shared & (table.completions % (devices * parts) != 0))[..., None]


def _uncut(c: Candidate) -> str:
    devices, parts = c.config.run_hardware.devices_per_run, c.config.recipe.mini_batches
    across = f" x {devices} devices" if devices > 1 else ""
    return f"{c.product} is not a multiple of {parts} mini-batches{across}"


def _out_of_memory(c: Candidate) -> str:
    hardware = c.config.run_hardware
    needed, free = c.memory_bytes / 1e9, 1 - hardware.memory_reserve
    states = state_bytes(c.config.model.architecture, c.config.recipe, hardware).total / 1e9
    return (
        f"{c.product} needs {needed:,.1f} GB a device ({states:,.1f} for weights and "
        f"optimiser, the rest for generation and activations), "
        f"{needed - hardware.memory_gb * free:,.1f} GB "
        f"more than {free:.0%} of {hardware.memory_gb:.4g} GB"
    )


def _off_budget(c: Candidate) -> str:
    return (
        f"T = {c.num_steps} spends {c.spent:.4g}, {c.deviation:.1%} off {c.budget:.4g}; "
        f"allowed {c.config.grid.tolerance:.1%}"
    )


def _too_many_epochs(c: Candidate) -> str:
    draws, epochs = c.config.recipe.planned_draws, c.epochs
    again = f", {draws:g} draws each," if draws > 1 else ""
    allowed = c.config.grid.max_epochs
    # With as many digits as it takes to lie above what is allowed.
    texts = (f"{epochs:.{digits}f}" for digits in range(1, 9))
    text = next((text for text in texts if float(text) > allowed), f"{epochs}")
    return (
        f"{c.num_batches} batches of B = {c.problems_per_batch}{again} pass {text} times "
        f"over {_passed_over(c.config.task)}; allowed {allowed:g}"
    )


def _passed_over(task: TaskConfig, problems: str = "problems") -> str:
    """The problems of which a pass is counted."""
    name, part = task.scarcest
    if not name:
        return f"{part.num_train_problems} {problems}"
    share = part.num_train_problems / task.epoch_draws
    return f"{part.num_train_problems} {problems} of part {name}, at a share of {share:.3g}"


RULES: tuple[Rule, ...] = (
    Rule(
        setting="grid.max_completions_per_step",
        broken=lambda t: (t.completions > t.config.grid.max_completions_per_step)[..., None],
        reason=lambda c: f"{c.product} exceeds {c.config.grid.max_completions_per_step}",
    ),
    Rule(
        setting="task.num_train_problems",
        broken=lambda t: t.config.task.epoch_draws < t.problems_per_batch[None, :, None],
        reason=lambda c: (
            f"B = {c.problems_per_batch} exceeds the "
            f"{_passed_over(c.config.task, 'training problems')}"
        ),
    ),
    Rule(setting="recipe.mini_batches", broken=_cut_unevenly, reason=_uncut),
    Rule(
        setting="recipe.micro_batch",
        broken=lambda t: ~t.divisible[..., None],
        reason=_uneven,
    ),
    Rule(
        setting="hardware.memory_gb",
        broken=lambda t: (t.divisible & (t.memory.micro_batch == 0))[..., None],
        reason=_out_of_memory,
    ),
    Rule(
        setting="evaluation.batch_size",
        broken=lambda t: np.array(t.memory.evaluating > t.config.run_hardware.usable_bytes)[
            ..., None, None, None
        ],
        reason=lambda c: (
            f"with {evaluation_batch(c.config):,} answers at once an evaluation takes more than "
            f"the {c.config.run_hardware.usable_bytes / 1e9:,.1f} GB that a device has for a run"
        ),
    ),
    Rule(
        setting="grid.min_steps",
        broken=lambda t: t.steps < t.config.grid.min_steps,
        reason=lambda c: f"T = {c.num_steps} is below {c.config.grid.min_steps}",
        bounds_steps=True,
    ),
    Rule(
        setting="grid.max_steps",
        broken=lambda t: t.steps > t.config.grid.max_steps,
        reason=lambda c: f"T = {c.num_steps} exceeds {c.config.grid.max_steps}",
        bounds_steps=True,
    ),
    Rule(
        setting="grid.tolerance",
        broken=lambda t: np.abs(t.spent - t.budgets) > t.config.grid.tolerance * t.budgets,
        reason=_off_budget,
        bounds_steps=True,
    ),
    Rule(
        setting="grid.max_epochs",
        broken=_passes_too_often,
        reason=_too_many_epochs,
        bounds_steps=True,
    ),
)


def broken_bits(table: Candidates) -> Ints:
    """Bit r is set where a candidate breaks RULES[r]: (N, M, K)."""
    broken = np.zeros(table.steps.shape, dtype=np.int64)
    for bit, rule in enumerate(RULES):
        broken |= np.where(rule.broken(table), 1 << bit, 0)
    return broken


def rules_of(bits: int) -> tuple[Rule, ...]:
    """The rules that a candidate's bits name, in the order of RULES."""
    return tuple(rule for bit, rule in enumerate(RULES) if bits >> bit & 1)
