"""What each mode does: plan, launch, follow, analyse; and a sweep's directory."""

import os
import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.difficulty.selection import store_for_run
from isosweep.files import read_json, write_json
from isosweep.modes.directory import store_plan, stored_sweep, sweep_paths
from isosweep.modes.display import show_plan, show_status
from isosweep.modes.display_progress import Progress
from isosweep.modes.questions import analyse_sweep, compare_sweeps, recommend_split, simulate_sweeps
from isosweep.plan.calibration import calibrate, calibrated
from isosweep.plan.cells import Plan
from isosweep.plan.make import make_plan, run_specs
from isosweep.plan.standing import standing
from isosweep.preflight.machine import preflight, require_analysis
from isosweep.store.paths import SweepPaths
from isosweep.store.state import mark, read_state

if TYPE_CHECKING:
    from isosweep.launchers.queue import Launcher, RunQueue
    from isosweep.tracking.background import BackgroundTracker


# Exit status after Ctrl-C, as a shell gives it: 128 + SIGINT.
INTERRUPTED = 130


def check(config: SweepConfig) -> None:
    """Raise the IsosweepError that `execute` would, as far as can be told before it starts."""
    if config.mode in ("run", "launch", "plan"):
        make_plan(config)
    if config.mode in ("run", "launch"):
        preflight(config)


def execute(config: SweepConfig, console: Console) -> int:
    """Do what `config.mode` says; returns the exit status: 0, or 1 if runs failed.

    Raises IsosweepError for what the user can mend, before anything is launched.
    """
    match config.mode:
        case "plan" | "run" | "launch":
            config = calibrated(config)
            plan = make_plan(config)
            paths = sweep_paths(config, plan)
            if config.mode != "plan":
                preflight(config)
            store_plan(plan, config, paths)
            there = standing(plan, paths.run, config.health.stop)
            show_plan(plan, config, there, _places(config, plan), console)
            if config.mode == "plan":
                console.print(f"plan: {paths.plan}; as a map: {paths.plan_page}", soft_wrap=True)
                return 0
            return _run(config, plan, paths, console, follow=config.mode == "run")
        case "resume":
            stored, plan, paths = stored_sweep(config)
            preflight(stored)
            return _run(stored, plan, paths, console, follow=True)
        case "status":
            stored, plan, paths = stored_sweep(config)
            show_status(plan, paths, stored.health.stop, console)
            return 0
        case "cancel":
            _, plan, paths = stored_sweep(config)
            return _cancel(plan, paths, console)
        case "difficulty":
            return _measure(config, console)
        case "simulate":
            require_analysis()
            plan = make_plan(config)
            paths = sweep_paths(config, plan)
            store_plan(plan, config, paths)
            return simulate_sweeps(config, plan, paths, console)
        case "recommend":
            require_analysis()
            return recommend_split(config, console)
        case "compare":
            require_analysis()
            return compare_sweeps(config, console)
        case "calibrate":
            require_analysis()
            console.print(calibrate(*stored_sweep(config)), soft_wrap=True)
            return 0
        case _:
            require_analysis()
            # What is asked of the records is this command's to say, not the sweep's.
            stored, plan, paths = stored_sweep(config)
            return analyse_sweep(replace(stored, analysis=config.analysis), paths, console)


def _measure(config: SweepConfig, console: Console) -> int:
    from isosweep.modes.difficulty import measure, measured_configs

    configs = measured_configs(config)
    for single in configs:
        preflight(single)
    try:
        for single in configs:
            measure(single, console)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        return INTERRUPTED
    return 0


def _places(config: SweepConfig, plan: Plan) -> int:
    """Runs that can be alive at once: as configured, or what this machine or the plan holds."""
    from isosweep.machine import available_cores, visible_gpus

    if config.launcher.max_parallel is not None:
        return config.launcher.max_parallel
    if config.launcher.name == "local" and config.hardware.device == "cpu":
        return max(1, available_cores() // config.hardware.devices_per_run)
    gpus = visible_gpus() if config.launcher.name == "local" else 0
    return gpus // config.hardware.devices_per_run or len(plan.runs)


def _queue(config: SweepConfig, plan: Plan, paths: SweepPaths) -> "RunQueue":
    from isosweep.launchers.local import LocalLauncher
    from isosweep.launchers.queue import RunQueue
    from isosweep.launchers.slurm import SlurmLauncher
    from isosweep.machine import visible_gpus

    specs = run_specs(config)
    launcher: Launcher
    if config.launcher.name == "slurm":
        launcher = SlurmLauncher(config.launcher.slurm)
    else:
        gpus = visible_gpus() if config.hardware.device == "cuda" else 0
        launcher = LocalLauncher(gpus=gpus, devices=config.hardware.devices_per_run)
    for run in plan.runs:
        root = paths.run(run.run_id)
        root.root.mkdir(parents=True, exist_ok=True)
        spec = specs[run.run_id].to_json()
        document = {"version": 1, "run_id": run.run_id, "spec": spec}
        # A data file that was moved makes the same run, and is found where it lies now.
        if read_json(root.spec) != document:
            write_json(root.spec, document)
        store_for_run(root, specs[run.run_id].model, specs[run.run_id].task, config.difficulty)
    return RunQueue(
        runs=plan.runs,
        unit=plan.budget_unit,
        paths=paths.run,
        launcher=launcher,
        max_parallel=_places(config, plan),
        max_retries=config.launcher.max_retries,
        health=config.health,
    )


def _run(
    config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console, *, follow: bool
) -> int:
    from isosweep.tracking.background import BackgroundTracker, make_tracker

    queue = _queue(config, plan, paths)
    console.print(f"sweep: {paths.root}", soft_wrap=True)
    if not follow:
        queue.step()
        console.print(f"{len(queue.active)} runs started; follow them with mode=resume")
        return 0
    parameters: dict[str, str | float | int] = {
        "model": config.model.name,
        "task": config.task.name,
        "recipe": config.recipe.name,
        "hardware": config.hardware.name,
        "budget_unit": config.budget_unit,
    }
    tracker = BackgroundTracker(
        make_tracker(
            paths, plan, parameters, config.tracking, paths.runs.parent, config.health.stop
        ),
        config.tracking.interval_s,
        lambda warning: console.print(f"warning: {warning}", style="yellow", markup=False),
    )
    try:
        # A service manager's stop is treated as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with Progress(plan, paths, config.health.stop, console) as progress:
            queue.follow(lambda: progress.update(queue.active, len(queue.failed)))
    except KeyboardInterrupt:
        return _interrupted(config, queue, tracker, paths, console)
    for run_id, reason in queue.failed.items():
        console.print(f"failed: {run_id}: {reason}", style="red", markup=False, soft_wrap=True)
    analyse_sweep(config, paths, console)
    figures = sorted(p for p in paths.analysis.rglob("*.png") if not p.stem.endswith("-dark"))
    report = paths.report if paths.report.exists() else None
    tracker.close("FAILED" if queue.failed else "FINISHED", figures, report)
    return 1 if queue.failed else 0


def _interrupted(
    config: SweepConfig,
    queue: "RunQueue",
    tracker: "BackgroundTracker",
    paths: SweepPaths,
    console: Console,
) -> int:
    if queue.launcher.detaches:
        console.print("detached; the jobs go on")
    else:
        console.print("stopping: every run writes a checkpoint")
        queue.stop(config.launcher.stop_grace_s)
        tracker.close("KILLED", [], None)
    again = f"python -m isosweep mode=resume sweep_dir={paths.root}"
    console.print(f"go on with: {again}", soft_wrap=True)
    return INTERRUPTED


def _cancel(plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Stop every live run of the sweep, wherever it runs."""
    from isosweep.launchers.slurm import cancel_job

    stopped = missed = 0
    for run in plan.runs:
        state = read_state(paths.run(run.run_id))
        if state is None or not state.alive():
            continue
        if state.job_id is None and state.host != socket.gethostname():
            where = f"process {state.pid} of {state.host}"
            console.print(f"{run.run_id} is {where}: cancel it there", soft_wrap=True)
            missed += 1
            continue
        mark(paths.run(run.run_id), "cancelled", "mode=cancel")
        if state.job_id is not None:
            cancel_job(state.job_id)
        else:
            os.kill(state.pid, signal.SIGKILL)
        stopped += 1
    console.print(f"{stopped} runs cancelled")
    return 1 if missed else 0
