"""What published sources choose for n at a budget, where they disagree, and the deciding sweep.

A budget is brought to each source's unit by the planner's cost model of the config's own model and
task, at n = 16 (or the n of the grid nearest to it) and the smallest B of the grid. What decides
is told as kinds and numbers; `isosweep/words/advise.j2` words it.
"""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from isosweep.analysis.advice.sources import Best, Source, sources
from isosweep.analysis.bounds import AtLeastOne, Count, NotNegative, Positive, Sentence
from isosweep.analysis.outlook import Outlook, outlook
from isosweep.compute import BUDGET_UNITS, BudgetUnit
from isosweep.config.axes import combinations
from isosweep.config.overrides import typed
from isosweep.config.search import SearchConfig
from isosweep.config.secrets import without_password
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.evidence import MIN_SEEDS
from isosweep.plan.attention import with_attention
from isosweep.plan.calibration import calibrated
from isosweep.plan.cells import predicted
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.study import Study, resolve
from isosweep.pricing import Pricing

# Raised when a field goes or changes its meaning; fields may be added.
ADVICE_VERSION: Final = 1
# The n at which a budget is converted; others differ by the prompt that an engine reads once.
_CONVERTED_AT = 16
# Where fewer than two sources measured a budget, those within so many decades of it, or of the
# nearest of them, count as well.
_AS_NEAR = 0.5
# Laws this far apart are told apart by n a factor of four apart, which cost half of all n.
_WIDE = 2.0
# How far beyond the outermost n of the sources the grid goes, in doublings: an optimum at the edge
# of a grid is none.
_MARGIN = 2
# Shares of the budget at which the sources may be told apart, the cheapest first.
_SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
# What the deciding sweep sets itself.
_OWN = ("mode", "budget", "format", "name", "sweep_dir", "from", "search", "confirm", "runs")
_OWN_OF_GRID = (
    *("num_generations", "problems_per_batch", "completions_per_step", "seeds"),
    "max_completions_per_step",
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What of a source is not as in the sweep that is asked about."""

    kind: Literal["model", "task", "difficulty", "hardware"]
    """difficulty: the source is about easy or hard problems alone, and the task is not."""
    there: str
    """Of the source."""
    here: str
    """Of the config."""
    ratio: Positive | None = None
    """Of models: parameters here over there; null where not known."""


@dataclass(frozen=True, kw_only=True)
class SourceAnswer:
    """What one source says of one budget."""

    name: Sentence
    """Of the source."""
    compute: Positive
    """The budget, in the source's unit."""
    unit: BudgetUnit
    """That unit."""
    beyond: float | None
    """Decades by which the budget lies above its range, below if negative, 0 inside; null: the
    range is not known. Outside, the answer is that of the range's end."""
    n: Positive | None
    """The n that it chooses; null: it gives none."""
    low: Positive | None
    """The smallest n that it does not distinguish from that; null: it says nothing of it."""
    high: Positive | None
    """The largest."""
    comparable: bool
    """Whether it is about problems of the kind, and of the difficulty, that is asked about."""
    differences: tuple[Difference, ...]
    """What of it is otherwise than here."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A source and its n."""

    name: Sentence
    """Of the source."""
    n: Positive
    """Its n."""


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """The smallest and the largest n of the sources that count."""

    basis: Literal["in range", "nearest"]
    """Which count: those in whose range the budget lies; where these are fewer than two, the
    nearest."""
    comparable: bool
    """Whether they are about problems of the kind that is asked about; else there are none."""
    beyond: NotNegative
    """Decades between the budget and the range of the furthest of them."""
    sources: tuple[Sentence, ...]
    """Their names."""
    smallest: Chosen
    """The smallest n."""
    largest: Chosen
    """The largest n."""
    doublings: NotNegative
    """Between the two."""
    between: AtLeastOne
    """The power of two nearest to the middle of both, by doublings: what to set until more is
    known, for it is the least far from either."""


@dataclass(frozen=True, kw_only=True)
class DecidingSweep:
    """The cheapest sweep that would tell the two ends of a disagreement apart."""

    command: Sentence
    """What to type."""
    budget: Positive
    """Its budget, in the unit of the budget that is asked about."""
    share: Positive
    """Of that budget."""
    doublings: NotNegative
    """Between the two sources' n at that budget."""
    num_generations: tuple[AtLeastOne, ...]
    """Its n."""
    stride: Literal[1, 2]
    """Doublings from one n to the next. `finds` is of sweeps whose n are one apart."""
    left_out: Mapping[AtLeastOne, Sentence]
    """Further n that the planner keeps out, each with the setting whose rule it breaks."""
    problems_per_batch: AtLeastOne
    """Its B."""
    runs: Count
    """Training runs."""
    flops: Positive
    """Of training and generation."""
    device_hours: Positive
    """Predicted, evaluation included."""
    pricing: Pricing
    """By what they are priced."""
    finds: Outlook
    """What sweeps like it find."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What is published about the best n at one budget."""

    budget: Positive
    """In `budget_unit`."""
    budget_unit: BudgetUnit
    """Unit of the budget."""
    model: Sentence
    """Name of the model that is asked about."""
    task: Sentence
    """Name of the task."""
    amounts: Mapping[BudgetUnit, Positive]
    """The budget in every unit, by the planner's cost model."""
    answers: tuple[SourceAnswer, ...]
    """Of every source: first those that are comparable, the nearest range first."""
    disagreement: Disagreement
    """Of the sources that count."""
    sweep: DecidingSweep | None
    """The cheapest that would decide; null where the planner refuses it."""
    refused: str | None
    """Why there is no sweep, in the planner's words."""


@dataclass(frozen=True, kw_only=True)
class AdviceDocument:
    """What `mode=advise format=json` prints."""

    version: Literal[1] = ADVICE_VERSION
    """Of this format."""
    sources: tuple[Source, ...]
    """All that were asked."""
    advice: tuple[Advice, ...]
    """One for each budget."""


def advise(config: SweepConfig, overrides: Sequence[str] = ()) -> AdviceDocument:
    """What every source says of each budget; `overrides`: what was typed for `config`.

    Raises SettingError for `grid.axes`, and for device-hours of hardware that nobody has named.
    """
    if config.grid.axes:
        rule = "advice is for one combination of settings"
        raise SettingError("grid.axes", "set", rule, "grid.axes=null")
    groups = {name.lstrip("+~").split(".")[0] for name in config.given}
    if config.unit == "device_hours" and not groups & {"hardware", "experiment"}:
        rule = "is converted by the speed of the devices, and the command names no hardware"
        raise SettingError("budget_unit", "device_hours", rule, "hardware=h100")
    config = with_attention(calibrated(config))
    costs = _costs(config)
    return AdviceDocument(
        sources=sources(),
        advice=tuple(_advice(config, budget, costs, overrides) for budget in config.budgets),
    )


def _costs(config: SweepConfig) -> Mapping[BudgetUnit, float]:
    """What one update costs in every unit, by the planner, at one n and B."""
    # A device that runs share has no hours of its own; hours are of a whole one.
    whole = replace(config, launcher=replace(config.launcher, runs_per_device=1))
    costs: dict[BudgetUnit, float] = {}
    for unit in BUDGET_UNITS:
        (table,) = enumerate_candidates(combinations(replace(whole, budget_unit=unit)))
        i = int(abs(table.num_generations - _CONVERTED_AT).argmin())
        costs[unit] = float(table.cost[i, 0])
    return costs


def _advice(
    config: SweepConfig,
    budget: float,
    costs: Mapping[BudgetUnit, float],
    overrides: Sequence[str],
) -> Advice:
    amounts = {unit: budget * cost / costs[config.unit] for unit, cost in costs.items()}
    answers = [_answer(source, amounts[source.unit], config) for source in sources()]
    found = _disagreement(answers)
    sweep, refused = _sweep(config, budget, amounts, found, overrides)
    return Advice(
        budget=budget,
        budget_unit=config.unit,
        model=config.model.name,
        task=config.task.name,
        amounts=amounts,
        answers=tuple(sorted(answers, key=_nearness)),
        disagreement=found,
        sweep=sweep,
        refused=refused,
    )


def _answer(source: Source, compute: float, config: SweepConfig) -> SourceAnswer:
    best = source.best(compute)
    return SourceAnswer(
        name=source.name,
        compute=compute,
        unit=source.unit,
        beyond=source.beyond(compute),
        n=None if best is None else best.n,
        low=None if best is None else best.low,
        high=None if best is None else best.high,
        comparable=_comparable(source, config),
        differences=tuple(_differences(source, config)),
    )


def _same_task(source: Source, config: SweepConfig) -> bool:
    task = config.task
    names = {task.name, task.kind}
    if task.reasoning_gym is not None:
        names.add(task.reasoning_gym.generator)
    return bool(names & set(source.tasks))


def _comparable(source: Source, config: SweepConfig) -> bool:
    asked = config.task.difficulty
    other = asked in ("easy", "hard") and source.difficulty not in (None, asked)
    return _same_task(source, config) and not other


def _differences(source: Source, config: SweepConfig) -> Iterator[Difference]:
    model, parameters = config.model, float(config.model.architecture.parameters)
    if source.model is not None and source.model != model.source:
        ratio = parameters / source.parameters if source.parameters else None
        yield Difference(kind="model", there=source.model, here=model.name, ratio=ratio)
    if not _same_task(source, config):
        yield Difference(kind="task", there=source.task, here=config.task.name)
    elif source.difficulty is not None and source.difficulty != config.task.difficulty:
        here = str(config.task.difficulty or "all")
        yield Difference(kind="difficulty", there=source.difficulty, here=here)
    if source.hardware is not None:
        yield Difference(kind="hardware", there=source.hardware, here=config.hardware.name)


def _distance(answer: SourceAnswer) -> float:
    """Decades to its range; of one whose range is not known, infinitely many."""
    return math.inf if answer.beyond is None else abs(answer.beyond)


def _nearness(answer: SourceAnswer) -> tuple[bool, bool, float]:
    return (answer.n is None, not answer.comparable, _distance(answer))


def _disagreement(answers: Sequence[SourceAnswer]) -> Disagreement:
    """Between the sources in whose range the budget lies, or else the nearest; of those that are
    comparable, if there are any."""
    known = [each for each in answers if each.n is not None and each.beyond is not None]
    comparable = [each for each in known if each.comparable]
    distances = sorted(map(_distance, comparable or known))
    inside = distances[min(1, len(distances) - 1)] == 0.0
    most = 0.0 if inside else distances[0] + _AS_NEAR
    count = [each for each in comparable or known if _distance(each) <= most]
    chosen = sorted((Chosen(name=a.name, n=a.n) for a in count if a.n), key=lambda each: each.n)
    smallest, largest = chosen[0], chosen[-1]
    return Disagreement(
        basis="in range" if inside else "nearest",
        comparable=bool(comparable),
        beyond=max(map(_distance, count)),
        sources=tuple(each.name for each in count),
        smallest=smallest,
        largest=largest,
        doublings=math.log2(largest.n / smallest.n),
        between=2 ** round(math.log2(smallest.n * largest.n) / 2),
    )


def _sweep(
    config: SweepConfig,
    budget: float,
    amounts: Mapping[BudgetUnit, float],
    found: Disagreement,
    overrides: Sequence[str],
) -> tuple[DecidingSweep | None, str | None]:
    """The sweep at the smallest share of the budget at which the two sources are as far apart as
    need be and all n are planned. The whole budget takes what the planner leaves of the n, and is
    where sources that agree are checked."""
    kept = [without_password(text) for text in overrides if not _is_own(text)]
    by_name = {source.name: source for source in sources()}
    pair = [by_name[each.name] for each in (found.smallest, found.largest)]
    for share in _SHARES:
        ends = _ends(pair, amounts, share)
        told = ends is not None and _apart(ends) >= max(1.0, min(found.doublings, _WIDE))
        if share < 1 and not told:
            continue
        smallest, largest = ends or (found.smallest.n, found.largest.n)
        asked = _grid(smallest, largest)
        # Three digits, so that it can be typed again.
        at = float(f"{budget * share:.3g}") if share < 1 else budget
        try:
            made = _planned(config, at, asked)
        except SettingError as error:
            if share == 1:
                return None, str(error)
            continue
        if made.left_out and share < 1:
            continue
        study = made.study
        return DecidingSweep(
            command=shlex.join(["python", "-m", "isosweep", *kept, *made.own]),
            budget=at,
            share=share,
            doublings=_apart((smallest, largest)),
            num_generations=tuple(sorted({run.num_generations for run in study.plan.runs})),
            stride=_stride(smallest, largest),
            left_out=made.left_out,
            problems_per_batch=study.plan.runs[0].problems_per_batch,
            runs=len(study.plan.runs),
            flops=math.fsum(predicted(run.planned_flops) for run in study.plan.runs),
            device_hours=study.device_hours,
            pricing=study.plan.pricing,
            finds=outlook(study.plan, study.config),
        ), None
    raise AssertionError("the last share is the whole budget")


def _ends(
    pair: Sequence[Source], amounts: Mapping[BudgetUnit, float], share: float
) -> tuple[float, float] | None:
    """Both sources' n at a share of the budget, in order; None for less than one has measured."""
    bests: list[Best] = []
    for source in pair:
        compute = amounts[source.unit] * share
        best, beyond = source.best(compute), source.beyond(compute)
        if best is None or beyond is None or (beyond < 0 and share < 1):
            return None
        bests.append(best)
    low, high = sorted(best.n for best in bests)
    return low, high


def _apart(ends: tuple[float, float]) -> float:
    return math.log2(ends[1] / ends[0])


def _grid(smallest: float, largest: float) -> tuple[int, ...]:
    """n that reach two doublings beyond both: a factor of four apart where the two differ by that,
    otherwise of two. At least 2: one rollout has no group to be compared with."""
    first = max(1, math.floor(math.log2(smallest)) - _MARGIN)
    last = math.ceil(math.log2(largest)) + _MARGIN
    stride = _stride(smallest, largest)
    # An odd number of doublings ends one further.
    return tuple(2**k for k in range(first, last + stride, stride))


def _stride(smallest: float, largest: float) -> Literal[1, 2]:
    return 2 if _apart((smallest, largest)) >= _WIDE else 1


@dataclass(frozen=True, kw_only=True)
class _Planned:
    """A deciding sweep by the planner, and the overrides that make it of the config."""

    study: Study
    own: tuple[str, ...]
    left_out: Mapping[int, str]


def _planned(config: SweepConfig, budget: float, asked: tuple[int, ...]) -> _Planned:
    """The planner's own study of a sweep over the n `asked`, or over what its rules leave of them.

    Raises SettingError where nothing is feasible.
    """
    B, seeds = min(config.grid.problems_per_batch), list(config.grid.seeds)
    seeds += [seed for seed in range(MIN_SEEDS) if seed not in seeds]
    # Of n x B, a limit of the grid's own n; memory is the planner's to judge.
    most = max(config.grid.max_completions_per_step, asked[-1] * B)
    own: dict[str, Any] = {"problems_per_batch": [B], "seeds": seeds[:MIN_SEEDS]}
    if config.grid.completions_per_step is not None:
        own["completions_per_step"] = None
    if most > config.grid.max_completions_per_step:
        own["max_completions_per_step"] = most

    def study_of(n: Sequence[int]) -> Study:
        grid = replace(config.grid, num_generations=list(n), **own)
        asked = replace(config, mode="plan", budget=(budget,), grid=grid, search=SearchConfig())
        return resolve(replace(asked, name=None, sweep_dir=None))

    study = study_of(asked)
    planned = sorted({run.num_generations for run in study.plan.runs})
    rules = {each.num_generations: each.rule for each in study.plan.rejected}
    left_out = {n: rules[n] for n in asked if n not in planned}
    settings = {"num_generations": planned, **own}
    return _Planned(
        study=study_of(planned) if left_out else study,
        own=(
            f"budget={typed(budget)}",
            *(f"grid.{name}={typed(value)}" for name, value in settings.items()),
        ),
        left_out=left_out,
    )


def _is_own(override: str) -> bool:
    """Whether an override sets what the deciding sweep sets itself."""
    name = override.partition("=")[0].lstrip("+~")
    group, _, setting = name.partition(".")
    return group in _OWN or (group == "grid" and setting.split(".")[0] in _OWN_OF_GRID)
