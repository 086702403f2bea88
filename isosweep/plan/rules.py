"""The rules that a candidate must keep to be planned.

A rule is one entry of `RULES`: adding one is one edit, here. The order is that in which broken
rules are reported.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isosweep.costs.memory import state_bytes
from isosweep.plan.candidates import Candidate, Candidates, Ints, Place
from isosweep.plan.remedies import budget_that_works, memory_that_suffices


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What rejects a candidate.

    `setting` names it and is the setting that it is about; `rejects` says in general what it
    rejects, for plan.json's schema. `broken` gives a mask, of a shape that
    broadcasts to (N, M, K). `reason` says with numbers why one candidate breaks it, `remedy` with
    which settings that one would keep it. `distance`, of a shape that broadcasts to (N, M, K), is
    smallest for the candidate that comes nearest to keeping it. `of_budget`: it is about how many
    steps a budget buys, so that another budget mends it.
    """

    setting: str
    rejects: str
    broken: Callable[[Candidates], Any]
    reason: Callable[[Candidate], str]
    remedy: Callable[[Candidates, Place], str]
    distance: Callable[[Candidates], Any] = lambda table: table.completions[..., None]
    of_budget: bool = False


def _jobs_seconds(table: Candidates) -> float:
    """How long a run may take on the queue, all its jobs together; infinite without a queue."""
    slurm = table.config.launcher.slurm
    allowed = slurm.timeout_min * 60 * (1 + slurm.max_requeues)
    return allowed if table.config.launcher.name == "slurm" else math.inf


def _passes_too_often(table: Candidates) -> Any:
    """Whether the steps draw more problems than `grid.max_epochs` passes hold: (N, M, K)."""
    recipe, problems = table.config.recipe, table.config.task.num_train_problems
    drawn = table.steps * table.problems_per_batch[None, :, None] * recipe.planned_draws
    return drawn > table.config.grid.max_epochs * problems * recipe.num_iterations


def _uneven(c: Candidate) -> str:
    devices, size = c.config.hardware.devices_per_run, c.config.recipe.micro_batch
    if c.completions % devices:
        return f"{c.product} is not a multiple of hardware.devices_per_run={devices}"
    across = f" x {devices} devices" if devices > 1 else ""
    return f"{c.product} is not a multiple of {size}{across}"


def _even_share(table: Candidates, place: Place) -> str:
    c = table.at(place)
    devices = c.config.hardware.devices_per_run
    if c.completions % devices:
        return f"hardware.devices_per_run={math.gcd(c.completions, devices)}"
    size = math.gcd(c.completions // devices, c.config.recipe.micro_batch or 1)
    return f"recipe.micro_batch={size}"


def _out_of_memory(c: Candidate) -> str:
    hardware = c.config.hardware
    needed, free = c.memory_bytes / 1e9, 1 - hardware.memory_reserve
    states = state_bytes(c.config.model.architecture, c.config.recipe, hardware).total / 1e9
    return (
        f"{c.product} needs {needed:,.1f} GB a device ({states:,.1f} for weights and "
        f"optimiser, the rest for generation and activations), "
        f"{needed - hardware.memory_gb * free:,.1f} GB "
        f"more than {free:.0%} of {hardware.memory_gb:g} GB"
    )


def _off_budget(c: Candidate) -> str:
    return (
        f"T = {c.num_steps} spends {c.spent:.4g}, {c.deviation:.1%} off {c.budget:.4g}; "
        f"allowed {c.config.grid.tolerance:.1%}"
    )


def _tolerance_that_suffices(c: Candidate) -> str:
    return f"grid.tolerance={math.ceil(c.deviation * 1e3) / 1e3:g}"


def _epochs_that_suffice(c: Candidate) -> str:
    epochs = c.num_batches * c.problems_per_batch / c.config.task.num_train_problems
    return f"grid.max_epochs={math.ceil(epochs)}"


def _too_many_epochs(c: Candidate) -> str:
    problems = c.config.task.num_train_problems
    return (
        f"{c.num_batches} batches of B = {c.problems_per_batch} pass "
        f"{c.num_batches * c.problems_per_batch / problems:.1f} times "
        f"over {problems} problems; allowed {c.config.grid.max_epochs:g}"
    )


def _too_long(c: Candidate) -> str:
    slurm = c.config.launcher.slurm
    jobs = 1 + slurm.max_requeues
    return (
        f"it takes about {c.run_seconds / 3600:,.1f} h, and {jobs} jobs of {slurm.timeout_min} "
        f"min give {jobs * slurm.timeout_min / 60:,.1f} h"
    )


def _enough_requeues(table: Candidates, place: Place) -> str:
    minutes = table.at(place).run_seconds / 60
    jobs = math.ceil(minutes / table.config.launcher.slurm.timeout_min)
    return f"launcher.slurm.max_requeues={jobs - 1}"


def _another_budget(table: Candidates, place: Place, otherwise: str) -> str:
    return f"{budget_that_works(table, place)}, or {otherwise}"


RULES: tuple[Rule, ...] = (
    Rule(
        setting="grid.max_completions_per_step",
        rejects="n x B is above it (completions).",
        broken=lambda t: (t.completions > t.config.grid.max_completions_per_step)[..., None],
        reason=lambda c: f"{c.product} exceeds {c.config.grid.max_completions_per_step}",
        remedy=lambda t, at: f"grid.max_completions_per_step={t.at(at).completions}",
    ),
    Rule(
        setting="task.num_train_problems",
        rejects="B is above it (problems).",
        broken=lambda t: t.config.task.num_train_problems < t.problems_per_batch[None, :, None],
        reason=lambda c: (
            f"B = {c.problems_per_batch} exceeds the "
            f"{c.config.task.num_train_problems} training problems"
        ),
        remedy=lambda t, at: f"task.num_train_problems={t.at(at).problems_per_batch}",
    ),
    Rule(
        setting="recipe.micro_batch",
        rejects="n x B is no multiple of devices x micro-batch (completions).",
        broken=lambda t: ~t.divisible[..., None],
        reason=_uneven,
        remedy=_even_share,
    ),
    Rule(
        setting="hardware.memory_gb",
        rejects="A device has too little memory (1e9 bytes).",
        broken=lambda t: (t.divisible & (t.memory.micro_batch == 0))[..., None],
        reason=_out_of_memory,
        remedy=lambda t, at: memory_that_suffices(t.config, t.at(at).completions),
    ),
    Rule(
        setting="grid.min_steps",
        rejects="T is below it (update steps).",
        broken=lambda t: t.steps < t.config.grid.min_steps,
        reason=lambda c: f"T = {c.num_steps} is below {c.config.grid.min_steps}",
        remedy=lambda t, at: _another_budget(t, at, f"grid.min_steps={t.at(at).num_steps}"),
        distance=lambda t: -t.steps,
        of_budget=True,
    ),
    Rule(
        setting="grid.max_steps",
        rejects="T is above it (update steps).",
        broken=lambda t: t.steps > t.config.grid.max_steps,
        reason=lambda c: f"T = {c.num_steps} exceeds {c.config.grid.max_steps}",
        remedy=lambda t, at: _another_budget(t, at, f"grid.max_steps={t.at(at).num_steps}"),
        distance=lambda t: t.steps,
        of_budget=True,
    ),
    Rule(
        setting="grid.tolerance",
        rejects="No whole number of steps comes as near to the budget (fraction of the budget).",
        broken=lambda t: np.abs(t.spent - t.budgets) > t.config.grid.tolerance * t.budgets,
        reason=_off_budget,
        remedy=lambda t, at: _another_budget(t, at, _tolerance_that_suffices(t.at(at))),
        distance=lambda t: np.abs(t.spent / t.budgets - 1),
        of_budget=True,
    ),
    Rule(
        setting="grid.max_epochs",
        rejects="The run would see the training problems more often (passes over them).",
        broken=_passes_too_often,
        reason=_too_many_epochs,
        remedy=lambda t, at: _another_budget(t, at, _epochs_that_suffice(t.at(at))),
        distance=lambda t: t.steps * t.problems_per_batch[None, :, None],
        of_budget=True,
    ),
    Rule(
        setting="launcher.slurm.timeout_min",
        rejects="The run would take longer than all of its jobs (minutes a job).",
        broken=lambda t: t.run_seconds > _jobs_seconds(t),
        reason=_too_long,
        remedy=_enough_requeues,
        distance=lambda t: t.run_seconds,
    ),
)


def broken_rules(table: Candidates) -> Ints:
    """Bit r is set where a candidate breaks RULES[r]: (N, M, K)."""
    broken = np.zeros(table.steps.shape, dtype=np.int64)
    for bit, rule in enumerate(RULES):
        broken |= np.where(rule.broken(table), 1 << bit, 0)
    return broken


def rules_broken_by(bits: int) -> tuple[Rule, ...]:
    """The rules that a candidate's bits name, in the order of RULES."""
    return tuple(rule for bit, rule in enumerate(RULES) if bits >> bit & 1)


def nearest(table: Candidates, rule: Rule, where: Any) -> Place:
    """The candidate of the mask `where` (N, M, K) that comes nearest to keeping `rule`."""
    ranked = np.where(where, rule.distance(table), np.inf)
    return Place(*map(int, np.unravel_index(int(np.argmin(ranked)), ranked.shape)))
