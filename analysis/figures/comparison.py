"""Figures of several sweeps beside each other."""

import math
from collections.abc import Sequence

from isosweep import words
from isosweep.analysis.figures.axes import (
    doubling_axis,
    generations_axis,
    level,
    rewarded,
    round_ticks,
    spaced,
)
from isosweep.analysis.figures.colors import BLUE, GREEN, RED, sequential
from isosweep.analysis.figures.description import Axis, Band, Figure, Series
from isosweep.analysis.statistics.compare import Comparison
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.reuse import Onset, ReuseLaw
from isosweep.analysis.statistics.sizes import SizeFit, SizeLaw
from isosweep.analysis.statistics.updates import Needs, UpdatesLaw
from isosweep.words.numbers import UNITS, short


def comparison_figures(comparison: Comparison, entries: Sequence[Entry]) -> dict[str, Figure]:
    """By name, in the page's order. No n* where there is one n."""
    figures = {"comparison_reward": _reward_figure(comparison, entries)}
    if not comparison.one_pair:
        figures["comparison_best_n"] = _best_figure(comparison, entries)
    for i, law in enumerate(comparison.reuse_laws):
        figures["comparison_reuse" + (f"_{i + 1}" if i else "")] = _reuse_figure(law, comparison)
    for i, updates_law in enumerate(comparison.updates_laws):
        if isinstance(updates_law.found, Needs):
            name = "comparison_updates" + (f"_{i + 1}" if i else "")
            figures[name] = _updates_figure(updates_law, updates_law.found)
    for i, size_law in enumerate(comparison.size_laws):
        figures["comparison_size" + (f"_{i + 1}" if i else "")] = _size_figure(size_law)
    return figures


def _colors(entries: Sequence[Entry]) -> dict[str, str]:
    named = (BLUE, RED, GREEN)
    colors = named if len(entries) <= len(named) else sequential(len(entries))
    return {entry.name: color for entry, color in zip(entries, colors, strict=False)}


def _budget_axis(comparison: Comparison) -> Axis:
    budgets = sorted({at.budget for at in comparison.frontiers})
    return Axis(
        title=f"training compute per run ({UNITS[comparison.unit]})",
        log=True,
        ticks=round_ticks(budgets[0] / 1.4, budgets[-1] * 1.4, 8) if budgets else (),
        limits=(budgets[0] / 1.4, budgets[-1] * 1.4) if budgets else None,
    )


def _reward_figure(comparison: Comparison, entries: Sequence[Entry]) -> Figure:
    """Best expected reward of every sweep against compute."""
    series = []
    for i, (name, color) in enumerate(_colors(entries).items()):
        rows = [at for at in comparison.frontiers if at.entry == name]
        # Sweeps lie side by side, so that their intervals do not hide each other.
        shift = 1.03 ** (i - (len(entries) - 1) / 2)
        series.append(
            Series(
                x=tuple(at.budget * shift for at in rows),
                y=tuple(at.reward for at in rows),
                low=tuple(at.interval[0] if at.interval else None for at in rows),
                high=tuple(at.interval[1] if at.interval else None for at in rows),
                text=tuple(f"{name}\nn={at.best_n}, B={at.best_batch}" for at in rows),
                label=name,
                color=color,
                width=1.6,
                marker="circle",
            )
        )
    return Figure(
        title=f"Best reward of every {comparison.kind}",
        caption="Expected reward of the best (n, B) at each budget, with its interval where there "
        f"are seeds to read it from; {comparison.kind}s are shifted sideways a little.",
        x=_budget_axis(comparison),
        y=Axis(title=rewarded(entries[0].data)),
        series=tuple(series),
    )


def _best_figure(comparison: Comparison, entries: Sequence[Entry]) -> Figure:
    """n*(C) of every sweep."""
    series, values = [], []
    for i, (entry, color) in enumerate(zip(entries, _colors(entries).values(), strict=True)):
        shift = 1.03 ** (i - (len(entries) - 1) / 2)
        optima = entry.findings.saturation.optima
        values += [n for at in entry.findings.frontier.budgets for n in at.measured]
        intervals = [at.interval for at in optima]
        series.append(
            Series(
                x=tuple(at.budget * shift for at in optima),
                y=tuple(
                    float(at.best) if interval is None else interval.median
                    for at, interval in zip(optima, intervals, strict=True)
                ),
                low=tuple(None if interval is None else interval.low for interval in intervals),
                high=tuple(None if interval is None else interval.high for interval in intervals),
                text=tuple(f"{entry.name}\nn* {at.words}" for at in optima),
                label=entry.name,
                color=color,
                # No line: where an interval spans the grid, its median leads nowhere.
                dash=None,
                width=1.6,
                marker="circle",
            )
        )
    return Figure(
        title=f"Best n of every {comparison.kind}",
        caption="n*(C), median and interval (or the best mean, without seeds), by each "
        f"{comparison.kind}'s own reward surface.",
        x=_budget_axis(comparison),
        y=generations_axis(values or [2]),
        series=tuple(series),
    )


def _reuse_figure(law: ReuseLaw, comparison: Comparison) -> Figure:
    """Reward against passes over the training problems, for one (n, B)."""
    measured = Series(
        x=law.passes,
        y=law.means,
        text=tuple(
            f"{name}\n{short(passes)} passes, reward {mean:.4f}"
            for name, passes, mean in zip(law.entries, law.passes, law.means, strict=True)
        ),
        label="measured mean",
        dash=None,
        marker="circle",
    )
    bands: tuple[Band, ...] = ()
    series = [measured]
    caption = "Dots: measured means over seeds. "
    if isinstance(law.found, Onset):
        rewards = law.found.rewards
        bands = (
            Band(
                x=law.passes,
                low=tuple(reward.low for reward in rewards),
                high=tuple(reward.high for reward in rewards),
                color=BLUE,
            ),
        )
        medians = tuple(reward.median for reward in rewards)
        fitted = Series(x=law.passes, y=medians, label="not rising with reuse", color=BLUE)
        ends = law.passes[0], law.passes[-1]
        least = level(ends, medians[0] - law.margin, f"a loss of {law.margin:g}")
        series = [
            fitted,
            least,
            *_onset_series(law.found, min(law.means), max(law.means)),
            measured,
        ]
        caption += "Line and band: rewards that do not rise with reuse, median and interval. "
    # Ten labels fit side by side.
    ticks = spaced(law.passes, (law.passes[-1] / law.passes[0]) ** (1 / 10))
    where = f"{short(law.budget)} {UNITS[comparison.unit]}"
    pair = f"n = {law.num_generations}, B = {law.problems_per_batch}"
    return Figure(
        title=f"Reward against reuse at {where}",
        caption=f"{pair}. {caption}{words.line('comparison', 'capital', law)}",
        x=Axis(
            title="passes over the training problems",
            log=True,
            ticks=tuple((passes, short(passes)) for passes in ticks),
            limits=(law.passes[0] / 1.3, law.passes[-1] * 1.3),
        ),
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


def _updates_figure(law: UpdatesLaw, found: Needs) -> Figure:
    """What it takes to reach the threshold against updates on each rollout, for one (n, B)."""
    first, series, values = law.updates[0], [], [1.0]
    plural = "s" if first > 1 else ""
    named = (("rollouts", found.rollouts, BLUE), ("compute", found.compute, RED))
    for label, need, color in named:
        relative = tuple(mean / need.means[0] for mean in need.means)
        # The line of the law through the middle of the points.
        logs = [math.log2(updates) for updates in law.updates]
        middle = math.fsum(map(math.log2, relative)) / len(relative)
        slope, center = math.log2(need.factor.median), math.fsum(logs) / len(logs)
        line = tuple(2 ** (middle + slope * (x - center)) for x in logs)
        values += [*relative, *line]
        text = tuple(
            f"{name}\n{label} x {value:.3g}"
            for name, value in zip(law.entries, relative, strict=True)
        )
        x = tuple(float(updates) for updates in law.updates)
        series += [
            Series(x=x, y=line, label=f"{label}: x {need.factor.words} a doubling", color=color),
            Series(x=x, y=relative, text=text, color=color, dash=None, marker="circle"),
        ]
    limits = min(values) / 1.15, max(values) * 1.15
    powers = range(math.floor(math.log2(limits[0])), math.ceil(math.log2(limits[1])) + 1)
    ticks = tuple((2.0**power, short(2.0**power)) for power in powers)
    pair = f"n = {law.num_generations}, B = {law.problems_per_batch}"
    return Figure(
        title="Rollouts and compute against updates to data",
        caption=f"{pair}. Dots: geometric means over seeds, relative to {first} "
        f"update{plural} on each rollout. {words.line('comparison', 'capital', law)}",
        x=doubling_axis("updates on each rollout", law.updates),
        y=Axis(
            title=f"times that with {first} update{plural}", log=True, ticks=ticks, limits=limits
        ),
        series=tuple(series),
    )


def _size_figure(law: SizeLaw) -> Figure:
    """Slopes of ln(1 - R) against the size of the model, for one (n, B)."""
    measured = Series(
        x=law.sizes,
        y=tuple(slope.median for slope in law.slopes),
        low=tuple(slope.low for slope in law.slopes),
        high=tuple(slope.high for slope in law.slopes),
        text=tuple(
            f"{name}\nN = {short(size)}, k = {slope.words}"
            for name, size, slope in zip(law.entries, law.sizes, law.slopes, strict=True)
        ),
        label="mean over seeds",
        dash=None,
        width=1.6,
        marker="circle",
    )
    bands: tuple[Band, ...] = ()
    series = [measured]
    if isinstance(law.found, SizeFit):
        at, curve = law.found.at, law.found.curve
        ends = (tuple(k.low for k in curve), tuple(k.high for k in curve))
        bands = (Band(x=at, low=ends[0], high=ends[1], color=BLUE),)
        k = tuple(k.median for k in curve)
        series = [Series(x=at, y=k, label="K_max / (1 + N0 / N)", color=BLUE), measured]
    pair = f"n = {law.num_generations}, B = {law.problems_per_batch}"
    return Figure(
        title="Rate of learning against model size",
        caption=f"{pair}. k: how fast ln(1 - reward) falls with ln compute; bars: by each size's "
        f"own seeds; line and band: the law by all. {words.line('comparison', 'capital', law)}",
        x=Axis(
            title="parameters of the model, N",
            log=True,
            ticks=tuple((size, short(size)) for size in spaced(law.sizes, 1.2)),
            limits=(law.sizes[0] / 1.3, law.sizes[-1] * 1.3),
        ),
        y=Axis(title="slope k"),
        bands=bands,
        series=tuple(series),
    )
