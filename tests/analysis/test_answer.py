"""The report's first screen says what to use, what was spent and left, and how runs ended."""

from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.answer import Advice, Fact, facts
from isosweep.analysis.course import Course
from isosweep.analysis.curves import SweepData
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.analysis.statistics.fits import FitStatus
from isosweep.analysis.statistics.frontier import fit_frontier
from isosweep.analysis.statistics.intervals import short
from isosweep.analysis.statistics.recommend import recommend
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.analysis.summary import summarise
from isosweep.errors import SettingError
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


def small_and_whole(root: Path) -> SweepData:
    paths, rng = paths_in(root), np.random.default_rng(0)
    write_plan(paths, SMALL)
    for run in SMALL.runs:
        write_run(paths, run, SMALL.budgets, REWARD, rng, 0.0)
    return load_sweep(paths)


def test_a_whole_sweep_has_nothing_left(full: Analysed) -> None:
    advice = Advice(surer=("grid.seeds=[0,1]", "twice the time"))
    said = by_term(facts(full.data, full.findings, advice))
    best = full.findings.frontier.budgets[-1].best
    cell = best.cell
    assert said["Use"].answer == (
        f"n = {cell.num_generations}, B = {cell.problems_per_batch}, T = {cell.num_steps}"
    )
    assert said["Spent"].detail.endswith("nothing is left to train")
    assert said["Runs"].answer == "45 runs: 45 done"
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
    said = by_term(facts(data, find(data, CONFIG), Advice()))
    left = 2 * (BUDGETS[2] - BUDGETS[1]) + len(unseen) * BUDGETS[2]
    of_failed = f"{short(BUDGETS[2] - BUDGETS[1])} of it in runs that failed (retry_failed=true)"
    rest = f"33% of the plan's 4.8e7; {short(left)} FLOPs left to train, {of_failed}"
    assert said["Spent"].detail.endswith(f" a run; evaluation not counted; {rest}")
    assert said["Runs"].answer == "6 runs: 3 not begun, 1 interrupted, 1 failed, 1 done"
    # One seed, of which n = 4 and 8 have not come so far.
    assert "; n = 4, 8 have not come that far" in said["Use"].detail
    assert said["To be surer"].answer == f"runs of n = 4, 8 up to {short(BUDGETS[2])} FLOPs"


def test_without_records_nothing_is_recommended(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    write_plan(paths, SMALL)
    data = load_sweep(paths)
    said = by_term(facts(data, find(data, CONFIG), Advice()))
    assert said["Use"].answer == "nothing to recommend yet: no run has reached a budget"
    assert said["Spent"].answer == "0 FLOPs"


def test_hours_are_counted_where_records_have_them(full: Analysed) -> None:
    curves = tuple(replace(curve, device_hours=0.5) for curve in full.data.curves)
    said = by_term(facts(replace(full.data, curves=curves), full.findings, Advice()))
    assert said["Spent"].answer.endswith(", 22.5 device-hours")
    assert pytest.approx(22.5) == 0.5 * len(curves)


def test_runs_too_short_to_be_judged_are_not_said_to_be_healthy(full: Analysed) -> None:
    """Of 45 runs those of fewer than `window` steps; all, where it is longer than any."""
    made = sorted(int(curve.generations[-1]) for curve in full.data.curves)
    for window, few in ((made[0], 0), (made[20], bisect_left(made, made[20])), (10**9, 45)):
        data = replace(full.data, config_document={"health": {"window": window}})
        detail = by_term(facts(data, full.findings, Advice()))["Runs"].detail
        said = f"health of {few} of 45 runs not judged: fewer than {window} steps"
        assert (said in detail) == (few > 0)
        assert ("no warning of training's health" in detail) == (few < 45)


def test_the_rules_of_health_that_runs_broke_are_counted(full: Analysed) -> None:
    first, second, *others = full.data.curves
    low, high, lost = (
        HealthWarning.without_value(3, rule, rule)
        for rule in ("entropy_collapse", "high_kl", LOST_CHECKPOINT)
    )
    warned = replace(first, warnings=(low, low)), replace(second, warnings=(high, low, lost))
    curves = (*warned, *others)
    detail = by_term(facts(replace(full.data, curves=curves), full.findings, Advice()))[
        "Runs"
    ].detail
    assert detail.startswith(
        "warned of entropy_collapse in 2 of 45 runs (n = 2, B = 2, seed 0; n = 2, B = 2, seed 1), "
        "high_kl in 1 of 45 runs (n = 2, B = 2, seed 1); "
    )
    broken = tuple(replace(curve, warnings=(low,)) for curve in full.data.curves[:3])
    curves = (*broken, *full.data.curves[3:])
    detail = by_term(facts(replace(full.data, curves=curves), full.findings, Advice()))[
        "Runs"
    ].detail
    assert detail.startswith("warned of entropy_collapse in 3 of 45 runs; ")


def open_at_the_end(
    analysed: Analysed, verdict: Verdict = "grew", *, below: bool = False, **of_budget: Any
) -> Findings:
    """What was found, as if the best n were the largest that was run, or the smallest."""
    findings = analysed.findings
    *budgets, at = findings.frontier.budgets
    place = 0 if below else -1
    budgets.append(replace(at, best=at.choices[place], **of_budget))
    frontier = replace(findings.frontier, budgets=tuple(budgets))
    *optima, last = findings.saturation.optima
    last = replace(last, best=at.measured[place])
    optima.append(replace(last, left_censored=below, right_censored=not below))
    saturation = replace(findings.saturation, verdict=verdict, optima=tuple(optima))
    return replace(findings, frontier=frontier, saturation=saturation)


def test_what_would_close_an_open_end_comes_first(full: Analysed) -> None:
    advice = Advice(surer=("grid.seeds=[0,1]", "Twice."), further=lambda n: f"n of {n}")

    def surer(found: Findings) -> tuple[str, str]:
        fact = by_term(facts(full.data, found, advice))["To be surer"]
        return fact.answer, fact.detail

    after = "of which nothing else tells. After that: grid.seeds=[0,1]. Twice."
    assert surer(open_at_the_end(full)) == ("n of 64", f"n* may lie beyond n = 32, {after}")
    assert surer(open_at_the_end(full, "constant")) == ("grid.seeds=[0,1]", "Twice.")
    # There is no n below 2.
    lowest = open_at_the_end(full, "not identified", below=True)
    assert surer(lowest) == ("grid.seeds=[0,1]", "Twice.")
    # Runs of the plan that have not come so far are before any n that it lacks.
    missing = open_at_the_end(full, missing=(64, 128))
    last = short(full.data.plan.budgets[-1])
    answer, detail = surer(missing)
    assert answer == f"runs of n = 64, 128 up to {last} FLOPs"
    assert detail.startswith("What n* is there, nothing else tells as well. After that: grid.")
    # What has fallen was run: nothing more of it is asked for.
    assert surer(open_at_the_end(full, fell=(64,))) == ("grid.seeds=[0,1]", "Twice.")


def test_the_answer_is_of_a_budget_that_runs_of_every_n_have_reached(full: Analysed) -> None:
    found = open_at_the_end(full, missing=(8, 32))
    *others, at = found.frontier.budgets
    kept = tuple(choice for choice in at.choices if choice.num_generations not in (8, 32))
    behind = replace(at, choices=kept, best=kept[-1])
    found = replace(found, frontier=replace(found.frontier, budgets=(*others, behind)))
    *_, before, last = (short(at.budget) for at in found.frontier.budgets)
    said = by_term(facts(full.data, found, Advice()))
    ahead = "that runs of n = 8, 32 have reached as well"
    assert said["Use"].detail.startswith(
        f"at {before} FLOPs, the largest {ahead}: expected reward "
    )
    assert "runs of n = 8 and 32 have reached as well, use n" in summarise(full.data, found)[0]
    # Searches leave n out on purpose.
    data = replace(full.data, config_document={"search": {"kind": "frontier"}})
    said = by_term(facts(data, found, Advice()))
    assert said["Use"].detail.startswith(f"at {last} FLOPs: expected reward ")
    assert "; best of n = 2, 4, 16 with " in said["Use"].detail
    assert "%; n = 8, 32 have not come that far; " in said["Use"].detail
    assert "2x of compute brought is open while runs of other n" in said["Reward"].detail
    # Nor does it matter what n far from the best one have come to.
    far = open_at_the_end(full, missing=(2,))
    assert by_term(facts(full.data, far, Advice()))["Use"].detail.startswith(f"at {last} FLOPs: ")


def test_a_seed_that_fell_is_told_with_what_it_counts_in(full: Analysed) -> None:
    at = full.findings.frontier.budgets[-1]
    cell = replace(at.best.cell, num_seeds=1, num_fallen=2)
    best = replace(at.best, cell=cell)
    choices = tuple(best if choice == at.best else choice for choice in at.choices)
    budget = replace(at, best=best, choices=choices)
    frontier = replace(full.findings.frontier, budgets=(budget,))
    said = by_term(facts(full.data, replace(full.findings, frontier=frontier), Advice()))
    assert ", counting that 2 of its 3 runs fell, measured " in said["Use"].detail
    assert " of those that last" in said["Use"].detail
    assert said["How sure"].detail.startswith("1 seed of it, beside 2 that fell; ")
    assert "best@8 (any of them right, of the runs that last) " in said["Reward"].detail
    # A mean of those that last counts none that fell.
    measured = replace(best, expected=None, interval=None)
    frontier = replace(frontier, budgets=(replace(budget, best=measured),))
    (use, *_) = summarise(full.data, replace(full.findings, frontier=frontier))
    assert "measured reward" in use
    assert "counting" not in use


def test_what_a_search_leaves_is_said_by_whether_it_has_ended(tmp_path: Path) -> None:
    paths, rng = paths_in(tmp_path), np.random.default_rng(0)
    write_plan(paths, SMALL)
    for run in SMALL.runs[:3]:
        write_run(paths, run, SMALL.budgets[:2], REWARD, rng, 0.0)
    data = replace(load_sweep(paths), config_document={"search": {"kind": "frontier"}})
    found = find(data, CONFIG)
    for over, words in (
        (False, "of the grid not trained yet: the search goes on"),
        (True, "of the grid that the search did not ask for"),
    ):
        seen = replace(data, course=Course(steps=(), known=(), over=over))
        assert by_term(facts(seen, found, Advice()))["Spent"].detail.endswith(words)


def test_where_every_run_fell_none_is_said_to_be_on_its_way(tmp_path: Path) -> None:
    data = small_and_whole(tmp_path)

    def fell_from(budget: float) -> SweepData:
        readings = tuple(
            replace(r, reward=None, fallen=0.1, reading="collapsed")
            if r.cell.budget >= budget
            else r
            for r in data.readings
        )
        return replace(data, readings=readings)

    gone = fell_from(0.0)
    found = find(gone, CONFIG)
    lost = "every run that was read has lost what it had gained"
    said = by_term(facts(gone, found, Advice(surer=("evaluation=thorough",))))
    assert said["Use"].answer == f"nothing to recommend: {lost}"
    assert said["To be surer"].answer.startswith("a recipe whose runs last")
    assert found.saturation.reason.startswith("Every run that was read has lost")
    with pytest.raises(SettingError, match=lost):
        recommend(gone, found, SMALL.budgets[-1], extrapolate=False)
    late = fell_from(SMALL.budgets[-1])
    found = find(late, CONFIG)
    assert found.frontier.lost == SMALL.budgets[-1:]
    (use, *_) = summarise(late, found)
    assert "the largest budget at which a run still has what it gained, use" in use
    assert "runs fell" not in use
    said = by_term(facts(late, found, Advice()))
    assert ", the largest at which a run still has what it gained: " in said["Use"].detail
    assert said["To be surer"].answer.startswith("a recipe whose runs last")
    # One run alone has come so far, and fell: of the others nothing is lost.
    first = late.plan.runs[0].run_id
    alone = tuple(
        r if r.cell.run_id == first or r.fallen is None else replace(r, fallen=None)
        for r in late.readings
    )
    found = find(replace(late, readings=alone), CONFIG)
    assert found.frontier.lost == ()
    said = by_term(facts(replace(late, readings=alone), found, Advice(surer=("more",))))
    assert said["To be surer"].answer == "more"
    # Nor where a rule has planned the other n for smaller budgets alone.
    n = late.generations[0]
    few = [r for r in late.readings if r.fallen is None or r.cell.num_generations == n]
    assert fit_frontier(few, None, None, 0.9).lost == ()


def test_runs_that_never_rose_are_counted(full: Analysed) -> None:
    flat = tuple(replace(fit, status=FitStatus.NO_RISE) for fit in full.findings.fits[:4])
    findings = replace(full.findings, fits=(*flat, *full.findings.fits[4:]))
    detail = by_term(facts(full.data, findings, Advice()))["Runs"].detail
    assert "4 of 45 show no rise above noise" in detail
    assert "no rise" not in by_term(facts(full.data, full.findings, Advice()))["Runs"].detail


def test_runs_that_collapsed_are_named_with_what_they_were_left_with(tmp_path: Path) -> None:
    data = small_and_whole(tmp_path)
    smallest = [c for c in data.curves if c.run.num_generations == data.generations[0]]
    ids = {curve.run.run_id for curve in smallest}
    data = replace(
        data,
        curves=tuple(replace(c, collapsed_at=3) if c in smallest else c for c in data.curves),
        readings=tuple(
            replace(r, fallen=0.125) if r.cell.run_id in ids else r for r in data.readings
        ),
    )
    runs = by_term(facts(data, find(data, CONFIG), Advice()))["Runs"]
    n, count = data.generations[0], len(smallest)
    # As `mode=status` has it.
    whole = len(data.curves)
    assert runs.answer == f"{whole} runs: {whole} done, {count} of them collapsed"
    assert runs.detail.startswith(f"n = {n}: {count} of {count} collapsed, to 0.125; no warning")
