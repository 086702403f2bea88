"""An answer says what to use, what was spent and left, how runs ended, and what comes next."""

from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.answer import (
    AddN,
    Answer,
    AtEdge,
    Behind,
    CoarseMargin,
    Collapsed,
    Cost,
    Enlarge,
    Fallen,
    GoOn,
    MoreProblems,
    NamedRun,
    NewRecipe,
    NoGain,
    NotForNewProblems,
    Searched,
    SingleRuns,
    Use,
    Warned,
)
from isosweep.analysis.conclude import Advice, _cost, conclude
from isosweep.analysis.course import Course
from isosweep.analysis.curves import Curve, Ending, SweepData
from isosweep.analysis.load import load_sweep
from isosweep.analysis.outlook import Lack
from isosweep.analysis.recommend import recommend
from isosweep.analysis.statistics.best_n import BudgetFrontier, Choice, fit_frontier
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.analysis.statistics.learning_curve import FitStatus
from isosweep.analysis.statistics.new_problems import NewProblems
from isosweep.analysis.statistics.verdict import OpenEnd, Verdict
from isosweep.errors import SettingError
from isosweep.store.warnings import LOST_CHECKPOINT, HealthWarning
from tests.analysis.conftest import CONFIG, Analysed
from tests.analysis.sweeps import (
    BUDGETS,
    REWARD,
    SMALL,
    make_plan,
    paths_in,
    records_file,
    write_end,
    write_plan,
    write_run,
    write_sweep,
)

LACKS = (Lack(what="seeds", least=2, here=1, mended_by="grid.seeds=[0,1]"),)
SEEDS = Advice(lacks=LACKS, further=lambda n: {"num_generations": [n]})


def use_of(answer: Answer) -> Use:
    assert answer.use is not None
    return answer.use


def small_and_whole(root: Path) -> SweepData:
    paths, rng = paths_in(root), np.random.default_rng(0)
    write_plan(paths, SMALL)
    for run in SMALL.runs:
        write_run(paths, run, SMALL.budgets, REWARD, rng, 0.0)
    return load_sweep(paths)


def test_a_whole_sweep_has_nothing_left(full: Analysed) -> None:
    answer = conclude(full.data, full.findings, replace(SEEDS, sweep="sweep=mine"))
    best = full.findings.frontier.budgets[-1].best
    use, reward = use_of(answer), answer.reward
    assert (use.num_generations, use.problems_per_batch) == (
        best.cell.num_generations,
        best.cell.problems_per_batch,
    )
    assert (use.limit, use.measured, use.expected) == ("plan", best.cell.mean, best.expected)
    assert answer.optimum == full.findings.frontier.optima[-1]
    assert answer.spent.left == 0
    assert answer.spent.budgets == full.data.plan.budgets
    assert (answer.runs.total, answer.runs.standings["done"]) == (45, 45)
    assert (answer.runs.warned, answer.runs.too_short) == ((), 0)
    assert answer.next_steps == (Enlarge(lacks=LACKS), SingleRuns(sweep="sweep=mine"))
    assert reward is not None
    assert reward.earlier is not None
    assert reward.earlier.factor == 2.0
    assert reward.coverage is not None
    assert (reward.coverage.k, reward.coverage.now) == (8, 1.0)
    assert reward.coverage.before == pytest.approx(0.842, abs=1e-3)


def test_what_is_left_counts_no_run_that_has_ended(tmp_path: Path) -> None:
    paths, rng = paths_in(tmp_path), np.random.default_rng(0)
    write_plan(paths, SMALL)
    done, halfway, failed, *unseen = SMALL.runs
    write_run(paths, done, SMALL.budgets, REWARD, rng, 0.0)
    for run in (halfway, failed):
        write_run(paths, run, SMALL.budgets[:2], REWARD, rng, 0.0)
    write_end(paths, failed.run_id, "failed", "out of memory")
    data = load_sweep(paths)
    answer = conclude(data, find(data, CONFIG))
    spent = answer.spent
    assert spent.left == 2 * (BUDGETS[2] - BUDGETS[1]) + len(unseen) * BUDGETS[2]
    assert spent.compute / spent.planned == pytest.approx(0.333, abs=1e-3)
    ended = {name: count for name, count in answer.runs.standings.items() if count}
    assert ended == {"not begun": 3, "interrupted": 1, "failed": 1, "done": 1}
    # One seed, of which n = 4 and 8 have not come so far.
    assert answer.behind == (4, 8)
    behind, coarse = answer.caveats
    assert behind == Behind(n=(4, 8), budget=BUDGETS[2])
    # The margin of 0.02 is more than a tenth of what was gained.
    assert answer.reward is not None
    assert answer.reward.before is not None
    gain = answer.reward.reward - answer.reward.before
    assert coarse == CoarseMargin(margin=0.02, gain=gain)
    # Of n = 4 and 8 one run is half-way; records have no device time.
    (step,) = answer.next_steps
    assert isinstance(step, GoOn)
    assert (step.n, step.budget) == ((4, 8), BUDGETS[2])
    left = 4 * BUDGETS[2] - BUDGETS[1]
    assert step.cost == Cost(compute=left, device_hours=None)


def test_a_budget_that_no_run_reached_is_not_spoken_for(tmp_path: Path) -> None:
    plan = make_plan(generations=(4,), seeds=(0,))
    paths = write_sweep(tmp_path, REWARD, plan=plan)
    records = records_file(paths, "run-n4-B4-s0")
    records.write_text("".join(records.read_text().splitlines(keepends=True)[:-1]))
    data = load_sweep(paths)
    answer = conclude(data, find(data, CONFIG))
    use = use_of(answer)
    assert (use.budget, use.limit) == (BUDGETS[-2], "reached")
    # One seed gives no interval and no cost.
    (only,) = answer.chosen_from().choices
    assert (use.expected, use.interval, only.loss_upper) == (None, None, None)


def test_runs_that_cannot_be_judged_are_not_said_to_be_healthy(full: Analysed) -> None:
    """Of 45 runs those of fewer than `window` steps, and those without metrics of their steps."""
    runs = conclude(full.data, full.findings).runs
    assert (runs.without_metrics, runs.too_short) == (45, 0)
    judged = tuple(replace(curve, ending=Ending(has_metrics=True)) for curve in full.data.curves)
    made = sorted(int(curve.generations[-1]) for curve in judged)
    for window, few in ((made[0], 0), (made[20], bisect_left(made, made[20])), (10**9, 45)):
        document = {"health": {"window": window}}
        data = replace(full.data, curves=judged, config_document=document)
        runs = conclude(data, full.findings).runs
        assert (runs.too_short, runs.window, runs.trained) == (few, window, 45)
        assert runs.without_metrics == 0


def with_warnings(curve: Curve, *warnings: HealthWarning) -> Curve:
    return replace(curve, ending=replace(curve.ending, warnings=warnings))


def test_rules_of_health_that_runs_broke_and_hours_are_counted(full: Analysed) -> None:
    first, second, *others = full.data.curves
    low, high, lost = (
        HealthWarning(step=3, rule=rule, message=rule)
        for rule in ("entropy_collapse", "high_kl", LOST_CHECKPOINT)
    )
    warned = with_warnings(first, low, low), with_warnings(second, high, low, lost)
    hours = replace(others[0], hours=np.array([0.5])), replace(others[1], hours=np.array([0.25]))
    hours = replace(hours[0], evaluation_hours=0.125), hours[1]
    answer = conclude(replace(full.data, curves=(*warned, *hours, *others[2:])), full.findings)
    runs = answer.runs
    assert answer.spent.device_hours == 0.75
    assert answer.spent.evaluation_hours == 0.125
    # All runs once more, on four times the problems.
    cost = _cost(answer.spent, answer.spent.compute, 4.0)
    assert cost == Cost(compute=answer.spent.compute, device_hours=0.75 + 4 * 0.125)
    one, other = (
        NamedRun(num_generations=2, problems_per_batch=2, seed=curve.run.seed)
        for curve in (first, second)
    )
    assert runs.warned == (
        Warned(rule="entropy_collapse", runs=2, named=(one, other)),
        Warned(rule="high_kl", runs=1, named=(other,)),
    )
    broken = tuple(with_warnings(curve, low) for curve in full.data.curves[:3])
    curves = (*broken, *full.data.curves[3:])
    runs = conclude(replace(full.data, curves=curves), full.findings).runs
    assert runs.warned == (Warned(rule="entropy_collapse", runs=3, named=()),)


def open_at_the_end(
    analysed: Analysed, verdict: Verdict = "grew", *, below: bool = False, **of_budget: Any
) -> Findings:
    """What was found, as if both n were the largest that was run, or the smallest."""
    findings = analysed.findings
    *budgets, at = findings.frontier.budgets
    place = 0 if below else -1
    assert at.optimum.n_star is not None
    n = at.measured[place]
    both = replace(at.optimum.n_star, median=float(n), open_below=below, open_above=not below)
    optimum = replace(at.optimum, best=n, n_star=both, n_d=both)
    budgets.append(replace(at, best=at.choices[place], optimum=optimum, **of_budget))
    frontier = replace(findings.frontier, budgets=tuple(budgets))
    saturation = replace(findings.saturation, verdict=verdict)
    return replace(findings, frontier=frontier, saturation=saturation)


def test_what_would_close_an_open_end_comes_first(full: Analysed) -> None:
    def steps(found: Findings) -> tuple[object, ...]:
        return conclude(full.data, found, SEEDS).next_steps

    enlarge = Enlarge(lacks=LACKS)
    end = OpenEnd(kind="above", edge=32)
    # Nine runs of n = 32, which this sweep's budgets end at.
    cost = Cost(compute=9 * BUDGETS[-1], device_hours=None)
    joins = AddN(n=64, settings={"num_generations": [64]}, end=end, cost=cost)
    assert steps(open_at_the_end(full)) == (joins, enlarge)
    assert AtEdge(end=end) in conclude(full.data, open_at_the_end(full)).caveats
    assert steps(open_at_the_end(full, "constant")) == (enlarge,)
    # There is no n below 2.
    assert steps(open_at_the_end(full, "not identified", below=True)) == (enlarge,)
    # Runs of the plan that have not come so far are before any n that it lacks.
    last = full.data.plan.budgets[-1]
    go_on = GoOn(n=(64, 128), budget=last, cost=Cost(compute=0.0, device_hours=None))
    assert steps(open_at_the_end(full, missing=(64, 128))) == (go_on, enlarge)
    # What has fallen was run: nothing more of it is asked for.
    assert steps(open_at_the_end(full, fell=(64,))) == (enlarge,)


def on_new_problems(findings: Findings, own: Verdict, verdict: Verdict, added: float) -> Findings:
    """What was found, with its own verdict, and another for further problems than these 100."""
    new = NewProblems(num_problems=100, verdict=verdict, variance=added)
    return replace(findings, saturation=replace(findings.saturation, verdict=own), new_problems=new)


def test_a_verdict_that_new_problems_lack_asks_for_more_of_them(full: Analysed) -> None:
    def step(own: Verdict, verdict: Verdict, added: float, most: int = 10**9) -> object:
        advice = Advice(
            problems=lambda count: f"problems={count}" if count <= most else None, lacks=LACKS
        )
        findings = on_new_problems(full.findings, own, verdict, added)
        answer = conclude(full.data, findings, advice)
        other = NotForNewProblems(verdict=verdict, num_problems=100)
        assert (other in answer.caveats) == (own != verdict)
        # Before seeds, which leave that doubt as it is.
        assert answer.next_steps[-1] == Enlarge(lacks=LACKS)
        return answer.next_steps[-2] if len(answer.next_steps) > 1 else None

    # 428 problems add a quarter of what seeds do.
    cost = Cost(compute=45 * BUDGETS[-1], device_hours=None)
    more = MoreProblems(
        problems=430, setting="problems=430", num_problems=100, added=1.07, cost=cost
    )
    assert step("constant", "not identified", 1.07) == more
    assert step("constant", "not identified", 1.07, most=400) == replace(more, setting=None)
    assert step("constant", "constant", 1.07) is None
    # Not the problems keep it from holding, and there is nothing to hold.
    assert step("constant", "not identified", 0.2) is None
    assert step("not identified", "constant", 1.07) is None


def test_the_answer_is_of_a_budget_that_runs_of_every_n_have_reached(full: Analysed) -> None:
    found = open_at_the_end(full, missing=(8, 32))
    *others, at = found.frontier.budgets
    kept = tuple(choice for choice in at.choices if choice.num_generations not in (8, 32))
    behind = replace(at, choices=kept, best=kept[-1])
    found = replace(found, frontier=replace(found.frontier, budgets=(*others, behind)))
    *_, before, last = (at.budget for at in found.frontier.budgets)
    answer = conclude(full.data, found)
    use = use_of(answer)
    assert (use.budget, use.limit, answer.behind) == (before, "behind", (8, 32))
    # Searches leave n out on purpose.
    data = replace(full.data, config_document={"search": {"name": "frontier"}})
    answer = conclude(data, found)
    use = use_of(answer)
    assert (use.budget, use.limit, answer.behind) == (last, "plan", (8, 32))
    assert not any(isinstance(caveat, NoGain) for caveat in answer.caveats)
    assert any(isinstance(caveat, Searched) for caveat in answer.caveats)
    # Nor does it matter what n far from the best one have come to.
    assert use_of(conclude(full.data, open_at_the_end(full, missing=(2,)))).budget == last


def with_best(findings: Findings, best: Choice, *others: BudgetFrontier) -> Findings:
    """What was found, with another best choice at the last budget, after the budgets `others`."""
    at = findings.frontier.budgets[-1]
    choices = tuple(best if choice == at.best else choice for choice in at.choices)
    budgets = (*others, replace(at, best=best, choices=choices))
    return replace(findings, frontier=replace(findings.frontier, budgets=budgets))


def test_a_seed_that_fell_is_told_with_what_it_counts_in(full: Analysed) -> None:
    best = full.findings.frontier.budgets[-1].best
    best = replace(best, cell=replace(best.cell, num_seeds=1, num_fallen=2))
    answer = conclude(full.data, with_best(full.findings, best))
    use, reward = use_of(answer), answer.reward
    assert (use.num_seeds, use.num_fallen) == (1, 2)
    assert reward is not None
    assert reward.earlier is None


def test_compute_that_brought_nothing_is_a_caveat(full: Analysed) -> None:
    *others, at = full.findings.frontier.budgets
    worse = replace(at.best, expected=0.1)
    answer = conclude(full.data, with_best(full.findings, worse, *others))
    (caveat,) = (each for each in answer.caveats if isinstance(each, NoGain))
    before = others[-1].best.expected or 0.0
    assert caveat.factor == 2.0
    assert caveat.gain == pytest.approx(0.1 - before)


def test_what_a_search_leaves_is_said_by_whether_it_has_ended(tmp_path: Path) -> None:
    paths, rng = paths_in(tmp_path), np.random.default_rng(0)
    write_plan(paths, SMALL)
    for run in SMALL.runs[:3]:
        write_run(paths, run, SMALL.budgets[:2], REWARD, rng, 0.0)
    data = replace(load_sweep(paths), config_document={"search": {"name": "frontier"}})
    found = find(data, CONFIG)
    for over, state in ((False, "on"), (True, "over")):
        seen = replace(data, course=Course(steps=(), over=over))
        answer = conclude(seen, found)
        assert answer.spent.search == state
        (caveat,) = (each for each in answer.caveats if isinstance(each, Searched))
        assert (caveat.begun, caveat.runs) == (3, 6)


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
    answer = conclude(gone, found, SEEDS)
    assert (answer.use, answer.reason.kind) == (None, "all fell")
    assert answer.next_steps == (NewRecipe(),)
    with pytest.raises(SettingError, match="every run that was read has lost what it had gained"):
        recommend(gone, found, SMALL.budgets[-1], extrapolate=False)
    late = fell_from(SMALL.budgets[-1])
    found = find(late, CONFIG)
    assert found.frontier.lost == SMALL.budgets[-1:]
    answer = conclude(late, found)
    assert (use_of(answer).limit, use_of(answer).num_fallen) == ("lost", 0)
    assert answer.next_steps == (NewRecipe(),)
    # One run alone has come so far, and fell; or a rule has planned the others for smaller budgets
    # alone: of these nothing is lost.
    first, n = late.plan.runs[0].run_id, late.generations[0]
    alone = [r if r.cell.run_id == first else replace(r, fallen=None) for r in late.readings]
    few = [r for r in late.readings if r.fallen is None or r.cell.num_generations == n]
    for readings in (alone, few):
        assert fit_frontier(readings, None, None, CONFIG).lost == ()


def test_runs_that_never_rose_are_counted(full: Analysed) -> None:
    flat = tuple(replace(fit, status=FitStatus.NO_RISE) for fit in full.findings.fits[:4])
    findings = replace(full.findings, fits=(*flat, *full.findings.fits[4:]))
    runs = conclude(full.data, findings).runs
    assert (runs.flat, runs.fitted) == (4, 45)


def test_runs_that_collapsed_are_counted_by_n(full: Analysed) -> None:
    n = full.data.generations[0]
    smallest = [c for c in full.data.curves if c.run.num_generations == n]
    curves = (replace(c, collapsed_at=3) if c in smallest else c for c in full.data.curves)
    data, count = replace(full.data, curves=tuple(curves)), len(smallest)
    answer = conclude(data, full.findings)
    assert answer.collapsed == tuple(curve.run.run_id for curve in smallest)
    # As `mode=status` has it.
    assert answer.runs.standings["done"] == len(data.curves)
    assert answer.runs.collapsed == count
    fallen = Fallen(num_generations=n, collapsed=count, runs=count)
    assert answer.runs.fallen == (fallen,)
    assert Collapsed(fallen=(fallen,)) in answer.caveats
