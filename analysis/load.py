"""Reads a sweep from its files: the plan, every run's records, and the reading of every cell."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isosweep.analysis.curves import (
    Curve,
    SetReading,
    SweepData,
    TrainingCourse,
    on_axis,
    read_cells,
    with_witnesses,
    without_broken,
)
from isosweep.analysis.ladder import with_ladder
from isosweep.analysis.records import (
    Ending,
    comparable,
    make_curve,
    mean_readings,
    of_set,
    set_readings,
)
from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig
from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, read_json
from isosweep.machine import garbage_collection_paused
from isosweep.metrics import METRICS, MetricName
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.document import Note, plan_from_document
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import highest
from isosweep.store.attempts import read as read_attempt
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.store.records import read_metrics, read_records, read_warnings
from isosweep.store.warnings import HealthWarning
from isosweep.words.importing import notes

# Points of a run's course: more are not seen in a small figure.
_MOST_POINTS = 24


@garbage_collection_paused()
def load_sweep(
    paths: SweepPaths,
    axes: dict[str, Any] | None = None,
    metric: MetricName = "avg",
    *,
    compute_axis: BudgetUnit | None = None,
    difficulty: tuple[float, float] | None = None,
    evaluation_set: str | None = None,
    ladder: tuple[int, float] = (0, 0.0),
    part: Callable[[Plan], Plan] | None = None,
) -> SweepData:
    """Plan, curves (in the plan's order of runs) and readings (in its order of cells).

    `axes`: the variant of `grid.axes` to load, of a sweep that has several; they answer
    different questions, so they are never mixed. `metric`, `compute_axis`, `difficulty` and
    `evaluation_set`: see `AnalysisConfig`, whose `readings_per_decade` and `decades` are `ladder`.
    `part`: the plan to read instead, with some of this one's runs and budgets or with more; a run
    ends at its last.
    Runs without records are data: their curves are empty and their cells missing. Raises
    RecordError when there is no plan, or it lacks what its format promises; SettingError where no
    problem is of that difficulty, and no record has that set.
    """
    plan, document = _read_plan(paths)
    if axes is not None:
        plan = plan.of_axes(axes)
    elif len(plan.axes) > 1:
        raise RecordError(f"{paths.plan}: it has {len(plan.axes)} variants; choose one by its axes")
    ends = {run.run_id: run.milestones[-1] for run in plan.runs}
    plan = plan if part is None else part(plan)
    cut = {run.run_id for run in plan.runs if run.milestones[-1] < ends.get(run.run_id, 0.0)}
    problems: list[str] = []
    if isinstance(read := document.get("imported"), dict):
        problems += notes((Note(**each) for each in read["notes"]), plan.budget_unit)
    settings = _read_optional(paths.config, problems)
    health = settings.get("health")
    stop = health.get("stop", ()) if isinstance(health, dict) else ()
    unit = compute_axis or plan.budget_unit
    asked = _Asked(metric, difficulty, evaluation_set, plan.budget_unit, unit, stop, cut)
    runs = [_load_run(paths.run(run.run_id), run, asked) for run in plan.runs]
    curves = [run.curves[plan.budget_unit] for run in runs]
    problems += [problem for run in runs for problem in run.problems]
    sets = mean_readings([reading for run in runs for reading in run.sets])
    if evaluation_set is not None:
        _require_set(evaluation_set, sets)
    _require_told(curves, metric, difficulty)
    if unit != plan.budget_unit:
        moved = [run.curves[unit] for run in runs]
        _require_spent(moved, unit, plan.budget_unit)
        plan = on_axis(plan, curves, moved, unit)
        curves = [replace(c, run=run) for c, run in zip(moved, plan.runs, strict=True)]
    judged = without_broken(with_witnesses(curves))
    plan = with_ladder(plan, judged, *ladder)
    return SweepData(
        plan=plan,
        curves=judged,
        readings=read_cells(plan, judged),
        plan_document=document,
        config_document=settings,
        problems=tuple(problems),
        metric=metric,
        evaluation_set=evaluation_set,
        sets=sets,
    )


def load_view(
    paths: SweepPaths,
    config: AnalysisConfig,
    axes: dict[str, Any] | None = None,
    part: Callable[[Plan], Plan] | None = None,
) -> SweepData:
    """The sweep, or a `part` of it, as `config` asks to see it."""
    return load_sweep(
        paths,
        axes,
        config.metric,
        compute_axis=config.compute_axis,
        difficulty=config.difficulty,
        evaluation_set=config.evaluation_set,
        ladder=(config.readings_per_decade, config.decades),
        part=part,
    )


def _require_set(asked: str, sets: Sequence[SetReading]) -> None:
    known = tuple(reading.name for reading in sets if reading.name is not None)
    if sets and asked not in known:
        name = "analysis.evaluation_set"
        rule = f"is none of the sets of these records: {', '.join(known) or 'they have none'}"
        raise SettingError(name, asked, rule)


def _require_spent(curves: Sequence[Curve], unit: BudgetUnit, own: BudgetUnit) -> None:
    """Raise SettingError where records were taken, and none counts compute in that unit."""
    taken = [curve for curve in curves if curve.steps.size]
    if taken and not any((curve.compute > 0).any() for curve in taken):
        rule = f"no record has counted that; the budgets are in {own}"
        raise SettingError("analysis.compute_axis", unit, rule, f"analysis.compute_axis={own}")


def _require_told(
    curves: Sequence[Curve], metric: MetricName, difficulty: tuple[float, float] | None
) -> None:
    """Raise SettingError where records were taken, and none of them tells what was asked for."""
    taken = [curve for curve in curves if curve.steps.size]
    if not taken:
        return
    if not any(curve.tells(metric) for curve in taken):
        told = [m for m in METRICS if any(curve.tells(m) for curve in taken)]
        rule = "no record has what it is scored by"
        nearest = " or ".join(f"analysis.metric={name}" for name in told)
        raise SettingError("analysis.metric", metric, rule, nearest)
    if difficulty is not None and not any(curve.successes.size for curve in taken):
        low, high = difficulty
        rule = "no held-out problem's success rate before training lies there"
        nearest = "analysis.difficulty=[0,1]"
        raise SettingError("analysis.difficulty", f"[{low:g},{high:g}]", rule, nearest)


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


@dataclass(frozen=True)
class _Asked:
    """What of the records is loaded: see `load_sweep`. `planned` and `unit`: of compute, the plan's
    and the one asked for; `stop`: health rules that end a run; `cut`: runs that are read as though
    they had ended at their last milestone."""

    metric: MetricName
    difficulty: tuple[float, float] | None
    evaluation_set: str | None
    planned: BudgetUnit
    unit: BudgetUnit
    stop: Collection[str]
    cut: Collection[str]


class _Loaded(NamedTuple):
    """A run's curve by unit of compute, what its records have of every set, and what was wrong with
    its files."""

    curves: dict[BudgetUnit, Curve]
    sets: tuple[SetReading, ...]
    problems: list[str]


def _load_run(paths: RunPaths, run: PlannedRun, asked: _Asked) -> _Loaded:
    file = read_records(paths.records)
    problems = list(file.problems)
    records = file.records
    spec = _read_optional(paths.spec, problems)
    owner = spec.get("run_id", run.run_id)
    if owner != run.run_id:
        problems.append(f"{paths.spec}: of run {owner}, so its records are left out")
        records = ()
    end = run.milestones[-1]
    past = [i for i, r in enumerate(records, 1) if r.compute.has_reached(end, asked.planned)]
    stopped = run.run_id in asked.cut and bool(past)
    if stopped:
        records = records[: past[0]]
    sets, where = set_readings(records), str(paths.records)
    if asked.evaluation_set is not None:
        records = of_set(records, asked.evaluation_set, where, problems)
    kept = comparable(records, asked.metric, where, problems)
    ending, warnings = _ending(paths, run, asked, problems), _warnings(paths, problems)
    if stopped:
        ending = Ending(status="finished", standing=Standing.DONE)
        warnings = tuple(warning for warning in warnings if warning.step <= records[-1].step)
    curves = {}
    for unit in {asked.planned, asked.unit}:
        curve = make_curve(run, kept, unit, ending, warnings, _devices(spec))
        curve = replace(curve, has_metrics=paths.metrics.exists())
        curves[unit] = curve.scored_by(asked.metric, asked.difficulty)
    return _Loaded(curves, sets, problems)


def _devices(spec: JsonObject) -> int:
    """Devices that the run occupies; 1 where its file does not say."""
    devices = spec.get("devices")
    return devices if isinstance(devices, int) else 1


def _ending(paths: RunPaths, run: PlannedRun, asked: _Asked, problems: list[str]) -> Ending:
    """What became of the run: what its worker said, or of one that died, why its job ended.

    It explains, and decides nothing but that a run has diverged: unknown where it is damaged.
    """
    try:
        number = highest(paths)
        attempt = read_attempt(paths, number) if number else None
    except RecordError as error:
        problems.append(str(error))
        # As `newest` has it.
        return Ending(standing=Standing.FAILED)
    standing = run_standing(run, attempt, asked.planned, asked.stop)
    if attempt is None:
        return Ending(standing=standing)
    return Ending(
        status=attempt.status,
        reason=attempt.reason or None,
        diverged_by=attempt.diverged_by,
        standing=standing,
    )


def _warnings(paths: RunPaths, problems: list[str]) -> tuple[HealthWarning, ...]:
    """Warnings explain and decide nothing: none where their file is damaged."""
    try:
        return tuple(read_warnings(paths.warnings, paths.records))
    except (KeyError, TypeError) as error:
        problems.append(f"{paths.warnings}: {error!r}")
        return ()


def read_training(
    paths: SweepPaths, data: SweepData, names: Sequence[str]
) -> tuple[TrainingCourse, ...]:
    """Courses of the metrics `names` of all runs that wrote any, in the plan's order."""
    courses = []
    for curve in data.curves:
        files = paths.run(curve.run.run_id)
        try:
            lines = read_metrics(files.metrics, files.records)
            if lines and (curve.compute > 0).any():
                courses.append(_training_course(curve, lines, names))
        except (KeyError, TypeError, ValueError, OverflowError):
            # Metrics explain and decide nothing: none where their file is damaged.
            continue
    return tuple(courses)


def _training_course(
    curve: Curve, lines: Sequence[JsonObject], names: Sequence[str]
) -> TrainingCourse:
    parts = np.array_split(np.arange(len(lines)), min(len(lines), _MOST_POINTS))
    steps = [float(np.mean([lines[i]["step"] for i in part])) for part in parts]
    # Compute goes with the steps between records.
    compute = np.interp(steps, curve.steps, curve.compute)
    values = {
        name: tuple(_mean_of([lines[i].get(name) for i in part]) for part in parts)
        for name in names
    }
    return TrainingCourse(run=curve.run, compute=tuple(compute.tolist()), values=values)


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
