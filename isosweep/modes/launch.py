"""`mode=plan`, `run`, `launch` and `resume`: plan, launch, follow, analyse."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.base import replaced
from isosweep.config.launcher import overridden
from isosweep.config.trust import executed, require_own
from isosweep.modes.price import at_launch, confirm, require_affordable
from isosweep.modes.run_files import require_sets
from isosweep.modes.show_plan import described_losses, show_plan
from isosweep.modes.signals import INTERRUPTED
from isosweep.modes.sweeps import own_plan, places_of, store_plan, stored_sweep, sweep_paths
from isosweep.modes.terminal import progress_console, say, show_json, warn
from isosweep.plan.cells import PlannedRun, predicted
from isosweep.plan.document import plan_document
from isosweep.plan.standing import run_standing, standing
from isosweep.plan.study import Study
from isosweep.plan.tally import Standing, Tally
from isosweep.preflight.plan import require_disk, require_search
from isosweep.store.attempts import newest
from isosweep.store.drivers import living_driver
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import duration

if TYPE_CHECKING:
    from isosweep.config.sweep import SweepConfig
    from isosweep.modes.follow import DrivenSweep

# Runs at once where neither launcher.max_parallel nor this machine says how many: a decision of a
# search that is made for many runs knows what the ones before have shown.
_PLACES = 8
# Of the document that ends a command: raised when a field goes or changes its meaning.
_VERSION = 1


def plan_sweep(study: Study, console: Console) -> int:
    """Show and store the plan, or print its document; returns 0."""
    output, console = console, progress_console(study.config, console)
    paths = sweep_paths(study)
    require_plan(study, paths)
    store_plan(study, paths, show_plan(study, paths, console))
    show_site(study.config, console)
    for variant in study.variants:
        if variant.unmeasured:
            model, task = variant.config.model.name, variant.config.task
            parts = {name: part.difficulty for name, part in task.parts.items() if part.difficulty}
            asked = parts or task.difficulty
            say(
                console,
                f"task.difficulty={asked}: the difficulty of these problems for {model} has not "
                "been measured; the plan assumes that there are enough of them. Run the same "
                "command with mode=difficulty before mode=run",
            )
    say(console, f"files: {paths.plan}; as a page: {paths.plan_page}")
    if study.config.format == "json":
        hours, pricing = study.device_hours, study.plan.pricing
        spent = {"device_hours": hours, "dollars": pricing.dollars(hours)}
        document = {"sweep_dir": str(paths.root), "price": spent, **plan_document(study.plan)}
        show_json(output, document)
    return 0


def require_plan(study: Study, paths: SweepPaths) -> None:
    """Raise SettingError where the directory has another plan, or the runs cannot be trained as
    they are asked for."""
    own_plan(study, paths)
    require_search(study)
    require_sets(study, paths)


def show_site(config: "SweepConfig", console: Console) -> None:
    """Say which settings of Slurm jobs are the site's, and where they come from."""
    if config.launcher.name != "slurm":
        return
    from isosweep.launchers.sbatch import site_options

    for option, value in site_options(config.launcher.slurm).items():
        setting = f"launcher.slurm.{'additional.' if option == 'reservation' else ''}{option}"
        say(console, f"{setting}={value} comes from SBATCH_{option.upper()} in the environment")


def show_launch(study: Study, console: Console) -> int:
    """Print the script of every job array, or the command of every run, that a launch would start,
    longest run first; returns 0."""
    from isosweep.launchers.slurm import SlurmLauncher

    paths = sweep_paths(study)
    found = standing(study.plan, paths.run, study.config.health.stop).runs
    left = (r for r in study.plan.runs if not found[r.run_id].ended)
    runs = sorted(
        (run for run in left if found[run.run_id] not in (Standing.QUEUED, Standing.RUNNING)),
        key=lambda run: -predicted(run.seconds),
    )
    say(console, f"dry run: {len(runs)} of {len(study.plan.runs)} runs would be submitted")
    say(console, *at_launch(study))
    show_site(study.config, console)
    scripts: Iterable[tuple[list[PlannedRun], str]]
    if study.config.launcher.name == "slurm":
        scripts = SlurmLauncher(study.config).scripts(runs, paths.root)
    else:
        command = f"{sys.executable} -P -m isosweep.training"
        scripts = [([run], f"{command} {paths.run(run.run_id).root}\n") for run in runs]
    for batch, text in scripts:
        longest = max(predicted(run.seconds) for run in batch)
        about = f"{len(batch)} runs of up to" if len(batch) > 1 else "a run of"
        # As it is, so that it can be kept as a file: no terminal's width applies to a script.
        names = " ".join(run.run_id for run in batch)
        sys.stdout.write(f"# {about} {duration(longest)}: {names}\n{text}\n")
    return 0


def launch(study: Study, console: Console, priced: Sequence[Study]) -> int:
    """Show the plan, ask whether all that is `priced` may be spent, store the plan, and launch;
    returns 0, 1 if runs failed, or INTERRUPTED.

    A sweep that was launched before keeps its settings until then, and while another process
    follows it.
    """
    from isosweep.modes.follow import follow_sweep, launch_sweep

    output, console = console, progress_console(study.config, console)
    paths = sweep_paths(study)
    # Another job of the command, or another command, may have been there since.
    require_plan(study, paths)
    notes = show_plan(study, paths, console)
    show_site(study.config, console)
    if confirm(priced, console) == INTERRUPTED:
        return INTERRUPTED
    if living_driver(paths.drivers) is None:
        store_plan(study, paths, notes, launches=True)
    sweep = _driven(study, paths)
    go = follow_sweep if study.config.mode == "run" else launch_sweep
    return _show_end(sweep, go(sweep, console), output)


def _show_end(sweep: "DrivenSweep", status: int, output: Console) -> int:
    """Print the document of how the sweep stands now, for `format=json`; returns `status`."""
    if sweep.study.config.format == "json":
        stored, analysis = sweep.stored, sweep.study.config.analysis
        counted = Tally.of(stored.standing().runs, stored.collapsed()).counts
        views = (replace(sweep.paths, view=analysis.view(axes)) for axes in stored.plan.axes)
        document = {
            "version": _VERSION,
            "sweep": stored.name,
            "sweep_dir": str(sweep.paths.root),
            "exit_status": status,
            "counts": {standing.value: number for standing, number in counted.items()},
            "answers": [str(view.answer) for view in views if view.answer.exists()],
        }
        show_json(output, document)
    return status


def resume_sweep(config: "SweepConfig", console: Console) -> int:
    """Finish a stored sweep with the settings that it holds; returns as `launch` does.

    Whether it is asked, and settings of the launcher that are given, are this command's to say.
    """
    from isosweep.modes.follow import follow_sweep
    from isosweep.modes.tracking import asked_tracking
    from isosweep.preflight.machine import preflight

    output, console = console, progress_console(config, console)
    sweep = stored_sweep(config)
    launcher = overridden(sweep.config.launcher, config.launcher, config.given)
    asked = replaced(
        sweep.config,
        launcher=launcher,
        tracking=asked_tracking(config, sweep.config),
        confirm=config.confirm,
        trust=config.trust,
        format=config.format,
    )
    require_own(*executed(asked))
    study = replace(sweep.study(), config=asked)
    require_affordable(study)
    preflight(study.config, study.variants)
    require_disk(study, sweep.paths, places_of(study))
    require_sets(study, sweep.paths)
    show_site(study.config, console)
    warn(console, *described_losses(study, sweep.paths))
    if confirm([study], console) == INTERRUPTED:
        return INTERRUPTED
    given_up = {} if config.retry_failed else failed_for_good(study, sweep.paths)
    if given_up:
        say(console, f"{len(given_up)} runs failed for good; retry_failed=true tries them again")
    driven = _driven(study, sweep.paths, given_up)
    return _show_end(driven, follow_sweep(driven, console), output)


def failed_for_good(study: Study, paths: SweepPaths) -> dict[str, str]:
    """The runs that a driver gave up, and why."""
    unit, stop = study.plan.budget_unit, study.config.health.stop
    attempts = ((run, newest(paths.run(run.run_id))) for run in study.plan.runs)
    return {
        run.run_id: (attempt and attempt.reason) or "failed"
        for run, attempt in attempts
        if run_standing(run, attempt, unit, stop) is Standing.FAILED
    }


def _driven(
    study: Study, paths: SweepPaths, given_up: Mapping[str, str] | None = None
) -> "DrivenSweep":
    from isosweep.modes.follow import DrivenSweep

    search = None
    if study.config.search.searches:
        from isosweep.search.asking import Search

        search = Search(study.plan, paths, study.config, places_of(study) or _PLACES)
    return DrivenSweep(study=study, paths=paths, given_up=given_up or {}, search=search)
