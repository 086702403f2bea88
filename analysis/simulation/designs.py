"""Other sweeps of about a plan's compute, and which of them decides most: by simulating each.

A design differs from the plan in its n, its B, its seeds and its held-out problems; the budgets
stay, for smaller ones are read off the same runs. Compute is FLOPs of training, generation and
evaluation. All designs meet the same worlds, stretched over the n and the compute that the plan
reads, and are held against what unlimited data would say of them to the plan: one whose n leave out
where n* goes is judged by what it misses.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from isosweep.analysis.simulation.findable import (
    PLATEAU,
    SAMPLES,
    design_of,
    findable,
    read_budgets,
)
from isosweep.analysis.simulation.power import OPEN
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.sweep import read_plan, simulated_verdict
from isosweep.analysis.simulation.truth import Truth, find_truth
from isosweep.analysis.simulation.worlds import World
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS
from isosweep.plan.cells import Plan, predicted
from isosweep.plan.study import Study, resolve_stored

# By which part of the plan's compute a design may miss it.
TOLERANCE = 0.05
_SEEDS = (2, 3, 4, 5, 6, 8, 10, 12, 16)
# Held-out problems, at least and at most (or those of the plan).
_PROBLEMS = (32, 3072)
# The same runs with fewer times the plan's problems are no design of their own.
_MORE_PROBLEMS = 1.25
# 90%, two-sided, of a normal.
_Z = 1.6449
# Shares of the sweeps after which the worse half leaves.
_STAGES = (0.25, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True)
class SearchedDesign:
    """One design. `overrides`: what is typed beside the plan's settings to get it, empty for the
    plan itself; `flops`: of training, generation and evaluation; `device_hours` as predicted."""

    overrides: tuple[str, ...]
    config: SweepConfig
    plan: Plan
    flops: float
    device_hours: float

    @property
    def is_the_plan(self) -> bool:
        """Whether it is the plan that others are compared with."""
        return not self.overrides


@dataclass(kw_only=True)
class Scored:
    """A design and the verdicts of its simulated sweeps, by world."""

    design: SearchedDesign
    truths: Mapping[str, Truth]
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def sweeps(self) -> int:
        """Sweeps simulated, in all worlds together."""
        return sum(counts.total() for counts in self.verdicts.values())

    @property
    def right(self) -> int:
        """Sweeps whose verdict is so, and says what n* does at the end."""
        return self._count(lambda truth, v: truth.bears(v) and v not in OPEN)

    @property
    def false(self) -> int:
        """Sweeps whose verdict claims what is not so."""
        return self._count(lambda truth, v: v != "not identified" and not truth.bears(v))

    @property
    def score(self) -> float:
        """Share decided rightly less share false."""
        return (self.right - self.false) / self.sweeps

    def is_worse_than(self, other: "Scored") -> bool:
        """Whether its score is lower by more than chance makes of as many sweeps in one of 20."""
        spread = math.sqrt(self._variance() + other._variance())
        return other.score - self.score > _Z * spread

    def _count(self, counts: Callable[[Truth, str], bool]) -> int:
        return sum(
            number
            for world, verdicts in self.verdicts.items()
            for verdict, number in verdicts.items()
            if counts(self.truths[world], verdict)
        )

    def _variance(self) -> float:
        """Of the score; one sweep more each way, so that a few equal ones are not certain."""
        sweeps = self.sweeps + 2
        right, false = (self.right + 0.5) / sweeps, (self.false + 0.5) / sweeps
        return (right + false - (right - false) ** 2) / sweeps


@dataclass(frozen=True, kw_only=True)
class Search:
    """Designs, the best first: those that came to the last round, then those that left earlier.

    `tied`: by place, whether it cannot be told from the best.
    """

    flops: float
    truths: Mapping[str, Truth]
    scored: tuple[Scored, ...]
    tied: tuple[bool, ...]


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Ends of the 90% interval of a binomial share (Wilson, JASA 22, 1927)."""
    share, z2 = count / total, _Z**2
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2)) / (1 + z2 / total)
    return max(0.0, middle - half), min(1.0, middle + half)


def designs_of(study: Study, most: int) -> list[SearchedDesign]:
    """The plan, and up to `most` - 1 designs of its compute within `TOLERANCE`.

    Where there are more, of every set of n those that the table of `findable` expects most of.
    Raises SettingError where there is no other.
    """
    own = _designed(study.config, study.plan, ())
    planned = sorted({run.num_generations for run in study.plan.runs})
    families = [
        sorted(_of_n(study.config, own, n), key=lambda one: one.expected, reverse=True)
        for n in _fewer_n(planned)
    ]
    # One of each family, then the next of each.
    designs = {own.plan.plan_id: own}
    for proposed in (one for row in zip_longest(*families) for one in row if one is not None):
        if len(designs) == most:
            break
        try:
            plan = resolve_stored(proposed.config).plan
        except SettingError:
            # The task has too few problems.
            continue
        overrides = _overrides(own, proposed.config)
        designs.setdefault(plan.plan_id, _designed(proposed.config, plan, overrides))
    if len(designs) == 1:
        rule = (
            f"no other n, B, seeds and held-out problems of this grid take {own.flops:.3g} FLOPs, "
            f"as the plan does, within {TOLERANCE:.0%}"
        )
        nearest = "simulation.designs=0, or more values of grid.num_generations"
        raise SettingError("simulation.designs", most, rule, nearest)
    return list(designs.values())


def _fewer_n(n: list[int]) -> list[list[int]]:
    """All n, ascending; every other one; all but the largest, the smallest, both."""
    choices = (n, n[::2], n[:-1], n[1:], n[1:-1])
    return _distinct(chosen for chosen in choices if len(chosen) >= MIN_GENERATIONS)


def _fewer_batches(own: SearchedDesign) -> list[list[int]]:
    """All B, every other one, and each alone of the smallest, the middle and the largest."""
    B = sorted({run.problems_per_batch for run in own.plan.runs})
    if own.config.grid.completions_per_step is not None:
        # n x B is held constant: each n has a B of its own.
        return [B]
    return _distinct((B, B[::2], B[:1], [B[len(B) // 2]], B[-1:]))


def _distinct(choices: Iterable[list[int]]) -> list[list[int]]:
    """The choices, each once."""
    return [list(chosen) for chosen in dict.fromkeys(map(tuple, choices))]


@dataclass(frozen=True, kw_only=True)
class _Proposed:
    """Settings that are expected to take the plan's compute; `expected`: share that the table of
    `findable` says is decided."""

    config: SweepConfig
    expected: float


def _of_n(config: SweepConfig, own: SearchedDesign, generations: list[int]) -> Iterator[_Proposed]:
    """Designs with these n, by every choice of B and seeds that some held-out problems suit."""
    for batches in _fewer_batches(own):
        grid = replace(config.grid, num_generations=generations, problems_per_batch=batches)
        try:
            few = replace(config, grid=replace(grid, seeds=_seeds(grid.seeds, MIN_SEEDS)))
            plan = resolve_stored(few).plan
        except SettingError:
            # Nothing of it is feasible.
            continue
        planned = {run.num_generations for run in plan.runs}
        if planned != set(generations) or len(read_budgets(plan, config.analysis)) < MIN_BUDGETS:
            # Not all of these n fit beside these B, or it could come to no verdict.
            continue
        for seeds in _SEEDS:
            problems = _problems_at_equal_compute(plan, few, own, seeds)
            if problems is not None and _has(config.task, problems):
                chosen = replace(grid, seeds=_seeds(grid.seeds, seeds))
                task = replace(config.task, num_eval_problems=problems)
                samples = config.evaluation.samples_per_problem
                tabled = design_of(
                    plan, config.analysis, problems * samples / SAMPLES, _ends_at(own.plan)
                )
                runs = tabled.runs_of_each_n * seeds / MIN_SEEDS
                yield _Proposed(
                    config=replace(config, grid=chosen, task=task),
                    expected=findable(replace(tabled, runs_of_each_n=runs)).decided,
                )


def _ends_at(plan: Plan) -> float:
    """The n at which growth ends in worlds stretched over those of `plan`."""
    generations = [run.num_generations for run in plan.runs]
    return float(min(generations) * (max(generations) / min(generations)) ** PLATEAU)


def _has(task: TaskConfig, problems: int) -> bool:
    """Whether the task can have that many held-out problems."""
    try:
        replace(task, num_eval_problems=problems)
    except SettingError:
        return False
    return True


def _problems_at_equal_compute(
    plan: Plan, config: SweepConfig, own: SearchedDesign, seeds: int
) -> int | None:
    """Held-out problems with which `plan`, with `seeds` instead of `MIN_SEEDS`, costs what the
    sweep `own` costs; None where no number of them does, or where it would nearly be that sweep.

    Where problems cost next to nothing, the most of them.
    """
    more = seeds / MIN_SEEDS
    training = more * math.fsum(predicted(run.planned_flops) for run in plan.runs)
    evaluation = more * math.fsum(run.evaluation_flops for run in plan.runs)
    base = own.config.task.num_eval_problems
    each = evaluation / config.task.num_eval_problems
    least, most = min(_PROBLEMS[0], base), max(_PROBLEMS[1], base)
    problems = _rounded(min(max((own.flops - training) / each, least), most))
    if training + most * each <= (1 + TOLERANCE) * own.flops:
        problems = most
    if abs((training + problems * each) / own.flops - 1) > TOLERANCE:
        return None
    pairs = {(run.num_generations, run.problems_per_batch) for run in plan.runs}
    same = pairs == {(r.num_generations, r.problems_per_batch) for r in own.plan.runs}
    same &= seeds == len({run.seed for run in own.plan.runs})
    return None if same and problems < _MORE_PROBLEMS * base else problems


def _designed(config: SweepConfig, plan: Plan, overrides: tuple[str, ...]) -> SearchedDesign:
    return SearchedDesign(
        overrides=overrides,
        config=config,
        plan=plan,
        flops=math.fsum(predicted(run.planned_flops) + run.evaluation_flops for run in plan.runs),
        device_hours=math.fsum(predicted(run.seconds) for run in plan.runs)
        * config.devices_taken
        / 3600,
    )


def _rounded(problems: float) -> int:
    """Two digits or a multiple of 32: within 2% from 800 on, and 16 at most off."""
    step = 8 if problems < 256 else 32
    return max(step, round(problems / step) * step)


def _seeds(given: Sequence[int], count: int) -> list[int]:
    """`count` seeds: of those given first, whose runs are shared, then the smallest others."""
    others = [seed for seed in range(count + len(given)) if seed not in given]
    return sorted([*sorted(given), *others][:count])


def _overrides(own: SearchedDesign, other: SweepConfig) -> tuple[str, ...]:
    """What is typed to get from the plan to the other config."""
    runs = own.plan.runs
    grid, problems = other.grid, other.task.num_eval_problems
    changed = [
        f"grid.{name}={str(values).replace(' ', '')}"
        for name, before, values in (
            ("num_generations", {r.num_generations for r in runs}, grid.num_generations),
            ("problems_per_batch", {r.problems_per_batch for r in runs}, grid.problems_per_batch),
            ("seeds", {r.seed for r in runs}, grid.seeds),
        )
        if before != set(values)
    ]
    if problems != own.config.task.num_eval_problems:
        changed.append(f"task.num_eval_problems={problems}")
    return tuple(changed)


def rounds(sweeps: int) -> tuple[int, ...]:
    """Sweeps that a design has had in each world after each round, ascending, `sweeps` the last."""
    until = {max(1, math.ceil(share * sweeps)) for share in _STAGES}
    return tuple(sorted(until))


def num_sweeps(designs: int, sweeps: int, worlds: int) -> int:
    """Sweeps that a search simulates, but for those of a plan that is among the worse."""
    total, done = 0, 0
    for until in rounds(sweeps):
        total += designs * (until - done) * worlds
        designs, done = math.ceil(designs / 2), until
    return total


def search(
    study: Study, designs: Sequence[SearchedDesign], report: Callable[[str], object]
) -> Search:
    """Simulate sweeps of every design in the worlds of `simulation`, and rank them.

    All get a quarter of `simulation.sweeps` in each world; after that, and at half, the worse half
    of the designs leaves, never the plan. `report` is told of each round.
    """
    settings, analysis = study.config.simulation, study.config.analysis
    read = read_plan(study.plan, analysis)
    known = presets_of(read, settings.midpoint)
    worlds: dict[str, World] = {name: known[name] for name in settings.worlds}
    truths: dict[str, Truth] = {
        name: find_truth(world, read, analysis) for name, world in worlds.items()
    }
    staying = [Scored(design=design, truths=truths) for design in designs]
    left: list[Scored] = []
    done = 0
    for number, until in enumerate(rounds(settings.sweeps), start=1):
        report(f"round {number}: {len(staying)} designs, {until} sweeps of each in each world")
        for scored in staying:
            _simulate(scored, worlds, settings.seed, range(done, until))
        done = until
        staying = _ranked(staying)
        if done >= settings.sweeps:
            break
        keep = math.ceil(len(staying) / 2)
        gone = [scored for scored in staying[keep:] if not scored.design.is_the_plan]
        staying = [scored for scored in staying if scored not in gone]
        left = [*gone, *left]
    ranked = (*staying, *left)
    tied = tuple(not one.is_worse_than(ranked[0]) for one in ranked)
    flops = next(design.flops for design in designs if design.is_the_plan)
    return Search(flops=flops, truths=truths, scored=ranked, tied=tied)


def _ranked(scored: Sequence[Scored]) -> list[Scored]:
    return sorted(scored, key=lambda one: (one.score, one.design.is_the_plan), reverse=True)


def _simulate(scored: Scored, worlds: Mapping[str, World], seed: int, numbers: range) -> None:
    config = scored.design.config
    for place, (name, world) in enumerate(worlds.items()):
        counts = scored.verdicts.setdefault(name, Counter())
        for number in numbers:
            verdict = simulated_verdict(
                world,
                scored.design.plan,
                config.analysis,
                seed=(seed, place, number),
                num_problems=config.task.num_eval_problems,
                samples_per_problem=config.evaluation.samples_per_problem,
            )
            counts[verdict] += 1
