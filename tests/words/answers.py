"""Answers of every kind, as documents: what templates are rendered from."""

import time
from dataclasses import asdict, replace
from typing import get_args

from isosweep.analysis import answer as kinds
from isosweep.analysis.answer import Answer
from isosweep.analysis.curves import Gap
from isosweep.analysis.outlook import Lack, Outlook
from isosweep.analysis.pairs import NamedCell
from isosweep.analysis.recommend import Basis, Recommendation
from isosweep.analysis.simulation.findable import Findable, Odds
from isosweep.analysis.statistics.frontier import CellMean, Choice
from isosweep.analysis.statistics.growth import Growth, RateAt
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.optima import BestGenerations, Range
from isosweep.analysis.statistics.verdict import OpenEnd, Reason, ReasonKind, Verdict
from isosweep.plan.evaluation import EvaluationPlan
from isosweep.plan.study import CheckpointPlan
from isosweep.pricing import Pricing
from isosweep.search.proposing import Stop

BUDGETS = (1e18, 1e19, 1e20)
RATE = Interval(median=0.2, low=-0.1, high=0.4)


def cell(n: int, mean: float) -> CellMean:
    return CellMean(
        num_generations=n,
        problems_per_batch=16,
        num_steps=100,
        mean=mean,
        standard_error=0.004,
        num_seeds=3,
    )


def choice(n: int, mean: float) -> Choice:
    return Choice(
        cell=cell(n, mean),
        num_batches_tried=2,
        expected=mean,
        interval=(mean - 0.01, mean + 0.01),
        probability_best=0.8,
        indistinguishable=n < 64,
        loss=0.0,
        loss_upper=0.01,
    )


def optimum(budget: float, n: float) -> BestGenerations:
    return BestGenerations(
        budget=budget,
        best=round(n),
        candidates=(round(n),),
        interval=Interval(median=n, low=n / 2, high=n * 2),
        left_censored=False,
        right_censored=budget == BUDGETS[-1],
        enough=Range(
            interval=Interval(median=n / 2, low=n / 4, high=n),
            open_below=budget == BUDGETS[0],
            open_above=False,
        ),
    )


GROWTH = Growth(
    since=1e18,
    rise=RATE,
    rate=RATE,
    end=Interval(median=32, low=16, high=64),
    history=(RateAt(budget=1e19, rate=RATE),),
    bound=0.5,
    grew=0.97,
    fell=0.01,
    peak=1e19,
    unchanged=0.02,
    moved=0.9,
    steady_from=1e19,
    closed=0.97,
    stopped=0.93,
    settled=0.91,
    rising=0.02,
)
FALLEN = kinds.Fallen(num_generations=4, collapsed=2, runs=3, left_with=0.1)
# $3 an hour, and predictions by assumed efficiencies.
PRICING = Pricing(dollars_per_hour=3.0, spread=(0.67, 1.5))


def found(ends: float, goes_on: float) -> Findable:
    """Shares that say surely what n does; .05 more do with "probably"."""
    ended, rising = (Odds(surely=s, probably=s + 0.05, falsely=0.01) for s in (ends, goes_on))
    return Findable(ends=ended, goes_on=rising)


OUTLOOKS = (
    Outlook(
        finds=found(0.15, 0.25),
        nearer=found(0.05, 0.2),
        sweeps=16,
        nearest={"below": 3.0},
        judged_by={"margin": 0.02},
        below=("problems",),
    ),
    Outlook(
        lacks=(Lack(what="seeds", least=2, here=1, mended_by="grid.seeds=[0,1]"),),
        nearest={},
        judged_by={},
    ),
    Outlook(
        finds=found(0.15, 0.25),
        nearer=found(0.05, 0.2),
        sweeps=16,
        nearest={},
        judged_by={},
    ),
    Outlook(unknown="best", nearest={}, judged_by={}),
)
EVALUATION = EvaluationPlan(
    problems=(1024, 2048),
    samples_per_problem=8,
    records=320,
    flops=1e18,
    share_of_flops=1e-6,
    device_hours=0.5,
    share_of_time=0.12,
)
CHECKPOINTS = CheckpointPlan(
    keep="resumable", largest_bytes=1.61e9, peak_bytes=6.46e9, kept_bytes=3.23e9
)
END = OpenEnd(kind="above", edge=64)
ENDS = (
    END,
    OpenEnd(kind="below", edge=64),
    OpenEnd(kind="missing", edge=64, n=(8,)),
)
CAVEATS = (
    kinds.NotForNewProblems(verdict="not identified", num_problems=256),
    kinds.NoGain(factor=2.0, gain=-0.004),
    kinds.AtEdge(end=END),
    kinds.Behind(n=(32, 64), budget=1e20),
    kinds.Unread(gap=Gap(low=1e18, high=1e19, empty=True, after=1e19)),
    kinds.CoarseMargin(margin=0.02, gain=0.1),
    kinds.BestMoves(first=optimum(1e18, 8), last=optimum(1e20, 64)),
    kinds.Collapsed(fallen=(FALLEN,)),
    kinds.Searched(begun=12, runs=30, share=0.31),
    kinds.RewardsOnly(runs=12, without_errors=12, single=2),
    kinds.BrokenRecords(
        records=(
            kinds.BrokenRecord(
                run=kinds.NamedRun(num_generations=32, problems_per_batch=16, seed=1), step=40
            ),
        )
    ),
)
STEPS = (
    kinds.GoOn(n=(32, 64), budget=1e20),
    kinds.AddN(
        n=128,
        settings={"num_generations": [64, 128]},
        end=END,
    ),
    kinds.MoreProblems(
        problems=1600,
        setting="task.num_eval_problems=1600",
        num_problems=256,
        added=1.55,
    ),
    kinds.Enlarge(lacks=OUTLOOKS[1].lacks),
    kinds.SingleRuns(sweep="from=mine"),
)


ANSWER = Answer(
    pricing=PRICING,
    plan_id="0123abcd",
    budget_unit="flops",
    confidence=0.9,
    metric="avg",
    evaluation_set=None,
    verdict="saturated",
    reason=Reason(
        kind="saturated", confidence=0.9, quantity="enough", margin=0.02, measured=(4, 16, 64)
    ),
    growth=GROWTH,
    plateau=GROWTH.end,
    settles_at=Interval(median=1.2e19, low=1e18, high=5e19),
    harmless=(16,),
    optima=(optimum(1e18, 8), optimum(1e19, 24), optimum(1e20, 32)),
    # Without those that change the headline.
    caveats=tuple(c for c in CAVEATS if not isinstance(c, kinds.CoarseMargin | kinds.BestMoves)),
    use=kinds.Use(
        num_generations=16,
        problems_per_batch=16,
        num_steps=100,
        budget=1e20,
        limit="plan",
        measured=0.62,
        expected=0.615,
        interval=(0.6, 0.63),
        num_seeds=2,
        num_fallen=1,
        seed_sd=0.008,
        probability_best=0.8,
        optimum=optimum(1e20, 32),
        compared=(4, 16, 64),
        as_good=(4,),
        neighbours=(
            kinds.Loss(num_generations=4, loss_upper=0.03),
            kinds.Loss(num_generations=64, loss_upper=0.012),
        ),
        behind=(),
        missing=(),
        fell=(),
        one_batch=True,
    ),
    reward=kinds.Rise(
        reward=0.615,
        expected=True,
        before=0.2,
        earlier=kinds.Earlier(
            budget=1e19, factor=10.0, num_generations=16, reward=0.5, expected=True, gain=0.115
        ),
        coverage=kinds.Coverage(k=8, now=0.9, before=0.7, num_fallen=1),
    ),
    generations=tuple(
        kinds.Choices(
            budget=budget,
            choices=(choice(4, 0.5), choice(16, 0.6)),
            best=NamedCell(num_generations=16, problems_per_batch=16),
        )
        for budget in BUDGETS
    ),
    batch_laws=(),
    spent=kinds.Spent(
        compute=2.5e21,
        device_hours=12.5,
        evaluation_hours=2.5,
        planned=3e21,
        budgets=BUDGETS,
        left=5e20,
        left_in_failed=1e20,
        left_in_cancelled=0.0,
        search=None,
    ),
    runs=kinds.Runs(
        total=30,
        standings={"not begun": 2, "failed": 1, "done": 27},
        collapsed=2,
        fallen=(FALLEN,),
        fitted=27,
        flat=3,
        trained=28,
        warned=(kinds.Warned(rule="high_kl", runs=3, named=()),),
        too_short=1,
        window=20,
        generations=(4, 16, 64),
        batches=(16,),
        seeds=3,
    ),
    next_steps=STEPS,
)
_SPLIT = Recommendation(
    budget=5e19,
    num_generations=16,
    problems_per_batch=16,
    num_steps=80,
    learning_rate=1e-6,
    device_hours=3.25,
    best_n=Interval(median=20, low=16, high=64),
    open_below=False,
    open_above=True,
    enough=Range(interval=Interval(median=10, low=4, high=17), open_below=True, open_above=False),
    missing=(64,),
    alternatives=(8,),
    reward=0.6,
    interval=(0.58, 0.62),
    base_reward=0.2,
    factor=0.5,
    basis=Basis(kind="surface", budgets=(1e20, 1e19), num_cells=6),
)
RECOMMENDED = (
    _SPLIT,
    replace(
        _SPLIT,
        basis=Basis(kind="means", budgets=(1e20,)),
        best_n=None,
        enough=None,
        interval=None,
    ),
    *(
        replace(
            _SPLIT,
            factor=4.0,
            basis=basis,
            missing=(),
            best_n=best_n,
            reward=None,
            interval=None,
        )
        for basis, best_n in (
            (Basis(kind="growth", budgets=(1e20,)), _SPLIT.best_n),
            (Basis(kind="last n", budgets=(1e20,)), None),
        )
    ),
)
STOPS = (
    Stop(kind="no spread"),
    Stop(kind="behind", n=(8, 16), budget=1e20),
    Stop(kind="out of reach", n=(128,), end=END),
    Stop(kind="decided", verdict="saturated", chance=0.93, margin=0.02),
    Stop(kind="not worth"),
)
_STEP = {"num_generations": 128, "valued_as_n": 64, "compute": 1e20, "device_hours": 1.5}
# What `mode=next` proposes of a variant.
STEPS_PROPOSED = {"agree": 0.52, "steps": [_STEP] * 2}
# Of any time zone the same local time.
_WHEN = time.mktime((2026, 11, 25, 13, 20, 0, 0, 0, -1))
# The document of `mode=status` of one sweep, without runs.
STATUS = {
    "sweep": "mine",
    "device_hours": 41.5,
    "pricing": asdict(PRICING),
    "counts": {"not begun": 2, "running": 0, "done": 28},
    "collapsed": 3,
    "followed_by": "ada (process 4321 of login1, since 2026-11-25 13:20:00)",
    "unanswered": "squeue: Unable to contact slurm controller",
    "unanswered_runs": 2,
    "checkpoint_bytes": 18.5e9,
}
# A verdict that each kind of reason goes with.
_VERDICTS: dict[str, Verdict] = {
    "harmless": "n does not matter",
    **{kind: kind for kind in ("fell", "saturated", "growing", "grew", "constant", "steady")},
    **{kind: kind for kind in ("probably saturated", "probably growing")},
}


# Kinds that say where the n may lie that was not measured.
_OPEN = ("edge", "probably saturated", "growing", "probably growing", "grew", "undecided")


def of_kind(kind: ReasonKind) -> Answer:
    """An answer whose reason is of that kind, with the numbers that such a reason has."""
    reason = Reason(
        kind=kind,
        confidence=0.9,
        quantity="enough",
        margin=0.02,
        measured=(4, 16, 64),
        fell=(64,) if kind in ("few n", "all fell") else (),
        edge=64,
        end=END if kind in _OPEN else None,
        num_budgets=2,
    )
    nothing = kind in ("no record", "all fell")
    lacking = nothing or kind in ("few n", "few budgets", "one seed", "no spread")
    return replace(
        ANSWER,
        verdict=_VERDICTS.get(kind, "not identified"),
        reason=reason,
        harmless=() if lacking else ANSWER.harmless,
        use=None if nothing else ANSWER.use,
        reward=None if nothing else ANSWER.reward,
        generations=() if nothing else ANSWER.generations,
    )


def of_best(answer: Answer) -> Answer:
    """The same answer, were n* judged."""
    return replace(answer, reason=replace(answer.reason, quantity="best"))


REASONS = {kind: of_kind(kind) for kind in get_args(ReasonKind)}
