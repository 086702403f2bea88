"""The report's first screen: the answer, what it cost, and what would make it surer."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.axes import amount
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import FitStatus
from isosweep.analysis.statistics.frontier import BudgetFrontier
from isosweep.analysis.statistics.intervals import short
from isosweep.analysis.statistics.mechanism import base_scores, scores_by_n
from isosweep.analysis.statistics.verdict import behind, open_end
from isosweep.analysis.summary import answered_at, counting_fallen, how_sure, nothing_to_use
from isosweep.plan.cells import PlannedRun
from isosweep.plan.tally import Standing, Tally
from isosweep.store.warnings import LOST_CHECKPOINT, not_judged

# Runs that train no further unless they are asked to, in words.
_RESUMED = {"failed": "failed (retry_failed=true)", "cancelled": "were cancelled (mode=resume)"}
# The budget that the last one's reward is compared with is smaller by this factor or more.
_EARLIER = 2.0
# Runs that are named one by one.
_NAMED = 2


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One line of the report's first screen."""

    term: str
    """A question in a word or three."""
    answer: str
    """Its answer in words."""
    detail: str = ""
    """What that rests on, in words; may be empty."""
    link: str | None = None
    """The id of the report's section that has more of it; null where none has."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What would make an answer surer.

    `surer`: settings with their price, then what they bring; () where nothing is known to.
    `further`: how an n joins the grid and what that costs, or why it does not.
    """

    surer: tuple[str, ...] = ()
    further: Callable[[int], str] | None = None


def facts(data: SweepData, findings: Findings, advice: Advice) -> tuple[Fact, ...]:
    """All lines of the first screen."""
    frontier = findings.frontier
    found: list[Fact] = []
    if frontier.budgets:
        at = answered_at(data, findings)
        found += [_setting(data, at, findings), _sure(at, findings), _rise(data, at, findings)]
    else:
        found.append(Fact(term="Use", answer=nothing_to_use(frontier)))
    found += [_spent(data), _runs(data, findings)]
    if sentences := _surer(data, findings, advice):
        first, *others = sentences
        found.append(Fact(term="To be surer", answer=first, detail=" ".join(others)))
    return tuple(found)


def _surer(data: SweepData, findings: Findings, advice: Advice) -> tuple[str, ...]:
    """What would make the answer surer, then why."""
    frontier = findings.frontier
    if frontier.lost:
        why = "All runs fell: larger evaluations and further runs of this recipe tell little."
        return ("a recipe whose runs last, as with a smaller recipe.learning_rate", why)
    before = _first(data, findings, advice)
    if not before or not advice.surer:
        return (*before, *advice.surer)
    first, *others = advice.surer
    return (*before, f"{first}.", *others)


def _first(data: SweepData, findings: Findings, advice: Advice) -> tuple[str, ...]:
    """What comes before all else where n* may lie where nothing was measured."""
    saturation = findings.saturation
    end = open_end(saturation.verdict, saturation.optima, findings.frontier)
    if end is None or (end.n and end.kind != "missing"):
        return ()
    if end.kind == "missing":
        budget = findings.frontier.budgets[-1].budget
        runs = f"runs of n = {', '.join(map(str, end.n))} up to {amount(data, budget)}"
        return (runs, "What n* is there, nothing else tells as well. After that:")
    if advice.further is None or end.further is None:
        return ()
    where = "beyond" if end.kind == "above" else "below"
    why = f"n* may lie {where} n = {end.edge}, of which nothing else tells. After that:"
    return (advice.further(end.further), why)


def _setting(data: SweepData, at: BudgetFrontier, findings: Findings) -> Fact:
    cell, best, confidence = at.best.cell, at.best, findings.frontier.confidence
    lasting = " of those that last" if cell.num_fallen else ""
    reward = f"measured reward {cell.mean:.3f}{lasting}"
    if best.expected is not None and best.interval is not None:
        low, high = best.interval
        reward = f"expected reward {best.expected:.3f} [{low:.3f}, {high:.3f}] ({confidence:.0%})"
        reward += f"{counting_fallen(cell)}, measured {cell.mean:.3f}{lasting}"
    chance, lacking = "", _behind(at, findings)
    if best.probability_best is not None:
        of = f" of n = {', '.join(map(str, at.measured))}" if lacking else " n"
        chance = f"; best{of} with {best.probability_best:.0%}"
    if lacking:
        chance += f"; n = {', '.join(map(str, lacking))} have not come that far"
    most = ""
    if at is not findings.frontier.budgets[-1]:
        others = ", ".join(map(str, behind(findings.saturation.optima, findings.frontier)))
        most = f", the largest that runs of n = {others} have reached as well"
    elif findings.frontier.lost:
        most = ", the largest at which a run still has what it gained"
    n_star = next((o for o in findings.saturation.optima if o.budget == at.budget), None)
    if n_star is not None and n_star.interval is not None:
        chance += f"; n*, which may lie between the n that were run, is {n_star.words}"
    only = "" if len(data.batches) > 1 else f"; no B but {cell.problems_per_batch} was tried"
    return Fact(
        term="Use",
        answer=f"n = {cell.num_generations}, B = {cell.problems_per_batch}, T = {cell.num_steps}",
        detail=f"at {amount(data, at.budget)}{most}: {reward}{chance}{only}",
        link="best-n",
    )


def _behind(at: BudgetFrontier, findings: Findings) -> tuple[int, ...]:
    """The n that may be the best at this budget, the largest, and have not come that far."""
    if at is not findings.frontier.budgets[-1]:
        return ()
    return behind(findings.saturation.optima, findings.frontier)


def _sure(at: BudgetFrontier, findings: Findings) -> Fact:
    confidence, seeds = findings.frontier.confidence, at.best.cell.num_seeds
    fell = at.best.cell.num_fallen
    lasting = f", beside {fell} that fell" if fell else ""
    rests = [f"{seeds} seed{'s' * (seeds > 1)} of it{lasting}"]
    if at.seed_sd is not None:
        rests.append(f"standard deviation between seeds {at.seed_sd:.3f}, by the runs of all n")
    for view in findings.views:
        if view.new_problems:
            rests.append(
                f"the verdict is of these {view.num_problems} held-out problems; of further ones "
                f"of their kind it would be: {view.verdict}"
            )
    return Fact(
        term="How sure", answer=how_sure(at, confidence), detail="; ".join(rests), link="best-n"
    )


def _rise(data: SweepData, last: BudgetFrontier, findings: Findings) -> Fact:
    """What the last factor of two or more of compute up to `last` brought."""
    budgets = findings.frontier.budgets
    reward, kind = _reward(last)
    base = "" if data.base_reward is None else f", from {data.base_reward:.3f} before training"
    answer = f"{reward:.3f} {kind} at the best n{base}"
    details = []
    if earlier := [at for at in budgets if at.budget * _EARLIER <= last.budget * 1.01]:
        before = earlier[-1]
        was, kind = _reward(before)
        times = f"the last {short(last.budget / before.budget)}x of compute"
        gain = f"{reward - was:+.3f}"
        brought = f"{gain} by {times}" if reward > was else f"{times} brought nothing ({gain})"
        if _behind(last, findings):
            brought = f"what {times} brought is open while runs of other n have not come that far"
        then = f"{was:.3f} {kind}, with n = {before.best.cell.num_generations}"
        details.append(f"at {amount(data, before.budget)} it was {then}: {brought}")
    if last is budgets[-1]:
        details += _coverage(data, findings)
    return Fact(term="Reward", answer=answer, detail="; ".join(details), link="reward")


def _reward(at: BudgetFrontier) -> tuple[float, str]:
    """Of the best n, and whether that is what was measured or what is expected of a new run."""
    expected = at.best.expected
    return (at.best.cell.mean, "measured") if expected is None else (expected, "expected")


def _coverage(data: SweepData, findings: Findings) -> list[str]:
    """What became of best@k at the best (n, B): training may narrow what a model can solve."""
    base, best = base_scores(data), Pair.of(findings.frontier.budgets[-1].best.cell)
    if base is None or data.metric != "avg":
        return []
    for now in scores_by_n(data, findings.frontier):
        same = base.samples_per_problem == now.samples_per_problem > 1
        if same and Pair.of(now) == best:
            fell = findings.frontier.budgets[-1].best.cell.num_fallen
            of = "any of them right" + (", of the runs that last" if fell else "")
            name = f"best@{now.samples_per_problem} ({of})"
            return [f"{name} {now.best:.3f}, from {base.best:.3f}"]
    return []


def _reached(curve: Curve) -> float:
    return float(curve.compute[-1]) if curve.compute.size else 0.0


def _spent(data: SweepData) -> Fact:
    """What was spent of what was planned, and what runs that may go on still have to spend."""
    spent = math.fsum(_reached(curve) for curve in data.curves)
    ends: dict[str, float] = {}
    for cell in data.plan.cells:
        ends[cell.run_id] = max(cell.planned_compute, ends.get(cell.run_id, 0.0))
    planned = math.fsum(ends.values())
    hours = [c.device_hours for c in data.curves if c.device_hours is not None]
    took = f", {_in_hours(math.fsum(hours))}" if hours and math.fsum(hours) > 0 else ""
    budgets = sorted({each for run in data.plan.runs for each in run.milestones})
    listed = "" if not budgets else f"budgets {_and(map(short, budgets))} a run; "
    share = f"{spent / planned:.0%} of the plan's {short(planned)}; " if planned else ""
    share = f"{listed}evaluation not counted; {share}"
    return Fact(term="Spent", answer=f"{amount(data, spent)}{took}", detail=share + _left(data))


def _left(data: SweepData) -> str:
    """What is left to train, and of it what is only if it is asked for."""
    left = [
        (curve.status, curve.run.milestones[-1] - _reached(curve))
        for curve in data.curves
        if curve.status not in ("finished", "diverged") and not _is_done(curve)
    ]
    whole = math.fsum(compute for _, compute in left)
    if not whole:
        return "nothing is left to train"
    if data.searched:
        over = data.course is not None and data.course.over
        words = "that the search did not ask for" if over else "not trained yet: the search goes on"
        return f"{amount(data, whole)} of the grid {words}"
    parts = {s: math.fsum(compute for status, compute in left if status == s) for s in _RESUMED}
    told = [f"{short(part)} of it in runs that {_RESUMED[s]}" for s, part in parts.items() if part]
    return ", ".join([f"{amount(data, whole)} left to train", *told])


def _is_done(curve: Curve) -> bool:
    return not curve.run.milestones or _reached(curve) >= curve.run.milestones[-1] * 0.98


def _in_hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.0f} device-seconds"
    return f"{hours * 60:.0f} device-minutes" if hours < 1 else f"{hours:.3g} device-hours"


def _runs(data: SweepData, findings: Findings) -> Fact:
    """How runs ended."""
    standings = {curve.run.run_id: _standing(curve, data) for curve in data.curves}
    tally = Tally.of(standings, collapsed_runs(data))
    seeds = len({run.seed for run in data.plan.runs})
    grid = (
        f"n = {_listed(data.generations)}; B = {_listed(data.batches)}; "
        f"{seeds} seed{'s' * (seeds > 1)}"
    )
    return Fact(
        term="Runs",
        answer=f"{len(data.curves)} runs: {tally.words()}",
        detail="; ".join([*_collapsed(data), *_flat(findings), *_warned(data), grid]),
        link="runs",
    )


def _collapsed(data: SweepData) -> list[str]:
    """Of which n runs collapsed, and what those were left with at the last budget."""
    runs = Counter(curve.run.num_generations for curve in data.curves)
    fallen = Counter(c.run.num_generations for c in data.curves if c.collapsed_at is not None)
    left: dict[int, list[float]] = {}
    for reading in data.readings:
        if reading.fallen is not None and reading.cell.budget == data.plan.budgets[-1]:
            left.setdefault(reading.cell.num_generations, []).append(reading.fallen)
    return [
        f"n = {n}: {count} of {runs[n]} collapsed"
        + (f", to {math.fsum(left[n]) / len(left[n]):.3f}" if n in left else "")
        for n, count in sorted(fallen.items())
    ]


def _flat(findings: Findings) -> list[str]:
    """How many runs never left the reward they began with."""
    fitted = [fit.status for fit in findings.fits if fit.status is not FitStatus.TOO_FEW]
    count = fitted.count(FitStatus.NO_RISE)
    return [f"{count} of {len(fitted)} show no rise above noise"] if count else []


def _warned(data: SweepData) -> list[str]:
    """How many runs broke a rule of training's health, by rule, the commonest first."""
    trained = sum(curve.compute.size > 0 for curve in data.curves)
    broken: dict[str, list[PlannedRun]] = {}
    for curve in data.curves:
        for rule in sorted({warning.rule for warning in curve.warnings} - {LOST_CHECKPOINT}):
            broken.setdefault(rule, []).append(curve.run)
    window, short = _too_short(data)
    if not broken:
        said = ["no warning of training's health"] * (trained > short)
    else:
        listed = ", ".join(
            f"{rule} in {len(runs)} of {trained} runs{_which(runs)}"
            for rule, runs in sorted(broken.items(), key=lambda item: -len(item[1]))
        )
        said = [f"warned of {listed}"]
    return said + [f"health of {short} of {trained} runs {not_judged(window)}"] * (short > 0)


def _too_short(data: SweepData) -> tuple[int, int]:
    """Steps from which on training's health is judged, and how many runs have made fewer."""
    health = data.config_document.get("health")
    window = health.get("window", 0) if isinstance(health, dict) else 0
    trained = [curve for curve in data.curves if curve.compute.size and curve.steps[-1]]
    return window, sum(int(curve.generations[-1]) < window for curve in trained)


def _which(runs: Sequence[PlannedRun]) -> str:
    """The runs in brackets, where they are few."""
    named = [f"n = {r.num_generations}, B = {r.problems_per_batch}, seed {r.seed}" for r in runs]
    return f" ({'; '.join(named)})" if len(runs) <= _NAMED else ""


def collapsed_runs(data: SweepData) -> tuple[str, ...]:
    """Ids of the runs that lost for good what they had gained, in the plan's order."""
    return tuple(curve.run.run_id for curve in data.curves if curve.collapsed_at is not None)


def _standing(curve: Curve, data: SweepData) -> Standing:
    """How far the run is: by its files, or where these are records alone, by what it spent."""
    if curve.standing is Standing.TO_EXTEND and data.course is not None and data.course.over:
        return Standing.STOPPED
    if curve.standing not in (None, Standing.NOT_BEGUN):
        return curve.standing
    if not curve.compute.size:
        return Standing.NOT_BEGUN
    return Standing.DONE if _is_done(curve) else Standing.INTERRUPTED


def _and(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _listed(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"
