"""What a plan warns of, as numbers: cells read too soon, training problems seen very often, and
rates beyond what is published for such old rollouts."""

from collections.abc import Iterable, Iterator

from isosweep.config.model import BUILTIN_MODEL
from isosweep.plan.candidates import Candidates
from isosweep.plan.document import Repeated, ShortOfWarmup, Stale
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


def short_of_warmup(tables: Iterable[Candidates]) -> Iterator[ShortOfWarmup]:
    """Of each variant, the cells whose T is below WARM_UPS warm-ups, if there are any."""
    for table in tables:
        config = table.config
        short = table.feasible & (table.steps < WARM_UPS * config.recipe.warmup_steps)
        if not short.any():
            continue
        shortest = table.at(min(table.places(short), key=lambda place: table.steps[place]))
        yield ShortOfWarmup(
            axes=table.variant.axes,
            warmup_steps=config.recipe.warmup_steps,
            cells=int(short.sum()) * len(config.grid.seeds),
            of_cells=int(table.feasible.sum()) * len(config.grid.seeds),
            num_steps=shortest.num_steps,
            num_generations=shortest.num_generations,
            problems_per_batch=shortest.problems_per_batch,
            budget=shortest.budget,
        )


def repeated(tables: Iterable[Candidates]) -> Iterator[Repeated]:
    """Of each variant, the cells at the largest budget that see the training problems more often
    than WARN_EPOCHS times, if there are any."""
    for table in tables:
        config, last = table.config, len(table.budgets) - 1
        # The built-in task is small: its sweeps pass over few problems on purpose.
        if config.model.source == BUILTIN_MODEL:
            continue
        planned = (place for place in table.places(table.feasible) if place.k == last)
        seen = {place: table.epochs(place, int(table.steps[place])) for place in planned}
        often = {place: passes for place, passes in seen.items() if passes > WARN_EPOCHS}
        if not often:
            continue
        worst = max(often, key=lambda place: often[place])
        name, part = config.task.scarcest
        yield Repeated(
            axes=table.variant.axes,
            budget=float(table.budgets[last]),
            cells=len(often) * len(config.grid.seeds),
            of_cells=len(seen) * len(config.grid.seeds),
            epochs=often[worst],
            num_generations=int(table.num_generations[worst.i]),
            problems_per_batch=int(table.problems_per_batch[worst.j]),
            problems=part.num_train_problems,
            part=name,
        )


def stale(tables: Iterable[Candidates]) -> Iterator[Stale]:
    """Of each variant that trains all weights of a pre-trained model, the cells whose rate is above
    RATE_TIMES_STALENESS / staleness, if there are any; on-policy there are none."""
    for table in tables:
        config, recipe = table.config, table.config.recipe
        if (
            recipe.staleness == 1
            or recipe.lora_rank is not None
            or config.model.source == BUILTIN_MODEL
        ):
            continue
        rates = {
            place: resolve_learning_rate(recipe, int(table.completions[place[:2]]))
            for place in table.places(table.feasible)
        }
        limit = RATE_TIMES_STALENESS / recipe.staleness
        # In floats 16e-6 / 16 is not quite 1e-6.
        above = {place: rate for place, rate in rates.items() if rate > limit * (1 + 1e-9)}
        if not above:
            continue
        worst = max(above, key=lambda place: above[place])
        yield Stale(
            axes=table.variant.axes,
            staleness=recipe.staleness,
            rollout_lag=recipe.rollout_lag,
            cells=len(above) * len(config.grid.seeds),
            of_cells=len(rates) * len(config.grid.seeds),
            learning_rate=above[worst],
            largest=limit,
            mended=recipe.learning_rate * limit / above[worst],
            num_generations=int(table.num_generations[worst.i]),
            problems_per_batch=int(table.problems_per_batch[worst.j]),
        )
