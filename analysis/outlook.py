"""What a plan could find, from the shipped table, and what more held-out problems would take."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from isosweep.analysis.simulation.findable import (
    JUDGED_BY,
    SAMPLES,
    Findable,
    below_the_table,
    design_of,
    findable,
    nearest_in_the_table,
    read_budgets,
    sweeps_of_an_entry,
)
from isosweep.config.base import replaced
from isosweep.config.evaluation import on_all
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS
from isosweep.metrics import MetricName
from isosweep.plan.cells import Plan

# Growth may end anywhere: shares are told for ends so many doublings below the largest n.
_ENDS = (2, 1)


@dataclass(frozen=True, kw_only=True)
class Lack:
    """What any verdict takes that a plan has not."""

    what: Literal["n", "budgets", "seeds"]
    """n: rollouts per problem; budgets: those at which enough n are read; seeds."""
    least: int
    """How many any verdict takes."""
    here: int
    """How many the plan has."""
    mended_by: str | None
    """A setting that has enough, as it is typed; null where none is obvious."""


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
    sweeps: int = 0
    """Simulated sweeps that each share was counted in."""
    below: tuple[str, ...] = ()
    """What the plan has less of than all that was simulated: the shares are upper bounds then."""
    nearest: dict[str, float]
    """Doublings of n and decades of compute of the nearest sweeps that were simulated, where the
    plan's differ clearly."""
    judged_by: dict[str, float | str]
    """Settings of analysis by which simulated sweeps were judged, and the plan's are not."""


def outlook(plan: Plan, config: SweepConfig) -> Outlook:
    """What sweeps like `plan`, of one combination of `grid.axes`, find."""
    if lacks := lacks_of(plan, config):
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
    return Outlook(
        finds=found,
        nearer=nearer,
        sweeps=sweeps_of_an_entry(),
        below=below_the_table(designs[0]),
        nearest=nearest_in_the_table(designs[0]),
        judged_by={k: v for k, v in JUDGED_BY.items() if getattr(analysis, k) != v},
    )


def outlook_of_variants(plan: Plan, config: SweepConfig) -> Outlook:
    """Of the first combination of `grid.axes` that lacks something, or of the first."""
    parts = [part for axes in plan.axes if (part := plan.of_axes(axes)).runs] or [plan]
    return outlook(next((p for p in parts if lacks_of(p, config)), parts[0]), config)


def lacks_of(plan: Plan, config: SweepConfig) -> tuple[Lack, ...]:
    """What keeps `plan`, of one combination of `grid.axes`, from any verdict."""
    return tuple(_lacks(plan, config))


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


def more_problems(config: SweepConfig, problems: int) -> str | None:
    """The setting of so many held-out problems; None where the task has not as many, as far as its
    settings say."""
    try:
        replaced(config.task, num_eval_problems=problems)
    except SettingError:
        return None
    return f"task.num_eval_problems={problems}"


def _problems(config: SweepConfig) -> float:
    """Held-out problems of avg@8 that tell as much: the noise that runs do not share falls with the
    number of completions."""
    return config.task.num_eval_problems * config.evaluation.samples_per_problem / SAMPLES


def _seeds(config: SweepConfig, count: int) -> str:
    """`count` seeds: those of the grid, whose runs are shared, and the smallest others."""
    given = config.grid.seeds
    others = [seed for seed in range(count) if seed not in given]
    return str(sorted([*given, *others[: count - len(given)]])).replace(" ", "")
