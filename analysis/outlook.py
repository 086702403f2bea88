"""What a plan could find, from the shipped table, and the cheapest change that would find more."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from isosweep.analysis.bounds import AtLeastOne, Count, NotNegative, Positive, Share
from isosweep.analysis.simulation.findable import (
    JUDGED_BY,
    SAMPLES,
    Design,
    Findable,
    below_the_table,
    design_of,
    findable,
    nearest_in_the_table,
    read_budgets,
    sweeps_of_an_entry,
)
from isosweep.config.evaluation import SIZES
from isosweep.config.evaluation_sets import on_all
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS
from isosweep.metrics import MetricName
from isosweep.plan.cells import Plan, predicted
from isosweep.plan.evaluation import evaluation_seconds

# Gains of less than this share of sweeps are within the table's chance; of less than this part of
# the largest gain on offer, which is that of four times the runs as a rule, they are not worth a
# change of their own.
_LEAST_GAIN, _OF_THE_LARGEST = 0.08, 0.3
# Device time, as a share of the plan's, up to which nobody minds more or less.
_NEXT_TO_NOTHING = 0.05
# Growth may end anywhere: shares are told for ends so many doublings below the largest n, and
# changes are valued by both.
_ENDS = (2, 1)


@dataclass(frozen=True, kw_only=True)
class Lack:
    """What any verdict takes that a plan has not."""

    what: Literal["n", "budgets", "seeds"]
    """n: rollouts per problem; budgets: those at which enough n are read; seeds."""
    least: AtLeastOne
    """How many any verdict takes."""
    here: Count
    """How many the plan has."""
    mended_by: str | None
    """A setting that has enough, as it is typed; null where none is obvious."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A larger evaluation, one n more, or more seeds."""

    settings: str
    """As they are typed."""
    device_time: Positive
    """Of the sweep with it, over that without."""
    device_hours: Positive
    """Of the sweep with it."""
    problems: AtLeastOne | None = None
    """Held-out problems of a larger evaluation; null for other changes."""
    samples_per_problem: AtLeastOne | None = None
    """Samples of each."""
    evaluation_before: Share | None = None
    """Evaluation's share of the device time without it."""
    evaluation_after: Share | None = None
    """And with it."""
    num_generations: AtLeastOne | None = None
    """The n that is added, twice the largest; null for other changes."""
    finds: Findable | None = None
    """What sweeps find with it, growth ending where `finds` of the outlook has it; null where that
    was not asked."""
    nearer: Findable | None = None
    """The same where `nearer` of the outlook has it."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What sweeps like a plan find, by simulation.

    One of `lacks`, `unknown` and `finds` is given.
    """

    lacks: tuple[Lack, ...] = ()
    """What keeps the plan from any verdict; then nothing else is given."""
    unknown: MetricName | None = None
    """The metric of analysis, where nothing was simulated for it."""
    finds: Findable | None = None
    """Shares of simulated sweeps, where growth ends two doublings below the plan's largest n."""
    nearer: Findable | None = None
    """The same where it ends one doubling below."""
    sweeps: Count = 0
    """Simulated sweeps that each share was counted in."""
    below: tuple[str, ...] = ()
    """What the plan has less of than all that was simulated: the shares are upper bounds then."""
    nearest: dict[str, NotNegative]
    """Doublings of n and decades of compute of the nearest sweeps that were simulated, where the
    plan's differ clearly."""
    judged_by: dict[str, float | str]
    """Settings of analysis by which simulated sweeps were judged, and the plan's are not."""
    change: Change | None = None
    """The cheapest change that finds more."""
    no_change: Literal["decided", "none gains", "none fits"] | None = None
    """Why there is none: little is left to decide; none gains much; none can be made."""


# The change of a plan to one n more, twice its largest, with its price; None where that is no run.
LargerN = Callable[[Plan, SweepConfig], Change | None]


def outlook(plan: Plan, config: SweepConfig, larger_n: LargerN = lambda *_: None) -> Outlook:
    """What sweeps like `plan`, of one combination of `grid.axes`, find, and what finds more."""
    if lacks := tuple(_lacks(plan, config)):
        return Outlook(lacks=lacks, nearest={}, judged_by={})
    analysis = config.analysis
    if analysis.evaluation_set is not None:
        config = on_all(config)[analysis.evaluation_set]
    if analysis.metric != "avg":
        return Outlook(unknown=analysis.metric, nearest={}, judged_by={})
    largest = max(run.num_generations for run in plan.runs)
    designs = tuple(
        design_of(plan, analysis, _problems(config), largest / 2**below) for below in _ENDS
    )
    found, nearer = map(findable, designs)
    change, no_change = _cheapest(plan, config, designs, larger_n)
    return Outlook(
        finds=found,
        nearer=nearer,
        sweeps=sweeps_of_an_entry(),
        below=below_the_table(designs[0]),
        nearest=nearest_in_the_table(designs[0]),
        judged_by={k: v for k, v in JUDGED_BY.items() if getattr(analysis, k) != v},
        change=change,
        no_change=no_change,
    )


def outlook_of_variants(
    plan: Plan, config: SweepConfig, larger_n: LargerN = lambda *_: None
) -> Outlook:
    """Of the first combination of `grid.axes` that lacks something, or of the first."""
    parts = [part for axes in plan.axes if (part := plan.of_axes(axes)).runs] or [plan]
    return outlook(next((p for p in parts if any(_lacks(p, config))), parts[0]), config, larger_n)


def _lacks(plan: Plan, config: SweepConfig) -> Iterator[Lack]:
    analysis = config.analysis
    generations = {run.num_generations for run in plan.runs}
    if len(generations) < MIN_GENERATIONS:
        yield Lack(what="n", least=MIN_GENERATIONS, here=len(generations), mended_by=None)
    elif (read := len(read_budgets(plan, analysis))) < MIN_BUDGETS:
        last = plan.budgets[-1]
        more = f"budget=logspace:{last / 10:g}:{last:g}:{MIN_BUDGETS}"
        mended = more if analysis.readings_per_decade else "analysis.readings_per_decade=5"
        yield Lack(what="budgets", least=MIN_BUDGETS, here=read, mended_by=mended)
    seeds = len({run.seed for run in plan.runs})
    if seeds < MIN_SEEDS:
        mended = f"grid.seeds={_seeds(config, MIN_SEEDS)}"
        yield Lack(what="seeds", least=MIN_SEEDS, here=seeds, mended_by=mended)


def _cheapest(
    plan: Plan, config: SweepConfig, designs: tuple[Design, ...], larger_n: LargerN
) -> tuple[Change | None, Literal["decided", "none gains", "none fits"] | None]:
    """The change that decides the end of growth most often for the device time that it adds; or why
    there is none. `designs`: the plan, by where growth ends."""
    now = _decided(map(findable, designs))
    if now > 1 - _LEAST_GAIN:
        return None, "decided"
    gains = []
    for change, more in _changes(plan, config, designs[0], larger_n):
        found, nearer = (findable(_with_more(design, more)) for design in designs)
        gains.append((_decided((found, nearer)) - now, replace(change, finds=found, nearer=nearer)))
    if not gains:
        return None, "none fits"
    largest = max(gain for gain, _ in gains)
    if largest < _LEAST_GAIN:
        return None, "none gains"
    worth = [
        (gain / max(change.device_time - 1, _NEXT_TO_NOTHING), change)
        for gain, change in gains
        if gain >= max(_LEAST_GAIN, _OF_THE_LARGEST * largest)
    ]
    return max(worth, key=lambda item: item[0])[1], None


def _with_more(design: Design, more: Mapping[str, float]) -> Design:
    return replace(design, **{name: getattr(design, name) + much for name, much in more.items()})


def _decided(found: Iterable[Findable]) -> float:
    return fmean(each.decided for each in found)


def _changes(
    plan: Plan, config: SweepConfig, design: Design, larger_n: LargerN
) -> Iterator[tuple[Change, dict[str, float]]]:
    """Larger evaluations, one n more and more seeds, each with what it adds to a design.

    Larger budgets are not among them: the table's worlds are stretched over the compute that is
    read, so it does not say what more of it would show of the same world.
    """
    for name, (problems, samples) in SIZES.items():
        larger = problems * samples / SAMPLES
        if larger <= design.problems or config.analysis.evaluation_set is not None:
            # Sizes are of the main evaluation.
            continue
        change = _evaluated(plan, config, problems, samples, f"evaluation={name}")
        if change is not None:
            yield change, {"problems": larger - design.problems}
    if (change := larger_n(plan, config)) is not None:
        yield change, {"headroom": 1.0}
    seeds = len({run.seed for run in plan.runs})
    for factor in (2, 4):
        change = Change(
            settings=f"grid.seeds={_seeds(config, factor * seeds)}",
            device_time=factor,
            device_hours=factor * _seconds(plan) * config.devices_taken / 3600,
        )
        yield change, {"runs_of_each_n": (factor - 1) * design.runs_of_each_n}


def more_problems(plan: Plan, config: SweepConfig, problems: int) -> Change | None:
    """The change of `plan` to so many held-out problems, sampled as they are; None where the task
    has not as many, as far as its settings say."""
    samples = config.evaluation.samples_per_problem
    return _evaluated(plan, config, problems, samples, f"task.num_eval_problems={problems}")


def _evaluated(
    plan: Plan, config: SweepConfig, problems: int, samples: int, settings: str
) -> Change | None:
    """The change to another evaluation, by its settings; None where the task has not as many
    problems."""
    try:
        task = replace(config.task, num_eval_problems=problems)
    except SettingError:
        return None
    evaluation = replace(config.evaluation, samples_per_problem=samples)
    larger, before = (
        float(evaluation_seconds(each).max())
        for each in (replace(config, task=task, evaluation=evaluation), config)
    )
    evaluating = math.fsum(run.evaluation_seconds for run in plan.runs)
    seconds, added = _seconds(plan), evaluating * (larger / before - 1)
    return Change(
        settings=settings,
        device_time=1 + added / seconds,
        device_hours=(seconds + added) * config.devices_taken / 3600,
        problems=problems,
        samples_per_problem=samples,
        evaluation_before=evaluating / seconds,
        evaluation_after=(evaluating + added) / (seconds + added),
    )


def _seconds(plan: Plan) -> float:
    return math.fsum(predicted(run.seconds) for run in plan.runs)


def _problems(config: SweepConfig) -> float:
    """Held-out problems of avg@8 that tell as much: the noise that runs do not share falls with the
    number of completions."""
    return config.task.num_eval_problems * config.evaluation.samples_per_problem / SAMPLES


def _seeds(config: SweepConfig, count: int) -> str:
    """`count` seeds: those of the grid, whose runs are shared, and the smallest others."""
    given = config.grid.seeds
    others = [seed for seed in range(count) if seed not in given]
    return str(sorted([*given, *others[: count - len(given)]])).replace(" ", "")
