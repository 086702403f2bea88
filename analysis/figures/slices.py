"""Figures of reward over n, and over n and B, at equal compute."""

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.style import (
    INK,
    NO_BUDGET,
    SCALE,
    Figure,
    LeftOut,
    choice_words,
    doublings_axis,
    evenly_chosen,
    finish,
    marks,
    panels,
    reward_label,
    sequential,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.best_n import BudgetFrontier
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import central_quantiles
from isosweep.analysis.statistics.surface import Surface
from isosweep.words.numbers import amount

# More slices than bands that can be distinguished.
_MOST_SLICES = 6


def slices_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against n with the compute held fixed, for up to six budgets."""
    usable = [(i, at) for i, at in enumerate(findings.frontier.budgets) if len(at.choices) > 1]
    if not usable:
        return LeftOut(reason="it takes two n measured at one budget")
    chosen = evenly_chosen(usable, _MOST_SLICES)
    surface, confidence = findings.surface, findings.frontier.confidence
    (axes,) = panels()
    doublings_axis(axes, "x", "rollouts per problem, n", data.generations)
    axes.set_ylabel(reward_label(data))
    for (i, at), color in zip(chosen, sequential(len(chosen)), strict=True):
        n = [choice.num_generations for choice in at.choices]
        means = [choice.cell.mean for choice in at.choices]
        tips = [choice_words(data, at.budget, choice) for choice in at.choices]
        marks(axes, zip(n, means, tips, strict=True), color)
        x, middle = np.array(n, dtype=float), np.array(means)
        if surface is not None:
            x, middle, low, high = _slice(surface, i, at, confidence)
            axes.fill_between(x, low, high, color=color, alpha=0.15, lw=0)
        axes.plot(x, middle, color=color, lw=1.6, label=amount(at.budget, data.plan.budget_unit))
    what = (
        "Lines join measured means, for without a spread between seeds there is no reward surface."
        if surface is None
        else "Lines and bands: the reward surface at each n's best B, with "
        f"{confidence:.0%} intervals. Dots: measured means over seeds."
    )
    some = f" {len(chosen)} of {len(usable)} budgets." if len(chosen) < len(usable) else ""
    return finish(axes, "Reward against n at equal compute", what + some)


def _slice(
    surface: Surface, place: int, at: BudgetFrontier, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """n, mean, and ends of the interval along log2 n, between n measured at this budget."""
    supported = surface.supported[place]
    inside = np.flatnonzero(supported.any(axis=1))
    draws = surface.draws[:, place, inside]  # (draws, log2 n, batches)
    best = np.where(supported[inside], draws.mean(axis=0), -np.inf).argmax(axis=1)
    rewards = np.take_along_axis(draws, best[None, :, None], axis=2)[..., 0]
    _, low, high = central_quantiles(rewards, confidence)
    return 2.0 ** surface.log2_n[inside], rewards.mean(axis=0), low, high


def heat_map_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Mean reward of every (n, B) at the largest budget that some run has reached."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    if len(data.generations) == 1 or len(data.batches) == 1:
        return LeftOut(reason="it takes several n and several B")
    at = findings.frontier.budgets[-1]
    means = {Pair.of(cell): cell.mean for cell in at.cells}
    rejected = {Pair.of(each) for each in data.plan.rejected if each.budget == at.budget}
    fell: dict[Pair, list[float]] = {}
    for read in data.readings:
        if read.fallen is not None and read.cell.budget == at.budget:
            fell.setdefault(Pair.of(read.cell), []).append(read.fallen)
    generations = sorted({*data.generations, *(n for n, _ in rejected)})
    batches = sorted({*data.batches, *(B for _, B in rejected)})
    low, high = min(means.values()), max(means.values())
    (axes,) = panels()
    axes.grid(visible=False)
    shares = np.full((len(generations), len(batches)), np.nan)
    for row, n in enumerate(generations):
        for column, B in enumerate(batches):
            pair, letters = Pair(n, B), INK
            text = "R" if pair in rejected else "–"
            if pair in means:
                share = (means[pair] - low) / ((high - low) or 1.0)
                shares[row, column], text = share, f"{means[pair]:.3f}"
                # White letters stand out from the darker 3 of 5 colours, ink from the others.
                letters = "white" if share < 0.6 else INK
            elif pair in fell:
                text = f"fell to\n{np.mean(fell[pair]):.3f}"
            axes.text(column, row, text, color=letters, ha="center", va="center", fontsize=9)
    edges = (np.arange(len(each) + 1) - 0.5 for each in (batches, generations))
    axes.pcolormesh(*edges, np.ma.masked_invalid(shares), cmap="viridis", vmin=0, vmax=1 / SCALE[1])
    axes.set_xticks(range(len(batches)), [str(B) for B in batches])
    axes.set_yticks(range(len(generations)), [str(n) for n in generations])
    axes.set_xlabel("problems per batch, B")
    axes.set_ylabel("rollouts per problem, n")
    return finish(
        axes,
        f"Mean reward at {amount(at.budget, data.plan.budget_unit)}",
        "Mean over the seeds of every (n, B) that keep their gain; where all of them fell, what "
        "they were left with. R: rejected by the plan; –: no run has come that far.",
    )
