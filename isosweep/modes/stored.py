"""A sweep's plan and runs on the disk, before any of them starts."""

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from isosweep import words
from isosweep.config.evaluation_sets import repeated_sets
from isosweep.config.executed import vouch
from isosweep.devices import visible_devices
from isosweep.difficulty.measurement import (
    measurement_path,
    read_measurement,
    store_base_rates,
)
from isosweep.difficulty.selection import store_selection
from isosweep.difficulty.variants import ChosenVariant
from isosweep.errors import RecordError
from isosweep.files import JsonObject, make_directories, read_json, write_json
from isosweep.machine import available_cores
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.modes.display import described_warmup, show_plan
from isosweep.modes.display_search import described_plan
from isosweep.modes.look import collapsed_runs
from isosweep.modes.sets import require_sets, with_stored_sets
from isosweep.modes.terminal import say, warn
from isosweep.modes.trust import require_own_scripts
from isosweep.plan.cautions import short_of_warmup
from isosweep.plan.standing import run_standing, standing
from isosweep.plan.study import Study, checkpoint_plan, evaluation_of, shipped_of
from isosweep.plan.tally import Standing
from isosweep.preflight.search import require_search
from isosweep.store.paths import SweepPaths, complete_checkpoints, require_plain
from isosweep.store.state import RunView, read_state
from isosweep.store.submissions import newest_submission
from isosweep.store.uses import note_use


def stored_plan(study: Study, console: Console) -> SweepPaths:
    """Store and show the plan; warns of what was lost of its runs.

    Raises SettingError as `require_search` and `require_sets`.
    """
    paths, places = sweep_paths(study), places_of(study)
    require_search(study)
    require_sets(study, paths)
    store_plan(study, paths, places)
    asked = Path(study.config.sweeps_dir).absolute()
    if paths.runs.parent.resolve() != asked.resolve():
        say(console, f"its runs are in {paths.runs}; sweeps_dir={asked} is for sweeps to come")
    progress = replace(
        standing(study.plan, paths.run, study.config.health.stop),
        collapsed=collapsed_runs(study.config, study.plan, paths),
    )
    show_plan(study.plan, study.config, progress, places, console)
    for line in (
        *described_plan(study.plan, study.config),
        words.line("plan", "checkpoints", checkpoint_plan(study, places)),
        *described_findings(study),
    ):
        say(console, line)
    warn(console, *(*described_cautions(study), *_losses(study, paths)))
    return paths


def described_findings(study: Study) -> Iterator[str]:
    """What evaluation takes and what the plan could find, a line each."""
    from isosweep.analysis.outlook import outlook_of_variants

    plan, config = study.plan, study.config
    yield words.line("plan", "evaluation", evaluation_of(study), len(plan.runs))
    yield from words.lines("plan", "repeats", repeated_sets(config))
    if config.search.kind != "tune":
        yield from words.lines("plan", "findings", outlook_of_variants(plan, config))


def described_cautions(study: Study) -> Iterator[str]:
    """What the plan warns of, a line each."""
    yield from described_warmup(tuple(short_of_warmup(study.candidates)), study.plan.budget_unit)
    for shipped in shipped_of(study):
        yield words.line("plan", "shipped_sampling", shipped)


def require_room(study: Study, paths: SweepPaths | None = None) -> None:
    """Raise SettingError where the disk has no room for the checkpoints of the runs to come, or
    others could change what a scheduler is to execute there."""
    from isosweep.preflight.disk import require_disk

    require_own_scripts(study.config, paths or sweep_paths(study))
    require_disk(study, paths or sweep_paths(study), places_of(study) or len(study.plan.runs))


def places_of(study: Study) -> int | None:
    """Runs that can be alive at once: as configured, or what this machine holds; None: all of the
    plan, on a cluster, or as far as a machine without GPUs can tell."""
    launcher, hardware = study.config.launcher, study.config.hardware
    if launcher.name == "inline":
        return 1
    if launcher.max_parallel is not None:
        return launcher.max_parallel
    if launcher.name == "local" and hardware.device == "cpu":
        return max(1, available_cores() // hardware.devices_per_run)
    gpus = len(visible_devices().names) if launcher.name == "local" else 0
    return gpus // hardware.devices_per_run * launcher.runs_per_device or None


def note_uses(study: Study, paths: SweepPaths) -> list[str]:
    """Have each run of the plan know that the sweep uses it; the runs where this user may not."""
    closed = []
    for run in study.plan.runs:
        files = paths.run(run.run_id)
        try:
            make_directories(files.root)
            note_use(files, paths.root, study.plan.plan_id)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            closed.append(run.run_id)
    return closed


def store_runs(study: Study, paths: SweepPaths) -> list[str]:
    """Write what the worker of each run reads: its spec, and what is known of its problems; what
    these execute is vouched for.

    A run goes on with the evaluation sets that it began with, whichever sweep asks for it. Returns
    what `note_uses` does.
    """
    vouch(study.specs.values())
    closed = note_uses(study, paths)
    for variant in study.variants:
        rates = _base_rates(variant, paths)
        for run in study.plan.of_axes(variant.axes).runs:
            files = paths.run(run.run_id)
            require_plain(files)
            spec = with_stored_sets(study.specs[run.run_id], files)
            document = {"version": 1, "run_id": run.run_id, "spec": spec.to_json()}
            # A data file that was moved makes the same run, and is read where it lies now. What
            # is no spec is written anew: the run's id says what it was.
            if not _holds(files.spec, document):
                write_json(files.spec, document, below=files.root)
            for selection in variant.selections:
                store_selection(files, selection)
            if rates is not None:
                store_base_rates(files, rates)
    return closed


def _holds(path: Path, document: JsonObject) -> bool:
    try:
        return read_json(path) == document
    except ValueError:
        return False


def _losses(study: Study, paths: SweepPaths) -> Iterator[str]:
    """What has been lost of runs that the plan asks for, a line each."""
    for run in study.plan.runs:
        files = paths.run(run.run_id)
        try:
            view = RunView(state=read_state(files), submission=newest_submission(files))
        except RecordError as error:
            yield str(error)
            continue
        stop = study.config.health.stop
        how_far = run_standing(run, view, study.plan.budget_unit, stop)
        if how_far is Standing.TO_EXTEND and not any(
            complete_checkpoints(attempt) for attempt in files.checkpoints.glob("*")
        ):
            yield (
                f"{run.run_id}: no checkpoint is left of it (checkpoint.keep): to be extended it "
                "is trained again from step 0"
            )


def _base_rates(variant: ChosenVariant, paths: SweepPaths) -> list[float | None] | None:
    """Success rates before training of the held-out problems; None if none were measured."""
    config = variant.config
    measured = read_measurement(
        measurement_path(config.model, config.task, config.difficulty, paths.runs.parent)
    )
    if not measured.problems:
        return None
    rates = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
    return [rates.get(problem.problem_id) for problem in variant.problems.heldout]
