"""Sweeps set side by side: `comparison.json`, figures, and a page."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape

from isosweep.analysis.figures.axes import UNITS, generations_axis, short_number
from isosweep.analysis.figures.colors import BLUE, GREEN, RED, sequential
from isosweep.analysis.figures.description import Axis, Figure, Series
from isosweep.analysis.figures.draw_matplotlib import write_figure
from isosweep.analysis.pages.report import html_figure, html_page
from isosweep.analysis.pages.tables import html_table
from isosweep.analysis.statistics.compare import Comparison, Entry, LawOfCell
from isosweep.analysis.statistics.laws import Interval
from isosweep.files import write_json, write_text
from isosweep.store.paths import SweepPaths

_MISSING = "–"


def write_comparison(found: Comparison, entries: Sequence[Entry], paths: SweepPaths) -> None:
    """Write the comparison into `paths.analysis`, replacing what was there."""
    figures = [_reward_figure(found, entries), _best_figure(found, entries)]
    paths.figures.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        write_figure(figure, paths.figures)
    write_json(paths.comparison, {"version": 1, **asdict(found)})
    title = "isosweep: comparison of " + ", ".join(entry.name for entry in entries)
    parts = [
        *(f"<p>{escape(sentence)}</p>" for sentence in summarise(found)),
        *(html_figure(figure) for figure in figures),
        "<h2>Best of every sweep</h2>",
        _frontier_table(found),
        "<h2>Asymptote and efficiency</h2>",
        _law_table(found),
        "<h2>Model size</h2>",
        _size_law(found),
    ]
    write_text(paths.report, html_page(title, parts))


def summarise(found: Comparison) -> list[str]:
    """What sets the sweeps apart at the largest budget that all have reached, a sentence each."""
    reached = [{at.budget for at in found.frontiers if at.entry == name} for name in found.verdicts]
    shared = set.intersection(*reached)
    if not shared:
        return ["No budget has been reached by all sweeps, so their rewards are not compared."]
    budget = max(shared)
    rows = [at for at in found.frontiers if at.budget == budget]
    sentences = []
    for at in rows:
        interval = "" if at.interval is None else f" ({at.interval[0]:.3f} to {at.interval[1]:.3f})"
        better = ""
        if at.better is not None:
            better = f"; better than {rows[0].entry} with a probability of {at.better:.0%}"
        sentences.append(
            f"At {short_number(budget)} {UNITS[found.unit]}, {at.entry} reaches {at.reward:.3f}"
            f"{interval} with n = {at.best_n}, B = {at.best_batch}{better}. "
            f"Its verdict: {found.verdicts[at.entry]}."
        )
    return sentences


def _colors(entries: Sequence[Entry]) -> dict[str, str]:
    named = (BLUE, RED, GREEN)
    colors = named if len(entries) <= len(named) else sequential(len(entries))
    return {entry.name: color for entry, color in zip(entries, colors, strict=False)}


def _budget_axis(found: Comparison) -> Axis:
    budgets = sorted({at.budget for at in found.frontiers})
    return Axis(
        title=f"training compute per run ({UNITS[found.unit]})",
        log=True,
        ticks=tuple((budget, short_number(budget)) for budget in budgets[:: len(budgets) // 8 + 1]),
        limits=(budgets[0] / 1.4, budgets[-1] * 1.4) if budgets else None,
    )


def _reward_figure(found: Comparison, entries: Sequence[Entry]) -> Figure:
    """Best expected reward of every sweep against compute."""
    series = []
    for i, (name, color) in enumerate(_colors(entries).items()):
        rows = [at for at in found.frontiers if at.entry == name]
        # Sweeps stand side by side, so that their intervals do not hide each other.
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
        name="comparison_reward",
        title="Best reward of every sweep",
        caption="Expected reward of the best (n, B) at each budget, with its interval where a "
        "sweep has seeds to read it from; sweeps are shifted sideways a little.",
        x=_budget_axis(found),
        y=Axis(title="held-out reward"),
        series=tuple(series),
    )


def _best_figure(found: Comparison, entries: Sequence[Entry]) -> Figure:
    """n*(C) of every sweep."""
    series, values = [], []
    for i, (entry, color) in enumerate(zip(entries, _colors(entries).values(), strict=True)):
        shift = 1.03 ** (i - (len(entries) - 1) / 2)
        optima = entry.findings.saturation.optima
        values += [n for at in entry.findings.frontier.budgets for n in at.measured]
        told = [at.interval for at in optima]
        series.append(
            Series(
                x=tuple(at.budget * shift for at in optima),
                y=tuple(
                    float(at.best) if interval is None else interval.median
                    for at, interval in zip(optima, told, strict=True)
                ),
                low=tuple(None if interval is None else interval.low for interval in told),
                high=tuple(None if interval is None else interval.high for interval in told),
                text=tuple(f"{entry.name}\nn* {at.told}" for at in optima),
                label=entry.name,
                color=color,
                # No line: where an interval spans the grid, its median leads nowhere.
                dash=None,
                width=1.6,
                marker="circle",
            )
        )
    return Figure(
        name="comparison_best_n",
        title="Best n of every sweep",
        caption="n*(C), median and interval (or the best mean, without seeds), by each sweep's "
        "own reward surface.",
        x=_budget_axis(found),
        y=generations_axis(values or [2]),
        series=tuple(series),
    )


def _frontier_table(found: Comparison) -> str:
    rows = [
        (
            at.entry,
            short_number(at.budget),
            at.best_n,
            at.best_batch,
            f"{at.reward:.4f}",
            _MISSING if at.interval is None else f"{at.interval[0]:.4f} to {at.interval[1]:.4f}",
            _MISSING if at.better is None else f"{at.better:.1%}",
        )
        for at in found.frontiers
    ]
    head = ("sweep", f"budget ({UNITS[found.unit]})", "best n", "B", "reward", "interval")
    return html_table((*head, "better than the first"), rows, words=(0,))


def _law_table(found: Comparison) -> str:
    if not found.cells:
        return (
            "<p>No (n, B) is shared by all sweeps with asymptotes that all its seeds identify.</p>"
        )

    def told(value: Interval | None) -> str:
        if value is None:
            return _MISSING
        return f"{value.median:.3g} ({value.low:.3g} to {value.high:.3g})"

    def row(law: LawOfCell) -> tuple[object, ...]:
        refitted = law.refitted_midpoint
        return (
            law.entry,
            law.num_generations,
            law.problems_per_batch,
            law.num_seeds,
            told(law.asymptote),
            told(law.exponent),
            short_number(law.midpoint),
            told(law.refitted),
            _MISSING if refitted is None else short_number(refitted),
        )

    head = ("sweep", "n", "B", "seeds", "A", "exponent B", "C_mid")
    text = (
        "<p>For every (n, B) that all sweeps share. Where the intervals of A overlap, all are "
        "fitted again with the mean A: exponent and C_mid then compare efficiency alone. With one "
        "seed A is given ScaleRL's error between seeds, 0.02.</p>"
    )
    refitted = ("exponent, common A", "C_mid, common A")
    return text + html_table((*head, *refitted), map(row, found.cells), words=(0,))


def _size_law(found: Comparison) -> str:
    law = found.size_law
    if law is None:
        return (
            "<p>The law of model sizes needs sweeps of three sizes or more, each with seeds and "
            "two budgets, and slopes that grow with size.</p>"
        )
    rows = [
        (name, f"{k.median:.4f} ({k.low:.4f} to {k.high:.4f})") for name, k in law.slopes.items()
    ]
    text = (
        "<p>ln(1 - R) = -k(N) ln C + E(N) along each frontier (arXiv 2509.25300), and through the "
        f"slopes k(N) = {law.largest:.4g} / (1 + {law.half_size:.3g} / N).</p>"
    )
    return text + html_table(("sweep", "k"), rows, words=(0,))
