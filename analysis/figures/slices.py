"""Figures of reward over n, and over n and B, at equal compute."""

from functools import partial

import numpy as np

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.canvas import (
    NO_BUDGET,
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    choice_words,
    compute_words,
    evenly_chosen,
)
from isosweep.analysis.figures.colors import (
    GROUND,
    INK,
    ON_BRIGHT,
    SCALE,
    contrast,
    sequential,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.best_n import BudgetFrontier
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import central_quantiles
from isosweep.analysis.statistics.surface import Surface

# More slices than bands that can be distinguished.
_MOST_SLICES = 6


def slices_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against n with the compute held fixed, for up to six budgets."""
    usable = [(i, at) for i, at in enumerate(findings.frontier.budgets) if len(at.choices) > 1]
    if not usable:
        return LeftOut(reason="it takes two n measured at one budget")
    chosen = evenly_chosen(usable, _MOST_SLICES)
    surface, confidence = findings.surface, findings.frontier.confidence

    def draw(canvas: Canvas) -> None:
        canvas.generations("x", data.generations)
        canvas.reward(data)
        for (i, at), color in zip(chosen, sequential(len(chosen)), strict=True):
            n = tuple(float(choice.num_generations) for choice in at.choices)
            middle = tuple(choice.cell.mean for choice in at.choices)
            tips = [choice_words(data, at.budget, choice) for choice in at.choices]
            canvas.marks(zip(n, middle, tips, strict=True), color)
            if surface is not None:
                n, middle, low, high = _slice(surface, i, at, confidence)
                canvas.band(n, low, high, color)
            canvas.line(n, middle, color, label=compute_words(data, at.budget))

    what = (
        "Lines join measured means, for without a spread between seeds there is no reward surface."
        if surface is None
        else "Lines and bands: the reward surface at each n's best B, with "
        f"{confidence:.0%} intervals. Dots: measured means over seeds."
    )
    if len(chosen) < len(usable):
        what += f" {len(chosen)} of {len(usable)} budgets."
    return Figure(title="Reward against n at equal compute", caption=what, draw=(draw,))


def _slice(
    surface: Surface, place: int, at: BudgetFrontier, confidence: float
) -> tuple[tuple[float, ...], ...]:
    """n, mean, and ends of the interval along log2 n, between n measured at this budget."""
    supported = surface.supported[place]
    inside = np.flatnonzero(supported.any(axis=1))
    draws = surface.draws[:, place, inside]  # (draws, log2 n, batches)
    best = np.where(supported[inside], draws.mean(axis=0), -np.inf).argmax(axis=1)
    rewards = np.take_along_axis(draws, best[None, :, None], axis=2)[..., 0]
    _, low, high = central_quantiles(rewards, confidence)
    columns = (2.0 ** surface.log2_n[inside], rewards.mean(axis=0), low, high)
    return tuple(tuple(column.tolist()) for column in columns)


def heat_map_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Mean reward of every (n, B) at the largest budget that some run has reached."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    if len(data.generations) == 1 or len(data.batches) == 1:
        return LeftOut(reason="it takes several n and several B")
    at = findings.frontier.budgets[-1]
    means = {Pair.of(cell): cell.mean for cell in at.cells}
    rejected = {Pair.of(r) for r in data.plan.rejected if r.budget == at.budget}
    fell = _left_with(data, at.budget)
    generations = sorted({*data.generations, *(n for n, _ in rejected)})
    batches = sorted({*data.batches, *(B for _, B in rejected)})
    low, high = min(means.values()), max(means.values())

    def text(pair: Pair) -> str:
        if pair in means:
            return f"{means[pair]:.3f}"
        if pair in fell:
            return f"fell to\n{fell[pair]:.3f}"
        return "R" if pair in rejected else "–"

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes
        axes.grid(visible=False)
        axes.set_xlim(-0.5, len(batches) - 0.5)
        axes.set_ylim(-0.5, len(generations) - 0.5)
        axes.set_xticks(range(len(batches)), [str(B) for B in batches])
        axes.set_yticks(range(len(generations)), [str(n) for n in generations])
        axes.set_xlabel("problems per batch, B")
        axes.set_ylabel("rollouts per problem, n")
        for row, n in enumerate(generations):
            for column, B in enumerate(batches):
                pair, color, letters = Pair(n, B), None, INK
                if pair in means:
                    share = (means[pair] - low) / ((high - low) or 1.0)
                    color = SCALE[round(share * (len(SCALE) - 1))]
                    letters = max((GROUND, ON_BRIGHT), key=partial(contrast, color))
                canvas.box(column, row, color, letters, text(pair))

    return Figure(
        title=f"Mean reward at {compute_words(data, at.budget)}",
        caption="Mean over the seeds of every (n, B) that keep their gain; where all of them fell, "
        "what they were left with. R: rejected by the plan; –: no run has come that far.",
        draw=(draw,),
    )


def _left_with(data: SweepData, budget: float) -> dict[Pair, float]:
    """Mean reward of the runs of every (n, B) that had fallen by `budget`."""
    left: dict[Pair, list[float]] = {}
    for reading in data.readings:
        if reading.fallen is not None and reading.cell.budget == budget:
            left.setdefault(Pair.of(reading.cell), []).append(reading.fallen)
    return {pair: float(np.mean(rewards)) for pair, rewards in left.items()}


FIGURES = (
    ReportFigure(name="slices", section="Best n", describe=slices_figure),
    ReportFigure(name="heat_map", section="Best n", describe=heat_map_figure),
)
