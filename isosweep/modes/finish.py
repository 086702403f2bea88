"""What is done with a sweep whose runs are over: analysis, tracking, exit status."""

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.errors import SettingError
from isosweep.modes.analyse import analyse_sweep
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.modes.on_finish import Ended, Finish, on_finish
from isosweep.modes.queues import Sweep
from isosweep.modes.stored import note_uses
from isosweep.modes.terminal import say, warn
from isosweep.modes.track import close_tracker
from isosweep.plan.standing import standing
from isosweep.plan.study import Study, resolve_stored
from isosweep.plan.tally import Standing, Tally

if TYPE_CHECKING:
    from isosweep.tracking.background import BackgroundTracker


def finish(
    sweep: Sweep, failed: dict[str, str], tracker: "BackgroundTracker", console: Console
) -> int:
    """Analyse the sweep and close its tracker; 1 if runs `failed` (why, by id), else 0."""
    status = complete(sweep, failed, console)
    close_tracker(tracker, sweep.paths, "FAILED" if failed else "FINISHED", console)
    return status


def complete(sweep: Sweep, failed: dict[str, str], console: Console) -> int:
    """Say which runs `failed` or were cancelled, and analyse the sweep; 1 if any were, else 0."""
    study = sweep.study
    standings = (
        standing(study.plan, sweep.paths.run, study.config.health.stop).runs if failed else {}
    )
    for run_id, reason in failed.items():
        word = "cancelled" if standings.get(run_id) is Standing.CANCELLED else "failed"
        say(console, f"{word}: {run_id}: {reason.removeprefix('cancelled ')}", style="red")
    analyse_sweep(sweep.study.config, sweep.study.plan, sweep.paths, console)
    return 1 if failed else 0


def tell(sweep: Sweep, status: Ended, failed: int, console: Console) -> None:
    """Do what `launcher.on_finish` asks for; what goes wrong with that is a line."""
    action = sweep.study.config.launcher.on_finish
    if action is None:
        return
    study, paths = sweep.study, sweep.paths
    runs = standing(study.plan, paths.run, study.config.health.stop).runs
    ended = Finish(
        sweep_dir=str(paths.root),
        status=status,
        report=str(paths.report) if paths.report.exists() else "",
        done=Tally.of(runs).counts[Standing.DONE],
        failed=failed,
    )
    if (problem := on_finish(action, ended)) is not None:
        warn(console, problem)


def over_all_budgets(sweeps: list[Sweep], console: Console) -> None:
    """One more analysis for sweeps that differ in nothing but budget, over all their budgets.

    Their runs are its runs, so that nothing is trained for it.
    """
    alike: list[list[Sweep]] = []
    for sweep in sweeps:
        group = next((each for each in alike if _same_question(each[0], sweep)), None)
        if group is None:
            alike.append([sweep])
        else:
            group.append(sweep)
    for group in alike:
        if len(group) > 1:
            _analyse_together(group, console)


def _same_question(first: Sweep, second: Sweep) -> bool:
    return _without_budget(first.study) == _without_budget(second.study)


def _without_budget(study: Study) -> object:
    return replace(study.config, budget=(1.0,), name=None, sweep_dir=None)


def _analyse_together(sweeps: list[Sweep], console: Console) -> None:
    config = sweeps[0].study.config
    budgets = tuple(sorted({budget for s in sweeps for budget in s.study.config.budgets}))
    try:
        study = resolve_stored(replace(config, budget=budgets, name=None, sweep_dir=None))
    except SettingError as error:
        say(console, f"no analysis over all budgets: {error}")
        return
    paths = sweep_paths(study)
    store_plan(study, paths)
    note_uses(study, paths)
    listed = ", ".join(f"{budget:g}" for budget in budgets)
    say(console, f"over all budgets of these sweeps ({listed}): {paths.root}")
    analyse_sweep(study.config, study.plan, paths, console)
