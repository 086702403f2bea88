"""What published sources choose for n at one budget, where they disagree, and the sweep to settle it.

A budget is brought to each source's unit by the planner's cost model of the config's own model and
task, at n = 16 (or the n of the grid nearest to it) and the smallest B of the grid. What decides
is told as kinds and numbers; `isosweep/words/advise.j2` words it.
"""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from isosweep.analysis.advice.sources import Best, Source, sources
from isosweep.analysis.bounds import AtLeastOne, Count, NotNegative, Positive, Sentence
from isosweep.analysis.outlook import Outlook, outlook
from isosweep.compute import BUDGET_UNITS, BudgetUnit
from isosweep.config.axes import combinations
from isosweep.config.overrides import typed
from isosweep.config.search import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.evidence import MIN_SEEDS
from isosweep.plan.attention import with_attention
from isosweep.plan.calibration import calibrated
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.study import Study, resolve

# Raised when a field goes or changes its meaning; fields may be added.
ADVICE_VERSION: Final = 1
# The n at which a budget is converted; others differ by the prompt that an engine reads once.
_CONVERTED_AT = 16
# Sources that differ by less agree: a doubling is what a grid of n tells apart.
AGREE_WITHIN = 1.0
# Laws this far apart are told apart by n a factor of four apart, which cost half of all n.
_WIDE = 2.0
# How far beyond the outermost n of the sources the grid goes, in doublings: an optimum at the edge
# of a grid is none.
_MARGIN = 2
# Shares of the budget at which the sources may be told apart, the cheapest first.
_SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
# What the deciding sweep sets itself.
_OWN = ("mode", "budget", "format", "name", "sweep_dir", "from", "search", "confirm", "runs")
_OWN_OF_GRID = ("num_generations", "problems_per_batch", "completions_per_step", "seeds", "axes")


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
    """Which count: those in whose range the budget lies; where there is none, the nearest."""
    comparable: bool
    """Whether they are about problems of the kind that is asked about; else there are none."""
    beyond: NotNegative
    """Decades between the budget and their range."""
    sources: tuple[Sentence, ...]
    """Their names."""
    smallest: Chosen
    """The smallest n."""
    largest: Chosen
    """The largest n."""
    doublings: NotNegative
    """Between the two."""


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
    left_out: tuple[AtLeastOne, ...]
    """Further n that the planner's rules keep out."""
    problems_per_batch: AtLeastOne
    """Its B."""
    runs: Count
    """Training runs."""
    flops: Positive
    """Of training and generation."""
    device_hours: Positive
    """Predicted, evaluation included."""
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
        rule = "is set, and advice is for one combination of settings"
        raise SettingError("grid.axes", "", rule, "grid.axes=null")
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
    if source.difficulty is not None and source.difficulty != config.task.difficulty:
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
    least = min(_distance(each) for each in comparable or known)
    count = [each for each in comparable or known if _distance(each) == least]
    chosen = sorted((Chosen(name=a.name, n=a.n) for a in count if a.n), key=lambda each: each.n)
    return Disagreement(
        basis="nearest" if least else "in range",
        comparable=bool(comparable),
        beyond=least,
        sources=tuple(each.name for each in count),
        smallest=chosen[0],
        largest=chosen[-1],
        doublings=math.log2(chosen[-1].n / chosen[0].n),
    )


def _sweep(
    config: SweepConfig,
    budget: float,
    amounts: Mapping[BudgetUnit, float],
    found: Disagreement,
    overrides: Sequence[str],
) -> tuple[DecidingSweep | None, str | None]:
    """The sweep at the smallest share of the budget at which the two sources are as far apart as
    need be and all n are planned; the whole budget takes what the planner leaves of the n."""
    by_name = {source.name: source for source in sources()}
    pair = [by_name[each.name] for each in (found.smallest, found.largest)]
    for share in _SHARES:
        ends = _ends(pair, amounts, share)
        if share < 1 and (ends is None or _apart(ends) < min(found.doublings, _WIDE)):
            continue
        smallest, largest = ends or (found.smallest.n, found.largest.n)
        asked = _grid(smallest, largest)
        # Three digits, so that it can be typed again.
        at = float(f"{budget * share:.3g}") if share < 1 else budget
        try:
            made = _planned(config, at, asked, overrides)
        except SettingError as error:
            if share == 1:
                return None, str(error)
            continue
        study, command, planned = made
        if planned != asked and share < 1:
            continue
        return DecidingSweep(
            command=command,
            budget=at,
            share=share,
            doublings=abs(math.log2(largest / smallest)),
            num_generations=planned,
            left_out=tuple(n for n in asked if n not in planned),
            problems_per_batch=study.plan.runs[0].problems_per_batch,
            runs=len(study.plan.runs),
            flops=math.fsum(run.planned_flops for run in study.plan.runs),
            device_hours=study.device_hours,
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
    stride = 2 if _apart((smallest, largest)) >= _WIDE else 1
    # An odd number of doublings ends one further.
    return tuple(2**k for k in range(first, last + stride, stride))


def _planned(
    config: SweepConfig, budget: float, asked: tuple[int, ...], overrides: Sequence[str]
) -> tuple[Study, str, tuple[int, ...]]:
    """The planner's own study of the sweep, its command, and the n that come as far as the budget.

    Raises SettingError where nothing is feasible.
    """
    grid = config.grid
    seeds = (*grid.seeds, *(seed for seed in range(MIN_SEEDS) if seed not in grid.seeds))
    B = min(grid.problems_per_batch)

    def study_of(n: tuple[int, ...]) -> Study:
        return resolve(
            replace(
                config,
                mode="plan",
                budget=(budget,),
                name=None,
                sweep_dir=None,
                search=SearchConfig(),
                grid=replace(
                    grid,
                    num_generations=list(n),
                    problems_per_batch=[B],
                    completions_per_step=None,
                    seeds=list(seeds[:MIN_SEEDS]),
                ),
            )
        )

    study = study_of(asked)
    planned = tuple(sorted({cell.num_generations for cell in study.plan.cells}))
    if planned != asked:
        study = study_of(planned)
    own = (
        f"budget={typed(budget)}",
        f"grid.num_generations=[{','.join(map(str, planned))}]",
        f"grid.problems_per_batch=[{B}]",
        f"grid.seeds=[{','.join(map(str, seeds[:MIN_SEEDS]))}]",
        *(["grid.completions_per_step=null"] if grid.completions_per_step else []),
    )
    kept = [text for text in overrides if not _is_own(text)]
    return study, shlex.join(["python", "-m", "isosweep", *kept, *own]), planned


def _is_own(override: str) -> bool:
    """Whether an override sets what the deciding sweep sets itself."""
    name = override.partition("=")[0].lstrip("+~")
    group, _, setting = name.partition(".")
    return group in _OWN or (group == "grid" and setting.split(".")[0] in _OWN_OF_GRID)
