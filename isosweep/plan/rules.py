"""The rules that a candidate must keep to be planned.

A rule is one entry of `RULES`: adding one is one edit, here. The order is that in which broken
rules are reported.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isosweep.config.overrides import as_typed
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.costs.fit import MAX_VLLM_SHARE
from isosweep.costs.memory import state_bytes
from isosweep.costs.steps import Ints, whole_generations
from isosweep.plan.candidates import Candidate, Candidates, Place
from isosweep.plan.memory import roomier
from isosweep.plan.spec import evaluation_batch


@dataclass(frozen=True, kw_only=True)
class StepLimits:
    """How many steps keep a rule, for one pair of n and B: from `least` to `most`.

    `allowing` says with which setting a number of steps beyond that would keep it.
    """

    least: Callable[[Candidates, Place], float] = lambda table, place: 0
    most: Callable[[Candidates, Place], float] = lambda table, place: math.inf
    allowing: Callable[[Candidates, Place, int], str]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What rejects a candidate.

    `setting` names it and is the setting that it is about. `broken` gives a mask, of a shape that
    broadcasts to (N, M, K).
    `reason` says with numbers why one candidate breaks it, `remedy`, for the plan's `mends`, with
    which settings that one would keep it. `distance`, of a shape that broadcasts to (N, M, K), is
    smallest for the candidate that comes nearest to keeping it. `steps`, of a rule about how many
    steps a budget buys: which numbers keep it; another budget then mends it too.
    """

    setting: str
    broken: Callable[[Candidates], Any]
    reason: Callable[[Candidate], str]
    remedy: Callable[[Candidates, Place], str]
    distance: Callable[[Candidates], Any] = lambda table: table.completions[..., None]
    steps: StepLimits | None = None


def _passes_too_often(table: Candidates) -> Any:
    """Whether the steps draw more problems than `grid.max_epochs` passes hold: (N, M, K)."""
    recipe, problems = table.config.recipe, table.config.task.epoch_draws
    drawn = table.steps * table.problems_per_batch[None, :, None] * recipe.planned_draws
    return drawn > table.config.grid.max_epochs * problems * recipe.updates_per_generation


def most_steps_within(table: Candidates, place: Place, passes: float) -> int:
    """Update steps of the whole generations that make `passes` over the problems at most."""
    updates = table.config.recipe.updates_per_generation
    return math.floor(passes / table.epochs(place, updates)) * updates


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


def _even_share(table: Candidates, place: Place) -> str:
    c = table.at(place)
    devices = c.config.run_hardware.devices_per_run
    if c.completions % devices:
        return fewer_devices(c.config, c.completions)
    share = max(1, c.completions // devices // c.config.recipe.mini_batches)
    return f"recipe.micro_batch={math.gcd(share, c.config.recipe.micro_batch or 1)}"


def fewer_devices(config: SweepConfig, completions: int) -> str:
    """The most devices, of those of a run, that share `completions` = n x B evenly; and how."""
    hardware, generation = config.hardware, config.generation
    training = config.run_hardware.devices_per_run
    if training < hardware.devices_per_run:
        most = next(d for d in range(training, 0, -1) if completions % d == 0)
        return f"hardware.devices_per_run={most + 1}"
    common = math.gcd(completions, hardware.devices_per_run)
    per_node = hardware.devices_per_node or common
    # As many on each node.
    most = next(d for d in range(common, 0, -1) if not common % d and not d % -(-d // per_node))
    changes = {f"hardware.{name}": value for name, value in hardware.taking(most).items()}
    size = math.gcd(most // -(-most // per_node), generation.tensor_parallel)
    if size < generation.tensor_parallel:
        changes["generation.tensor_parallel"] = size
    return " ".join(as_typed(changes))


def _cut_unevenly(table: Candidates) -> Any:
    """Whether the devices' even shares cannot be cut into mini-batches of one size: (N, M, 1)."""
    devices, parts = table.config.run_hardware.devices_per_run, table.config.recipe.mini_batches
    shared = table.completions % devices == 0
    return (shared & (table.completions % (devices * parts) != 0))[..., None]


def _uncut(c: Candidate) -> str:
    devices, parts = c.config.run_hardware.devices_per_run, c.config.recipe.mini_batches
    across = f" x {devices} devices" if devices > 1 else ""
    return f"{c.product} is not a multiple of {parts} mini-batches{across}"


def _even_parts(table: Candidates, place: Place) -> str:
    c = table.at(place)
    share = c.completions // c.config.run_hardware.devices_per_run
    return f"recipe.mini_batches={math.gcd(share, c.config.recipe.mini_batches)}"


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


def memories_that_work(table: Candidates, place: Place) -> tuple[str, ...]:
    """What the candidate's smallest micro-batch fits in: another layout, if one is found, and a
    device of so much memory, in whole GB."""
    config = table.config
    usable = min(1 - config.hardware.memory_reserve, MAX_VLLM_SHARE)
    needed = table.at(place).memory_bytes / usable
    larger = f"hardware.memory_gb={math.ceil(needed / 1e9)}"
    layout = roomier(config, table.at(place).completions)
    return (" ".join(as_typed(layout)), larger) if layout else (larger,)


def _memory_that_works(table: Candidates, place: Place) -> str:
    return ", or ".join(memories_that_work(table, place))


def _off_budget(c: Candidate) -> str:
    return (
        f"T = {c.num_steps} spends {c.spent:.4g}, {c.deviation:.1%} off {c.budget:.4g}; "
        f"allowed {c.config.grid.tolerance:.1%}"
    )


def _tolerance_that_suffices(c: Candidate) -> str:
    return f"grid.tolerance={math.ceil(c.deviation * 1e3) / 1e3:g}"


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


def _enough_problems(table: Candidates, place: Place) -> str:
    batch, task = table.at(place).problems_per_batch, table.config.task
    problems = math.ceil(task.num_train_problems * batch / task.epoch_draws)
    # Those of a mixture's parts are rounded.
    while replace(task, num_train_problems=problems).epoch_draws < batch:
        problems += 1
    return f"task.num_train_problems={problems}"


def budget_that_works(table: Candidates, place: Place) -> str:
    """The nearest budget with which this pair of n and B keeps all rules about numbers of steps.

    Where the rules leave no number of steps, with the limits that have to be raised for it.
    """
    limits = [rule.steps for rule in RULES if rule.steps is not None]
    updates = table.config.recipe.updates_per_generation
    least = max(whole_generations(limit.least(table, place), updates) for limit in limits)
    most = min(limit.most(table, place) for limit in limits)
    allowed = int(min(int(table.steps[place.i, place.j, 0]), most))
    steps = max(allowed // updates * updates, least)
    raised = [limit for limit in limits if steps > limit.most(table, place)]
    return " ".join(
        [
            f"budget={_budget_for(steps, table, place)}",
            *(limit.allowing(table, place, steps) for limit in raised),
        ]
    )


def _budget_for(steps: int, table: Candidates, place: Place) -> str:
    """The budget that `steps` of this pair of n and B spend, in the fewest digits that buy them."""
    exact = table.budget_at(place, steps)
    texts = (f"{exact:.{digits}g}" for digits in range(4, 17))
    bought = table.steps_to(place, exact)
    return next((t for t in texts if table.steps_to(place, float(t)) == bought), repr(exact))


def _another_budget(table: Candidates, place: Place, otherwise: str) -> str:
    return f"{budget_that_works(table, place)}, or {otherwise}"


RULES: tuple[Rule, ...] = (
    Rule(
        setting="grid.max_completions_per_step",
        broken=lambda t: (t.completions > t.config.grid.max_completions_per_step)[..., None],
        reason=lambda c: f"{c.product} exceeds {c.config.grid.max_completions_per_step}",
        remedy=lambda t, at: f"grid.max_completions_per_step={t.at(at).completions}",
    ),
    Rule(
        setting="task.num_train_problems",
        broken=lambda t: t.config.task.epoch_draws < t.problems_per_batch[None, :, None],
        reason=lambda c: (
            f"B = {c.problems_per_batch} exceeds the "
            f"{_passed_over(c.config.task, 'training problems')}"
        ),
        remedy=_enough_problems,
    ),
    Rule(
        setting="recipe.mini_batches",
        broken=_cut_unevenly,
        reason=_uncut,
        remedy=_even_parts,
        distance=lambda t: -t.completions[..., None],
    ),
    Rule(
        setting="recipe.micro_batch",
        broken=lambda t: ~t.divisible[..., None],
        reason=_uneven,
        remedy=_even_share,
    ),
    Rule(
        setting="hardware.memory_gb",
        broken=lambda t: (t.divisible & (t.memory.micro_batch == 0))[..., None],
        reason=_out_of_memory,
        remedy=_memory_that_works,
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
        remedy=lambda t, at: "evaluation.batch_size=null",
    ),
    Rule(
        setting="grid.min_steps",
        broken=lambda t: t.steps < t.config.grid.min_steps,
        reason=lambda c: f"T = {c.num_steps} is below {c.config.grid.min_steps}",
        remedy=lambda t, at: _another_budget(t, at, f"grid.min_steps={t.at(at).num_steps}"),
        distance=lambda t: -t.steps,
        steps=StepLimits(
            least=lambda t, at: t.config.grid.min_steps,
            allowing=lambda t, at, steps: f"grid.min_steps={steps}",
        ),
    ),
    Rule(
        setting="grid.max_steps",
        broken=lambda t: t.steps > t.config.grid.max_steps,
        reason=lambda c: f"T = {c.num_steps} exceeds {c.config.grid.max_steps}",
        remedy=lambda t, at: _another_budget(t, at, f"grid.max_steps={t.at(at).num_steps}"),
        distance=lambda t: t.steps,
        steps=StepLimits(
            most=lambda t, at: t.config.grid.max_steps,
            allowing=lambda t, at, steps: f"grid.max_steps={steps}",
        ),
    ),
    Rule(
        setting="grid.tolerance",
        broken=lambda t: np.abs(t.spent - t.budgets) > t.config.grid.tolerance * t.budgets,
        reason=_off_budget,
        remedy=lambda t, at: _another_budget(t, at, _tolerance_that_suffices(t.at(at))),
        distance=lambda t: np.abs(t.spent / t.budgets - 1),
        # From so many steps on, rounding to whole generations stays within the tolerance.
        steps=StepLimits(
            least=lambda t, at: math.ceil(
                0.5 * t.config.recipe.updates_per_generation / t.config.grid.tolerance
            ),
            allowing=lambda t, at, steps: f"grid.tolerance={t.config.grid.tolerance}",
        ),
    ),
    Rule(
        setting="grid.max_epochs",
        broken=_passes_too_often,
        reason=_too_many_epochs,
        remedy=lambda t, at: _another_budget(
            t, at, f"grid.max_epochs={math.ceil(t.at(at).epochs)}"
        ),
        distance=lambda t: t.steps * t.problems_per_batch[None, :, None],
        steps=StepLimits(
            most=lambda t, at: most_steps_within(t, at, t.config.grid.max_epochs),
            allowing=lambda t, at, steps: (
                f"grid.max_epochs={math.ceil(t.epochs(at, steps) * 100) / 100:.12g}"
            ),
        ),
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


def nearest(table: Candidates, rule: Rule, where: Any) -> Place:
    """The candidate of the mask `where` (N, M, K) that comes nearest to keeping `rule`."""
    ranked = np.where(where, rule.distance(table), np.inf)
    return Place(*map(int, np.unravel_index(int(np.argmin(ranked)), ranked.shape)))
