"""Figures show what the findings say, whatever they say, on white and on black."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.course import read_course
from isosweep.analysis.curves import SweepData, TrainingCourse
from isosweep.analysis.figures.all import REPORT_FIGURES, describe_figures
from isosweep.analysis.figures.axes import generation_colors
from isosweep.analysis.figures.colors import DARK, GRID, GROUND, contrast
from isosweep.analysis.figures.description import Axis, Figure, Series
from isosweep.analysis.figures.draw_matplotlib import _LIGHT, _draw, dark, write_figures
from isosweep.analysis.figures.draw_plotly import to_plotly
from isosweep.analysis.figures.health import METRICS
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.store.paths import SweepPaths
from isosweep.store.records import append_record
from tests.analysis.conftest import CONFIG, Analysed
from tests.analysis.sweeps import (
    BUDGETS,
    LONG,
    REWARD,
    SAMPLES,
    make_plan,
    make_record,
    paths_in,
    records_file,
    write_end,
    write_plan,
    write_records,
    write_run,
    write_sweep,
)

MANY = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def described(paths: SweepPaths) -> tuple[SweepData, Findings, dict[str, Figure]]:
    data = load_sweep(paths)
    findings = find(data, CONFIG)
    return data, findings, describe_figures(data, findings).drawn


def drawn_of(sweep: Analysed) -> dict[str, Figure]:
    return describe_figures(sweep.data, sweep.findings).drawn


def texts(figure: Figure) -> list[str]:
    return [text for series in figure.series for text in series.text]


def one_run(root: Path) -> SweepPaths:
    paths, plan = paths_in(root), make_plan()
    write_plan(paths, plan)
    write_run(paths, plan.runs[3], plan.budgets, REWARD, np.random.default_rng(0), 0.0)
    return paths


def all_failed(root: Path) -> SweepPaths:
    paths, plan = paths_in(root), make_plan()
    write_plan(paths, plan)
    for run in plan.runs:
        paths.run(run.run_id).root.mkdir(parents=True)
        write_end(paths, run.run_id, "failed", "out of memory")
    return paths


def sweep_of(**of_plan: Any) -> Callable[[Path], SweepPaths]:
    return lambda root: write_sweep(root, REWARD, plan=make_plan(**of_plan))


ALWAYS = {
    *("reward", "best_n", "mechanism", "interference", "evenness", "compute"),
}
OF_B = ALWAYS | {"heat_map", "slices", "batch", "tradeoff"}


def checked(data: SweepData, findings: Findings, names: set[str]) -> dict[str, Figure]:
    """All figures, which are those `names`, none of them empty."""
    figures = describe_figures(data, findings)
    assert figures.drawn.keys() - {"residuals"} == names
    assert [*figures.drawn, *figures.left_out] == sorted(
        (figure.name for figure in REPORT_FIGURES), key=lambda name: name in figures.left_out
    )
    assert len(REPORT_FIGURES) == 23
    assert all(figures.left_out.values())
    for name, figure in figures.drawn.items():
        values = figure.heat_map.values if figure.heat_map else ()
        shown = [v for row in values for v in row if v is not None] or texts(figure)
        assert shown, name
        # What the legend lists is there: entries without points need points of their colour.
        drawn = {series.color for series in figure.series if series.x}
        named = {series.color for series in figure.series if series.label and "=" in series.label}
        assert named - {"#8a8a8a"} <= drawn, name
        to_plotly(dark(figure))
    return figures.drawn


@pytest.mark.parametrize(
    ("sweep", "names"),
    [
        (one_run, ALWAYS),
        (all_failed, set()),
        (sweep_of(budgets=BUDGETS[:1]), ALWAYS | {"slices"}),
        pytest.param(sweep_of(seeds=(0,), batches=(2, 4, 8)), OF_B, marks=pytest.mark.long),
        pytest.param(
            sweep_of(generations=MANY, batches=MANY, budgets=[1000 * b for b in BUDGETS[:2]]),
            OF_B,
            marks=pytest.mark.long,
        ),
    ],
)
def test_no_figure_is_empty(
    sweep: Callable[[Path], SweepPaths], names: set[str], tmp_path: Path
) -> None:
    data = load_sweep(sweep(tmp_path))
    checked(data, find(data, CONFIG), names)


def test_every_figure_of_a_whole_sweep_is_drawn(full: Analysed, tmp_path: Path) -> None:
    figures = checked(full.data, full.findings, OF_B | {"growth"})
    assert len(write_figures(figures, tmp_path / "figures", ["svg"])) == len(figures)


def test_a_metric_that_never_changes_has_no_figure(full: Analysed) -> None:
    def course(*clipped: float) -> TrainingCourse:
        values = dict.fromkeys(METRICS, (1.0, 2.0)) | {"clipped_share": clipped}
        return TrainingCourse(run=full.data.plan.runs[0], compute=(1e6, 2e6), values=values)

    flat = describe_figures(replace(full.data, training=(course(0.0, 0.0),)), full.findings)
    assert flat.left_out["clipped"] == "it is 0 in every run"
    assert "entropy" in flat.drawn
    moving = describe_figures(replace(full.data, training=(course(0.0, 0.1),)), full.findings)
    assert "clipped" in moving.drawn


def test_compute_is_checked_at_budgets_that_runs_go_to_alone(full: Analysed) -> None:
    between = tuple(
        replace(reading, cell=replace(reading.cell, budget=reading.cell.budget * 1.3))
        for reading in full.data.readings
    )
    both = replace(full.data, readings=(*full.data.readings, *between))
    drawn = describe_figures(both, full.findings).drawn["compute"]
    assert drawn == drawn_of(full)["compute"]


def test_every_dark_colour_stands_out_and_is_its_own() -> None:
    lines = {color: DARK[color] for color in DARK if color not in (GRID, GROUND)}
    assert min(contrast(color, DARK[GROUND]) for color in lines.values()) > 3.0
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


def test_files_are_the_same_each_time_and_dark_ones_are_dark(
    full: Analysed, tmp_path: Path
) -> None:
    only, formats = {"reward": drawn_of(full)["reward"]}, ("png", "svg", "pdf", "dark_png")
    paths = write_figures(only, tmp_path / "figures", formats)
    assert [path.name for path in paths] == [
        *("reward.png", "reward.svg", "reward.pdf", "reward-dark.png")
    ]
    first = [path.read_bytes() for path in paths]
    again = write_figures(only, tmp_path / "again", formats)
    assert [path.read_bytes() for path in again] == first
    # Two files of one second would not differ by their dates.
    assert b"CreationDate" not in first[2]
    assert b"dc:date" not in first[1]
    assert [content[:4] for content in first] == [b"\x89PNG", b"<?xm", b"%PDF", b"\x89PNG"]
    import matplotlib.image

    light, black = (matplotlib.image.imread(paths[i]) for i in (0, 3))
    assert light[0, 0, :3].mean() == 1.0
    assert black[0, 0, :3].mean() < 0.15


def test_pointing_at_a_run_shows_which_it_is(full: Analysed) -> None:
    data, figures = full.data, drawn_of(full)
    for name in ("reward", "compute"):
        shown = "\n".join(texts(figures[name]))
        for cell in data.plan.cells:
            n, B = cell.num_generations, cell.problems_per_batch
            assert f"run {cell.run_id}\nn={n}, B={B}, seed {cell.seed}\nT=" in shown
    assert f"T={data.plan.cells[0].num_steps}, 2e6 FLOPs" in texts(figures["reward"])[1]


def test_names_in_hover_texts_stay_text() -> None:
    name = "<b>bold</b> & <a href='x'>y</a>"
    series = Series(x=(1.0,), y=(1.0,), text=(f"run {name}\nn=2",), label=name, marker="circle")
    axis = Axis(title=name)
    figure = Figure(title=name, caption="", x=axis, y=axis, series=(series,))
    drawn = json.dumps(to_plotly(figure).to_plotly_json())
    assert "<b>" not in drawn
    assert "<a " not in drawn
    assert "&lt;b&gt;bold" in drawn
    assert "<br>n=2" in drawn


def test_collapsed_and_unfinished_runs_are_marked_where_they_ended(
    full: Analysed, tmp_path: Path
) -> None:
    assert not {s.marker for s in drawn_of(full)["reward"].series} & {"x-open", "circle-open"}
    plan = make_plan(generations=(2, 4, 8), batches=(4, 8), seeds=(0, 1))
    paths = write_sweep(tmp_path, REWARD, plan=plan)
    write_end(paths, "run-n8-B4-s0", "cancelled", "by <hand>")
    records = records_file(paths, "run-n4-B4-s1")
    kept = records.read_text().splitlines(keepends=True)[:-2]
    records.write_text("".join(kept))
    rng = np.random.default_rng(0)
    for compute in BUDGETS[-2:]:
        step = round(compute / 1600)
        append_record(records.parent, 1, make_record(step, step * 16, 0.1, rng))
    data, _, figures = described(paths)
    marks = {s.marker: s for s in figures["reward"].series if s.x}
    collapsed = next(c for c in data.curves if c.collapsed_at is not None)
    assert marks["x-open"].x == (collapsed.compute[collapsed.collapsed_at or 0],)
    assert "run run-n4-B4-s1" in marks["x-open"].text[0]
    assert marks["circle-open"].x == (BUDGETS[-1],)
    assert "cancelled, by <hand>" in marks["circle-open"].text[0]
    assert "(cancelled)" in figures["reward"].caption
    # The mean ends there: that of the seeds that last would go up.
    means = (s for s in figures["reward"].series if s.text and s.text[0].startswith("mean over"))
    (mean,) = (s for s in means if "n=4, B=4" in s.text[0])
    assert mean.x == tuple(BUDGETS[:-2])


def test_of_an_n_whose_runs_all_fell_the_heat_map_has_what_they_were_left_with(
    full: Analysed,
) -> None:
    data = full.data
    fell = tuple(
        replace(r, reward=None, fallen=0.125) if r.cell.num_generations == 4 else r
        for r in data.readings
    )
    data = replace(data, readings=fell)
    heat_map = describe_figures(data, find(data, CONFIG)).drawn["heat_map"].heat_map
    assert heat_map is not None
    place = heat_map.rows.index("4")
    assert set(heat_map.text[place]) == {"fell to 0.125"}
    assert set(heat_map.values[place]) == {None}


def test_a_saturated_sweep_shows_plateau_and_intervals(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32, 64), seeds=(0, 1, 2, 3), budgets=LONG)
    _, findings, figures = described(write_sweep(tmp_path, REWARD, plan=plan, noise=0.002))
    saturation = findings.saturation
    assert saturation.plateau is not None
    assert saturation.settles_at is not None
    figure = figures["best_n"]
    labels = {series.label: series for series in figure.series if series.label}
    plateau = labels[f"plateau of n_d, {saturation.plateau.median:.3g}"]
    assert plateau.y[0] == saturation.plateau.median
    (upright,) = [s for label, s in labels.items() if label.startswith("from ")]
    assert set(upright.x) == {saturation.settles_at.median}
    bars = [series for series in figure.series if series.width == 7.0]
    assert [bar.y for bar in bars] == [
        (at.interval.low, at.interval.median, at.interval.high)
        for at in saturation.optima
        if at.interval is not None
    ]
    assert len(bars) == len(LONG)
    enough = [series for series in figure.series if series.width == 3.0]
    assert [bar.y[1] for bar in enough] == [
        at.enough.interval.median for at in saturation.optima if at.enough is not None
    ]
    assert len(enough) == len(LONG)
    assert len({bar.color for bar in enough} | {bars[0].color}) == 2
    assert all(n_d.x > n_star.x for n_d, n_star in zip(enough, bars, strict=True))


def test_plateau_and_growth_are_named_for_the_n_that_is_judged(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32, 64), seeds=(0, 1, 2, 3), budgets=LONG)
    data = load_sweep(write_sweep(tmp_path, REWARD, plan=plan, noise=0.002))
    config = replace(CONFIG, quantity="best")
    figures = describe_figures(data, find(data, config)).drawn
    labels = {series.label for series in figures["best_n"].series if series.label}
    assert {"n*, the best n", "n_d, smallest good enough"} <= labels
    assert any(label.startswith("plateau of n*") for label in labels)
    assert not any("of n_d" in label for label in labels)
    assert "n*, the best n" in figures["growth"].title
    judged = describe_figures(data, find(data, CONFIG)).drawn["growth"]
    assert "n_d, the smallest n that is good enough" in judged.title


def test_the_legend_of_a_narrow_figure_is_not_cut_off(full: Analysed) -> None:
    drawn = _draw(drawn_of(full)["best_n"], _LIGHT, "one_column")
    drawn.canvas.draw()
    (legend,) = drawn.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= drawn.bbox.width


def test_long_names_are_listed_below_a_figure_not_beside_it() -> None:
    def width(name: str) -> float:
        line = Series(x=(1.0, 2.0), y=(1.0, 2.0), label=name)
        axis = Axis(title="")
        figure = Figure(title="", caption="", x=axis, y=axis, series=(line,))
        drawn = _draw(figure, _LIGHT, "two_columns")
        drawn.canvas.draw()
        share: float = drawn.axes[0].get_position().width
        return share

    assert width("a name as long as that of many a comparison's variant") > 0.8
    assert width("a name") > 0.7


def test_diamonds_are_the_best_n_and_their_bars_its_intervals(full: Analysed) -> None:
    drawn = drawn_of(full)["reward"].series
    best = [s for s in drawn if s.marker == "diamond" and s.x]
    found = {x: (s.color, ends) for s in best for x, *ends in zip(s.x, s.low, s.high, strict=True)}
    colors = generation_colors(full.data.generations)
    assert found == {
        at.budget: (colors[at.best.num_generations], list(at.best.interval or ()))
        for at in full.findings.frontier.budgets
    }


def test_an_n_is_marked_where_it_begins_to_lose(full: Analysed) -> None:
    budgets = full.findings.frontier.budgets
    may_be_best = [set(at.candidates) for at in budgets]
    expected = {
        (budgets[last + 1].budget, n)
        for n in full.data.generations
        if any(n in found for found in may_be_best)
        and (last := max(i for i, found in enumerate(may_be_best) if n in found)) + 1 < len(budgets)
    }
    names = {color: n for n, color in generation_colors(full.data.generations).items()}
    marks = [s for s in drawn_of(full)["reward"].series if s.marker == "triangle-down-open" and s.x]
    assert {(s.x[0], names[s.color]) for s in marks} == expected != set()


def test_slices_follow_the_surface(full: Analysed) -> None:
    figures, surface = drawn_of(full), full.findings.surface
    assert surface is not None
    last = [series for series in figures["slices"].series if series.label][-1]
    means = surface.draws[:, -1].mean(axis=0).max(axis=1)
    assert last.x == tuple((2.0**surface.log2_n).tolist())
    assert last.y == pytest.approx(means)
    band = figures["slices"].bands[-1]
    assert all(low < y < high for low, y, high in zip(band.low, last.y, band.high, strict=True))


def test_at_most_six_slices_and_lines(tmp_path: Path) -> None:
    budgets = tuple(2e9 * 1.5**i for i in range(9))
    plan = make_plan(generations=MANY, batches=(2, 4, 8), seeds=(0,), budgets=budgets)

    def reward(compute: float, n: int, B: int) -> float:
        return float(0.6 - 0.01 * (np.log2(n) - 7) ** 2)

    _, findings, figures = described(write_sweep(tmp_path, reward, plan=plan))
    labels = [series.label for series in figures["slices"].series if series.label]
    assert (len(labels), labels[0], labels[-1]) == (6, "2e9 FLOPs", "5.13e10 FLOPs")
    lines = [series.label for series in figures["batch"].series if series.label]
    best = findings.frontier.budgets[-1].best.num_generations
    assert best == 128
    assert len(lines) == 6
    assert {"n = 2", "n = 1024", f"n = {best}"} <= set(lines)


def test_scores_equal_those_counted_from_the_files(full: Analysed) -> None:
    paths, data, figures = full.paths, full.data, drawn_of(full)
    choice = next(c for c in full.findings.frontier.budgets[-1].choices if c.num_generations == 8)
    counted = []
    for seed in (0, 1, 2):
        where = records_file(paths, f"run-n8-B{choice.cell.problems_per_batch}-s{seed}")
        last = json.loads(where.read_text().splitlines()[-1])["successes"]
        counted.append(
            (
                sum(s > 0 for s in last) / len(last),
                sum(last) / len(last) / SAMPLES,
                sum(s == SAMPLES for s in last) / len(last),
            )
        )
    lines = {s.label: s for s in figures["mechanism"].series}
    for name, values in zip(("best", "avg", "worst"), zip(*counted, strict=True), strict=True):
        line = lines[f"{name}@{SAMPLES}"]
        assert line.y[line.x.index(8.0)] == pytest.approx(sum(values) / 3)
    base = data.curves[0].successes[0]
    assert lines[f"best@{SAMPLES}, base"].y[0] == (base > 0).mean()


def test_residuals_are_records_minus_their_own_curve(tmp_path: Path) -> None:
    plan = make_plan(generations=(4,), seeds=(0, 1), budgets=BUDGETS)
    paths = paths_in(tmp_path)
    write_plan(paths, plan)
    rng = np.random.default_rng(0)
    steps = np.unique(np.geomspace(20, BUDGETS[-1] / 1600, 25).round()).astype(int).tolist()
    rewards = [0.2 + 0.5 / (1 + (1e6 / (step * 1600)) ** 1.5) for step in steps]
    course = [(0, 0.2), *zip(steps, rewards, strict=True)]
    for run in plan.runs:
        records = [make_record(step, step * 16, reward, rng) for step, reward in course]
        write_records(paths, run.run_id, records)
    data, findings, figures = described(paths)
    assert all(fit.asymptote is not None for fit in findings.fits)
    # Where all seeds identify a sigmoid, their mean is drawn through the records.
    (line,) = [s for s in figures["curves"].series if s.dash == "solid" and s.marker is None]
    rise = 0.2 + 0.5 / (1 + (1e6 / np.array(line.x)) ** 1.5)
    assert line.y == pytest.approx(rise.tolist(), abs=0.02)
    (points,) = [s for s in figures["residuals"].series if s.text]
    curve, fit = data.curves[0], findings.fits[0]
    assert fit.asymptote is not None
    assert fit.midpoint is not None
    assert fit.exponent is not None
    rise = 1 / (1 + (fit.midpoint.value / curve.compute[1:]) ** fit.exponent.value)
    expected = curve.reward[1:] - (0.2 + (fit.asymptote.value - 0.2) * rise)
    assert points.y[: len(expected)] == pytest.approx(expected, abs=1e-3)
    assert max(map(abs, points.y)) < 0.02


def test_a_search_shows_its_steps_at_the_compute_spent_and_what_was_known_when(
    full: Analysed,
) -> None:
    """The first two runs are asked for in three decisions."""
    data = full.data
    whole = sum(run.milestones[-1] for run in data.plan.runs)

    def step(milestone: float, spent: float | None, **known: object) -> dict[str, object]:
        about = {} if spent is None else {"compute": spent * whole, **known}
        return {"milestone": milestone, "value": 0.02, "why": "it tells most", "known": about}

    first, second = data.plan.runs[:2]
    early, late = {"growing": 0.3, "constant": 0.7}, {"growing": 0.9, "constant": 0.1}
    # What was taken up from elsewhere, at a compute that nobody knows, is left out.
    taken_up = step(first.milestones[0], None)
    trials = [
        (first.run_id, {"steps": [taken_up, step(first.milestones[0], 0.0, chances=None)]}),
        (second.run_id, {"steps": [step(second.milestones[1], 0.1, chances=early, loss=0.03)]}),
    ]
    decision = {"known": {"compute": 0.25 * whole, "chances": late, "loss": 0.01}}
    seen = replace(data, course=read_course(trials, decision))
    figures = describe_figures(seen, full.findings).drawn
    small, large = figures["decisions"].series
    assert [small.x[0], large.x[0]] == pytest.approx([0.0, 0.1])
    assert [small.y[0], large.y[0]] == [first.num_generations, second.num_generations]
    assert small.size < large.size
    known = figures["known_when"]
    lines = {series.label: series.y for series in known.series}
    assert lines == {"growing": (0.3, 0.9), "constant": (0.7, 0.1)}
    assert known.series[0].x == pytest.approx((0.1, 0.25))
    assert "0.03" in known.caption
    assert "0.01" in known.caption
