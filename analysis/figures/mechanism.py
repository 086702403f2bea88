"""The figure of how training works: sharpening against coverage, and problems gained and lost."""

from operator import attrgetter

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.canvas import (
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    compute_words,
)
from isosweep.analysis.figures.colors import BLUE, GREEN, RED
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.mechanism import CHANCE, base_scores, scores_by_n

_SCORES = (("best", GREEN, "^"), ("avg", BLUE, "o"), ("worst", RED, "v"))


def mechanism_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """best@k, avg@k and worst@k against n over the base model's, and shares of problems better and
    worse than the base model."""
    if data.metric != "avg":
        return LeftOut(reason=f"{data.metric}@k has no other score within it")
    scores, base = scores_by_n(data, findings.frontier), base_scores(data)
    if not scores or base is None:
        return LeftOut(reason="no run that has reached a budget has a step 0")
    k, changes = scores[0].samples_per_problem, findings.changes
    if k == 1:
        reason = "with one sample a problem, best@k, avg@k and worst@k are the same"
        return LeftOut(reason=reason)

    def draw_scores(canvas: Canvas) -> None:
        canvas.generations("x", (score.num_generations for score in scores))
        canvas.axes.set_ylabel("share of problems")
        x = [float(score.num_generations) for score in scores]
        for name, color, marker in _SCORES:
            value = attrgetter(name)
            y = [float(value(score)) for score in scores]
            canvas.level(float(value(base)), color=color)
            canvas.line(x, y, color, label=f"{name}@{k}")
            tips = [f"n={s.num_generations}: {name}@{k} {value(s):.4f}" for s in scores]
            canvas.marks(zip(x, y, tips, strict=True), color, marker)

    def draw_changes(canvas: Canvas) -> None:
        canvas.generations("x", (change.num_generations for change in changes))
        canvas.axes.set_ylabel("share of problems")
        x = [float(change.num_generations) for change in changes]
        for name, color, marker in (("better", BLUE, "^"), ("worse", RED, "v")):
            y = [getattr(change, name) for change in changes]
            canvas.line(x, y, color, dash=":", label=f"problems {name}")
            tips = [f"n={int(n)}: {share:.1%} {name}" for n, share in zip(x, y, strict=True)]
            canvas.marks(zip(x, y, tips, strict=True), color, marker)
        canvas.level(CHANCE)

    name = data.evaluation_set
    problems = "held-out problems" if name is None else f"problems of the set {name}"
    at = compute_words(data, findings.frontier.budgets[-1].budget)
    return Figure(
        title=f"Coverage and sharpening at {at}",
        caption=f"Left: share of {problems} of which any (best@{k}) or every (worst@{k}) of {k} "
        "samples is right, and the share of right samples (avg). Each n at its best B, mean over "
        "seeds; dashed: the base model. A rise of best is coverage: problems become solvable. A "
        "rise of worst is sharpening: answers become sure. Right: share of problems whose success "
        "rate has clearly risen or fallen since step 0. Chance alone puts about 2% on either side "
        "(dashed): a larger share of worse problems means that problems interfere.",
        draw=(draw_scores, draw_changes) if changes else (draw_scores,),
    )


FIGURES = (ReportFigure(name="mechanism", section="Problems", describe=mechanism_figure),)
