"""Answers and other conclusions of every kind: what sentences are made of."""

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

from isosweep.analysis import answer as kinds
from isosweep.analysis.answer import Answer, read_answer
from isosweep.analysis.outlook import Lack, Outlook
from isosweep.analysis.recommend import Basis, Recommendation
from isosweep.analysis.simulation.findable import Findable, Odds
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.verdict import OpenEnd, Reason, ReasonKind, Verdict
from isosweep.config.base import replaced
from isosweep.config.hardware import HardwareConfig, MeasuredTimes
from isosweep.modes.total import Choice
from isosweep.plan.evaluation import EvaluationPlan
from isosweep.plan.study import CheckpointPlan
from isosweep.pricing import Pricing


def _stored() -> Answer:
    """The answer of answer.json, which has every kind of caveat and next step."""
    answer = read_answer(Path(__file__).with_name("answer.json"))
    assert answer is not None
    return answer


_STORED = _stored()
CAVEATS, STEPS = _STORED.caveats, _STORED.next_steps
# Without those that change the headline, and a step that is another answer's.
ANSWER = replace(
    _STORED,
    caveats=tuple(c for c in CAVEATS if not isinstance(c, kinds.CoarseMargin | kinds.BestMoves)),
    next_steps=tuple(step for step in STEPS if not isinstance(step, kinds.NewRecipe)),
)
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


def _choice(outlook: Outlook, last: float, unit: str = "h") -> Choice:
    budgets = (last / 10, last)
    return Choice(budgets=budgets, seeds=(0, 1), spent=last / 1e17, unit=unit, outlook=outlook)


_H100 = HardwareConfig(name="h100", memory_gb=80, peak_flops=1e15, memory_bandwidth=3e12)
_MEASURED = replaced(_H100, calibrated_from=MeasuredTimes(runs=5))
_FEW = replace(OUTLOOKS[2], below=("decades",))
_UNKNOWN = _choice(OUTLOOKS[3], 2.8e20, "")
# What `total` chose, and what half and twice of it would.
TOTALS: tuple[tuple[float, Choice, Choice | None, Choice | None, HardwareConfig], ...] = (
    (
        2000.0,
        _choice(OUTLOOKS[2], 1.8e20),
        _choice(OUTLOOKS[2], 9e19),
        _choice(OUTLOOKS[2], 3.6e20),
        _MEASURED,
    ),
    (2000.0, _choice(OUTLOOKS[0], 1.8e20, "usd"), None, _choice(_FEW, 3.6e20, "usd"), _H100),
    (3e3, _UNKNOWN, _UNKNOWN, _UNKNOWN, _H100),
)
EVALUATION = EvaluationPlan(
    problems=(1024, 2048),
    samples_per_problem=8,
    records=320,
    share_of_flops=1e-6,
    share_of_time=0.12,
    kept_bytes=3.1e7,
)
CHECKPOINTS = CheckpointPlan(
    keep="resumable", largest_bytes=1.61e9, peak_bytes=6.46e9, kept_bytes=3.23e9
)
END = OpenEnd(kind="above", edge=64)
ENDS = (END, OpenEnd(kind="below", edge=64), OpenEnd(kind="missing", edge=64, n=(8,)))
_SPLIT = Recommendation(
    budget=5e19,
    num_generations=16,
    problems_per_batch=16,
    num_steps=80,
    learning_rate=1e-6,
    device_hours=3.25,
    n_star=Interval(median=20, low=16, high=64, open_above=True),
    n_d=Interval(median=10, low=4, high=17, open_below=True),
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
        n_star=None,
        n_d=None,
        interval=None,
    ),
    *(
        replace(
            _SPLIT,
            factor=4.0,
            basis=basis,
            missing=(),
            n_star=n_star,
            reward=None,
            interval=None,
        )
        for basis, n_star in (
            (Basis(kind="growth", budgets=(1e20,)), _SPLIT.n_star),
            (Basis(kind="last n", budgets=(1e20,)), None),
        )
    ),
)
_STEP = {
    "num_generations": 128,
    "problems_per_batch": 8,
    "seed": 2,
    "axes": {"recipe.learning_rate": 1e-6},
    "variant": "learning_rate=1e-06",
    "milestone": 3e20,
    "compute": 1e20,
    "device_hours": 1.5,
    "value": 0.031,
    "why": "tells most about whether n* grows",
}
_NEXT = {"sweep": "mine", "budget_unit": "flops", "spent": 5e20, "command": None}
# The documents of `mode=next` with steps, and without.
NEXT = (
    _NEXT
    | {"chances": {"saturated": 0.7, "growing": 0.3}, "stop": None, "steps": [_STEP] * 2}
    | {"command": "python -m isosweep mode=resume sweep=mine-next"},
    _NEXT | {"chances": None, "stop": "nothing is worth it", "steps": [], "considered": [_STEP]},
)
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
