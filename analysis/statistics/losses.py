"""What each n costs against the best one: by draws of the surface, and by what was measured."""

import math

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.surface import Surface


def worst_losses(frontier: Frontier, surface: Surface) -> FloatArray:
    """What each n of the grid costs at the worst of the budgets from its first one on: (draws, n).

    An n that was run at smaller budgets alone may cost at a larger one what the surface leaves
    open there: that nobody looked does not make it harmless.
    """
    grid = frontier.measured
    columns = [surface.column(n) for n in grid]
    batches = surface.supported[:, columns].any(axis=0)
    unseen = np.where(batches, surface.draws[:, :, columns], -np.inf).max(axis=3)
    seen = surface.by_n[:, :, columns]
    worst, begun = np.zeros((len(surface.draws), len(grid))), np.zeros(len(grid), dtype=bool)
    for k, at in enumerate(frontier.budgets):
        measured = np.isin(grid, at.measured)
        begun |= measured
        rewards = np.where(measured, seen[:, k], unseen[:, k])[:, begun]
        lost = rewards.max(axis=1, keepdims=True) - rewards
        worst[:, begun] = np.maximum(worst[:, begun], lost)
    return worst


def harmless(frontier: Frontier, worst: FloatArray, margin: float) -> tuple[int, ...]:
    """The n measured at every budget that surely cost no more than the margin at any."""
    everywhere = set.intersection(*(set(at.measured) for at in frontier.budgets))
    sure = (worst <= margin).mean(axis=0) >= frontier.confidence
    sure &= np.array([measured_loss(frontier, n) <= margin for n in frontier.measured])
    grid = frontier.measured
    return tuple(n for n, safe in zip(grid, sure, strict=True) if safe and n in everywhere)


def measured_loss(frontier: Frontier, n: int) -> float:
    """What n loses against the best measured mean, on average over the budgets that have it.

    Where noise is large the surface is flat by its prior: what was measured has to agree.
    """
    lost = []
    for at in frontier.budgets:
        mean = {choice.num_generations: choice.cell.mean for choice in at.choices}
        if n in mean:
            lost.append(max(mean.values()) - mean[n])
    return math.fsum(lost) / len(lost)
