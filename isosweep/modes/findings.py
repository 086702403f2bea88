"""What a plan could find, from the shipped table, and the cheapest change that would find more."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from isosweep.analysis.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS
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
from isosweep.config.evaluation_sets import on_all, repeated_sets
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan
from isosweep.plan.document import EvaluationPlan
from isosweep.plan.evaluation import evaluation_seconds

# Gains of less than this share of sweeps are within the table's chance; of less than this part of
# the largest gain on offer they are not worth a change of their own.
_LEAST_GAIN, _OF_THE_LARGEST = 0.08, 0.5
# Device time, as a share of the plan's, up to which nobody minds more or less.
_NEXT_TO_NOTHING = 0.05
# Words for what a design has less of than the table.
_SCARCE = {"runs_of_each_n": "runs", "problems": "held-out problems", "decades": "compute read"}
_EDGES = {"doublings": "doublings of n", "decades": "decades of compute"}


def described_evaluation(evaluation: EvaluationPlan, num_runs: int) -> str:
    """One line: what held-out evaluation takes."""
    problems = " or ".join(f"{size:,}" for size in evaluation.problems)
    return (
        f"evaluation: {problems} problems x {evaluation.samples_per_problem} samples, about "
        f"{evaluation.records / num_runs:.0f} times a run; {_percent(evaluation.share_of_flops)} "
        f"of the sweep's FLOPs, {_percent(evaluation.share_of_time)} of its device time"
        f"{_described_sets(evaluation)}"
    )


def described_repeats(config: SweepConfig) -> Iterator[str]:
    """A line for each further set that costs its samples and says nothing new."""
    for name, other in repeated_sets(config).items():
        yield (
            f"note: evaluation.sets.{name} is {other} again, the same problems sampled in the same "
            f"way; without it nothing is lost: ~evaluation.sets.{name}"
        )


def _described_sets(evaluation: EvaluationPlan) -> str:
    """The parts of the main problems, and the further sets that the shares count."""
    shown = [
        (s.part, f"{s.name} ({s.problems:,} x {s.samples_per_problem})") for s in evaluation.sets
    ]
    parts, sets = ([text for part, text in shown if part is asked] for asked in (True, False))
    of_parts = f", of the parts {', '.join(parts)}" if parts else ""
    return of_parts + (f", with the sets {', '.join(sets)}" if sets else "")


def described_findings(plan: Plan, config: SweepConfig) -> str:
    """One or two lines: what the plan could find, or the rule that keeps it from any verdict.

    With `grid.axes` they are of the first combination that lacks something, or of the first.
    """
    parts = [plan.of_axes(axes) for axes in plan.axes]
    parts = [part for part in parts if part.runs] or [plan]
    lacking = (_short_of_a_verdict(part, config) for part in parts)
    if said := next(filter(None, lacking), None):
        return (
            "can find: nothing, its verdict would be `not identified`: one on the growth of the "
            f"best n takes at least {said}"
        )
    analysis = config.analysis
    if analysis.evaluation_set is not None:
        config = on_all(config)[analysis.evaluation_set]
    if analysis.method != "isosweep" or analysis.metric != "avg":
        what = "method" if analysis.method != "isosweep" else "metric"
        value = getattr(analysis, what)
        return f"can find: not known for analysis.{what}={value}; mode=simulate says what it finds"
    design = design_of(parts[0], analysis, _problems(config))
    found = findable(design)
    scarce = [_SCARCE[name] for name in below_the_table(design)]
    fewer = f"; at most that: the table begins at more {' and '.join(scarce)}" if scarce else ""
    edges = nearest_in_the_table(design)
    nearest = [f"{edge:g} {_EDGES[name]}" for name, edge in edges.items()]
    fewer += f"; by the table's nearest, {' and '.join(nearest)}" if nearest else ""
    others = [
        f"analysis.{name}={value:g}"
        for name, value in JUDGED_BY.items()
        if getattr(analysis, name) != value
    ]
    fewer += f"; with {' '.join(others)}" if others else ""
    line = (
        f"can find: that the best n grows, in {_of_100(found.grew)} of 100 sweeps like this; that "
        f"growth has ended, where it has, in {_of_100(found.ends)}; that it goes on, where it "
        f"does, in {_of_100(found.goes_on)} (of {sweeps_of_an_entry()} simulated sweeps each, if "
        f"rewards behave as in their worlds{fewer}: docs/simulation.md)"
    )
    offer = _cheapest(parts[0], config, design, found)
    return line if offer is None else f"{line}\ncheapest change: {offer}"


def surer(plan: Plan, config: SweepConfig) -> tuple[str, ...]:
    """What would make a verdict surer and what that costs, then what it brings, for a report.

    `plan`: of one combination of `grid.axes`. Empty where the table knows nothing of the view.
    """
    if said := _short_of_a_verdict(plan, config):
        return (
            said.replace(
                "can find: nothing, its verdict would be", "any verdict: until then it is"
            ),
        )
    analysis = config.analysis
    if analysis.method != "isosweep" or analysis.metric != "avg":
        return ()
    if analysis.evaluation_set is not None:
        config = on_all(config)[analysis.evaluation_set]
    design = design_of(plan, analysis, _problems(config))
    found = findable(design)
    offer = _cheapest(plan, config, design, found)
    if offer is None:
        known = "no larger evaluation and no more seeds: few simulated sweeps like this stay open"
        return (known,)
    if isinstance(offer, str):
        return (offer,)
    # Evaluation is a part of a run's identity; further seeds leave the runs that there are.
    settings, more = offer.change.settings, offer.finds
    again = "" if settings.startswith("grid.") else "Its runs are trained anew, from step 0. "
    odds = (
        "Simulated, of 100 sweeps like this whose growth has ended, "
        f"{_of_100(more.ends)} would say so ({_of_100(found.ends)} as it is); of 100 whose best n "
        f"goes on growing, {_of_100(more.goes_on)} ({_of_100(found.goes_on)})."
    )
    return (f"{settings} ({offer.change.said})", again + odds)


def _short_of_a_verdict(plan: Plan, config: SweepConfig) -> str | None:
    """What any verdict takes that the plan has not, and an example that has it; None where it has
    all."""
    analysis = config.analysis
    seeds = len({run.seed for run in plan.runs})
    generations = {run.num_generations for run in plan.runs}
    lacks, settings = [], []
    if len(generations) < MIN_GENERATIONS:
        lacks.append(
            f"{MIN_GENERATIONS} n, to tell a best n from an edge (here {len(generations)})"
        )
    elif (read := len(read_budgets(plan, analysis))) < MIN_BUDGETS:
        each = f"{MIN_BUDGETS} budgets at which {MIN_GENERATIONS} or more n are read"
        lacks.append(f"{each}, to show growth and its end (here {read})")
        last = plan.budgets[-1]
        more = f"budget=logspace:{last / 10:g}:{last:g}:{MIN_BUDGETS}"
        settings.append(more if analysis.readings_per_decade else "analysis.readings_per_decade=5")
    if seeds < MIN_SEEDS:
        lacks.append(f"{MIN_SEEDS} seeds, to know the spread between them (here {seeds})")
        settings.append(f"grid.seeds={_seeds(config, MIN_SEEDS)}")
    if not lacks:
        return None
    example = f", e.g. {' '.join(settings)}" if settings else ""
    return f"{'; and '.join(lacks)}{example}"


@dataclass(frozen=True, kw_only=True)
class _Change:
    """`settings` as they are typed; `costs`: what it adds to the device time, as a share of it."""

    settings: str
    design: Design
    costs: float
    said: str


@dataclass(frozen=True, kw_only=True)
class _Offer:
    """A change, and what sweeps find with it."""

    change: _Change
    finds: Findable

    def __str__(self) -> str:
        return (
            f"{self.change.settings} ({self.change.said}): that growth has ended, "
            f"in {_of_100(self.finds.ends)}; that it goes on, in {_of_100(self.finds.goes_on)}"
        )


def _cheapest(
    plan: Plan, config: SweepConfig, design: Design, found: Findable
) -> _Offer | str | None:
    """The change that decides the end of growth most often for the device time that it adds; words
    where none does, None where there is little left to decide or nothing to change."""
    if found.decided > 1 - _LEAST_GAIN:
        return None
    offered = [(change, findable(change.design)) for change in _changes(plan, config, design)]
    gains = [more.decided - found.decided for _, more in offered]
    if not gains or max(gains) < _LEAST_GAIN:
        most = "No larger evaluation and no more seeds of the table find"
        return f"none is known. {most} much more" if gains else None
    least = max(_LEAST_GAIN, _OF_THE_LARGEST * max(gains))
    worth = [
        (gain / change.costs, _Offer(change=change, finds=more))
        for gain, (change, more) in zip(gains, offered, strict=True)
        if gain >= least
    ]
    return max(worth, key=lambda item: item[0])[1]


def _changes(plan: Plan, config: SweepConfig, design: Design) -> Iterator[_Change]:
    """Larger evaluations, and more seeds.

    More n and larger budgets are not among them: the table's worlds are stretched over whatever n
    and compute are read, so it does not say what more of these would show of the same world.
    """
    seconds = math.fsum(run.seconds for run in plan.runs)
    evaluating = math.fsum(run.evaluation_seconds for run in plan.runs)
    once = evaluation_seconds(config)
    for name, (problems, samples) in SIZES.items():
        larger = problems * samples / SAMPLES
        if larger <= design.problems or config.analysis.evaluation_set is not None:
            # Sizes are of the main evaluation.
            continue
        try:
            task = replace(config.task, num_eval_problems=problems)
        except SettingError:
            # It has not as many.
            continue
        evaluation = replace(config.evaluation, samples_per_problem=samples)
        added = evaluating * (
            evaluation_seconds(replace(config, task=task, evaluation=evaluation)) / once - 1
        )
        share = (evaluating + added) / (seconds + added)
        yield _Change(
            settings=f"evaluation={name}",
            design=replace(design, problems=larger),
            costs=max(added / seconds, _NEXT_TO_NOTHING),
            said=f"{problems:,} problems x {samples}; {1 + added / seconds:.2f}x the device time, "
            f"evaluation {_percent(evaluating / seconds)} -> {_percent(share)} of it",
        )
    seeds = len({run.seed for run in plan.runs})
    for factor in (2, 4):
        yield _Change(
            settings=f"grid.seeds={_seeds(config, factor * seeds)}",
            design=replace(design, runs_of_each_n=factor * design.runs_of_each_n),
            costs=factor - 1.0,
            said=f"{'twice' if factor == 2 else f'{factor} times'} the device time",
        )


def _problems(config: SweepConfig) -> float:
    """Held-out problems of avg@8 that tell as much: the noise that runs do not share falls with the
    number of completions."""
    return config.task.num_eval_problems * config.evaluation.samples_per_problem / SAMPLES


def _seeds(config: SweepConfig, count: int) -> str:
    """`count` seeds: those of the grid, whose runs are shared, and the smallest others."""
    given = config.grid.seeds
    others = [seed for seed in range(count) if seed not in given]
    return str(sorted([*given, *others[: count - len(given)]])).replace(" ", "")


def _of_100(share: float) -> str:
    """A share in words, no finer than the table knows it."""
    number = 5 * round(20 * share)
    return f"about {number}" if 5 <= number <= 95 else "under 5" if number < 5 else "over 95"


def _percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "under 0.1%"
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"
