"""Effects of updates, batch and model size on what entries of a comparison need, and on n*, as one
table: for `effects.csv`, and for the frame in Python."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from isosweep.analysis.columns import Columns, Table, label, number
from isosweep.analysis.statistics.across import Parameter
from isosweep.analysis.statistics.compare import Comparison
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.moves import Shift
from isosweep.analysis.statistics.needs import Amount, BestBatch, SumLaw
from isosweep.analysis.statistics.updates import JointLaw, Needs, UpdatesLaw

Quantity = Literal[
    "rollouts", "compute", "exponent", "least_rollouts", "best_batch", "n_star", "n_d"
]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What every doubling of `amount` multiplies a quantity by; of `exponent`, the exponent of the
    sum, and without an amount, the value. Null: not known, or an open end."""

    quantity: Quantity
    amount: Amount | None
    value: float | None
    low: float | None
    high: float | None
    num_generations: float | None = None
    problems_per_batch: float | None = None
    budget: float | None = None
    reward: float | None = None


EFFECTS: Columns = (
    label(
        "quantity",
        "quantity",
        "What changes: rollouts or compute that reach the reward, best_batch, n_star, n_d; "
        "exponent and least_rollouts are parameters of the sum. No unit.",
    ),
    label("amount", "amount", "What is doubled; empty where the row is a value. No unit."),
    number("n", "num_generations", "Rollouts per problem of the law. A count."),
    number("B", "problems_per_batch", "Problems per batch of the law. A count."),
    number("budget", "budget", "Compute budget of n_star and n_d. In budget_unit."),
    number("reward", "reward", "Reward that is to be reached. Reward."),
    number("value", "value", "Factor of every doubling, exponent, rollouts or B."),
    number("low", "low", "Lower end of its interval; missing where it is open."),
    number("high", "high", "Upper end of its interval; missing where it is open."),
)


def effects(comparison: Comparison) -> tuple[Effect, ...]:
    """Of every law over updates that is identified, and of n* and n_d at every budget."""
    rows = [row for of_pair in comparison.updates_laws for row in _of_law(of_pair)]
    rows += [row for joint in comparison.joint_laws for row in _of_law(joint)]
    for law in comparison.moves:
        rows.append(_effect("n_star", law.of, law.best, budget=law.budget))
        rows.append(_effect("n_d", law.of, law.enough, budget=law.budget))
    return tuple(rows)


def effect_table(comparison: Comparison) -> Table[Effect]:
    """The file beside the comparison's page."""
    return Table(name="effects", columns=EFFECTS, rows=effects(comparison))


def _of_law(law: UpdatesLaw | JointLaw) -> Iterator[Effect]:
    if not isinstance(found := law.found, Needs):
        return
    batch = law.problems_per_batch if isinstance(law, UpdatesLaw) else None
    at: dict[str, float | None] = {
        "num_generations": law.num_generations,
        "problems_per_batch": batch,
        "reward": found.threshold,
    }
    best = found.best_batch if isinstance(found.best_batch, BestBatch) else None
    of_all: tuple[tuple[Quantity, Mapping[Amount, Interval | Parameter]], ...] = (
        ("rollouts", {**found.rollouts.factors, **found.rollouts.by_setting}),
        ("compute", {**found.compute.factors, **found.compute.by_setting}),
        ("best_batch", best.factors if best else {}),
        ("exponent", found.floor.exponents if isinstance(found.floor, SumLaw) else {}),
    )
    for quantity, factors in of_all:
        for amount, factor in factors.items():
            yield _effect(quantity, amount, factor, **at)
    if isinstance(found.floor, SumLaw):
        yield _effect("least_rollouts", None, found.floor.floor, **at)
    if best:
        yield _effect("best_batch", None, best.middle, **at)


def _effect(
    quantity: Quantity,
    amount: Amount | None,
    found: Interval | Parameter | Shift,
    **at: float | None,
) -> Effect:
    value = found.median if isinstance(found, Interval) else found.value
    return Effect(
        quantity=quantity, amount=amount, value=value, low=found.low, high=found.high, **at
    )
