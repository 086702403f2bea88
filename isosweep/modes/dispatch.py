"""What each mode does, made ready: all that can be refused is refused before anything starts."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.modes.analyse import analyse_sweep
from isosweep.modes.cancel import cancel_sweep
from isosweep.modes.compare import compare_sweeps
from isosweep.modes.difficulty import measure_difficulty
from isosweep.modes.directory import stored_sweep
from isosweep.modes.display import show_status
from isosweep.modes.recommend import recommend_split
from isosweep.modes.run import plan_sweep, resume_sweep, run_sweep
from isosweep.modes.simulate import simulate_sweeps
from isosweep.plan.calibration import calibrate
from isosweep.plan.study import resolve
from isosweep.preflight.machine import preflight, require_analysis

# What is left to do; returns the exit status: 0, 1 if runs failed, 130 after Ctrl-C.
Action = Callable[[Console], int]


def prepare(config: SweepConfig) -> Action:
    """What `config.mode` says, ready to be done.

    Raises the IsosweepError of anything that a plan or this machine lacks; what only a stored
    sweep can show is raised when it is done, for an earlier job of a multirun may make that sweep.
    """
    match config.mode:
        case "plan":
            return partial(plan_sweep, resolve(config))
        case "run" | "launch":
            study = resolve(config)
            preflight(study.config, study.variants)
            return partial(run_sweep, study, follow=config.mode == "run")
        case "simulate":
            require_analysis()
            return partial(simulate_sweeps, resolve(config))
        case "resume":
            return partial(resume_sweep, config)
        case "difficulty":
            return partial(measure_difficulty, config)
        case "status":
            return partial(_status, config)
        case "cancel":
            return partial(cancel_sweep, config)
        case "recommend" | "compare" | "calibrate" | "analyse":
            require_analysis()
            actions = {
                "recommend": recommend_split,
                "compare": compare_sweeps,
                "calibrate": _calibrate,
                "analyse": _analyse,
            }
            return partial(actions[config.mode], config)
        case _ as mode:
            assert_never(mode)


def _status(config: SweepConfig, console: Console) -> int:
    sweep = stored_sweep(config)
    show_status(sweep.plan, sweep.paths, sweep.config.health.stop, console)
    return 0


def _calibrate(config: SweepConfig, console: Console) -> int:
    sweep = stored_sweep(config)
    console.print(calibrate(sweep.config, sweep.plan, sweep.paths), soft_wrap=True)
    return 0


def _analyse(config: SweepConfig, console: Console) -> int:
    # What is asked of the records is this command's to say, not the sweep's.
    sweep = stored_sweep(config)
    asked = replace(sweep.config, analysis=config.analysis)
    return analyse_sweep(asked, sweep.plan, sweep.paths, console)
