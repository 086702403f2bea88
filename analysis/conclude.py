"""Draws the conclusions of a sweep: from data, findings and a plan's advice to an `Answer`."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isosweep.analysis.answer import (
    AddN,
    Answer,
    AtEdge,
    Behind,
    BestMoves,
    BrokenRecord,
    BrokenRecords,
    Caveat,
    Choices,
    CoarseMargin,
    Collapsed,
    Cost,
    Coverage,
    Earlier,
    Enlarge,
    Fallen,
    GoOn,
    MoreProblems,
    NamedRun,
    NewRecipe,
    NextStep,
    NoGain,
    NotForNewProblems,
    RewardsOnly,
    Rise,
    Runs,
    Searched,
    SingleRuns,
    Spent,
    Unread,
    Use,
    Warned,
)
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.outlook import Lack
from isosweep.analysis.pairs import NamedCell, Pair, Paired
from isosweep.analysis.statistics.best_n import BudgetFrontier, Frontier
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.learning_curve import FitStatus
from isosweep.analysis.statistics.new_problems import NewProblems, enough_problems
from isosweep.analysis.statistics.verdict import behind, open_end
from isosweep.plan.cells import PlannedRun
from isosweep.plan.tally import Standing, Tally
from isosweep.store.warnings import LOST_CHECKPOINT

# The budget that the last one's reward is compared with is smaller by this factor or more.
_EARLIER = 2.0
# A margin above this share of the whole gain hides what n does.
_COARSE = 0.1
# Runs that are named one by one.
_NAMED = 2
# Digits of a number of problems that is asked for.
_DIGITS = 2
# A run that has spent this share of its last budget is done.
_DONE = 0.98


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What a plan says of making its answer surer. `lacks`: what any verdict takes that it has not;
    `further`: settings of the grid with an n added; `problems`: the setting of so many held-out
    ones, None where the task has not as many; `sweep`: the setting of mode=next, as it is typed."""

    lacks: tuple[Lack, ...] = ()
    further: Callable[[int], dict[str, list[int]]] | None = None
    problems: Callable[[int], str | None] | None = None
    sweep: str | None = None


def conclude(data: SweepData, findings: Findings, advice: Advice | None = None) -> Answer:
    """All that the records of a sweep say, and what would make it surer."""
    frontier, saturation = findings.frontier, findings.saturation
    at = answered_at(data, findings) if frontier.budgets else None
    rise = None if at is None else _rise(data, at, findings)
    runs, spent = _runs(data, findings), _spent(data)
    return Answer(
        plan_id=data.plan_document.get("plan_id"),
        budget_unit=data.plan.budget_unit,
        pricing=data.plan.pricing,
        confidence=frontier.confidence,
        metric=data.metric,
        evaluation_set=data.evaluation_set,
        **vars(saturation),
        optima=frontier.optima,
        caveats=_caveats(data, findings, rise, runs),
        use=None if at is None else _use(data, at, frontier),
        reward=rise,
        generations=tuple(
            Choices(
                budget=each.budget,
                choices=each.choices,
                best=NamedCell.of(each.best.cell),
                missing=each.missing,
                fell=each.fell,
            )
            for each in frontier.budgets
        ),
        batch_laws=tuple(law for law in findings.batch_laws if law.optima),
        spent=spent,
        runs=runs,
        collapsed=tuple(c.run.run_id for c in data.curves if c.collapsed_at is not None),
        problems=data.problems,
        next_steps=_next_steps(data, findings, advice or Advice(), spent),
    )


def answered_at(data: SweepData, findings: Findings) -> BudgetFrontier:
    """The budget that the answer is of: the largest one that was read.

    Where n that may be the best have not come that far, what is best there is of those that happen
    to: then the largest that runs of them have reached too. Searches leave n out on purpose.
    """
    frontier = findings.frontier
    lacking = {
        *behind(frontier, findings.saturation.quantity),
        *frontier.budgets[-1].measured,
    }
    whole = [at for at in frontier.budgets if lacking <= {*at.measured, *at.fell}]
    return whole[-1] if whole and not data.searched else frontier.budgets[-1]


def _caveats(
    data: SweepData, findings: Findings, rise: Rise | None, runs: Runs
) -> tuple[Caveat, ...]:
    frontier, saturation = findings.frontier, findings.saturation
    end = open_end(saturation.verdict, frontier, saturation.quantity)
    lacking = behind(frontier, saturation.quantity)
    # First what contradicts the verdict.
    found: list[Caveat] = []
    if (new := _otherwise_on_new(findings)) is not None:
        found.append(NotForNewProblems(verdict=new.verdict, num_problems=new.num_problems))
    earlier = None if rise is None or lacking else rise.earlier
    if earlier is not None and earlier.gain <= 0:
        found.append(NoGain(factor=earlier.factor, gain=earlier.gain))
    if end is not None and end.kind != "missing":
        found.append(AtEdge(end=end))
    if lacking:
        found.append(Behind(n=lacking, budget=frontier.budgets[-1].budget))
    found += [Unread(gap=gap) for gap in frontier.gaps]
    margin, judges = saturation.reason.margin, saturation.quantity == "enough"
    if rise is not None and judges:
        first, _ = _reward(frontier.budgets[0])
        gain = rise.reward - (first if rise.before is None else rise.before)
        if 0 < gain < margin / _COARSE:
            found.append(CoarseMargin(margin=margin, gain=gain))
    if judges and (moves := _best_moves(findings)) is not None:
        found.append(moves)
    if runs.fallen:
        found.append(Collapsed(fallen=runs.fallen))
    if data.searched:
        begun = [curve for curve in data.curves if curve.compute.size]
        spent = math.fsum(float(curve.compute[-1]) for curve in begun)
        whole = math.fsum(run.milestones[-1] for run in data.plan.runs)
        found.append(Searched(begun=len(begun), runs=len(data.plan.runs), share=spent / whole))
    if means := [curve for curve in data.curves if curve.steps.size and not curve.counted]:
        seeds = Counter(Pair.of(curve.run) for curve in means)
        rewards = RewardsOnly(
            runs=len(means),
            single=sum(count == 1 for count in seeds.values()),
        )
        found.append(rewards)
    if broken := [(curve.run, step) for curve in data.curves for step in curve.broken]:
        records = tuple(BrokenRecord(run=_named(run), step=step) for run, step in broken)
        found.append(BrokenRecords(records=records))
    return tuple(found)


def _best_moves(findings: Findings) -> BestMoves | None:
    """How n* moved by a doubling or more, its intervals apart, where n_d is said not to change; or
    how n*, inside the grid, did not, where n_d grew."""
    saturation, growth, since = findings.saturation, findings.saturation.growth, 0.0
    rests = saturation.verdict in ("constant", "steady", "n does not matter")
    if not rests and (growth is None or saturation.verdict in ("fell", "not identified")):
        return None
    if growth is not None and saturation.verdict not in ("constant", "n does not matter"):
        since = growth.steady_from if rests else growth.since
    known = [
        (at, best) for at in findings.frontier.optima if at.budget >= since and (best := at.n_star)
    ]
    (first, low), (last, high) = known[0], known[-1]
    if low.median > high.median:
        low, high = high, low
    apart = low.high < high.low and not (low.open_above or high.open_below)
    far = high.median >= 2 * low.median
    inside = not (low.open_below or low.open_above or high.open_below or high.open_above)
    told = (apart and far) if rests else (inside and not far)
    return BestMoves(first=first, last=last, moves=rests) if told else None


def _otherwise_on_new(findings: Findings) -> NewProblems | None:
    """What is said of further problems, where their verdict is another."""
    new = findings.new_problems
    return None if new is None or new.verdict == findings.saturation.verdict else new


def _use(data: SweepData, at: BudgetFrontier, frontier: Frontier) -> Use:
    best, cell = at.best, at.best.cell
    last = at is frontier.budgets[-1]
    limit: Literal["plan", "reached", "behind", "lost"] = "plan"
    if not last:
        limit = "behind"
    elif frontier.lost:
        limit = "lost"
    elif at.budget < max(data.plan.budgets):
        limit = "reached"
    return Use(
        **Pair.of(cell)._asdict(),
        num_steps=cell.num_steps,
        budget=at.budget,
        limit=limit,
        measured=cell.mean,
        expected=best.expected,
        interval=best.interval,
        num_seeds=cell.num_seeds,
        num_fallen=cell.num_fallen,
        probability_best=best.probability_best,
    )


def _rise(data: SweepData, last: BudgetFrontier, findings: Findings) -> Rise:
    """The reward at `last`, and what the last factor of two or more of compute up to it brought."""
    budgets = findings.frontier.budgets
    reward, expected = _reward(last)
    earlier = None
    if before := [at for at in budgets if at.budget * _EARLIER <= last.budget * 1.01]:
        was, _ = _reward(before[-1])
        earlier = Earlier(
            budget=before[-1].budget,
            factor=last.budget / before[-1].budget,
            num_generations=before[-1].best.num_generations,
            reward=was,
            gain=reward - was,
        )
    return Rise(
        reward=reward,
        expected=expected,
        before=data.base_reward,
        earlier=earlier,
        coverage=_coverage(data, last.best.cell),
    )


def _reward(at: BudgetFrontier) -> tuple[float, bool]:
    """Of the best n, and whether that is what is expected of a new run, not what was measured."""
    expected = at.best.expected
    return (at.best.cell.mean, False) if expected is None else (expected, True)


def _coverage(data: SweepData, best: Paired) -> Coverage | None:
    """best@k of the runs of `best`, as far as they keep their gain."""
    runs = [curve for curve in data.curves if Pair.of(curve.run) == Pair.of(best)]
    runs = [run.until_collapse() for run in runs if run.counted and run.base_reward is not None]
    samples = {run.samples_per_problem for run in runs}
    if data.metric != "avg" or len(samples) != 1 or samples == {1}:
        return None
    return Coverage(
        k=samples.pop(),
        now=float(np.mean([(run.successes[-1] > 0).mean() for run in runs])),
        before=float(np.mean([(run.successes[0] > 0).mean() for run in runs])),
    )


def _reached(curve: Curve) -> float:
    return float(curve.compute[-1]) if curve.compute.size else 0.0


def _is_done(curve: Curve) -> bool:
    return not curve.run.milestones or _reached(curve) >= curve.run.milestones[-1] * _DONE


def _spent(data: SweepData) -> Spent:
    ends: dict[str, float] = {}
    last = {run.run_id: max(run.milestones, default=math.inf) for run in data.plan.runs}
    for cell in data.plan.cells:
        if cell.budget <= last[cell.run_id]:
            ends[cell.run_id] = max(cell.planned_compute, ends.get(cell.run_id, 0.0))
    hours = math.fsum(c.device_hours or 0.0 for c in data.curves)
    evaluation = math.fsum(c.evaluation_hours or 0.0 for c in data.curves)
    left = [
        curve.run.milestones[-1] - _reached(curve)
        for curve in data.curves
        if curve.ending.status not in ("finished", "diverged") and not _is_done(curve)
    ]
    over = data.course is not None and data.course.over
    return Spent(
        compute=math.fsum(map(_reached, data.curves)),
        device_hours=hours or None,
        evaluation_hours=evaluation or None,
        planned=math.fsum(ends.values()),
        budgets=tuple(sorted({each for run in data.plan.runs for each in run.milestones})),
        left=math.fsum(left),
        search=None if not data.searched else "over" if over else "on",
    )


def _runs(data: SweepData, findings: Findings) -> Runs:
    standings = {curve.run.run_id: _standing(curve, data) for curve in data.curves}
    collapsed = [c.run.run_id for c in data.curves if c.collapsed_at is not None]
    tally = Tally.of(standings, collapsed)
    fitted = [fit.status for fit in findings.fits if fit.status is not FitStatus.TOO_FEW]
    health = data.config_document.get("health")
    window = health.get("window", 0) if isinstance(health, dict) else 0
    trained = [curve for curve in data.curves if curve.compute.size]
    steps = [int(c.generations[-1]) for c in trained if c.ending.has_metrics and c.steps[-1]]
    return Runs(
        total=len(data.curves),
        standings={standing.value: count for standing, count in tally.counts.items()},
        collapsed=tally.collapsed,
        fallen=_fallen(data),
        fitted=len(fitted),
        flat=fitted.count(FitStatus.NO_RISE),
        trained=len(trained),
        warned=_warned(data),
        too_short=sum(made < window for made in steps),
        window=window,
        without_metrics=sum(not curve.ending.has_metrics for curve in trained),
        generations=tuple(data.generations),
        batches=tuple(data.batches),
        seeds=len({run.seed for run in data.plan.runs}),
    )


def _fallen(data: SweepData) -> tuple[Fallen, ...]:
    runs = Counter(curve.run.num_generations for curve in data.curves)
    fallen = Counter(c.run.num_generations for c in data.curves if c.collapsed_at is not None)
    return tuple(
        Fallen(num_generations=n, collapsed=count, runs=runs[n])
        for n, count in sorted(fallen.items())
    )


def _warned(data: SweepData) -> tuple[Warned, ...]:
    broken: dict[str, list[PlannedRun]] = {}
    for curve in data.curves:
        for rule in sorted({warning.rule for warning in curve.ending.warnings} - {LOST_CHECKPOINT}):
            broken.setdefault(rule, []).append(curve.run)
    return tuple(
        Warned(
            rule=rule,
            runs=len(runs),
            named=tuple(_named(run) for run in (runs if len(runs) <= _NAMED else ())),
        )
        for rule, runs in sorted(broken.items(), key=lambda item: -len(item[1]))
    )


def _named(run: PlannedRun) -> NamedRun:
    return NamedRun(**Pair.of(run)._asdict(), seed=run.seed)


def _standing(curve: Curve, data: SweepData) -> Standing:
    """How far the run is: by its files, or where these are records alone, by what it spent."""
    if curve.ending.standing is Standing.TO_EXTEND and data.course is not None and data.course.over:
        return Standing.STOPPED
    if curve.ending.standing not in (None, Standing.NOT_BEGUN):
        return curve.ending.standing
    if not curve.compute.size:
        return Standing.NOT_BEGUN
    return Standing.DONE if _is_done(curve) else Standing.INTERRUPTED


def _next_steps(
    data: SweepData, findings: Findings, advice: Advice, spent: Spent
) -> tuple[NextStep, ...]:
    """What comes first where n* may lie where nothing was measured, then what costs more."""
    if findings.frontier.lost:
        return (NewRecipe(),)
    found: list[NextStep] = []
    saturation = findings.saturation
    end = open_end(saturation.verdict, findings.frontier, saturation.quantity)
    if end is not None and end.kind == "missing":
        last = findings.frontier.budgets[-1].budget
        mine = [_reached(curve) for curve in data.curves if curve.run.num_generations in end.n]
        compute = math.fsum(max(0.0, last - reached) for reached in mine)
        found.append(GoOn(n=end.n, budget=last, cost=_cost(spent, compute)))
    elif end is not None and end.further is not None and advice.further is not None:
        settings = advice.further(end.further)
        beside = [run for run in data.plan.runs if run.num_generations == end.edge]
        compute = math.fsum(run.milestones[-1] for run in beside)
        cost = _cost(spent, compute) if settings else None
        found.append(AddN(n=end.further, settings=settings, end=end, cost=cost))
    if (more := _more_problems(findings, advice, spent)) is not None:
        found.append(more)
    if advice.lacks:
        found.append(Enlarge(lacks=advice.lacks))
    if advice.sweep is not None:
        found.append(SingleRuns(sweep=advice.sweep))
    return tuple(found)


def _cost(spent: Spent, compute: float, problems: float = 1.0) -> Cost:
    """Of so much training, by what the sweep's has taken; `problems`: held-out ones over those of
    now, which evaluations take the longer for."""
    hours = None
    if spent.device_hours and spent.compute:
        evaluation = (spent.evaluation_hours or 0.0) * problems
        hours = (spent.device_hours + evaluation) * compute / spent.compute
    return Cost(compute=compute, device_hours=hours)


def _more_problems(findings: Findings, advice: Advice, spent: Spent) -> MoreProblems | None:
    """What makes the verdict hold for further problems; None where it does, where there is none,
    and where it is not the choice of problems that keeps it from that."""
    new = _otherwise_on_new(findings)
    if new is None or findings.saturation.verdict == "not identified" or advice.problems is None:
        return None
    now, added = new.num_problems, new.variance or 0.0
    enough = enough_problems(now, added)
    if enough <= now:
        return None
    unit = 10 ** max(0, len(str(enough)) - _DIGITS)
    enough = math.ceil(enough / unit) * unit
    return MoreProblems(
        problems=enough,
        setting=advice.problems(enough),
        num_problems=now,
        added=added,
        cost=_cost(spent, spent.planned, enough / now),
    )
