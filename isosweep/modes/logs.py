"""`mode=logs`: what the jobs of one run have printed."""

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.choice import choose
from isosweep.modes.directory import StoredSweep, stored_sweep
from isosweep.modes.logfiles import last_lines, log_files
from isosweep.modes.terminal import printable
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.store.state import view_run

# Runs that are named where the choice fits more than one.
_NAMED = 8


def show_logs(config: SweepConfig, console: Console) -> int:
    """Print the last `lines` lines of each log of the run that `runs` chooses; returns 0.

    They are those of its newest submission. Raises SettingError where `runs` fits more than one.
    """
    sweep = stored_sweep(config)
    run = _only(config, sweep)
    paths = sweep.paths.run(run.run_id)
    files = log_files(paths)
    if not files:
        console.print(f"{run.run_id} has no log yet: {paths.logs}", markup=False, soft_wrap=True)
    for path in files:
        print(printable(f"==> {path} <=="), file=console.file)
        for line in last_lines(path, config.lines):
            print(printable(line), file=console.file)
    return 0


def _only(config: SweepConfig, sweep: StoredSweep) -> PlannedRun:
    choice = choose(config.runs, sweep.plan)
    runs = list(choice.runs)
    if choice.standings:
        unit, stop = sweep.plan.budget_unit, sweep.config.health.stop
        runs = [
            run
            for run in runs
            if choice.holds(run_standing(run, view_run(sweep.paths.run(run.run_id)), unit, stop))
        ]
    exact = [run for run in runs if [run.run_id] == config.runs]
    runs = exact or runs
    if len(runs) == 1:
        return runs[0]
    known = runs or list(sweep.plan.runs)
    nearest = ", ".join(f"runs={run.run_id}" for run in known[:_NAMED])
    given = f"[{','.join(config.runs)}]"
    rule = f"fits {len(runs)} runs, and the logs are shown of one"
    raise SettingError("runs", given, rule, nearest + (", ..." if known[_NAMED:] else ""))
