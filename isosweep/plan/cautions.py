"""What a plan warns of, as numbers: cells read too soon, and settings that models ship in vain."""

from collections.abc import Iterable, Iterator

import numpy as np

from isosweep.config.sweep import SweepConfig
from isosweep.models.weights import shipped_sampling
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.document import ShippedSampling, ShortOfWarmup

# The rates of w updates of warm-up lack (w - 1) / 2 full ones: a sixth of three times as many.
WARM_UPS = 3


def short_of_warmup(tables: Iterable[Candidates]) -> Iterator[ShortOfWarmup]:
    """Of each variant, the cells whose T is below WARM_UPS warm-ups, if there are any."""
    for table in tables:
        config = table.config
        short = table.feasible & (table.steps < WARM_UPS * config.recipe.warmup_steps)
        if not short.any():
            continue
        first = int(np.argmin(np.where(short, table.steps, np.iinfo(np.int64).max)))
        shortest = table.at(Place(*map(int, np.unravel_index(first, short.shape))))
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


def shipped_by_models(configs: Iterable[SweepConfig]) -> Iterator[ShippedSampling]:
    """What each model of `configs` ships of sampling settings, if this machine has the model."""
    for model in {config.model.name: config.model for config in configs}.values():
        if settings := shipped_sampling(model):
            yield ShippedSampling(model=model.name, settings=settings)
