"""The report's first screen says what to use, what was spent and left, and how runs ended."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isosweep.analysis.answer import Fact, facts
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.analysis.statistics.fits import FitStatus
from isosweep.analysis.statistics.intervals import short
from isosweep.store.warnings import LOST_CHECKPOINT, HealthWarning
from tests.analysis.conftest import CONFIG, Analysed
from tests.analysis.sweeps import (
    BUDGETS,
    REWARD,
    SMALL,
    paths_in,
    write_end,
    write_plan,
    write_run,
)


def by_term(found: tuple[Fact, ...]) -> dict[str, Fact]:
    return {fact.term: fact for fact in found}


def test_a_whole_sweep_has_nothing_left(full: Analysed) -> None:
    said = by_term(facts(full.data, full.findings, ["grid.seeds=[0,1]", "twice the time"]))
    best = full.findings.frontier.budgets[-1].best
    cell = best.cell
    assert said["Use"].answer == (
        f"n = {cell.num_generations}, B = {cell.problems_per_batch}, T = {cell.num_steps}"
    )
    assert said["Spent"].detail.endswith("nothing is left to train")
    assert said["Runs"].answer == "45 of 45 finished"
    assert "no warning of training's health" in said["Runs"].detail
    assert (said["To be surer"].answer, said["To be surer"].detail) == (
        *("grid.seeds=[0,1]", "twice the time"),
    )
    then, coverage = said["Reward"].detail.split("; ")
    assert " expected, with n = " in then
    assert then.endswith(" by the last 2x of compute")
    assert coverage == "best@8 (any of them right) 1.000, from 0.832"
    optimum = full.findings.saturation.optima[-1]
    assert (
        f"n*, which may lie between the n that were run, is {optimum.words}" in said["Use"].detail
    )
    assert "no B but" not in said["Use"].detail
    assert said["Spent"].detail.startswith("budgets ")


def test_what_is_left_counts_no_run_that_has_ended(tmp_path: Path) -> None:
    paths, rng = paths_in(tmp_path), np.random.default_rng(0)
    write_plan(paths, SMALL)
    done, halfway, failed, *unseen = SMALL.runs
    write_run(paths, done, SMALL.budgets, REWARD, rng, 0.0)
    for run in (halfway, failed):
        write_run(paths, run, SMALL.budgets[:2], REWARD, rng, 0.0)
    write_end(paths, failed.run_id, "failed", "out of memory")
    data = load_sweep(paths)
    said = by_term(facts(data, find(data, CONFIG), []))
    left = BUDGETS[2] - BUDGETS[1] + len(unseen) * BUDGETS[2]
    rest = f"33% of the plan's 4.8e7; {short(left)} FLOPs left to train"
    assert said["Spent"].detail.endswith(f" a run; evaluation not counted; {rest}")
    assert said["Runs"].answer.startswith("1 of 6 finished; 3 never started, ")
    assert "1 failed" in said["Runs"].answer
    assert "To be surer" not in said


def test_without_records_nothing_is_recommended(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    write_plan(paths, SMALL)
    data = load_sweep(paths)
    said = by_term(facts(data, find(data, CONFIG), []))
    assert said["Use"].answer == "nothing yet: no run has reached a budget"
    assert said["Spent"].answer == "0 FLOPs"


def test_hours_are_counted_where_records_have_them(full: Analysed) -> None:
    curves = tuple(replace(curve, device_hours=0.5) for curve in full.data.curves)
    said = by_term(facts(replace(full.data, curves=curves), full.findings, []))
    assert said["Spent"].answer.endswith(", 22.5 device-hours")
    assert pytest.approx(22.5) == 0.5 * len(curves)


def test_the_rules_of_health_that_runs_broke_are_counted(full: Analysed) -> None:
    first, second, *others = full.data.curves
    low, high, lost = (
        HealthWarning.without_value(3, rule, rule)
        for rule in ("entropy_collapse", "high_kl", LOST_CHECKPOINT)
    )
    warned = replace(first, warnings=(low, low)), replace(second, warnings=(high, low, lost))
    curves = (*warned, *others)
    detail = by_term(facts(replace(full.data, curves=curves), full.findings, []))["Runs"].detail
    assert detail.startswith(
        "warned of entropy_collapse in 2 of 45 runs (n = 2, B = 2, seed 0; n = 2, B = 2, seed 1), "
        "high_kl in 1 of 45 runs (n = 2, B = 2, seed 1); "
    )
    broken = tuple(replace(curve, warnings=(low,)) for curve in full.data.curves[:3])
    curves = (*broken, *full.data.curves[3:])
    detail = by_term(facts(replace(full.data, curves=curves), full.findings, []))["Runs"].detail
    assert detail.startswith("warned of entropy_collapse in 3 of 45 runs; ")


def open_above(analysed: Analysed, unread: tuple[int, ...] = ()) -> Findings:
    """What was found, as if the best n were the largest that was run, and perhaps beyond it."""
    findings = analysed.findings
    *budgets, at = findings.frontier.budgets
    budgets.append(replace(at, best=at.choices[-1]))
    frontier = replace(findings.frontier, budgets=tuple(budgets), unread=unread)
    *optima, last = findings.saturation.optima
    optima.append(replace(last, best=at.measured[-1], right_censored=True))
    saturation = replace(findings.saturation, verdict="grew", optima=tuple(optima))
    return replace(findings, frontier=frontier, saturation=saturation)


def test_where_the_best_n_may_lie_beyond_the_grid_larger_n_come_first(full: Analysed) -> None:
    advice = ["grid.seeds=[0,1]", "Twice the time."]
    found = open_above(full)
    largest = full.data.generations[-1]
    said = by_term(facts(full.data, found, advice))["To be surer"]
    every = ",".join(map(str, (*full.data.generations, 2 * largest)))
    assert said.answer.startswith(f"grid.num_generations=[{every}] (one n more beside ")
    assert said.detail == (
        f"the best n may lie beyond n = {largest}, of which nothing else tells. After that: "
        "grid.seeds=[0,1] Twice the time."
    )
    # Those of the plan that are not begun come before any that it lacks.
    said = by_term(facts(full.data, open_above(full, (64, 128)), advice))["To be surer"]
    last = short(full.data.plan.budgets[-1])
    assert said.answer == f"runs of n = 64, 128 up to {last} FLOPs"
    closed = replace(found, saturation=replace(found.saturation, verdict="constant"))
    said = by_term(facts(full.data, closed, advice))["To be surer"]
    assert said.answer == "grid.seeds=[0,1]"


def test_runs_that_never_rose_are_counted(full: Analysed) -> None:
    flat = tuple(replace(fit, status=FitStatus.NO_RISE) for fit in full.findings.fits[:4])
    findings = replace(full.findings, fits=(*flat, *full.findings.fits[4:]))
    detail = by_term(facts(full.data, findings, []))["Runs"].detail
    assert "4 of 45 show no rise above noise" in detail
    assert "no rise" not in by_term(facts(full.data, full.findings, []))["Runs"].detail


def test_runs_that_collapsed_are_named_with_what_they_were_left_with(tmp_path: Path) -> None:
    paths, rng = paths_in(tmp_path), np.random.default_rng(0)
    write_plan(paths, SMALL)
    for run in SMALL.runs:
        write_run(paths, run, SMALL.budgets, REWARD, rng, 0.0)
    data = load_sweep(paths)
    smallest = [c for c in data.curves if c.run.num_generations == data.generations[0]]
    ids = {curve.run.run_id for curve in smallest}
    data = replace(
        data,
        curves=tuple(replace(c, collapsed_at=3) if c in smallest else c for c in data.curves),
        readings=tuple(
            replace(r, fallen=0.125) if r.cell.run_id in ids else r for r in data.readings
        ),
    )
    detail = by_term(facts(data, find(data, CONFIG), []))["Runs"].detail
    n, count = data.generations[0], len(smallest)
    assert detail.startswith(f"n = {n}: {count} of {count} collapsed, to 0.125; no warning")
