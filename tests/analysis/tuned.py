"""Cells of tuned settings with planted rewards."""

from collections.abc import Callable, Sequence

import numpy as np

from isosweep.analysis.pairs import Pair
from isosweep.analysis.tuned import Scale, TunedCell
from isosweep.config.analysis import AnalysisConfig
from isosweep.search.trials import Grid, Seen, Trained

RATE = "recipe.learning_rate"
RATES = Scale(setting=RATE, values=tuple(1e-4 * 2.0**k for k in range(8)))
BUDGETS = (1.0, 2.0, 4.0, 8.0)
ANALYSIS = AnalysisConfig(name="default", decades=0.0)
# Reward by log2 of the first value over the smallest, place of the second, place of the budget.
RewardOf = Callable[[float, int, int], float]


def grid_of(*scales: Scale, seeds: int = 3) -> Grid:
    places = [scale.places for scale in scales]
    batches = places[1] if len(places) > 1 else (1,)
    return Grid(generations=places[0], batches=batches, seeds=tuple(range(seeds)), budgets=BUDGETS)


def all_runs(
    grid: Grid, reward: RewardOf, *, noise: float = 0.01, seed: int = 0
) -> dict[str, Trained]:
    """Every run to the end; its luck is one offset and a smaller part at each budget."""
    rng = np.random.default_rng(seed)
    runs = {}
    for name, key in grid.runs.items():
        luck = noise * rng.standard_normal()
        doublings = float(np.log2(key.n / grid.generations[0]))
        rewards = {
            k: reward(doublings, grid.batches.index(key.B), k)
            + luck
            + 0.3 * noise * float(rng.standard_normal())
            for k in range(len(BUDGETS))
        }
        runs[name] = Trained(rewards=rewards)
    return runs


def cell_of(
    pair: tuple[int, int],
    reward: RewardOf,
    *scales: Scale,
    noise: float = 0.01,
    seeds: int = 3,
    seed: int = 0,
) -> TunedCell:
    """A cell of which every run was trained to the end."""
    used: Sequence[Scale] = scales or (RATES,)
    grid = grid_of(*used, seeds=seeds)
    seen = Seen(grid=grid, runs=all_runs(grid, reward, noise=noise, seed=seed))
    return TunedCell(cell=Pair(*pair), scales=tuple(used), data=seen.data)


def peak(at: float, width: float = 0.02) -> RewardOf:
    """A parabola over doublings that rises with compute."""
    return lambda x, second, k: 0.4 + 0.05 * k - width * (x - at) ** 2
