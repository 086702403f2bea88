"""Reads a sweep from its files: the plan, every run's records, and the reading of every cell."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isosweep.compute import BUDGET_UNITS, BudgetUnit, sits_at
from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, read_json
from isosweep.health import HealthWarning
from isosweep.metrics import scored
from isosweep.paths import RunPaths, SweepPaths
from isosweep.plan import Cell, Plan, PlannedRun, plan_from_document
from isosweep.records import Record, read_records, read_warnings
from isosweep.settings import AnalysisConfig

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Reading = Literal["exact", "interpolated", "collapsed", "diverged", "missing"]

# A run has collapsed if it ends having lost for good this share of its best gain, and by more than
# this many errors of evaluation.
_COLLAPSED, _CERTAIN = 0.5, 6.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Held-out evaluations of one run, by step; empty arrays for a run that left no records.

    `steps`, `generations`, `compute` (in the plan's budget unit), `flops` and `reward` (by the
    metric chosen, avg@k by default): (records,).
    `successes`: (records, problems), how many of `samples_per_problem` completions were right.
    `status` and `status_reason` are what the run last reported of itself, `warnings` the health
    rules that it broke, `diverged_by` the one that ended it. `collapsed_at`: first record from
    which on the run never again has half of its best gain; None if it holds on.
    """

    run: PlannedRun
    steps: IntArray
    generations: IntArray
    compute: FloatArray
    flops: FloatArray
    reward: FloatArray
    successes: IntArray
    samples_per_problem: int
    status: str | None
    status_reason: str | None
    warnings: tuple[HealthWarning, ...] = ()
    diverged_by: str | None = None
    collapsed_at: int | None = None

    def until_collapse(self) -> "Curve":
        """The curve without the records from its collapse on."""
        if self.collapsed_at is None:
            return self
        names = ("steps", "generations", "compute", "flops", "reward", "successes")
        kept = {name: getattr(self, name)[: self.collapsed_at] for name in names}
        return replace(self, **kept, collapsed_at=None)

    @property
    def base_reward(self) -> float | None:
        """Reward before training, from the record at step 0."""
        return float(self.reward[0]) if self.steps.size and self.steps[0] == 0 else None


@dataclass(frozen=True, kw_only=True)
class CellReading:
    """A cell's held-out reward.

    `measured_compute`, in the budget's unit, is the compute of the record nearest to the budget;
    both it and `reward` are None when the run has not come that far (and never will, if it has
    `diverged`), or had collapsed by then.
    """

    cell: Cell
    reward: float | None
    measured_compute: float | None
    reading: Reading


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepData:
    """A sweep as its files tell it. `problems`: lines and files that could not be used."""

    plan: Plan
    plan_document: JsonObject
    config_document: JsonObject
    curves: tuple[Curve, ...]
    readings: tuple[CellReading, ...]
    problems: tuple[str, ...]
    metric: str = "avg"


def load_sweep(
    paths: SweepPaths,
    axes: dict[str, Any] | None = None,
    metric: str = "avg",
    *,
    compute_axis: BudgetUnit | None = None,
    difficulty: tuple[float, float] | None = None,
) -> SweepData:
    """Plan, curves (in the plan's order of runs) and readings (in its order of cells).

    `axes`: the variant of `grid.axes` to load, of a sweep that has several; they answer different
    questions, so they are never mixed. `metric`, `compute_axis` and `difficulty`: see
    `AnalysisConfig`. Runs without records are data: their curves are empty and their cells
    missing. Raises RecordError when there is no plan, or it does not hold what its format
    promises; SettingError where no problem is of that difficulty.
    """
    plan, document = _read_plan(paths)
    if axes is not None:
        plan = plan.of_axes(axes)
    elif len(plan.axes) > 1:
        raise RecordError(f"{paths.plan}: it has {len(plan.axes)} variants; choose one by its axes")
    problems: list[str] = []
    curves = []
    for run in plan.runs:
        curve, found = load_curve(paths.run(run.run_id), run, plan.budget_unit, metric, difficulty)
        curves.append(curve)
        problems.extend(found)
    if difficulty is not None:
        _require_problems(curves, difficulty)
    if compute_axis not in (None, plan.budget_unit):
        assert compute_axis is not None
        moved = [
            load_curve(paths.run(run.run_id), run, compute_axis, metric, difficulty)[0]
            for run in plan.runs
        ]
        plan = on_axis(plan, curves, moved, compute_axis)
        curves = [replace(c, run=run) for c, run in zip(moved, plan.runs, strict=True)]
    return _sweep_data(
        plan,
        curves,
        plan_document=document,
        config_document=_read_optional(paths.config, problems),
        problems=tuple(problems),
        metric=metric,
    )


def load_view(
    paths: SweepPaths, config: AnalysisConfig, axes: dict[str, Any] | None = None
) -> SweepData:
    """The sweep as `config` asks to see it."""
    axis = config.compute_axis
    return load_sweep(
        paths,
        axes,
        config.metric,
        compute_axis=None if axis is None else BUDGET_UNITS[BUDGET_UNITS.index(axis)],
        difficulty=config.difficulty,
    )


def _sweep_data(plan: Plan, curves: Sequence[Curve], **rest: Any) -> SweepData:
    by_id = {curve.run.run_id: curve for curve in curves}
    readings = tuple(read_cell(cell, by_id[cell.run_id]) for cell in plan.cells)
    return SweepData(plan=plan, curves=tuple(curves), readings=readings, **rest)


def _require_problems(curves: Sequence[Curve], difficulty: tuple[float, float]) -> None:
    if any(curve.steps.size for curve in curves) and not any(c.successes.size for c in curves):
        low, high = difficulty
        rule = "no held-out problem's success rate before training lies there"
        nearest = "analysis.difficulty=[0,1]"
        raise SettingError("analysis.difficulty", f"[{low:g},{high:g}]", rule, nearest)


def on_axis(plan: Plan, curves: Sequence[Curve], moved: Sequence[Curve], unit: BudgetUnit) -> Plan:
    """The plan with every budget in `unit`: what the runs had spent of it at that budget.

    `curves` are in the plan's unit, `moved` in `unit`. A budget becomes the geometric mean over
    runs, so that (n, B) which need more of `unit` for the same budget are read off earlier.
    """
    known: dict[float, list[float]] = {}
    for before, after in zip(curves, moved, strict=True):
        past = (before.compute > 0) & (after.compute > 0)
        for budget in plan.budgets:
            if past.any() and before.compute[past][-1] * 1.05 >= budget >= before.compute[past][0]:
                at = np.log(before.compute[past]), np.log(after.compute[past])
                known.setdefault(budget, []).append(float(np.interp(math.log(budget), *at)))
    budgets = {budget: math.exp(float(np.mean(logs))) for budget, logs in known.items()}

    def move(run: PlannedRun) -> PlannedRun:
        return replace(run, milestones=tuple(budgets[b] for b in run.milestones if b in budgets))

    return replace(
        plan,
        budget_unit=unit,
        budgets=tuple(budgets[budget] for budget in sorted(budgets)),
        cells=tuple(
            replace(cell, budget=budgets[cell.budget], planned_compute=budgets[cell.budget])
            for cell in plan.cells
            if cell.budget in budgets
        ),
        runs=tuple(move(run) for run in plan.runs),
        rejected=(),
    )


def _read_plan(paths: SweepPaths) -> tuple[Plan, JsonObject]:
    try:
        document = read_json(paths.plan)
        if document is None:
            raise RecordError(f"{paths.plan}: there is no plan to analyse; mode=plan writes one")
        plan = plan_from_document(document)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{paths.plan}: not a plan: {error!r}") from error
    known = {run.run_id for run in plan.runs}
    for cell in plan.cells:
        if cell.run_id not in known:
            raise RecordError(f"{paths.plan}: cell of unknown run {cell.run_id}")
    return plan, document


def _read_optional(path: Path, problems: list[str]) -> JsonObject:
    """A document that explains but decides nothing: empty when absent or damaged."""
    try:
        document = read_json(path)
    except ValueError as error:
        problems.append(f"{path}: {error}")
        return {}
    return document if isinstance(document, dict) else {}


def load_curve(
    paths: RunPaths,
    run: PlannedRun,
    unit: BudgetUnit,
    metric: str = "avg",
    difficulty: tuple[float, float] | None = None,
) -> tuple[Curve, list[str]]:
    """The run's curve, and what was wrong with its files."""
    file = read_records(paths.records)
    problems = list(file.problems)
    records = _comparable(file.records, str(paths.records), problems)
    owner = _read_optional(paths.spec, problems).get("run_id", run.run_id)
    if owner != run.run_id:
        problems.append(f"{paths.spec}: of run {owner}, so its records are left out")
        records = []
    state = _read_optional(paths.state, problems)
    if difficulty is not None:
        records = _of_difficulty(records, difficulty)
    curve = _curve(run, records, unit, state, metric)
    return replace(curve, warnings=_warnings(paths, problems)), problems


def _warnings(paths: RunPaths, problems: list[str]) -> tuple[HealthWarning, ...]:
    """Warnings explain and decide nothing: none where their file is damaged."""
    try:
        return tuple(read_warnings(paths.warnings, paths.records))
    except (KeyError, TypeError) as error:
        problems.append(f"{paths.warnings}: {error!r}")
        return ()


def _of_difficulty(records: list[Record], difficulty: tuple[float, float]) -> list[Record]:
    """The records with only the problems whose success rate at step 0 lies in the range.

    A run without a record at step 0 does not know, and is left without problems.
    """
    low, high = difficulty
    first = next((r for r in records if r.step == 0), None)
    if first is None:
        return []
    rates = np.array(first.successes) / first.samples_per_problem
    kept = np.flatnonzero((rates >= low) & (rates <= high))
    return [replace(r, successes=tuple(r.successes[i] for i in kept)) for r in records]


def simulated_sweep(
    plan: Plan, records: Mapping[str, Sequence[Record]], metric: str = "avg"
) -> SweepData:
    """A sweep whose records, by run id, never were on disk."""
    state = {"status": "finished"}
    curves = [
        _curve(run, records[run.run_id], plan.budget_unit, state, metric) for run in plan.runs
    ]
    return _sweep_data(
        plan, curves, plan_document={}, config_document={}, problems=(), metric=metric
    )


def _curve(
    run: PlannedRun, records: Sequence[Record], unit: BudgetUnit, state: JsonObject, metric: str
) -> Curve:
    num_problems = len(records[0].successes) if records else 0
    samples = records[0].samples_per_problem if records else 0
    successes = np.array([r.successes for r in records], dtype=np.int64)
    successes, samples = scored(successes.reshape(len(records), num_problems), samples, metric)
    reward = successes.sum(axis=1) / max(1, num_problems * samples)
    return Curve(
        run=run,
        steps=np.array([r.step for r in records], dtype=np.int64),
        generations=np.array([r.compute.generations for r in records], dtype=np.int64),
        compute=np.array([r.compute.spent(unit) for r in records], dtype=np.float64),
        flops=np.array([r.compute.flops for r in records], dtype=np.float64),
        reward=reward,
        successes=successes,
        samples_per_problem=samples,
        status=None if state.get("status") is None else str(state["status"]),
        status_reason=None if state.get("reason") is None else str(state["reason"]),
        diverged_by=state.get("diverged_by"),
        collapsed_at=_collapse(reward, num_problems * samples, state.get("diverged_by")),
    )


def _collapse(reward: FloatArray, num_samples: int, diverged_by: str | None) -> int | None:
    """First record of a collapse (see `Curve`), or None. `num_samples` stand behind each reward.

    Of a run whose training reward has collapsed the fall is certain already.
    """
    certain = 0.0 if diverged_by == "collapse" else _CERTAIN
    if len(reward) < (3 if certain else 2) or not num_samples:
        return None
    best = np.maximum.accumulate(reward)
    # Binomial, with one success and one failure added: wide enough for problems of all kinds.
    rate = (best * num_samples + 1) / (num_samples + 2)
    error = np.sqrt(2 * rate * (1 - rate) / num_samples)
    lost = best - reward
    fallen = (lost > _COLLAPSED * (best - reward[0])) & (lost > certain * error)
    held = np.flatnonzero(~fallen)
    first = int(held[-1]) + 1
    return first if first < len(reward) else None


def rescored(
    data: SweepData, metric: str = "avg", difficulty: tuple[float, float] | None = None
) -> SweepData:
    """The same records by another metric, or on the problems of one difficulty.

    `data` has to be scored by avg@k, which keeps every problem's successes.
    """
    assert data.metric == "avg"
    curves = []
    for curve in data.curves:
        successes = curve.successes
        if difficulty is not None:
            known = curve.base_reward is not None
            rates = successes[0] / curve.samples_per_problem if known else np.zeros(0)
            kept = (rates >= difficulty[0]) & (rates <= difficulty[1])
            successes = successes[:, kept] if known else successes[:, :0]
        counts, samples = scored(successes, curve.samples_per_problem, metric)
        count = max(1, counts.shape[1] * samples)
        reward = counts.sum(axis=1) / count
        curves.append(
            replace(
                curve,
                successes=counts,
                samples_per_problem=samples,
                reward=reward,
                collapsed_at=_collapse(reward, count, curve.diverged_by),
            )
        )
    by_id = {curve.run.run_id: curve for curve in curves}
    readings = tuple(read_cell(cell, by_id[cell.run_id]) for cell in data.plan.cells)
    return replace(data, curves=tuple(curves), readings=readings, metric=metric)


def _comparable(records: tuple[Record, ...], where: str, problems: list[str]) -> list[Record]:
    """Records with the shape (problems, samples) that most of the run's records have."""
    shapes = Counter((len(r.successes), r.samples_per_problem) for r in records)
    if len(shapes) <= 1:
        return list(records)
    usual = shapes.most_common(1)[0][0]
    kept = [r for r in records if (len(r.successes), r.samples_per_problem) == usual]
    dropped = len(records) - len(kept)
    problems.append(f"{where}: {dropped} records left out: not {usual[0]} x {usual[1]} samples")
    return kept


def read_cell(cell: Cell, curve: Curve) -> CellReading:
    """The cell's reward at its budget.

    Exact where the nearest record is the budget's own step (`sits_at`); otherwise linear in
    log compute between the records on either side; missing where there is none on either side.
    """
    ended = curve.status == "diverged" and not (curve.compute >= cell.budget).any()
    lacking: Reading = "diverged" if ended else "missing"
    missing = CellReading(cell=cell, reward=None, measured_compute=None, reading=lacking)
    if curve.collapsed_at is not None:
        # Reached by the whole run and not by what came before its collapse.
        before = read_cell(cell, curve.until_collapse())
        whole = read_cell(cell, replace(curve, collapsed_at=None))
        gone = before.reward is None and whole.reward is not None
        return replace(missing, reading="collapsed") if gone else before
    trained = curve.steps > 0
    compute, reward = curve.compute[trained], curve.reward[trained]
    if not compute.size:
        return missing
    nearest = int(np.argmin(np.abs(compute - cell.budget)))
    measured = float(compute[nearest])
    if sits_at(cell.budget, measured, int(curve.generations[trained][nearest])):
        value = float(reward[nearest])
        return CellReading(cell=cell, reward=value, measured_compute=measured, reading="exact")
    above = int(np.searchsorted(compute, cell.budget))
    if above == 0 or above == compute.size or compute[above - 1] <= 0:
        return missing
    low, high = math.log(compute[above - 1]), math.log(compute[above])
    share = (math.log(cell.budget) - low) / (high - low)
    value = float((1 - share) * reward[above - 1] + share * reward[above])
    return CellReading(cell=cell, reward=value, measured_compute=measured, reading="interpolated")
