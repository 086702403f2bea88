"""Figures show what the findings say, whatever they say, on white and on black."""

import json
import re
import xml.etree.ElementTree
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.course import read_course
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.all import REPORT_FIGURES, draw_figures
from isosweep.analysis.figures.style import (
    Figure,
    finish,
    generation_colors,
    lines,
    marks,
    page_svg,
    panels,
    round_ticks,
    style,
    titled,
    write_figures,
)
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

TIP = "\u241e"
MANY = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def described(paths: SweepPaths) -> tuple[SweepData, Findings, dict[str, Figure]]:
    data = load_sweep(paths)
    findings = find(data, CONFIG)
    return data, findings, draw_figures(data, findings).drawn


def of_sweep(sweep: Analysed, name: str) -> Figure:
    return draw_figures(sweep.data, sweep.findings).drawn[name]


def words(artist: Any) -> list[str]:
    """What pointing at each mark of an artist shows, in order."""
    return (artist.get_gid() or "").split(TIP)[1:]


def marked(figure: Figure, marker: str) -> list[tuple[float, float, str]]:
    """Marks of one kind: x, y and words."""
    (axes,) = figure.drawn.axes
    return [
        (float(x), float(y), tip)
        for line in axes.get_lines()
        if line.get_marker() == marker
        for (x, y), tip in zip(np.asarray(line.get_xydata()), words(line), strict=False)
    ]


def bars_of(figure: Figure, start: str) -> list[tuple[float, float]]:
    """Both ends of the bars whose words begin so."""
    (axes,) = figure.drawn.axes
    return [
        (float(low), float(high))
        for each in axes.collections
        for path, tip in zip(each.get_paths(), words(each), strict=False)
        if tip.startswith(start)
        for low, high in [np.asarray(path.vertices)[:, 1]]
    ]


def lines_by_label(figure: Figure) -> dict[str, Any]:
    return {str(line.get_label()): line for line in figure.drawn.axes[0].get_lines()}


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
    figures = draw_figures(data, findings)
    assert figures.drawn.keys() == names
    assert {*figures.drawn, *figures.left_out} == {*REPORT_FIGURES}
    assert all(figures.left_out.values())
    for name, figure in figures.drawn.items():
        axes = figure.drawn.axes[0]
        assert axes.lines or axes.collections, name
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


def test_files_are_the_same_each_time(full: Analysed, tmp_path: Path) -> None:
    formats = ("png", "svg", "pdf")

    def written(name: str) -> list[bytes]:
        figure = {"reward": of_sweep(full, "reward")}
        paths = write_figures(figure, tmp_path / name, formats)
        assert [path.name for path in paths] == [f"reward.{kind}" for kind in formats]
        return [path.read_bytes() for path in paths]

    first = written("figures")
    assert written("again") == first
    # Two files of one second would not differ by their dates.
    assert b"CreationDate" not in first[2]
    assert b"dc:date" not in first[1]
    assert [content[:4] for content in first] == [b"\x89PNG", b"<?xm", b"%PDF"]
    xml.etree.ElementTree.fromstring(first[1])


def test_runs_end_where_their_last_records_have_right_answers_and_solved_problems(
    full: Analysed,
) -> None:
    dots = marked(of_sweep(full, "sharpening"), "o")
    ((x, y, tip),) = [dot for dot in dots if dot[2].startswith("n = 8, seed 1")]
    lost = {}
    for batch in (2, 4, 8):
        lines = records_file(full.paths, f"run-n8-B{batch}-s1").read_text().splitlines()
        read = [json.loads(line).get("successes") for line in lines]
        first, last = (np.array(each) for each in (next(x for x in read if x), read[-1]))
        lost[last.mean() / 8, (last > 0).mean()] = (last[first > 0] == 0).mean()
    assert tip.endswith(f"lost {lost[x, y]:.0%} of the solved")


def test_runs_that_count_different_numbers_of_samples_are_not_set_side_by_side(
    full: Analysed,
) -> None:
    curves = tuple(
        replace(c, samples_per_problem=16) if c.run.num_generations == 8 else c
        for c in full.data.curves
    )
    figures = draw_figures(replace(full.data, curves=curves), full.findings)
    assert "differ in how many samples" in figures.left_out["sharpening"]


def test_in_the_page_letters_stay_text_and_every_mark_has_its_words() -> None:
    name = "<b>bold</b> & $x$"
    with style():
        (axes,) = panels()
        courses = [((1.0, 2.0), (k, k), f"run {name}\nk={k}") for k in range(3)]
        lines(axes, courses, "#440154", label=name)
        marks(axes, [(1.0, 1.23456, "2.6789 (2.0961 to 3.3012)")], "#21918c")
        svg = page_svg(finish(axes, name, ""), "name")
    # Numbers that are read keep their digits.
    assert "<title>2.6789 (2.0961 to 3.3012)</title>" in svg
    assert "<b>" not in svg
    assert svg.count("&lt;b&gt;bold&lt;/b&gt; &amp; $x$</text>") == 1
    found = re.findall(r"<path [^>]*#440154[^>]*><title>(.*?)</title></path>", svg, re.DOTALL)
    assert found == [f"run &lt;b&gt;bold&lt;/b&gt; &amp; $x$\nk={k}" for k in range(3)]
    assert not re.findall(r' id="(?!m|p|C)', svg)
    xml.etree.ElementTree.fromstring(svg.replace("xlink:", ""))


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
    collapsed = next(c for c in data.curves if c.collapsed_at is not None)
    ((x, _, tip),) = marked(figures["reward"], "x")
    assert x == collapsed.compute[collapsed.collapsed_at or 0]
    assert "run run-n4-B4-s1" in tip
    ((x, _, tip),) = marked(figures["reward"], "o")
    assert x == BUDGETS[-1]
    assert "cancelled, by <hand>" in tip
    assert "(cancelled)" in figures["reward"].caption
    whole = of_sweep(full, "reward")
    assert not marked(whole, "x") + marked(whole, "o")


def test_a_saturated_sweep_shows_plateau_and_intervals(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32, 64), seeds=(0, 1, 2, 3), budgets=LONG)
    data, findings, figures = described(write_sweep(tmp_path, REWARD, plan=plan, noise=0.002))
    saturation = findings.saturation
    assert saturation.plateau is not None
    assert saturation.settles_at is not None
    labels = lines_by_label(figures["best_n"])
    plateau = labels[f"plateau of n_d, {saturation.plateau.median:.3g}"]
    assert set(plateau.get_ydata()) == {saturation.plateau.median}
    assert plateau.get_xdata()[0] == saturation.settles_at.median
    optima = findings.frontier.optima
    for start, intervals in (
        ("n* at", [at.n_star for at in optima]),
        ("n_d at", [at.n_d for at in optima]),
    ):
        bars = bars_of(figures["best_n"], start)
        ends = [
            (min(at.low, at.median / 1.02), max(at.high, at.median * 1.02))
            for at in intervals
            if at is not None
        ]
        assert np.array(bars) == pytest.approx(np.array(ends))
        assert len(bars) == len(LONG)
    assert "n_d, the smallest n that is good enough" in figures["growth"].title
    # Plateau and growth are named for the n that is judged.
    judged = draw_figures(data, find(data, replaced(CONFIG, quantity="best"))).drawn
    labels = lines_by_label(judged["best_n"])
    assert any(label.startswith("plateau of n*") for label in labels)
    assert not any("plateau of n_d" in label for label in labels)
    assert "n*, the best n" in judged["growth"].title


def test_no_words_are_cut_off_or_covered(full: Analysed) -> None:
    for name, figure in draw_figures(full.data, full.findings).drawn.items():
        drawn = titled(figure)
        drawn.canvas.draw()
        boxes = [axes.get_tightbbox() for axes in drawn.axes]
        boxes += [legend.get_window_extent() for legend in drawn.legends]
        boxes += [text.get_window_extent() for text in drawn.texts]
        for box in boxes:
            assert box is not None
            assert -1 <= box.x0 < box.x1 <= drawn.bbox.width + 1, name
            assert -1 <= box.y0 < box.y1 <= drawn.bbox.height + 1, name
        for axes, legend in product(boxes[: len(drawn.axes)], boxes[len(drawn.axes) : -1]):
            assert axes is not None
            assert legend is not None
            assert legend.y1 <= axes.y0 + 1, name


def test_diamonds_are_the_best_n_and_their_bars_its_intervals(full: Analysed) -> None:
    figure = of_sweep(full, "reward")
    choices = [(at.budget, at.best) for at in full.findings.frontier.budgets]
    diamonds = sorted((x, y) for x, y, _ in marked(figure, "D"))
    assert diamonds == [(budget, best.expected) for budget, best in choices]
    ends = sorted(best.interval for _, best in choices if best.interval)
    assert np.array(sorted(bars_of(figure, "n="))) == pytest.approx(np.array(ends))
    colors = generation_colors(full.data.generations)
    lines = {line.get_color() for line in figure.drawn.axes[0].get_lines() if words(line)}
    assert lines == {colors[best.num_generations] for _, best in choices}


def test_slices_follow_the_surface(full: Analysed) -> None:
    surface = full.findings.surface
    assert surface is not None
    figure = of_sweep(full, "slices")
    last = lines_by_label(figure)["3.2e7 FLOPs"]
    means = surface.draws[:, -1].mean(axis=0).max(axis=1)
    assert last.get_xdata() == pytest.approx(2.0**surface.log2_n)
    assert last.get_ydata() == pytest.approx(means)
    assert len(figure.drawn.axes[0].collections) == len(BUDGETS)


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
    (line,) = [each for each in figures["curves"].drawn.axes[0].get_lines() if not words(each)]
    rise = 0.2 + 0.5 / (1 + (1e6 / np.array(line.get_xdata())) ** 1.5)
    assert line.get_ydata() == pytest.approx(rise, abs=0.02)
    assert len(marked(figures["curves"], "o")) == len(rise) == 24


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
    figure = draw_figures(seen, full.findings).drawn["decisions"]
    small, large = figure.drawn.axes[0].get_lines()
    places = [(x, n) for x, n, _ in marked(figure, "o")]
    expected = [0.0, first.num_generations, 0.1, second.num_generations]
    assert [value for pair in places for value in pair] == pytest.approx(expected)
    assert small.get_markersize() < large.get_markersize()


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((8e18, 4e20), [1e19, 2e19, 5e19, 1e20, 2e20]),
        ((1e10, 9e12), [1e10, 3e10, 1e11, 3e11, 1e12, 3e12]),
        ((1e8, 1e17), [1e8, 1e10, 1e12, 1e14, 1e16]),
        ((2.2e9, 2.7e9), [2.4e9]),
    ],
)
def test_ticks_of_compute_are_round_numbers(ends: tuple[float, float], labels: list[float]) -> None:
    assert round_ticks(*ends, 8) == pytest.approx(labels)
