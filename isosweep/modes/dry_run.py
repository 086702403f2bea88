"""`mode=launch dry_run=true`: what would be submitted, and nothing else."""

import sys
from collections.abc import Sequence

from rich.console import Console

from isosweep.launchers.slurm import SlurmLauncher
from isosweep.modes.directory import sweep_paths
from isosweep.modes.run import show_site
from isosweep.modes.sets import require_sets
from isosweep.modes.terminal import say
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.study import Study
from isosweep.plan.tally import Standing
from isosweep.store.paths import SweepPaths
from isosweep.store.state import view_run

_AT_WORK = (Standing.QUEUED, Standing.RUNNING)


def show_launch(study: Study, console: Console) -> int:
    """Print the script of every job array, or the command of every run, that a launch would start,
    longest run first; returns 0. Raises SettingError as `require_sets`."""
    paths = sweep_paths(study)
    require_sets(study, paths)
    runs = sorted(_to_launch(study, paths), key=lambda run: -run.seconds)
    say(console, f"dry run: {len(runs)} of {len(study.plan.runs)} runs would be submitted")
    show_site(study.config, console)
    if study.config.launcher.name == "slurm":
        for batch, text in SlurmLauncher(study.config).scripts(runs, paths.root):
            _write(batch, text)
    else:
        for run in runs:
            root = paths.run(run.run_id).root
            _write([run], f"{sys.executable} -P -m isosweep.training {root}\n")
    return 0


def _write(runs: Sequence[PlannedRun], text: str) -> None:
    """As it is, so that it can be kept as a file: no terminal's width applies to a script."""
    longest = max(run.seconds for run in runs) / 3600
    about = f"{len(runs)} runs of up to" if len(runs) > 1 else "a run of"
    lines = [f"# {about} {longest:.3g} h: {' '.join(run.run_id for run in runs)}", text, ""]
    sys.stdout.write("\n".join(lines))


def _to_launch(study: Study, paths: SweepPaths) -> list[PlannedRun]:
    """The runs that are not at their end, and that nobody works on."""
    plan, stop = study.plan, study.config.health.stop
    standings = {
        run.run_id: run_standing(run, view_run(paths.run(run.run_id)), plan.budget_unit, stop)
        for run in plan.runs
    }
    return [
        run
        for run in plan.runs
        if not standings[run.run_id].ended and standings[run.run_id] not in _AT_WORK
    ]
