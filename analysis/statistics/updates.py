"""What more updates on each rollout save in rollouts, and cost in compute.

After "Compute-Optimal Scaling for Value-Based Deep RL" (arXiv 2508.14881) and "Value-Based Deep RL
Scales Predictably" (2502.04327): the first crossing of a threshold by every run's reward, made
monotone by isotonic regression. U = `num_iterations` x `mini_batches` is the number of updates that
a generation of n x B rollouts serves. A seed's own level is left out, since it draws the same
problems whatever U is. One threshold is taken: half of what the run that gains least has gained, or
up to three quarters where a run has as much by its first record, by luck of an evaluation, say.
One (n, B) has a power of U; one n, of several B or models, the laws of `needs` in all that differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive
from isosweep.analysis.curves import Curve
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.across import (
    MIN_AMOUNTS,
    Across,
    Group,
    Unidentified,
    number_set,
)
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.needs import (
    SIGNS,
    Amount,
    BestBatch,
    Need,
    SumLaw,
    find_best_batch,
    find_need,
    find_sum,
)
from isosweep.evidence import MIN_SEEDS

SETTINGS = ("recipe.num_iterations", "recipe.mini_batches")
_RESIZED = ("recipe.schedule.num_generations", "recipe.schedule.problems_per_batch")
# Of the least gain, until when rollouts are counted: the first that no run has by its first record.
_SHARES = (1 / 2, 2 / 3, 3 / 4)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What it takes to reach one reward."""

    threshold: float
    """The reward."""
    rollouts: Need
    """Rollouts that it takes."""
    compute: Need
    """Compute that it takes, in the budgets' unit."""
    alike: bool | None = None
    """Whether num_iterations and mini_batches may have one factor; null where not both differ, or
    where no power of each is a law."""
    floor: SumLaw | Unidentified | None = None
    """The rollouts as a sum with a least number; null for a law of the updates alone."""
    best_batch: BestBatch | Unidentified | None = None
    """The best B; null where B does not differ."""


@dataclass(frozen=True, kw_only=True)
class UpdatesLaw:
    """Updates to data of one (n, B)."""

    entries: tuple[str, ...]
    """Entries, by updates, ascending."""
    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    updates: tuple[AtLeastOne, ...]
    """Updates with every generation of rollouts, ascending."""
    found: Needs | Unidentified
    """What they save and cost, or why that is not identified."""


@dataclass(frozen=True, kw_only=True)
class JointLaw:
    """Updates, batch and model size to data of one n, at every (entry, B)."""

    entries: tuple[str, ...]
    """Entry of each point."""
    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    updates: tuple[AtLeastOne, ...]
    """Updates with every generation of rollouts, of each point."""
    batches: tuple[AtLeastOne, ...]
    """Problems per batch, B, of each point."""
    parameters: tuple[Positive, ...]
    """Parameters N of the model, of each point."""
    found: Needs | Unidentified
    """What they save and cost, or why that is not identified."""


class Size(NamedTuple):
    """n; the key of a law over all B."""

    num_generations: int


class Varied(NamedTuple):
    """What the variants of a sweep may differ in; sorts by updates."""

    updates: int
    iterations: int
    mini_batches: int
    parameters: float


# Of one (n, B), by seed.
_Runs = dict[int, Curve]


def updates_of(entry: Entry) -> int | None:
    """Updates with every generation, U, by an entry's settings; None where they do not say."""
    iterations, parts = (number_set(entry, name) for name in SETTINGS)
    return None if iterations is None else iterations * (parts or 1)


def _varied(entry: Entry) -> Varied | None:
    updates = updates_of(entry)
    # A batch that a schedule changes has no one size to count rollouts by.
    if updates is None or any(name.startswith(_RESIZED) for name in entry.settings):
        return None
    iterations = number_set(entry, SETTINGS[0]) or 1
    return Varied(updates, iterations, updates // iterations, entry.parameters or 0.0)


def _curves(entry: Entry, _: Varied) -> dict[Pair, _Runs]:
    """Curves with records, by (n, B) and seed."""
    found: dict[Pair, _Runs] = {}
    for curve in entry.data.curves:
        if curve.steps.size:
            found.setdefault(Pair.of(curve.run), {})[curve.run.seed] = curve.until_collapse()
    return found


def _by_size(entry: Entry, varied: Varied) -> dict[Size, dict[int, _Runs]]:
    """Curves with records, by n, B and seed."""
    found: dict[Size, dict[int, _Runs]] = {}
    for pair, runs in _curves(entry, varied).items():
        found.setdefault(Size(pair.num_generations), {})[pair.problems_per_batch] = runs
    return found


def _law(group: Group[Pair, Varied, _Runs]) -> UpdatesLaw | None:
    amounts = _differing(group.amounts)
    if len(set(amounts.get("updates", ()))) < MIN_AMOUNTS:
        return None
    return UpdatesLaw(
        **group.labels,
        updates=tuple(varied.updates for varied in group.amounts),
        found=find_needs(amounts, group.seen, group.margin, group.confidence),
    )


def _joint(group: Group[Size, Varied, dict[int, _Runs]]) -> JointLaw | None:
    points = [
        (name, varied, batch, of[batch])
        for name, varied, of in zip(group.entries, group.amounts, group.seen, strict=True)
        for batch in sorted(of)
    ]
    varied = [at for _, at, _, _ in points]
    amounts = _differing(varied, batch=[float(batch) for _, _, batch, _ in points])
    if len(amounts.keys() & SIGNS.keys()) < 2:
        return None
    return JointLaw(
        num_generations=group.key.num_generations,
        entries=tuple(name for name, _, _, _ in points),
        updates=tuple(at.updates for at in varied),
        batches=tuple(batch for _, _, batch, _ in points),
        parameters=tuple(at.parameters for at in varied),
        found=find_needs(amounts, [of for *_, of in points], group.margin, group.confidence),
    )


def _differing(
    varied: Sequence[Varied], **further: Sequence[float]
) -> dict[Amount, Sequence[float]]:
    """The amounts that differ, each (points,)."""
    names: tuple[Amount, ...] = ("updates", "batch", "parameters", "iterations", "mini_batches")
    columns = {name: [float(at[k]) for at in varied] for k, name in enumerate(Varied._fields)}
    known = {**columns, **further}
    return {name: known[name] for name in names if len(set(known.get(name, ()))) > 1}


UPDATES = Across(varied=SETTINGS, amount=_varied, read=_curves, fit=_law)
# Of a model whose size is not known nothing says whether another is larger.
JOINT = Across(
    varied=("model.", *SETTINGS),
    amount=lambda entry: _varied(entry) if entry.parameters else None,
    read=_by_size,
    fit=_joint,
    least=2,
)


def find_needs(
    amounts: Mapping[Amount, Sequence[float]],
    runs: Sequence[Mapping[int, Curve]],
    margin: float,
    confidence: float,
) -> Needs | Unidentified:
    """What it takes, of curves (points,) by seed, with `amounts` (points,); or why there is no law.

    `iterations` and `mini_batches` are not of the law, but set against each other.
    """
    seeds = sorted(set.intersection(*(set(of) for of in runs)))
    if len(seeds) < MIN_SEEDS:
        return Unidentified(kind="few seeds", found=len(seeds), least=MIN_SEEDS)
    curves = [
        (of[seed], np.asarray(isotonic_regression(of[seed].reward).x))
        for of in runs
        for seed in seeds
    ]
    least = min(float(rewards[-1]) for _, rewards in curves)
    base = _base(amounts.get("parameters", [0.0] * len(runs)), curves, len(seeds))
    if least - base <= 2 * margin:
        return Unidentified(kind="little gain", found=max(0.0, least - base), least=2 * margin)
    threshold = next(
        (
            reward
            for share in _SHARES
            for reward in [base + share * (least - base)]
            if all(_crossing(_rollouts(curve), rewards, reward) for curve, rewards in curves)
        ),
        None,
    )
    if threshold is None:
        return Unidentified(kind="at once")
    rollouts, compute = (
        np.array(
            [_crossing(spent(curve), rewards, threshold) for curve, rewards in curves]
        ).reshape(-1, len(seeds))
        for spent in (_rollouts, lambda curve: curve.compute)
    )
    logs = {name: np.log2(values) for name, values in amounts.items()}
    of_law = {name: of for name, of in logs.items() if name in SIGNS}
    floor = find_sum(of_law, rollouts, confidence) if len(of_law) > 1 else None
    alike = _alike(logs, rollouts, confidence)
    # Where the sum is the law, or each setting has a power of its own, powers are mean slopes.
    bent = isinstance(floor, SumLaw) or alike is not None
    of_rollouts, of_compute = (
        find_need(of_law, needed, confidence, bent=bent) for needed in (rollouts, compute)
    )
    if isinstance(of_rollouts, Unidentified):
        return of_rollouts
    if isinstance(of_compute, Unidentified):
        return of_compute
    if alike is not None:
        of_rollouts, of_compute = (
            replace(need, by_setting=_of_settings(logs, needed, confidence))
            for need, needed in ((of_rollouts, rollouts), (of_compute, compute))
        )
    return Needs(
        threshold=threshold,
        rollouts=of_rollouts,
        compute=of_compute,
        alike=alike,
        floor=floor,
        best_batch=find_best_batch(of_law, rollouts, confidence) if "batch" in of_law else None,
    )


_BOTH: tuple[Amount, ...] = ("iterations", "mini_batches")


def _alike(logs: Mapping[Amount, FloatArray], needed: FloatArray, confidence: float) -> bool | None:
    """Whether the settings that make updates may have one power; None where not both differ, or
    where no power of each is a law."""
    if not logs.keys() >= {*_BOTH}:
        return None
    # Beside the updates, mini_batches have the difference of the two as their power.
    beside = find_need(
        {name: of for name, of in logs.items() if name != "iterations"}, needed, confidence
    )
    if isinstance(beside, Unidentified):
        return None
    differ = beside.factors["mini_batches"]
    return differ.low <= 1 <= differ.high


def _of_settings(
    logs: Mapping[Amount, FloatArray], needed: FloatArray, confidence: float
) -> dict[Amount, Interval]:
    rest: dict[Amount, FloatArray] = {name: of for name, of in logs.items() if name != "updates"}
    need = find_need(rest, needed, confidence, bent=True)
    return {name: need.factors[name] for name in _BOTH} if isinstance(need, Need) else {}


def _base(models: Sequence[float], curves: Sequence[tuple[Curve, FloatArray]], seeds: int) -> float:
    """Reward before training, of the model whose is highest."""
    first = np.array([rewards[0] for _, rewards in curves]).reshape(-1, seeds).mean(axis=1)
    of = np.array(models)
    return max(float(first[of == model].mean()) for model in set(models))


def _rollouts(curve: Curve) -> FloatArray:
    completions = curve.run.num_generations * curve.run.problems_per_batch
    return np.asarray(completions * curve.generations.astype(float))


def _crossing(spent: FloatArray, rewards: FloatArray, threshold: float) -> float:
    """What was spent when rewards that do not fall first reached the threshold; 0 where that was
    by the first record after step 0, between which and the start nothing is known."""
    after = int(np.argmax(rewards >= threshold))
    if after <= 1:
        return 0.0
    way = (threshold - rewards[after - 1]) / (rewards[after] - rewards[after - 1])
    return float(spent[after - 1] + way * (spent[after] - spent[after - 1]))
