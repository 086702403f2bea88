"""Ways to spend compute on a simulated sweep: how far each of them trains every run.

All records of a sweep are simulated first and revealed as a way asks for them. Each way but
`grid`, `search` and `oracle` spends as much as the search did, one run at a time:

- `random`: runs at random, each to its last budget.
- `halving`: every run begun, and at every budget the better half goes on (asynchronous successive
  halving, arXiv 1810.05934, rungs at the budgets); nothing that was spent is lost.
- `asha`, `tpe`: Optuna's own, each at its defaults: RandomSampler with SuccessiveHalvingPruner,
  TPESampler with HyperbandPruner. They choose n and B; the seed is the next one. Where no seed is
  left, the run that came least far goes on by a budget at least.
- `d_optimal`: what adds most, per compute, to log det of the information of a law of log reward,
  quadratic in log n with an optimum linear in log C (`_features`).
- `oracle`: what it cannot know: of every (n, B) that is best at a budget, or an n next to it, all
  seeds, up to the last such budget. It spends what that takes.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import optuna
from coverage import CONFIG

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.simulation.sweep import analysed_sweep
from isosweep.analysis.simulation.worlds import World
from isosweep.config.study import SearchConfig
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.search.candidates import Question, standings
from isosweep.search.frontier import decide
from isosweep.store.records import Record

# Runs at once: devices of a small cluster.
_DEVICES = 8
# Trials of Optuna, after which it is taken to choose what is trained already for ever.
_TRIALS = 400

Records = dict[str, tuple[Record, ...]]
Reached = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """One sweep that could be trained, and all that its runs would show."""

    world: World
    plan: Plan
    records: Records
    number: int

    def rng(self) -> np.random.Generator:
        """Of this sweep's own, for ways that draw."""
        return np.random.default_rng([zlib.crc32(self.world.name.encode()), self.number, 1])


def revealed(plan: Plan, records: Records, reached: Reached) -> SweepData:
    """The sweep as far as its runs have come, read as an analysis reads it."""
    kept = {}
    for run in plan.runs:
        to = reached.get(run.run_id, 0.0)
        # A milestone's record sits within half a step of it.
        kept[run.run_id] = tuple(
            record
            for record in records[run.run_id]
            if to and record.compute.spent(plan.budget_unit) <= to * 1.05
        )
    return analysed_sweep(plan, kept, CONFIG)


def question(
    plan: Plan, data: SweepData, config: SearchConfig, count: int, seed: int = 0
) -> Question:
    """The next `count` steps of a sweep of which no run is at work."""
    return Question(
        plan=plan,
        data=data,
        at=standings(plan, data, {}),
        config=config,
        analysis=CONFIG,
        count=count,
        seed=seed,
    )


def searched(
    plan: Plan,
    records: Records,
    seed: int,
    reached: Reached | None = None,
    most: float | None = None,
) -> tuple[Reached, str]:
    """How far a search trains every run, and why it stops. `reached`: how far runs had come before;
    `most`: compute of all together, None: as much as it likes."""
    config = SearchConfig(name="frontier", max_compute=most)
    reached = dict(reached or {})
    while True:
        data = revealed(plan, records, reached)
        decision = decide(question(plan, data, config, _DEVICES, seed))
        if not decision.steps:
            return reached, decision.stop or ""
        reached |= {step.run_id: step.milestone for step in decision.steps}


def at_random(plan: Plan, compute: float, rng: np.random.Generator) -> Reached:
    """Runs at random to their last budget, the last of them as far as the compute goes."""
    reached: Reached = {}
    for place in rng.permutation(len(plan.runs)):
        run = plan.runs[int(place)]
        fitting = [budget for budget in run.milestones if budget <= compute * (1 + 1e-9)]
        if fitting:
            reached[run.run_id] = fitting[-1]
            compute -= fitting[-1]
    return reached


def halved(plan: Plan, records: Records, compute: float) -> Reached:
    """The better half of the runs at every budget goes on to the next, until the compute is spent.

    Where no run is among the better half of those that came as far, the best that is left goes on.
    """
    at = dict.fromkeys((run.run_id for run in plan.runs), -1)
    left = compute
    while True:
        fitting = [
            (run, cost)
            for run in plan.runs
            if at[run.run_id] + 1 < len(run.milestones) and (cost := _next(run, at)) <= left
        ]
        if not fitting:
            break
        run, cost = max(fitting, key=lambda pair: _rank(plan, records, at, pair[0]))
        at[run.run_id] += 1
        left -= cost
    runs = {run.run_id: run for run in plan.runs}
    return {name: runs[name].milestones[place] for name, place in at.items() if place >= 0}


def _next(run: PlannedRun, at: dict[str, int]) -> float:
    place = at[run.run_id]
    return run.milestones[place + 1] - (run.milestones[place] if place >= 0 else 0.0)


def _rank(
    plan: Plan, records: Records, at: dict[str, int], run: PlannedRun
) -> tuple[bool, bool, int, float]:
    """What goes on first: what is not begun, the better half of a rung, the highest rung."""
    place = at[run.run_id]
    if place < 0:
        return True, False, 0, 0.0
    mine = _reward(plan, records, run, place)
    peers = [
        _reward(plan, records, other, place) for other in plan.runs if at[other.run_id] >= place
    ]
    better = sum(other > mine for other in peers) < len(peers) / 2
    return False, better, place, mine


def _reward(plan: Plan, records: Records, run: PlannedRun, place: int) -> float:
    budget = run.milestones[place]
    record = min(records[run.run_id], key=lambda r: abs(r.compute.spent(plan.budget_unit) - budget))
    return sum(record.successes) / len(record.successes) / record.samples_per_problem


def oracle(known: Simulated) -> Reached:
    """All seeds of what is truly best at each budget, and of the n next to it, as far as that."""
    plan, reached = known.plan, Reached()
    generations = sorted({run.num_generations for run in plan.runs})
    for budget in plan.budgets:
        offered = {Pair.of(cell) for cell in plan.cells if cell.budget == budget}
        best = max(offered, key=lambda pair: float(known.world.reward(np.array(budget), *pair)))
        place = generations.index(best.num_generations)
        near = generations[max(place - 1, 0) : place + 2]
        for cell in plan.cells:
            same = cell.problems_per_batch == best.problems_per_batch
            if cell.budget == budget and cell.num_generations in near and same:
                reached[cell.run_id] = budget
    return reached


def d_optimal(plan: Plan, compute: float) -> Reached:
    """The step that tells most of the law per compute, until the compute is spent.

    Readings count as independent, which overstates what a long run says.
    """
    reached = dict.fromkeys((run.run_id for run in plan.runs), 0.0)
    basis = _features(plan)
    information = 1e-6 * np.eye(next(iter(basis.values())).size)
    left = compute
    while True:
        steps = [
            (run, to, added)
            for run in _next_runs(plan, reached)
            for to in run.milestones
            if 0 < (added := to - reached[run.run_id]) <= left
        ]
        if not steps:
            return {name: to for name, to in reached.items() if to}
        more = [information + _told(basis, run, reached[run.run_id], to) for run, to, _ in steps]
        gained = np.linalg.slogdet(more)[1] - np.linalg.slogdet(information)[1]
        best = int(np.argmax(gained / np.array([added for _, _, added in steps])))
        run, to, added = steps[best]
        reached[run.run_id], information = to, more[best]
        left -= added


def _features(plan: Plan) -> dict[tuple[Pair, float], FloatArray]:
    """Of every cell what its log reward is linear in, log n and log C between -1 and 1.

    a + b c + d c^2 - w (x - u - v c)^2, with c^2 free: 1, c, c^2, x, x c, x^2; with several B its
    logarithm and the square of it too.
    """

    def scaled(value: float, values: list[float]) -> float:
        low, high = np.log(min(values)), np.log(max(values))
        return float(2 * (np.log(value) - low) / (high - low) - 1) if high > low else 0.0

    generations: list[float] = [cell.num_generations for cell in plan.cells]
    batches: list[float] = [cell.problems_per_batch for cell in plan.cells]
    found = {}
    for cell in plan.cells:
        c, x = scaled(cell.budget, list(plan.budgets)), scaled(cell.num_generations, generations)
        y = scaled(cell.problems_per_batch, batches)
        of_batch = [y, y * y] if len(set(batches)) > 1 else []
        found[Pair.of(cell), cell.budget] = np.array([1, c, c * c, x, x * c, x * x, *of_batch])
    return found


def _told(
    basis: dict[tuple[Pair, float], FloatArray], run: PlannedRun, reached: float, to: float
) -> FloatArray:
    rows = [basis[Pair.of(run), budget] for budget in run.milestones if reached < budget <= to]
    return np.asarray(np.array(rows).T @ np.array(rows))


def _next_runs(plan: Plan, reached: Reached) -> list[PlannedRun]:
    """Runs that are begun, and of every (n, B) the first seed that is not."""
    found = []
    for runs in by_pair(plan.runs, lambda run: run).values():
        fresh = [run for run in runs if not reached[run.run_id]]
        found += [run for run in runs if reached[run.run_id]] + fresh[:1]
    return found


def by_optuna(
    known: Simulated,
    compute: float,
    sampler: optuna.samplers.BaseSampler,
    pruner: optuna.pruners.BasePruner,
) -> Reached:
    """What Optuna trains with this compute; a resource is the smallest budget's compute."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Hyperband chooses brackets by the study's name.
    name = f"{known.world.name}-{known.number}"
    study = optuna.create_study(
        study_name=name, direction="maximize", sampler=sampler, pruner=pruner
    )
    training = _Training(known, compute)
    for _ in range(_TRIALS):
        if not training.affords_any():
            break
        trial = study.ask()
        value, pruned = training.train(trial)
        if value is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        elif pruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, value)
    return training.reached


class _Training:
    """Runs as trials train them; what was trained before costs nothing again."""

    def __init__(self, known: Simulated, compute: float) -> None:
        self.reached: Reached = {}
        self._known, self._left = known, compute
        self._runs = by_pair(known.plan.runs, lambda run: run)
        pairs = [*self._runs]
        self._generations = sorted({pair.num_generations for pair in pairs})
        self._batches = sorted({pair.problems_per_batch for pair in pairs})

    def affords_any(self) -> bool:
        """Whether any run could go one budget further."""
        ahead = (
            to - self.reached.get(run.run_id, 0.0)
            for run in self._known.plan.runs
            for to in run.milestones
            if to > self.reached.get(run.run_id, 0.0)
        )
        return min(ahead, default=np.inf) <= self._left

    def train(self, trial: optuna.Trial) -> tuple[float | None, bool]:
        """The last reward of the trial's run, None without any, and whether it was pruned."""
        # By its place, so that steps of n are equal.
        n = self._generations[trial.suggest_int("n", 0, len(self._generations) - 1)]
        B = self._batches[trial.suggest_int("B", 0, len(self._batches) - 1)]
        runs = self._runs.get(Pair(n, B), [])
        if not runs:
            return None, False
        run = min(runs, key=lambda run: self.reached.get(run.run_id, 0.0))
        value = None
        for place, to in enumerate(run.milestones):
            added = to - self.reached.get(run.run_id, 0.0)
            if added > self._left:
                break
            value = _reward(self._known.plan, self._known.records, run, place)
            trial.report(value, round(to / self._known.plan.budgets[0]))
            if added > 0:
                self._left -= added
                self.reached[run.run_id] = to
                if trial.should_prune():
                    return value, True
        return value, False


def asha(known: Simulated, compute: float) -> Reached:
    """Runs at random, by Optuna's asynchronous successive halving."""
    sampler = optuna.samplers.RandomSampler(seed=known.number)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1)
    return by_optuna(known, compute, sampler, pruner)


def tpe(known: Simulated, compute: float) -> Reached:
    """Optuna's TPE with its Hyperband."""
    most = round(known.plan.budgets[-1] / known.plan.budgets[0])
    sampler = optuna.samplers.TPESampler(seed=known.number)
    return by_optuna(known, compute, sampler, optuna.pruners.HyperbandPruner(1, most))


def whole(plan: Plan) -> Reached:
    """Every run to its last budget: the full grid."""
    return {run.run_id: run.milestones[-1] for run in plan.runs}


# What each does with as much compute as the search spent.
SPENDING: dict[str, Callable[[Simulated, float], Reached]] = {
    "random": lambda known, compute: at_random(known.plan, compute, known.rng()),
    "halving": lambda known, compute: halved(known.plan, known.records, compute),
    "tpe": tpe,
    "asha": asha,
    "d_optimal": lambda known, compute: d_optimal(known.plan, compute),
}
