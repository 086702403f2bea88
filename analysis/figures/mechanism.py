"""Figures of how training works: sharpening against coverage, and problems that interfere."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.axes import (
    amount,
    evenly_chosen,
    generation_colors,
    generations_axis,
    level,
    problems_of,
)
from isosweep.analysis.figures.colors import BLUE, GREEN, RED
from isosweep.analysis.figures.description import (
    Axis,
    Figure,
    LeftOut,
    Marker,
    ReportFigure,
    Series,
    series_of,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.mechanism import (
    CHANCE,
    GainByRate,
    base_scores,
    gains_by_rate,
    scores_by_n,
)

_SCORES: tuple[tuple[str, str, Marker], ...] = (
    ("best", GREEN, "triangle-up-open"),
    ("avg", BLUE, "circle"),
    ("worst", RED, "triangle-down-open"),
)


_NO_BASE = LeftOut(reason="no run that has reached a budget has a step 0")


def mechanism_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """best@k, avg@k and worst@k against n, over the base model's."""
    if data.metric != "avg":
        return LeftOut(reason=f"{data.metric}@k has no other score within it")
    scores, base = scores_by_n(data, findings.frontier), base_scores(data)
    if not scores or base is None:
        return _NO_BASE
    samples = scores[0].samples_per_problem
    if samples == 1:
        reason = "with one sample a problem, best@k, avg@k and worst@k are the same"
        return LeftOut(reason=reason)
    x = generations_axis(score.num_generations for score in scores)
    ends = x.limits or (1.0, 1.0)
    series = []
    for name, color, marker in _SCORES:
        value, label = attrgetter(name), f"{name}@{samples}"
        series.append(level(ends, float(value(base)), f"{label}, base", color))
        series.append(_by_n(scores, value, label, color, marker, f"{label} {{:.4f}}".format))
    return Figure(
        title=f"Coverage and sharpening at {amount(data, findings.frontier.budgets[-1].budget)}",
        caption=f"Share of {problems_of(data)} of which any (best@{samples}) or every "
        f"(worst@{samples}) of {samples} samples is right, and the share of right samples (avg). "
        "Each n at its best B, mean over seeds; dashed: the base model. A rise of best is "
        "coverage: problems become solvable. A rise of worst is sharpening: answers become sure.",
        x=x,
        y=Axis(title=f"share of {problems_of(data)}, or of samples"),
        series=tuple(series),
    )


def _by_n(
    rows: Sequence[Any],
    value: Callable[[Any], float],
    label: str,
    color: str,
    marker: Marker,
    written: Callable[[float], str],
) -> Series:
    """A value of the best (n, B) of each n, against n."""
    return series_of(
        rows,
        lambda row: row.num_generations,
        value,
        text=lambda row: (
            f"n={row.num_generations}, B={row.problems_per_batch}, {row.num_seeds} seeds\n"
            + written(value(row))
        ),
        label=label,
        color=color,
        width=1.8,
        marker=marker,
        size=7,
    )


def interference_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Shares of problems better and worse than the base model, against n."""
    changes = findings.changes
    if not changes:
        return _NO_BASE
    x = generations_axis(change.num_generations for change in changes)
    sides: tuple[tuple[str, str, Marker], ...] = (
        ("better", BLUE, "triangle-up-open"),
        ("worse", RED, "triangle-down-open"),
    )
    series = [
        _by_n(changes, attrgetter(name), name, color, marker, f"{{:.1%}} {name}".format)
        for name, color, marker in sides
    ]
    highest = max([CHANCE, *(value for drawn in series for value in drawn.y)])
    return Figure(
        title="Problems gained and lost against the base model",
        caption=f"Share of {problems_of(data)} whose success rate has clearly risen or fallen "
        "since step 0, at the largest budget, each n at its best B. Chance alone puts about 2% on "
        "either side: a larger share of worse problems means that problems interfere.",
        x=x,
        y=Axis(title=f"share of {problems_of(data)}", limits=(-0.02 * highest, 1.06 * highest)),
        series=(level(x.limits or (1.0, 1.0), CHANCE, "by chance alone"), *series),
    )


def evenness_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Gain against the success rate before training, for at most six n."""
    if data.metric != "avg":
        return LeftOut(reason=f"{data.metric}@k has no success rates")
    gains = gains_by_rate(data, findings.frontier)
    if not gains:
        return _NO_BASE
    colors = generation_colors(data.generations)

    def line(of: GainByRate) -> Series:
        return series_of(
            zip(of.before, of.gain, of.num_problems, strict=True),
            lambda group: group[0],
            lambda group: group[1],
            text=lambda group: (
                f"n={of.num_generations}\n"
                f"{group[2]} problems, {group[0]:.1%} before, {group[1]:+.1%}"
            ),
            label=f"n = {of.num_generations}",
            color=colors[of.num_generations],
            width=1.6,
            marker="circle",
        )

    return Figure(
        title=f"Who gains, at {amount(data, findings.frontier.budgets[-1].budget)}",
        caption="Mean change of a problem's success rate, by its rate before training: problems "
        "that were never right, and each quarter of rates. Each n is at its best B, seeds "
        "together. A level line is an even gain. Rates before training are measured too, so by "
        "chance alone lucky problems fall and unlucky ones rise, by the same amount for every n.",
        x=Axis(title="success rate before training", limits=(-0.03, 1.03)),
        y=Axis(title="change of the success rate"),
        series=(level((0.0, 1.0), 0.0, "no change"), *map(line, evenly_chosen(gains, 6))),
    )


FIGURES = (
    ReportFigure(name="mechanism", section="Problems", describe=mechanism_figure),
    ReportFigure(name="interference", section="Problems", describe=interference_figure),
    ReportFigure(name="evenness", section="Problems", describe=evenness_figure),
)
