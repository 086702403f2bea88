"""What each mode does: plan, launch, follow, analyse; and a sweep's directory."""

import importlib.util
import math
import os
import signal
import socket
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.calibration import calibrate, calibrated
from isosweep.config import SweepConfig, from_mapping, variants
from isosweep.display import Progress, show_plan, show_power, show_status
from isosweep.errors import PreflightError, SettingError
from isosweep.files import read_json, write_json, write_text
from isosweep.models import missing_weights
from isosweep.paths import SweepPaths
from isosweep.plan import Plan, make_plan, plan_document, plan_from_document, run_specs
from isosweep.plan_output import plan_csv, plan_page
from isosweep.standing import standing
from isosweep.state import mark, read_state

if TYPE_CHECKING:
    from isosweep.analysis.report import Analysis
    from isosweep.launchers.queue import Launcher, RunQueue
    from isosweep.tracking import BackgroundTracker


# Exit status after Ctrl-C, as a shell gives it: 128 + SIGINT.
INTERRUPTED = 130


def check(config: SweepConfig) -> None:
    """Raise the IsosweepError that `execute` would, as far as can be told before it starts."""
    if config.mode in ("run", "launch", "plan"):
        make_plan(config)
    if config.mode in ("run", "launch"):
        _preflight(config)


def execute(config: SweepConfig, console: Console) -> int:
    """Do what `config.mode` says; returns the exit status: 0, or 1 if runs failed.

    Raises IsosweepError for what the user can mend, before anything is launched.
    """
    match config.mode:
        case "plan" | "run" | "launch":
            config = calibrated(config)
            plan = make_plan(config)
            paths = _paths(config, plan)
            if config.mode != "plan":
                _preflight(config)
            _store_plan(plan, config, paths)
            there = standing(plan, paths.run)
            show_plan(plan, config, there, _places(config, plan), console)
            if config.mode == "plan":
                console.print(f"plan: {paths.plan}; as a map: {paths.plan_page}", soft_wrap=True)
                return 0
            return _run(config, plan, paths, console, follow=config.mode == "run")
        case "resume":
            stored, plan, paths = _stored(config)
            _preflight(stored)
            return _run(stored, plan, paths, console, follow=True)
        case "status":
            _, plan, paths = _stored(config)
            show_status(plan, paths, console)
            return 0
        case "cancel":
            _, plan, paths = _stored(config)
            return _cancel(plan, paths, console)
        case "simulate":
            _require_analysis()
            plan = make_plan(config)
            paths = _paths(config, plan)
            _store_plan(plan, config, paths)
            return _simulate(config, plan, paths, console)
        case "calibrate":
            _require_analysis()
            console.print(calibrate(*_stored(config)), soft_wrap=True)
            return 0
        case _:
            _require_analysis()
            # What is asked of the records is this command's to say, not the sweep's.
            stored, plan, paths = _stored(config)
            return _analyse(replace(stored, analysis=config.analysis), paths, console)


def _paths(config: SweepConfig, plan: Plan) -> SweepPaths:
    sweeps = Path(config.sweeps_dir).absolute()
    if config.sweep_dir is not None:
        return SweepPaths(Path(config.sweep_dir).absolute(), sweeps / "runs")
    name = f"{config.model.name}-{config.task.name}-{plan.plan_id}"
    return SweepPaths(sweeps / name, sweeps / "runs")


def _stored(config: SweepConfig) -> tuple[SweepConfig, Plan, SweepPaths]:
    """The sweep at `sweep_dir`, or the one that this very config plans."""
    if config.sweep_dir is not None:
        root = Path(config.sweep_dir).absolute()
    else:
        root = _paths(config, make_plan(config)).root
    document, stored = read_json(root / "plan.json"), read_json(root / "config.json")
    if document is None or stored is None:
        known = sorted(p.parent for p in Path(config.sweeps_dir).glob("*/plan.json"))
        nearest = f"sweep_dir={known[-1]}" if known else "mode=run, which makes one"
        raise SettingError("sweep_dir", root, "holds no plan.json", nearest)
    paths = SweepPaths(root, Path(stored["sweeps_dir"]) / "runs")
    # The plan first: of a sweep made by another version, its format is the thing to tell.
    plan = plan_from_document(document)
    return from_mapping(stored), plan, paths


def _store_plan(plan: Plan, config: SweepConfig, paths: SweepPaths) -> None:
    """Write plan.json and config.json. Raises SettingError if the directory is another plan's."""
    sweeps = paths.runs.parent
    try:
        paths.runs.mkdir(parents=True, exist_ok=True)
        paths.root.mkdir(parents=True, exist_ok=True)
        existing = read_json(paths.plan)
        if existing is not None and existing["plan_id"] != plan.plan_id:
            rule = f"belongs to plan {existing['plan_id']}, and these settings make {plan.plan_id}"
            free = f"sweep_dir={paths.root}-{plan.plan_id} (or leave sweep_dir unset)"
            raise SettingError("sweep_dir", paths.root, rule, free)
        settings = asdict(config) | {"sweeps_dir": str(sweeps), "budget": list(config.budgets)}
        write_json(paths.config, settings)
        write_text(paths.plan_csv, plan_csv(plan))
        write_text(paths.plan_page, plan_page(plan, paths.root.name))
        # Last: whoever finds a plan.json finds the rest.
        write_json(paths.plan, plan_document(plan, config))
    except OSError as error:
        rule = f"must be a directory that can be written ({error.strerror}: {error.filename})"
        raise SettingError("sweep_dir", paths.root, rule, "sweeps_dir=DIRECTORY") from None


def _preflight(config: SweepConfig) -> None:
    """Raise PreflightError with all that this machine lacks, before anything is launched."""
    from isosweep.launchers.local import visible_gpus

    missing = _missing_packages("torch", "trl", "transformers", "datasets", *_ANALYSIS_PACKAGES)
    if config.tracking.name == "mlflow":
        missing += _missing_packages("mlflow")
    local = config.launcher.name == "local"
    if local and config.hardware.device == "cuda" and visible_gpus() == 0:
        remedy = (
            "run on a GPU machine, submit to a cluster with launcher=slurm, or set hardware=cpu"
        )
        missing.append((f"a GPU ({config.hardware.name}) on this machine", remedy))
    if importlib.util.find_spec("huggingface_hub") is not None:
        for variant in variants(config):
            missing += missing_weights(variant.config.model)
    missing += _not_trainable(config)
    if missing:
        raise PreflightError(missing)
    if not local:
        from isosweep.launchers.slurm import require_slurm

        require_slurm()


# A planning install (`pip install isosweep`) has none of these.
_ANALYSIS_PACKAGES = ("scipy", "plotly", "matplotlib")


def _missing_packages(*names: str) -> list[tuple[str, str]]:
    return [
        (f"the package {name}", "pip install 'isosweep[train]'")
        for name in names
        if importlib.util.find_spec(name) is None
    ]


def _require_analysis() -> None:
    """Raise PreflightError where this installation cannot analyse."""
    missing = _missing_packages(*_ANALYSIS_PACKAGES)
    if missing:
        raise PreflightError(missing)


def _not_trainable(config: SweepConfig) -> list[tuple[str, str]]:
    """What can be planned and not trained as configured."""
    found = []
    if config.generation.name == "vllm":
        found.append(("generation through vLLM in this version", "set generation=transformers"))
    if config.hardware.devices_per_run > 1:
        found.append(("runs on several devices in this version", "set hardware.devices_per_run=1"))
    slurm = config.launcher.slurm
    asked = slurm.gpus_per_node or {"gres", "gpus", "gpus_per_task"} & set(slurm.additional)
    if config.launcher.name == "slurm" and config.hardware.device == "cuda" and not asked:
        found.append(("GPUs in what each job asks for", "set launcher.slurm.gpus_per_node=1"))
    if any(variant.config.recipe.lora_rank is not None for variant in variants(config)):
        found.append(("LoRA in this version", "set recipe.lora_rank=null"))
    return found


def _places(config: SweepConfig, plan: Plan) -> int:
    """Runs that can be alive at once: as configured, or what this machine or the plan holds."""
    from isosweep.launchers.local import available_cores, visible_gpus

    if config.launcher.max_parallel is not None:
        return config.launcher.max_parallel
    if config.launcher.name == "local" and config.hardware.device == "cpu":
        return available_cores()
    gpus = visible_gpus() if config.launcher.name == "local" else 0
    return gpus // config.hardware.devices_per_run or len(plan.runs)


def _queue(config: SweepConfig, plan: Plan, paths: SweepPaths) -> "RunQueue":
    from isosweep.launchers.local import LocalLauncher, visible_gpus
    from isosweep.launchers.queue import RunQueue
    from isosweep.launchers.slurm import SlurmLauncher

    specs = run_specs(config)
    launcher: Launcher
    if config.launcher.name == "slurm":
        launcher = SlurmLauncher(config.launcher.slurm)
    else:
        gpus = visible_gpus() if config.hardware.device == "cuda" else 0
        launcher = LocalLauncher(gpus=gpus)
    for run in plan.runs:
        root = paths.run(run.run_id)
        root.root.mkdir(parents=True, exist_ok=True)
        if not root.spec.exists():
            spec = specs[run.run_id]
            write_json(root.spec, {"version": 1, "run_id": run.run_id, "spec": spec.to_json()})
    return RunQueue(
        runs=plan.runs,
        unit=plan.budget_unit,
        paths=paths.run,
        launcher=launcher,
        max_parallel=_places(config, plan),
        max_retries=config.launcher.max_retries,
    )


def _run(
    config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console, *, follow: bool
) -> int:
    from isosweep.tracking import BackgroundTracker, make_tracker

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
        make_tracker(paths, plan, parameters, config.tracking, paths.runs.parent),
        config.tracking.interval_s,
        lambda warning: console.print(f"warning: {warning}", style="yellow", markup=False),
    )
    try:
        # A service manager's stop is treated as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with Progress(plan, paths, console) as progress:
            queue.follow(lambda: progress.update(queue.active, len(queue.failed)))
    except KeyboardInterrupt:
        return _interrupted(config, queue, tracker, paths, console)
    for run_id, reason in queue.failed.items():
        console.print(f"failed: {run_id}: {reason}", style="red", markup=False, soft_wrap=True)
    _analyse(config, paths, console)
    figures = sorted(paths.analysis.rglob("*.png"))
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


def _simulate(config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Say what the plan could find, world by world; `simulation.json` keeps it."""
    from isosweep.analysis.power import measure_power
    from isosweep.simulator import worlds

    if len(plan.axes) > 1:
        raise SettingError("grid.axes", "set", "a simulation has no further axes", "grid.axes=null")
    settings = config.simulation
    generations = [cell.num_generations for cell in plan.cells]
    presets = worlds(
        settings.midpoint or math.sqrt(plan.budgets[0] * plan.budgets[-1]),
        smallest_n=min(generations),
        largest_n=max(generations),
    )
    found = []
    for name in settings.worlds:
        power = measure_power(
            plan,
            presets[name],
            config.analysis,
            sweeps=settings.sweeps,
            seed=settings.seed,
            num_problems=config.task.num_eval_problems,
            samples_per_problem=config.evaluation.samples_per_problem,
        )
        found.append(power)
        show_power(power, console)
    document = {"version": 1, "plan_id": plan.plan_id, "settings": asdict(settings)}
    write_json(paths.simulation, {**document, "worlds": [asdict(power) for power in found]})
    console.print(f"simulation: {paths.simulation}", soft_wrap=True)
    return 0


def _analyse(config: SweepConfig, paths: SweepPaths, console: Console) -> int:
    from isosweep.analysis.report import analyse

    plan = plan_from_document(read_json(paths.plan) or {})
    for axes in plan.axes:
        named = [f"{name}={value}" for name, value in axes.items()]
        if config.analysis.metric != "avg":
            named.append(f"{config.analysis.metric}@k")
        view = ",".join(named).replace("/", "_")
        if view:
            console.print(f"{view}:", markup=False)
        _tell(analyse(replace(paths, view=view), config.analysis, axes), console)
    return 0


def _tell(analysis: "Analysis", console: Console) -> None:
    console.print(f"verdict: {analysis.verdict}: {analysis.reason}", markup=False, soft_wrap=True)
    for sentence in analysis.summary:
        console.print(sentence, markup=False, soft_wrap=True)
    if analysis.base_reward is not None and analysis.best_reward is not None:
        console.print(
            f"held-out reward: {analysis.base_reward:.3f} before training, "
            f"{analysis.best_reward:.3f} at the best cell"
        )
    console.print(f"report: {analysis.report}", soft_wrap=True)
