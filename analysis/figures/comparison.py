"""Figures of several sweeps beside each other."""

import math
from collections.abc import Iterable, Sequence

from isosweep import words
from isosweep.analysis.figures.axes import (
    along_compute,
    doubling_axis,
    generations_axis,
    level,
    rewarded,
    spaced,
)
from isosweep.analysis.figures.colors import BLUE, GREEN, RED, sequential
from isosweep.analysis.figures.description import (
    DOTS,
    Axis,
    Band,
    Figure,
    Series,
    band_of,
    series_of,
)
from isosweep.analysis.statistics.compare import Comparison
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.reuse import Onset, ReuseLaw
from isosweep.analysis.statistics.sizes import SizeFit, SizeLaw
from isosweep.analysis.statistics.updates import Needs, UpdatesLaw
from isosweep.config.analysis import Quantity
from isosweep.words.numbers import UNITS, short


def comparison_figures(comparison: Comparison, entries: Sequence[Entry]) -> dict[str, Figure]:
    """By name, in the page's order. No n* where there is one n."""
    figures = {"comparison_reward": _reward_figure(comparison, entries)}
    if not comparison.one_pair:
        figures["comparison_best_n"] = _n_figure(comparison, entries, "best")
        figures["comparison_enough_n"] = _n_figure(comparison, entries, "enough")
    laws: dict[str, list[Figure | None]] = {
        "reuse": [_reuse_figure(law, comparison) for law in comparison.reuse_laws],
        "updates": [_updates_figure(law) for law in comparison.updates_laws],
        "size": [_size_figure(law) for law in comparison.size_laws],
    }
    for name, of_laws in laws.items():
        for i, figure in enumerate(of_laws):
            if figure is not None:
                figures[f"comparison_{name}" + (f"_{i + 1}" if i else "")] = figure
    return figures


def _colors(entries: Sequence[Entry]) -> Sequence[str]:
    named = (BLUE, RED, GREEN)
    return named if len(entries) <= len(named) else sequential(len(entries))


def _budget_axis(comparison: Comparison) -> Axis:
    budgets = sorted({at.budget for at in comparison.frontiers})
    if not budgets:
        return Axis(title=f"training compute per run ({UNITS[comparison.unit]})", log=True)
    return along_compute(comparison.unit, (budgets[0] / 1.4, budgets[-1] * 1.4))


def _reward_figure(comparison: Comparison, entries: Sequence[Entry]) -> Figure:
    """Best expected reward of every sweep against compute."""

    def course(i: int, name: str, color: str) -> Series:
        # Sweeps lie side by side, so that their intervals do not hide each other.
        shift = 1.03 ** (i - (len(entries) - 1) / 2)
        return series_of(
            (at for at in comparison.frontiers if at.entry == name),
            lambda at: at.budget * shift,
            lambda at: at.reward,
            ends=lambda at: at.interval,
            text=lambda at: f"{name}\nn={at.best_n}, B={at.best_batch}",
            label=name,
            color=color,
            width=1.6,
            marker="circle",
        )

    named = zip(entries, _colors(entries), strict=False)
    return Figure(
        title=f"Best reward of every {comparison.kind}",
        caption="Expected reward of the best (n, B) at each budget, with its interval where "
        f"several seeds were run. {comparison.kind.capitalize()}s are shifted sideways a little.",
        x=_budget_axis(comparison),
        y=Axis(title=rewarded(entries[0].data)),
        series=tuple(course(i, entry.name, color) for i, (entry, color) in enumerate(named)),
    )


# Of the figure of each n: its title and how its caption begins.
_N: dict[Quantity, tuple[str, str]] = {
    "best": (
        "Best n",
        "n*, the best n, against compute: median and interval (with one seed the best mean)",
    ),
    "enough": (
        "Smallest n that is good enough",
        "n_d, the smallest n that loses at most analysis.margin of reward, against compute: median "
        "and interval",
    ),
}


def _n_figure(comparison: Comparison, entries: Sequence[Entry], quantity: Quantity) -> Figure:
    """n*(C) or n_d(C) of every sweep."""
    title, caption = _N[quantity]
    symbol = "n*" if quantity == "best" else "n_d"

    def course(i: int, entry: Entry, color: str) -> Series:
        shift = 1.03 ** (i - (len(entries) - 1) / 2)
        found = [(at, at.of(quantity)) for at in entry.findings.saturation.optima]
        if quantity == "enough":
            found = [(at, known) for at, known in found if known is not None]
        return series_of(
            found,
            lambda row: row[0].budget * shift,
            lambda row: row[0].best if row[1] is None else row[1].interval.median,
            ends=lambda row: row[1].interval if row[1] else None,
            text=lambda row: f"{entry.name}\n{symbol} {(row[1] or row[0]).words}",
            label=entry.name,
            color=color,
            width=1.6,
            # No line: where an interval spans the grid, its median leads nowhere.
            **DOTS,
        )

    named = zip(entries, _colors(entries), strict=False)
    values = [n for e in entries for at in e.findings.frontier.budgets for n in at.measured]
    return Figure(
        title=f"{title} of every {comparison.kind}",
        caption=f"{caption}, by each {comparison.kind}'s own reward surface.",
        x=_budget_axis(comparison),
        y=generations_axis(values or [2]),
        series=tuple(course(i, entry, color) for i, (entry, color) in enumerate(named)),
    )


def _named(law: ReuseLaw | UpdatesLaw | SizeLaw) -> str:
    return f"n = {law.num_generations}, B = {law.problems_per_batch}"


def _numbers_axis(title: str, values: Sequence[float], ticks: Iterable[float]) -> Axis:
    """A logarithmic axis around the values, ascending."""
    return Axis(
        title=title,
        log=True,
        ticks=tuple((value, short(value)) for value in ticks),
        limits=(values[0] / 1.3, values[-1] * 1.3),
    )


def _reuse_figure(law: ReuseLaw, comparison: Comparison) -> Figure:
    """Reward against passes over the training problems, for one (n, B)."""
    measured = series_of(
        zip(law.entries, law.passes, law.means, strict=True),
        lambda row: row[1],
        lambda row: row[2],
        text=lambda row: f"{row[0]}\n{short(row[1])} passes, reward {row[2]:.4f}",
        label="measured mean",
        **DOTS,
    )
    bands: tuple[Band, ...] = ()
    series = [measured]
    caption = "Dots: measured means over seeds. "
    if isinstance(law.found, Onset):
        rewards = law.found.rewards
        bands = (band_of(law.passes, rewards, color=BLUE),)
        medians = tuple(reward.median for reward in rewards)
        ends = law.passes[0], law.passes[-1]
        series = [
            Series(x=law.passes, y=medians, label="not rising with reuse", color=BLUE),
            level(ends, medians[0] - law.margin, f"a loss of {law.margin:g}"),
            *_onset_series(law.found, min(law.means), max(law.means)),
            measured,
        ]
        caption += "Line and band: rewards that do not rise with reuse, median and interval. "
    # Ten labels fit side by side.
    ticks = spaced(law.passes, (law.passes[-1] / law.passes[0]) ** (1 / 10))
    return Figure(
        title=f"Reward against reuse at {short(law.budget)} {UNITS[comparison.unit]}",
        caption=f"{_named(law)}. {caption}{words.line('comparison', 'capital', law)}",
        x=_numbers_axis("passes over the training problems", law.passes, ticks),
        y=Axis(title="held-out reward"),
        bands=bands,
        series=tuple(series),
    )


def _onset_series(onset: Onset, low: float, high: float) -> list[Series]:
    """Upright lines at the interval of where reuse begins to cost more than the margin."""
    ends = [(onset.harmless, "harmless up to here")]
    if onset.harmful is not None:
        ends.append((onset.harmful, "harmful from here on"))
    return [
        Series(x=(at, at), y=(low, high), label=label, color=color, dash="dot", width=1.8)
        for (at, label), color in zip(ends, (GREEN, RED), strict=False)
    ]


def _updates_figure(law: UpdatesLaw) -> Figure | None:
    """What it takes to reach the threshold against updates on each rollout, for one (n, B)."""
    found = law.found
    if not isinstance(found, Needs):
        return None
    first, series, values = law.updates[0], [], [1.0]
    plural = "s" if first > 1 else ""
    named = (("rollouts", found.rollouts, BLUE), ("compute", found.compute, RED))
    for label, need, color in named:
        relative = tuple(mean / need.means[0] for mean in need.means)
        # The line of the law through the middle of the points.
        logs = [math.log2(updates) for updates in law.updates]
        middle = math.fsum(map(math.log2, relative)) / len(relative)
        factor = need.factors["updates"]
        slope, center = math.log2(factor.median), math.fsum(logs) / len(logs)
        line = tuple(2 ** (middle + slope * (x - center)) for x in logs)
        values += [*relative, *line]
        text = tuple(
            f"{name}\n{label} x {value:.3g}"
            for name, value in zip(law.entries, relative, strict=True)
        )
        x = tuple(float(updates) for updates in law.updates)
        series += [
            Series(x=x, y=line, label=f"{label}: x {factor.words} a doubling", color=color),
            Series(x=x, y=relative, text=text, color=color, **DOTS),
        ]
    limits = min(values) / 1.15, max(values) * 1.15
    powers = range(math.floor(math.log2(limits[0])), math.ceil(math.log2(limits[1])) + 1)
    ticks = tuple((2.0**power, short(2.0**power)) for power in powers)
    return Figure(
        title="Rollouts and compute against updates to data",
        caption=f"{_named(law)}. Dots: geometric means over seeds, relative to {first} "
        f"update{plural} on each rollout. {words.line('comparison', 'capital', law)}",
        x=doubling_axis("updates on each rollout", law.updates),
        y=Axis(
            title=f"times that with {first} update{plural}", log=True, ticks=ticks, limits=limits
        ),
        series=tuple(series),
    )


def _size_figure(law: SizeLaw) -> Figure:
    """Slopes of ln(1 - R) against the size of the model, for one (n, B)."""
    measured = series_of(
        zip(law.entries, law.sizes, law.slopes, strict=True),
        lambda row: row[1],
        lambda row: row[2].median,
        ends=lambda row: row[2],
        text=lambda row: f"{row[0]}\nN = {short(row[1])}, k = {row[2].words}",
        label="mean over seeds",
        width=1.6,
        **DOTS,
    )
    bands: tuple[Band, ...] = ()
    series = [measured]
    if isinstance(law.found, SizeFit):
        at, curve = law.found.at, law.found.curve
        bands = (band_of(at, curve, color=BLUE),)
        k = tuple(k.median for k in curve)
        series = [Series(x=at, y=k, label="K_max / (1 + N0 / N)", color=BLUE), measured]
    return Figure(
        title="Rate of learning against model size",
        caption=f"{_named(law)}. k: how fast ln(1 - reward) falls with ln compute; bars: by each "
        "size's own seeds; line and band: the law by all. "
        f"{words.line('comparison', 'capital', law)}",
        x=_numbers_axis("parameters of the model, N", law.sizes, spaced(law.sizes, 1.2)),
        y=Axis(title="slope k"),
        bands=bands,
        series=tuple(series),
    )
