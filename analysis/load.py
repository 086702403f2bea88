"""Reads a sweep from its files: the plan, every run's records, and the reading of every cell."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import (
    Curve,
    Ending,
    SetReading,
    SweepData,
    TrainingCourse,
    judged_curves,
)
from isosweep.analysis.readings import on_axis, read_runs
from isosweep.analysis.records import (
    comparable,
    make_curve,
    mean_readings,
    metrics_of,
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
from isosweep.words.importing import notes

# Points of a run's course: more are not seen in a small figure.
_MOST_POINTS = 24


@garbage_collection_paused()
def load_sweep(
    paths: SweepPaths,
    config: AnalysisConfig | None = None,
    axes: dict[str, Any] | None = None,
    part: Callable[[Plan], Plan] | None = None,
) -> SweepData:
    """The sweep, or a `part` of it, as `config` asks to see it: plan, curves (in the plan's order
    of runs) and readings (in its order of cells).

    `axes`: the variant of `grid.axes` to load, of a sweep that has several; they answer
    different questions, so they are never mixed. `part`: the plan to read instead, with some of
    this one's runs and budgets or with more; a run ends at its last.
    Runs without records are data: their curves are empty and their cells missing. Raises
    RecordError when there is no plan, or it lacks what its format promises; SettingError where no
    problem is of the difficulty asked for, or no record has the metric, the evaluation set or the
    unit of compute.
    """
    config = config or AnalysisConfig()
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
    asked = _Asked(config, plan.budget_unit, stop, cut)
    runs = [_load_run(paths.run(run.run_id), run, asked) for run in plan.runs]
    problems += [problem for run in runs for problem in run.problems]
    sets = mean_readings([reading for run in runs for reading in run.sets])
    curves = [run.curve for run in runs]
    _require_readable(runs, sets, asked)
    if asked.unit != plan.budget_unit:
        plan = on_axis(plan, curves, [run.spent for run in runs], asked.unit)
        curves = [replace(c, run=run) for c, run in zip(curves, plan.runs, strict=True)]
    judged = judged_curves(curves)
    plan, readings = read_runs(plan, judged, config.readings_per_decade, config.decades)
    return SweepData(
        plan=plan,
        curves=judged,
        readings=readings,
        plan_document=document,
        config_document=settings,
        problems=tuple(problems),
        metric=config.metric,
        evaluation_set=config.evaluation_set,
        sets=sets,
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


@dataclass(frozen=True)
class _Asked:
    """What of the records is loaded. `planned`: the plan's unit of compute; `stop`: health rules
    that end a run; `cut`: runs that are read as though they had ended at their last milestone."""

    config: AnalysisConfig
    planned: BudgetUnit
    stop: Collection[str]
    cut: Collection[str]

    @property
    def unit(self) -> BudgetUnit:
        """Unit of compute of the curves."""
        return self.config.compute_axis or self.planned


@dataclass(frozen=True)
class _Loaded:
    """What a run's files have. `spent`: compute of the curve's records in the plan's unit,
    (records,); `metrics`: those that any record can be scored by; `problems`: what was wrong."""

    curve: Curve
    spent: FloatArray
    sets: list[SetReading]
    metrics: set[MetricName]
    problems: list[str]


def _require_readable(runs: Sequence[_Loaded], sets: Sequence[SetReading], asked: _Asked) -> None:
    """Raise SettingError where records were taken, and none of them has what was asked for."""
    config = asked.config
    known = [reading.name for reading in sets if reading.name is not None]
    if sets and config.evaluation_set not in (None, *known):
        rule = f"is none of the sets of these records: {', '.join(known) or 'they have none'}"
        raise SettingError("analysis.evaluation_set", config.evaluation_set, rule)
    told = {metric for run in runs for metric in run.metrics}
    if told and config.metric not in told:
        nearest = " or ".join(f"analysis.metric={name}" for name in METRICS if name in told)
        rule = "no record has what it is scored by"
        raise SettingError("analysis.metric", config.metric, rule, nearest)
    if told and config.difficulty and not any(run.curve.successes.size for run in runs):
        low, high = config.difficulty
        rule = "no held-out problem's success rate before training lies there"
        nearest = "analysis.difficulty=[0,1]"
        raise SettingError("analysis.difficulty", f"[{low:g},{high:g}]", rule, nearest)
    if told and asked.unit != asked.planned and not any((r.curve.compute > 0).any() for r in runs):
        rule = f"no record has counted that; the budgets are in {asked.planned}"
        nearest = f"analysis.compute_axis={asked.planned}"
        raise SettingError("analysis.compute_axis", asked.unit, rule, nearest)


def _load_run(paths: RunPaths, run: PlannedRun, asked: _Asked) -> _Loaded:
    file, config = read_records(paths.records), asked.config
    records, problems = file.records, list(file.problems)
    spec = _read_optional(paths.spec, problems)
    owner = spec.get("run_id", run.run_id)
    if owner != run.run_id:
        problems.append(f"{paths.spec}: of run {owner}, so its records are left out")
        records = ()
    ending = _ending(paths, run, asked, problems)
    end = run.milestones[-1]
    past = [i for i, r in enumerate(records, 1) if r.compute.has_reached(end, asked.planned)]
    if run.run_id in asked.cut and past:
        records = records[: past[0]]
        warnings = tuple(w for w in ending.warnings if w.step <= records[-1].step)
        ending = Ending(
            status="finished",
            standing=Standing.DONE,
            warnings=warnings,
            has_metrics=ending.has_metrics,
        )
    name = config.evaluation_set
    taken = records if name is None else [record.sets.get(name) for record in records]
    kept, left_out = comparable(records, config.metric, name)
    problems += [f"{paths.records}: {each}" for each in left_out]
    curve = make_curve(run, kept, asked.unit, ending, config.metric, config.difficulty)
    devices = spec.get("devices")
    hours = sum(r.seconds for r in kept) * (devices if isinstance(devices, int) else 1) / 3600
    return _Loaded(
        curve=replace(curve, evaluation_hours=hours or None),
        spent=np.array([r.compute.spent(asked.planned) for r in kept[: curve.steps.size]]),
        sets=set_readings(records),
        metrics={metric for each in taken if each is not None for metric in metrics_of(each)},
        problems=problems,
    )


def _ending(paths: RunPaths, run: PlannedRun, asked: _Asked, problems: list[str]) -> Ending:
    """What became of the run: what its worker said, or of one that died, why its job ended.

    It explains, and decides nothing but that a run has diverged: unknown where it is damaged.
    """
    ending = Ending(has_metrics=paths.metrics.exists())
    try:
        ending = replace(ending, warnings=tuple(read_warnings(paths.warnings, paths.records)))
    except (KeyError, TypeError) as error:
        problems.append(f"{paths.warnings}: {error!r}")
    try:
        number = highest(paths)
        attempt = read_attempt(paths, number) if number else None
    except RecordError as error:
        problems.append(str(error))
        # As `newest` has it.
        return replace(ending, standing=Standing.FAILED)
    standing = run_standing(run, attempt, asked.planned, asked.stop)
    if attempt is None:
        return replace(ending, standing=standing)
    return replace(
        ending,
        status=attempt.status,
        reason=attempt.reason or None,
        diverged_by=attempt.diverged_by,
        standing=standing,
    )


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
