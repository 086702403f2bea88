"""What a plan warns of, as numbers: cells read too soon, training problems seen very often, and
rates beyond what is published for such old rollouts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from isosweep.config.model import BUILTIN_MODEL
from isosweep.plan.candidates import Candidates
from isosweep.plan.spec import resolve_learning_rate

# DAPO (arXiv 2503.14476, section 4.1): a rate of 1e-6 with 16 updates for each generation, the
# largest product of rate and staleness that is known to us to have trained stably. ScaleRL's is
# 4.5e-6 (arXiv 2510.13786, A.3: 5e-7 with 8 steps off-policy). The largest stable rate falls as
# 1 / staleness where staleness is what limits it (arXiv 2607.01083).
RATE_TIMES_STALENESS = 16e-6

# In pre-training, data repeated beyond about 16 times add little (arXiv 2305.16264, section 5).
# For RL no such number is published: ScaleRL (arXiv 2510.13786) went on for tens of passes, by
# 1,500 of its 100,000 device-hours a pass, on problems far more varied than most.
WARN_EPOCHS = 16

# The rates of w updates of warm-up lack (w - 1) / 2 full ones: a sixth of three times as many.
WARM_UPS = 3


@dataclass(frozen=True, kw_only=True)
class Caution:
    """Cells whose `value` is beyond a `limit`, and the worst of them.

    | kind | value | limit |
    |---|---|---|
    | short_of_warmup | T, updates | three warm-ups |
    | repeated | passes over the training problems, at the largest budget | `WARN_EPOCHS` |
    | stale | learning rate | the largest published one for rollouts as old |

    `axes`: those of the worst of so many `combinations` of `grid.axes` that have such cells;
    `cells`: how many of its `of_cells` are such; `mends`: settings, as typed, without such cells.
    """

    kind: Literal["short_of_warmup", "repeated", "stale"]
    axes: dict[str, Any]
    cells: int
    of_cells: int
    num_generations: int
    problems_per_batch: int
    budget: float
    value: float
    limit: float
    mends: str
    combinations: int = 1

    @property
    def excess(self) -> float:
        """Times that the value is beyond its limit."""
        return max(self.value / self.limit, self.limit / self.value)


def cautions(tables: Iterable[Candidates]) -> tuple[Caution, ...]:
    """What the plan of these candidates warns of, of each kind the worst."""
    found: dict[str, list[Caution]] = {}
    for table in tables:
        for each in _of_variant(table):
            found.setdefault(each.kind, []).append(each)
    worst = (max(each, key=lambda caution: caution.excess) for each in found.values())
    return tuple(replace(each, combinations=len(found[each.kind])) for each in worst)


def _of_variant(table: Candidates) -> Iterator[Caution]:
    config, recipe, feasible = table.config, table.config.recipe, table.feasible
    rates = np.broadcast_to(
        resolve_learning_rate(recipe, table.completions)[..., None], feasible.shape
    )
    last = np.arange(feasible.shape[-1]) == feasible.shape[-1] - 1
    enough, stable = WARM_UPS * recipe.warmup_steps, RATE_TIMES_STALENESS / recipe.staleness
    # The built-in task is small: its sweeps pass over few problems on purpose.
    pretrained = config.model.source != BUILTIN_MODEL
    old = pretrained and recipe.staleness > 1 and recipe.lora_rank is None
    kinds: tuple[tuple[Any, Any, float, Any], ...] = (
        ("short_of_warmup", table.steps, enough, feasible & (table.steps < enough)),
        ("repeated", table.epochs, WARN_EPOCHS, pretrained & last & (table.epochs > WARN_EPOCHS)),
        # In floats 16e-6 / 16 is not quite 1e-6.
        ("stale", rates, stable, old & (rates > stable * (1 + 1e-9))),
    )
    for kind, values, limit, beyond in kinds:
        beyond, among = feasible & beyond, feasible & (last | (kind != "repeated"))
        if not beyond.any():
            continue
        worst = np.argmax(np.where(beyond, np.abs(np.log(values / limit)), -1))
        i, j, k = np.unravel_index(worst, values.shape)
        value = values[i, j, k].item()
        mends = {
            "short_of_warmup": f"recipe.warmup_steps={value // WARM_UPS:g} or "
            f"grid.min_steps={enough}",
            "repeated": f"grid.max_epochs={WARN_EPOCHS}",
            "stale": f"recipe.learning_rate={recipe.learning_rate * limit / value:g}",
        }
        yield Caution(
            kind=kind,
            axes=table.variant.axes,
            cells=int(beyond.sum()) * len(config.grid.seeds),
            of_cells=int(among.sum()) * len(config.grid.seeds),
            num_generations=int(table.num_generations[i]),
            problems_per_batch=int(table.problems_per_batch[j]),
            budget=float(table.budgets[k]),
            value=value,
            limit=limit,
            mends=mends[kind],
        )
