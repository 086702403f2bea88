"""What every figure shows, described once: `drawing` renders it for the report and as PNG."""

import math
from collections.abc import Sequence

from isosweep.analysis.figure import GREY, Axis, Dash, Figure, HeatMap, Series
from isosweep.analysis.frontier import Frontier
from isosweep.analysis.load import SweepData
from isosweep.analysis.saturation import Saturation

_DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")
# More values of B than dashes that can be told apart; more runs than lines that can.
_MOST_DASHES = len(_DASHES)
_MANY_RUNS = 60

# Viridis (matplotlib, CC0) at even steps: readable in grey and for the colour-blind. Its yellow
# end is left out, being too faint on white.
_SEQUENTIAL = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0b21a")
UNITS = {
    "flops": "FLOPs",
    "rollouts": "rollouts",
    "tokens": "tokens",
    "device_hours": "device-hours",
}


def describe_figures(
    data: SweepData, frontier: Frontier, saturation: Saturation
) -> tuple[Figure, ...]:
    """All figures of the report, in its order."""
    return (
        reward_figure(data, frontier),
        best_generations_figure(data, saturation),
        heat_map_figure(data, frontier),
        compute_figure(data),
    )


def grid_generations(data: SweepData) -> tuple[int, ...]:
    return tuple(sorted({cell.num_generations for cell in data.plan.cells}))


def grid_batches(data: SweepData) -> tuple[int, ...]:
    return tuple(sorted({cell.problems_per_batch for cell in data.plan.cells}))


def generation_colors(generations: Sequence[int]) -> dict[int, str]:
    """One colour for each n, dark to light."""
    last = max(1, len(generations) - 1)
    steps = [i * (len(_SEQUENTIAL) - 1) / last for i in range(len(generations))]
    return {n: _blend(step) for n, step in zip(generations, steps, strict=True)}


def _blend(position: float) -> str:
    low = min(int(position), len(_SEQUENTIAL) - 2)
    share = position - low
    pair = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in _SEQUENTIAL[low : low + 2]]
    mixed = [round((1 - share) * a + share * b) for a, b in zip(*pair, strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _compute_axis(data: SweepData) -> Axis:
    """Compute on a logarithmic axis: ticks at the budgets, and at powers of ten before them."""
    budgets = sorted(data.plan.budgets)
    spent = [float(value) for curve in data.curves for value in curve.compute if value > 0]
    first = min([*spent, budgets[0]])
    # Fourteen labels fit side by side.
    room = max(1.3, (budgets[-1] / first) ** (1 / 14))
    decades = range(math.ceil(math.log10(first)), math.ceil(math.log10(budgets[0])))
    ticks: list[float] = []
    # From the right: a budget is never left out for a power of ten.
    for value in sorted([*budgets, *(10.0**power for power in decades)], reverse=True):
        if not ticks or value * room <= ticks[-1]:
            ticks.append(value)
    return Axis(
        title=f"training compute per run ({UNITS[data.plan.budget_unit]})",
        log=True,
        ticks=tuple((value, short_number(value)) for value in reversed(ticks)),
    )


def short_number(value: float) -> str:
    """Three significant digits, as `12`, `6.4e4` or `1e11`."""
    return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")


def reward_figure(data: SweepData, frontier: Frontier) -> Figure:
    """Reward against compute: every run, the mean over seeds, and the frontier.

    With many B the mean lines would hide each other: then there is one for each n, at its best B.
    """
    generations, batches = grid_generations(data), grid_batches(data)
    colors = generation_colors(generations)
    crowded = len(batches) > _MOST_DASHES
    dashes = {B: "solid" if crowded else _DASHES[i] for i, B in enumerate(batches)}
    opacity = 0.4 if len(data.curves) <= _MANY_RUNS else 0.12
    series = []
    for curve in data.curves:
        n, B = curve.run.num_generations, curve.run.problems_per_batch
        past = curve.compute > 0
        where = f"n={n}, B={B}, seed {curve.run.seed}"
        series.append(
            Series(
                x=tuple(curve.compute[past].tolist()),
                y=tuple(curve.reward[past].tolist()),
                text=tuple(f"{where}, step {step}" for step in curve.steps[past]),
                color=colors[n],
                dash=dashes[B],
                width=0.8,
                opacity=opacity,
            )
        )
    for n in generations:
        if crowded:
            series.append(_mean_series(frontier, n, None, colors[n], "solid"))
        else:
            series += [_mean_series(frontier, n, B, colors[n], dashes[B]) for B in batches]
        series.append(Series(x=(), y=(), label=f"n = {n}", color=colors[n], width=2.0))
    if 1 < len(batches) <= _MOST_DASHES:
        series += [
            Series(x=(), y=(), label=f"B = {B}", color=GREY, dash=dashes[B], width=2.0)
            for B in batches
        ]
    series.append(_frontier_series(frontier))
    thick = "for each n its best B, mean over seeds" if crowded else "mean over seeds"
    return Figure(
        name="reward",
        title="Held-out reward against compute",
        caption=f"Thin lines: single runs. Thick lines: {thick}, at the budgets. Diamonds: "
        f"the best mean at each budget, with its {frontier.confidence:.0%} interval where there "
        "are seeds to read it from (not corrected for having been selected).",
        x=_compute_axis(data),
        y=Axis(title=f"held-out reward ({data.metric}@k)"),
        series=tuple(series),
    )


def _mean_series(frontier: Frontier, n: int, B: int | None, color: str, dash: Dash) -> Series:
    """Mean reward over seeds of (n, B) at every budget; of the best B where B is None."""
    cells = [
        (at.budget, cell)
        for at in frontier.budgets
        for cell in ([choice.cell for choice in at.choices] if B is None else at.cells)
        if cell.num_generations == n and B in (None, cell.problems_per_batch)
    ]
    return Series(
        x=tuple(budget for budget, _ in cells),
        y=tuple(cell.mean for _, cell in cells),
        text=tuple(f"mean over seeds, n={n}, B={c.problems_per_batch}" for _, c in cells),
        color=color,
        dash=dash,
        width=2.0,
        marker="circle",
        size=4,
    )


def _frontier_series(frontier: Frontier) -> Series:
    best = [at.best for at in frontier.budgets]
    return Series(
        x=tuple(at.budget for at in frontier.budgets),
        y=tuple(choice.cell.mean if c is None else c for choice in best for c in [choice.expected]),
        low=tuple(choice.interval[0] if choice.interval else None for choice in best),
        high=tuple(choice.interval[1] if choice.interval else None for choice in best),
        text=tuple(f"best: n={c.num_generations}, B={c.cell.problems_per_batch}" for c in best),
        label="frontier",
        dash=None,
        width=1.4,
        marker="diamond",
        size=7,
    )


def best_generations_figure(data: SweepData, saturation: Saturation) -> Figure:
    """n* against compute, on a logarithmic axis with a tick at every n of the grid."""
    generations = grid_generations(data)
    optima = saturation.optima
    budgets = sorted(data.plan.budgets)
    # A lone budget still gets edges with a length.
    ends = (budgets[0] / 1.3, budgets[-1] * 1.3)
    edges = [
        Series(
            x=ends,
            y=(float(n), float(n)),
            label="edges of the grid" if i == 0 else None,
            color=GREY,
            dash="dash",
        )
        for i, n in enumerate(sorted({generations[0], generations[-1]}))
    ]
    members = [(o.budget, n) for o in optima for n in o.candidates]
    spread = Series(
        x=tuple(o.budget for o in optima),
        y=tuple(math.sqrt(o.candidates[0] * o.candidates[-1]) for o in optima),
        low=tuple(float(o.candidates[0]) for o in optima),
        high=tuple(float(o.candidates[-1]) for o in optima),
        color="#365c8d",
        dash=None,
        width=5.0,
        opacity=0.35,
    )
    inside = Series(
        x=tuple(budget for budget, _ in members),
        y=tuple(float(n) for _, n in members),
        text=tuple(f"n={n} cannot be told apart from the best" for _, n in members),
        label="not told apart from the best",
        color="#365c8d",
        dash=None,
        marker="square-open",
        size=8,
    )
    best = Series(
        x=tuple(o.budget for o in optima),
        y=tuple(float(o.best) for o in optima),
        text=tuple(f"best mean: n={o.best}" for o in optima),
        label="best mean",
        dash=None,
        marker="circle",
        size=7,
    )
    return Figure(
        name="best_n",
        title="Best n against compute",
        caption="Points: the n with the best mean. Squares and bars: every n that cannot be told "
        "apart from it. A set that touches the upper edge of the grid may continue beyond it.",
        x=_compute_axis(data),
        y=Axis(
            title="rollouts per problem, n",
            log=True,
            ticks=tuple((float(n), str(n)) for n in generations),
        ),
        series=(*edges, spread, inside, best),
    )


def heat_map_figure(data: SweepData, frontier: Frontier) -> Figure:
    """Mean reward of every (n, B) at the largest budget of the plan."""
    budget = max(data.plan.budgets)
    at = next((at for at in frontier.budgets if at.budget == budget), None)
    means = {(c.num_generations, c.problems_per_batch): c.mean for c in (at.cells if at else ())}
    here = [r for r in data.plan.rejected if r.budget == budget]
    rejected = {(r.num_generations, r.problems_per_batch) for r in here}
    generations = sorted({*grid_generations(data), *(n for n, _ in rejected)}, reverse=True)
    batches = sorted({*grid_batches(data), *(B for _, B in rejected)})

    def text(n: int, B: int) -> str:
        if (n, B) in means:
            return f"{means[n, B]:.3f}"
        return "R" if (n, B) in rejected else "–"

    return Figure(
        name="heat_map",
        title=f"Mean reward at {short_number(budget)} {UNITS[data.plan.budget_unit]}",
        caption="Mean over seeds of every (n, B) at the largest budget. R: rejected by the plan; "
        "–: no run has come that far.",
        x=Axis(title="problems per batch, B"),
        y=Axis(title="rollouts per problem, n"),
        heat_map=HeatMap(
            rows=tuple(str(n) for n in generations),
            columns=tuple(str(B) for B in batches),
            values=tuple(tuple(means.get((n, B)) for B in batches) for n in generations),
            text=tuple(tuple(text(n, B) for B in batches) for n in generations),
            scale_title="reward",
        ),
    )


def compute_figure(data: SweepData) -> Figure:
    """Measured over planned compute of every cell, against its budget."""
    generations = grid_generations(data)
    colors = generation_colors(generations)
    series = []
    for i, n in enumerate(generations):
        # Cells of one budget stand side by side, ordered by n.
        shift = 1.0 + 0.04 * (i - (len(generations) - 1) / 2)
        cells = [
            (r.cell, r.measured_compute)
            for r in data.readings
            if r.cell.num_generations == n and r.measured_compute is not None
        ]
        series.append(
            Series(
                x=tuple(cell.budget * shift for cell, _ in cells),
                y=tuple(measured / cell.planned_compute for cell, measured in cells),
                text=tuple(
                    f"n={n}, B={c.problems_per_batch}, seed {c.seed}, at {short_number(c.budget)}"
                    for c, _ in cells
                ),
                label=f"n = {n}",
                color=colors[n],
                dash=None,
                marker="circle",
                opacity=0.8,
            )
        )
    budgets = sorted(data.plan.budgets)
    ends = (budgets[0] / 1.3, budgets[-1] * 1.3)
    series.append(Series(x=ends, y=(1.0, 1.0), label="as planned", color=GREY, dash="dash"))
    return Figure(
        name="compute",
        title="Measured against planned compute",
        caption="One point a cell, shifted sideways by n: compute of the record nearest to the "
        "budget over the compute that the plan foresaw.",
        x=_compute_axis(data),
        y=Axis(title="measured / planned compute", limits=_around_one(series)),
        series=tuple(series),
    )


def _around_one(series: Sequence[Series]) -> tuple[float, float]:
    """Limits that hold all points, and half a per cent to either side of 1 at least."""
    values = [value for drawn in series for value in drawn.y]
    low, high = min([*values, 0.995]), max([*values, 1.005])
    margin = 0.05 * (high - low)
    return low - margin, high + margin
