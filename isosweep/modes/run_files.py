"""What a run's worker reads, and the evaluation sets of runs that exist."""

from contextlib import suppress

from isosweep.config.base import replaced
from isosweep.config.evaluation import set_identities
from isosweep.config.trust import executed_by_run, read_checked
from isosweep.difficulty.measurement import measurement_path, read_measurement, store_base_rates
from isosweep.difficulty.selection import ChosenVariant, store_selection
from isosweep.errors import IsosweepError, SettingError
from isosweep.files import read_json, write_json
from isosweep.plan.calibration import planned_times
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import Study
from isosweep.store.attempts import newest
from isosweep.store.paths import RunPaths, SweepPaths


def store_runs(study: Study, paths: SweepPaths) -> None:
    """Write what the worker of each run reads: its spec, and what is known of its problems.

    A run goes on with the evaluation sets that it began with, whichever sweep asks for it.
    """
    for variant, table in zip(study.variants, study.candidates, strict=True):
        rates = _base_rates(variant, paths)
        times = planned_times(table, study.plan)
        for run in study.plan.of_axes(variant.axes).runs:
            files = paths.run(run.run_id)
            files.root.mkdir(parents=True, exist_ok=True)
            spec = _with_stored_sets(study.specs[run.run_id], files)
            document = {"version": 1, "run_id": run.run_id, "spec": spec.to_json()}
            document["planned"] = times.get(run.run_id)
            # A data file that was moved makes the same run, and is read where it lies now. What
            # is no spec is written anew: the run's id says what it was.
            # Nor does a worker execute what somebody else's may say.
            stored, foreign = None, None
            with suppress(ValueError):
                stored, foreign = read_checked(files.spec)
            if stored != document or (foreign and any(executed_by_run(spec))):
                write_json(files.spec, document)
            for selection in variant.selections:
                store_selection(files, selection)
            if rates is not None:
                store_base_rates(files, rates)


def _base_rates(variant: ChosenVariant, paths: SweepPaths) -> list[float | None] | None:
    """Success rates before training of the held-out problems; None if none were measured."""
    measured = read_measurement(measurement_path(variant.config, paths.runs.parent))
    if not measured.problems:
        return None
    rates = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
    return [rates.get(problem.problem_id) for problem in variant.problems.heldout]


def require_sets(study: Study, paths: SweepPaths) -> None:
    """Raise SettingError where a run began without an evaluation set that the sweep has.

    Records that it has lack the set, and its checkpoints are those of a few of their steps.
    """
    lacking: dict[str, list[str]] = {}
    for run_id, spec in study.specs.items():
        files = paths.run(run_id)
        attempt = newest(files) if spec.evaluation.sets else None
        if attempt is None or not attempt.begun:
            continue
        stored = _stored_spec(files)
        known = set_identities(stored) if stored else {}
        for name, own in set_identities(spec).items():
            if known.get(name) != own:
                lacking.setdefault(name, []).append(run_id)
    if not lacking:
        return
    name, runs = next(iter(lacking.items()))
    rule = (
        f"{len(runs)} of {len(study.specs)} runs have begun without this set, as it is here, and "
        "the checkpoints that their records were taken of are not all kept, so that it cannot be "
        f"added to them; one is {runs[0]}"
    )
    without = " ".join(f"~evaluation.sets.{each}" for each in lacking)
    raise SettingError(
        f"evaluation.sets.{name}",
        "{...}",
        rule,
        f"{without}, or sweeps_dir=DIRECTORY of its own, where the runs are trained anew",
    )


def _stored_spec(files: RunPaths) -> RunSpec | None:
    """The spec that the run's worker reads; None where it is not there or is none."""
    try:
        document = read_json(files.spec)
        return None if document is None else RunSpec.from_json(document["spec"])
    except (KeyError, TypeError, ValueError, AttributeError, IsosweepError):
        return None


def _with_stored_sets(spec: RunSpec, files: RunPaths) -> RunSpec:
    """The spec with the sets that its run has already, which other sweeps may have asked for."""
    stored = _stored_spec(files)
    sets = {**((stored and stored.evaluation.sets) or {}), **(spec.evaluation.sets or {})}
    return replaced(spec, evaluation=replaced(spec.evaluation, sets=sets or None))
