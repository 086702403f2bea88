"""The figure of the best B against compute, of sweeps that fix n x B."""

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.canvas import (
    NO_BUDGET,
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    compute_words,
)
from isosweep.analysis.figures.colors import sequential
from isosweep.analysis.statistics.best_batch import BatchLaw
from isosweep.analysis.statistics.findings import Findings


def best_batch_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """B* against compute, for every n x B of a sweep that fixes it."""
    laws = findings.batch_laws
    if not laws:
        return LeftOut(reason="it takes three n or more at every n x B")
    if not any(law.optima for law in laws):
        return NO_BUDGET

    def draw(canvas: Canvas) -> None:
        canvas.budgets(data)
        canvas.doublings("y", "problems per batch, B", data.batches)
        for i, (law, color) in enumerate(zip(laws, sequential(len(laws)), strict=True)):
            # Products lie side by side, so that their intervals do not hide each other.
            _draw_law(canvas, data, law, color, 1.04 ** (i - (len(laws) - 1) / 2))

    what = (
        "Dots: the B with the best measured mean."
        if findings.surface is None
        else "Dots and bars: B*(C) = (n x B) / n*(C), median and "
        f"{findings.frontier.confidence:.0%} interval; a triangle at an end says that B* may lie "
        "beyond the grid."
    )
    return Figure(
        title="Best B against compute at equal n x B",
        caption=what + ("" if len(laws) == 1 else " Shifted sideways a little."),
        draw=(draw,),
    )


def _draw_law(canvas: Canvas, data: SweepData, law: BatchLaw, color: str, shift: float) -> None:
    """The best B of one n x B, and triangles at the open ends of its intervals."""
    name = f"n x B = {law.completions_per_step}"
    dots = []
    for at in law.optima:
        x, tip = at.budget * shift, f"{name} at {compute_words(data, at.budget)}\nB* {at}"
        dots.append((x, at.best if at.interval is None else at.interval.median, tip))
        if at.interval is None:
            continue
        canvas.bar(x, (at.interval.low, at.interval.high), color, tip=tip)
        if at.interval.open_below:
            canvas.marks([(x, at.interval.low, tip)], color, "v", size=7, hollow=True)
        if at.interval.open_above:
            canvas.marks([(x, at.interval.high, tip)], color, "^", size=7, hollow=True)
    canvas.marks(dots, color, label=name)


FIGURES = (ReportFigure(name="best_batch", section="Best n", describe=best_batch_figure),)
