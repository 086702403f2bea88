"""The report's first screen says what to use, what was spent and left, and how runs ended."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isosweep.analysis.answer import Fact, facts
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import find
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
    assert said["Reward"].detail.endswith("by the last 2x of compute")
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
        "warned of entropy_collapse in 2 of 45 runs, high_kl in 1 of 45 runs; "
    )


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
