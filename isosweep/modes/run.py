"""`mode=plan`, `run`, `launch` and `resume`: plan, launch, follow, analyse."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.devices import visible_devices
from isosweep.difficulty.measurement import (
    measurement_path,
    read_measurement,
    store_base_rates,
)
from isosweep.difficulty.selection import store_selection
from isosweep.difficulty.variants import ChosenVariant
from isosweep.errors import RecordError
from isosweep.files import JsonObject, read_json, write_json
from isosweep.machine import available_cores
from isosweep.modes.directory import store_plan, stored_sweep, sweep_paths
from isosweep.modes.display import described_checkpoints, show_plan
from isosweep.modes.price import INTERRUPTED, confirm, require_affordable, show_price
from isosweep.plan.standing import Standing, run_standing, standing
from isosweep.plan.study import Study, checkpoint_plan
from isosweep.store.paths import SweepPaths, complete_checkpoints
from isosweep.store.state import RunView, read_state
from isosweep.store.submissions import newest_submission

if TYPE_CHECKING:
    from isosweep.config.sweep import SweepConfig
    from isosweep.launchers.queue import RunQueue
    from isosweep.tracking.background import BackgroundTracker


def plan_sweep(study: Study, console: Console) -> int:
    """Store and show the plan; returns 0."""
    paths = _stored_plan(study, console)
    show_price(study, console)
    console.print(f"plan: {paths.plan}; as a map: {paths.plan_page}", soft_wrap=True)
    return 0


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A sweep about to be launched, and followed to its end, or left (`follow`).

    `asks`: the user is asked about its price where that is high.
    """

    study: Study
    follow: bool
    asks: bool = True

    def __call__(self, console: Console) -> int:
        """Store and show the plan, ask, and launch; returns 0, 1 if runs failed, or INTERRUPTED."""
        paths = _stored_plan(self.study, console)
        if self.asks and confirm([self.study], console) == INTERRUPTED:
            return INTERRUPTED
        return _run(self.study, paths, console, follow=self.follow)


def resume_sweep(config: "SweepConfig", console: Console) -> int:
    """Finish a stored sweep with the settings that it holds; returns as `Launch` does.

    Whether it is asked, and a limit that is given, are this command's to say.
    """
    from isosweep.preflight.machine import preflight

    sweep = stored_sweep(config)
    study = sweep.study()
    limit = config.launcher.max_device_hours or study.config.launcher.max_device_hours
    launcher = replace(study.config.launcher, max_device_hours=limit)
    asked = replace(study.config, launcher=launcher, confirm=config.confirm)
    study = replace(study, config=asked)
    require_affordable([study])
    preflight(study.config, study.variants)
    require_room(study, sweep.paths)
    if confirm([study], console) == INTERRUPTED:
        return INTERRUPTED
    return _run(study, sweep.paths, console, follow=True)


def _stored_plan(study: Study, console: Console) -> SweepPaths:
    paths, places = sweep_paths(study), _places(study)
    store_plan(study, paths, places)
    progress = standing(study.plan, paths.run, study.config.health.stop)
    show_plan(study.plan, study.config, progress, places, console)
    console.print(described_checkpoints(checkpoint_plan(study, places)), soft_wrap=True)
    for loss in _losses(study, paths):
        console.print(f"warning: {loss}", style="yellow", markup=False, soft_wrap=True)
    return paths


def require_room(study: Study, paths: SweepPaths | None = None) -> None:
    """Raise SettingError where the disk has no room for the checkpoints of the runs to come."""
    from isosweep.preflight.disk import require_disk

    require_disk(study, paths or sweep_paths(study), _places(study) or len(study.plan.runs))


def _places(study: Study) -> int | None:
    """Runs that can be alive at once: as configured, or what this machine holds; None: all of the
    plan, on a cluster, or as far as a machine without GPUs can tell."""
    launcher, hardware = study.config.launcher, study.config.hardware
    if launcher.max_parallel is not None:
        return launcher.max_parallel
    if launcher.name == "local" and hardware.device == "cpu":
        return max(1, available_cores() // hardware.devices_per_run)
    gpus = len(visible_devices().names) if launcher.name == "local" else 0
    return gpus // hardware.devices_per_run * launcher.runs_per_device or None


def _store_runs(study: Study, paths: SweepPaths) -> None:
    """Write what the worker of each run reads: its spec, and what is known of its problems."""
    for variant in study.variants:
        rates = _base_rates(variant, paths)
        for run in study.plan.of_axes(variant.axes).runs:
            files = paths.run(run.run_id)
            files.root.mkdir(parents=True, exist_ok=True)
            spec = study.specs[run.run_id].to_json()
            document = {"version": 1, "run_id": run.run_id, "spec": spec}
            # A data file that was moved makes the same run, and is read where it lies now. What
            # is no spec is written anew: the run's id says what it was.
            if not _holds(files.spec, document):
                write_json(files.spec, document)
            if variant.selection is not None:
                store_selection(files, variant.selection)
            if rates is not None:
                store_base_rates(files, rates)


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


def _queue(study: Study, paths: SweepPaths) -> "RunQueue":
    from isosweep.launchers.make import make_launcher
    from isosweep.launchers.queue import RunQueue

    _store_runs(study, paths)
    return RunQueue(
        runs=study.plan.runs,
        unit=study.plan.budget_unit,
        paths=paths.run,
        launcher=make_launcher(study.config),
        max_parallel=_places(study) or len(study.plan.runs),
        max_retries=study.config.launcher.max_retries,
        health=study.config.health,
        saving=study.config.checkpoint,
    )


def _run(study: Study, paths: SweepPaths, console: Console, *, follow: bool) -> int:
    from isosweep.modes.analyse import analyse_sweep
    from isosweep.modes.display_progress import Progress

    config = study.config
    queue = _queue(study, paths)
    console.print(f"sweep: {paths.root}", soft_wrap=True)
    if not follow:
        queue.step()
        console.print(f"{len(queue.active)} runs started; follow them with mode=resume")
        return 0
    tracker = _tracker(study, paths, console)
    try:
        # A service manager's stop is treated as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with Progress(study.plan, paths, config.health.stop, console) as progress:
            queue.follow(lambda: progress.update(queue.active, len(queue.failed)))
    except KeyboardInterrupt:
        return _interrupted(study, queue, tracker, paths, console)
    for run_id, reason in queue.failed.items():
        console.print(f"failed: {run_id}: {reason}", style="red", markup=False, soft_wrap=True)
    analyse_sweep(config, study.plan, paths, console)
    figures = sorted(p for p in paths.analysis.rglob("*.png") if not p.stem.endswith("-dark"))
    report = paths.report if paths.report.exists() else None
    tracker.close("FAILED" if queue.failed else "FINISHED", figures, report)
    return 1 if queue.failed else 0


def _tracker(study: Study, paths: SweepPaths, console: Console) -> "BackgroundTracker":
    from isosweep.tracking.background import BackgroundTracker, make_tracker

    config = study.config
    parameters: dict[str, str | float | int] = {
        "model": config.model.name,
        "task": config.task.name,
        "recipe": config.recipe.name,
        "hardware": config.hardware.name,
        "budget_unit": config.budget_unit,
    }
    return BackgroundTracker(
        make_tracker(
            paths,
            study.plan,
            parameters,
            config.tracking,
            paths.runs.parent,
            config.health.stop,
        ),
        config.tracking.interval_s,
        lambda warning: console.print(f"warning: {warning}", style="yellow", markup=False),
    )


def _interrupted(
    study: Study,
    queue: "RunQueue",
    tracker: "BackgroundTracker",
    paths: SweepPaths,
    console: Console,
) -> int:
    if queue.launcher.detaches:
        console.print("detached; the jobs go on")
    else:
        console.print("stopping: every run writes a checkpoint")
        queue.stop(study.config.launcher.stop_grace_s)
        tracker.close("KILLED", [], None)
    again = f"python -m isosweep mode=resume sweep_dir={paths.root}"
    console.print(f"go on with: {again}", soft_wrap=True)
    return INTERRUPTED
