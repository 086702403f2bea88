"""Figures show what the findings say, whatever they say, on white and on black."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.axes import Axes

from isosweep.analysis.course import read_course
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.all import REPORT_FIGURES, describe_figures
from isosweep.analysis.figures.canvas import Canvas, Figure, generation_colors, round_ticks
from isosweep.analysis.figures.colors import DARK, SCALE
from isosweep.analysis.figures.output import page_svg, write_figures
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.config.base import replaced
from isosweep.store.paths import SweepPaths
from isosweep.store.records import append_record
from tests.analysis.conftest import CONFIG, Analysed
from tests.analysis.sweeps import (
    BUDGETS,
    LONG,
    REWARD,
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


def of_sweep(sweep: Analysed, name: str) -> Figure:
    return describe_figures(sweep.data, sweep.findings).drawn[name]


def shown(figure: Figure, panel: int = 0) -> tuple[Axes, dict[str, Any]]:
    """One panel, drawn, and its marks by the words that pointing at them shows."""
    drawn, tips = figure.drawn((6.8, 3.6))
    axes = drawn.axes[panel]
    return axes, {tips[name]: line for line in axes.get_lines() if (name := line.get_gid())}


def place(mark: Any) -> tuple[float, float]:
    return float(mark.get_xdata()[0]), float(mark.get_ydata()[0])


def marked(marks: dict[str, Any], marker: str) -> dict[str, Any]:
    return {tip: mark for tip, mark in marks.items() if mark.get_marker() == marker}


def lines_by_label(axes: Axes) -> dict[str, Any]:
    return {str(line.get_label()): line for line in axes.get_lines()}


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


ALWAYS = {"reward", "best_n", "sharpening"}
OF_B = ALWAYS | {"heat_map", "slices"}


def checked(data: SweepData, findings: Findings, names: set[str]) -> dict[str, Figure]:
    """All figures, which are those `names`, none of them empty."""
    figures = describe_figures(data, findings)
    assert figures.drawn.keys() == names
    assert [*figures.drawn, *figures.left_out] == sorted(
        (figure.name for figure in REPORT_FIGURES), key=lambda name: name in figures.left_out
    )
    assert all(figures.left_out.values())
    for name, figure in figures.drawn.items():
        axes, marks = shown(figure)
        assert marks or len(axes.texts) > 1, name
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


def test_files_are_the_same_each_time_and_dark_ones_are_dark(
    full: Analysed, tmp_path: Path
) -> None:
    only, formats = {"reward": of_sweep(full, "reward")}, ("png", "svg", "pdf", "dark_png")
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
    light, black = (matplotlib.image.imread(paths[i]) for i in (0, 3))
    assert light[0, 0, :3].mean() == 1.0
    assert black[0, 0, :3].mean() < 0.15


def test_runs_end_where_their_last_records_have_right_answers_and_solved_problems(
    full: Analysed,
) -> None:
    _, marks = shown(of_sweep(full, "sharpening"))
    (dots,) = [mark for tip, mark in marked(marks, "o").items() if tip.startswith("n = 8, seed 1")]
    lost = {}
    for batch in (2, 4, 8):
        lines = records_file(full.paths, f"run-n8-B{batch}-s1").read_text().splitlines()
        read = [json.loads(line).get("successes") for line in lines]
        first, last = (np.array(each) for each in (next(x for x in read if x), read[-1]))
        lost[last.mean() / 8, (last > 0).mean()] = (last[first > 0] == 0).mean()
    (tip,) = [tip for tip, mark in marks.items() if mark is dots]
    assert tip.endswith(f"lost {lost[place(dots)]:.0%} of the problems solved before")


def test_runs_that_count_different_numbers_of_samples_are_not_set_side_by_side(
    full: Analysed,
) -> None:
    curves = tuple(
        replace(c, samples_per_problem=16) if c.run.num_generations == 8 else c
        for c in full.data.curves
    )
    figures = describe_figures(replace(full.data, curves=curves), full.findings)
    assert "differ in how many samples" in figures.left_out["sharpening"]


def test_in_the_page_colours_follow_its_own_and_names_stay_text() -> None:
    name = "<b>bold</b> & $x$"

    def draw(canvas: Canvas) -> None:
        canvas.line((1.0, 2.0), (1.0, 2.0), SCALE[0], label=name, tip=f"run {name}\nn=2")

    svg = page_svg(Figure(title="", caption="", draw=(draw,)), "name")
    assert "<b>" not in svg
    assert f"light-dark({SCALE[0]},{DARK[SCALE[0]]})" in svg
    assert "<title>run &lt;b&gt;bold&lt;/b&gt; &amp; $x$\nn=2</title>" in svg
    assert not re.findall(r' id="(?!m|p|C|tip)', svg)


def test_collapsed_and_unfinished_runs_are_marked_where_they_ended(
    full: Analysed, tmp_path: Path
) -> None:
    plan = make_plan(generations=(2, 4, 8), batches=(4,), seeds=(0, 1))
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
    _, marks = shown(figures["reward"])
    collapsed = next(c for c in data.curves if c.collapsed_at is not None)
    ((tip, cross),) = marked(marks, "x").items()
    assert place(cross)[0] == collapsed.compute[collapsed.collapsed_at or 0]
    assert "run run-n4-B4-s1" in tip
    ((tip, circle),) = marked(marks, "o").items()
    assert place(circle)[0] == BUDGETS[-1]
    assert "cancelled, by <hand>" in tip
    assert "(cancelled)" in figures["reward"].caption
    whole = shown(of_sweep(full, "reward"))[1]
    assert not marked(whole, "x") | marked(whole, "o")


def test_a_saturated_sweep_shows_plateau_and_intervals(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32, 64), seeds=(0, 1, 2, 3), budgets=LONG)
    data, findings, figures = described(write_sweep(tmp_path, REWARD, plan=plan, noise=0.002))
    saturation = findings.saturation
    assert saturation.plateau is not None
    assert saturation.settles_at is not None
    axes, marks = shown(figures["best_n"])
    labels = lines_by_label(axes)
    assert place(labels[f"plateau of n_d, {saturation.plateau.median:.3g}"])[1] == (
        saturation.plateau.median
    )
    (upright,) = [line for label, line in labels.items() if label.startswith("from ")]
    assert set(upright.get_xdata()) == {saturation.settles_at.median}
    for start, found in (
        ("n*, the best n", [at.n_star for at in findings.frontier.optima]),
        ("n_d, smallest", [at.n_d for at in findings.frontier.optima]),
    ):
        bars = [line for tip, line in marks.items() if tip.startswith(start)]
        assert [tuple(bar.get_ydata()) for bar in bars] == [
            (each.low, each.high) for each in found if each
        ]
        assert len(bars) == len(LONG)
    assert "n_d, the smallest n that is good enough" in figures["growth"].title
    # Plateau and growth are named for the n that is judged.
    judged = describe_figures(data, find(data, replaced(CONFIG, quantity="best"))).drawn
    labels = lines_by_label(shown(judged["best_n"])[0])
    assert any(label.startswith("plateau of n*") for label in labels)
    assert not any("plateau of n_d" in label for label in labels)
    assert "n*, the best n" in judged["growth"].title


@pytest.mark.parametrize("inches", [3.3, 4.6, 6.8])
def test_the_legend_is_not_cut_off(full: Analysed, inches: float) -> None:
    drawn, _ = of_sweep(full, "best_n").drawn((inches, 2.8))
    drawn.canvas.draw()
    (legend,) = drawn.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= drawn.bbox.width


def test_diamonds_are_the_best_n_and_their_bars_its_intervals(full: Analysed) -> None:
    _, marks = shown(of_sweep(full, "reward"))
    budgets = full.findings.frontier.budgets
    colors = generation_colors(full.data.generations)
    found = {place(mark)[0]: mark.get_color() for mark in marked(marks, "D").values()}
    assert found == {at.budget: colors[at.best.num_generations] for at in budgets}


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
    marks = marked(shown(of_sweep(full, "reward"))[1], "v").values()
    assert {(place(mark)[0], names[mark.get_color()]) for mark in marks} == expected != set()


def test_slices_follow_the_surface(full: Analysed) -> None:
    surface = full.findings.surface
    assert surface is not None
    axes, _ = shown(of_sweep(full, "slices"))
    last = lines_by_label(axes)["3.2e7 FLOPs"]
    means = surface.draws[:, -1].mean(axis=0).max(axis=1)
    assert last.get_xdata() == pytest.approx(2.0**surface.log2_n)
    assert last.get_ydata() == pytest.approx(means)
    assert len(axes.collections) == len(BUDGETS)


def test_a_fitted_sigmoid_is_drawn_through_the_records(tmp_path: Path) -> None:
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
    _, findings, figures = described(paths)
    assert all(fit.asymptote is not None for fit in findings.fits)
    axes, marks = shown(figures["curves"])
    (line,) = [line for line in axes.get_lines() if not line.get_gid()]
    rise = 0.2 + 0.5 / (1 + (1e6 / np.array(line.get_xdata())) ** 1.5)
    assert line.get_ydata() == pytest.approx(rise, abs=0.02)
    assert len(marks) == len(rise) == 24
    assert [text.get_text() for text in axes.texts] == ["n = 4"]


def test_a_search_shows_its_steps_at_the_compute_spent(full: Analysed) -> None:
    data = full.data
    whole = sum(run.milestones[-1] for run in data.plan.runs)

    def step(milestone: float, spent: float | None) -> dict[str, object]:
        about = {} if spent is None else {"compute": spent * whole}
        return {"milestone": milestone, "value": 0.02, "why": "it tells most", "known": about}

    first, second = data.plan.runs[:2]
    # What was taken up from elsewhere, at a compute that nobody knows, is left out.
    taken_up = step(first.milestones[0], None)
    trials = [
        (first.run_id, {"steps": [taken_up, step(first.milestones[0], 0.0)]}),
        (second.run_id, {"steps": [step(second.milestones[1], 0.1)]}),
    ]
    seen = replace(data, course=read_course(trials))
    _, marks = shown(describe_figures(seen, full.findings).drawn["decisions"])
    small, large = marks.values()
    assert place(small) == (0.0, first.num_generations)
    assert place(large) == pytest.approx((0.1, second.num_generations))
    assert small.get_markersize() < large.get_markersize()


def test_names_of_lines_that_would_overlap_are_moved_apart() -> None:
    def draw(canvas: Canvas) -> None:
        for y in (0.0, 0.5, 0.5, 0.51, 1.0):
            canvas.line((1.0, 2.0), (y, y), SCALE[0])
            canvas.name_end(2.0, y, str(y), SCALE[0])

    axes, _ = shown(Figure(title="", caption="", draw=(draw,)))
    low, high = axes.get_ylim()
    places = [float(text.xyann[1]) for text in axes.texts if hasattr(text, "xyann")]
    assert all(b - a > 0.06 for a, b in pairwise(places))
    assert sum(places[1:4]) == pytest.approx(
        sum((y - low) / (high - low) for y in (0.5, 0.5, 0.51))
    )
    assert places[-1] == pytest.approx((1.0 - low) / (high - low))


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((8e18, 4e20), ["1e19", "2e19", "5e19", "1e20", "2e20"]),
        ((1e10, 9e12), ["1e10", "3e10", "1e11", "3e11", "1e12", "3e12"]),
        ((1e8, 1e17), ["1e8", "1e10", "1e12", "1e14", "1e16"]),
        ((2.2e9, 2.7e9), ["2.2e9", "2.7e9"]),
    ],
)
def test_ticks_of_compute_are_round_numbers(ends: tuple[float, float], labels: list[str]) -> None:
    assert [text for _, text in round_ticks(*ends, 8)] == labels
