"""What each mode does, made ready: all that can be refused is refused before anything starts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.directory import stored_sweep

# What is left to do; returns the exit status: 0, 1 if runs failed, 130 after Ctrl-C.
Action = Callable[[Console], int]


def prepare(config: SweepConfig) -> Action:
    """What `config.mode` says, ready to be done.

    Raises the IsosweepError of anything that a plan or this machine lacks; what only a stored
    sweep can show is raised when it is done, for an earlier job of a multirun may make that sweep.
    """
    # Each mode imports what it alone needs: `mode=plan` is to answer at once, and `mode=status`.
    match config.mode:
        case "plan":
            from isosweep.modes.run import plan_sweep
            from isosweep.plan.study import resolve
            from isosweep.preflight.functions import require_functions

            study = resolve(config)
            require_functions(study.variants)
            return partial(plan_sweep, study)
        case "run" | "launch":
            from isosweep.modes.price import require_affordable
            from isosweep.modes.run import Launch
            from isosweep.modes.stored import require_room
            from isosweep.plan.study import resolve
            from isosweep.preflight.machine import preflight

            study = resolve(config)
            if config.dry_run:
                from isosweep.modes.dry_run import show_launch

                return partial(show_launch, study)
            require_affordable([study])
            preflight(study.config, study.variants)
            require_room(study)
            return Launch(studies=(study,), follow=config.mode == "run")
        case "resume":
            from isosweep.modes.run import resume_sweep

            return partial(resume_sweep, config)
        case "status" | "list" | "logs" | "cancel" | "clean" | "dashboard":
            return _looking_after(config)
        case "difficulty":
            from isosweep.modes.difficulty import measure_difficulty

            return partial(measure_difficulty, config)
        case "simulate" | "recommend" | "compare" | "calibrate" | "analyse" | "next":
            return _question(config)
        case _ as mode:
            assert_never(mode)


def prepare_all(configs: Sequence[SweepConfig]) -> list[Action]:
    """What the jobs of a multirun do, in their order; raises as `prepare` does.

    A job that comes after a measurement is made ready when its turn comes, since it is planned
    with what was measured. The others are agreed to together, before the first one starts.
    """
    actions: list[Action] = []
    measures = False
    for config in configs:
        actions.append(partial(_prepare_and_do, config) if measures else prepare(config))
        measures |= config.mode in ("calibrate", "difficulty")
    return _launched_together(actions)


def _launched_together(actions: list[Action]) -> list[Action]:
    """Launches are one, in the place of the first: one question, one queue, one progress."""
    if len(actions) < 2:
        return actions
    from isosweep.modes.run import Launch, together

    launches = [action for action in actions if isinstance(action, Launch)]
    if len(launches) < 2:
        return actions
    first = actions.index(launches[0])
    others = [action for action in actions if not isinstance(action, Launch)]
    return [*others[:first], together(launches), *others[first:]]


def _prepare_and_do(config: SweepConfig, console: Console) -> int:
    return prepare(config)(console)


def _looking_after(config: SweepConfig) -> Action:
    """A mode that looks at sweeps, stops their jobs, or removes what none needs."""
    if config.mode == "status":
        from isosweep.modes.status import sweep_status

        return partial(sweep_status, config)
    if config.mode == "list":
        from isosweep.modes.listing import list_sweeps

        return partial(list_sweeps, config)
    if config.mode == "logs":
        from isosweep.modes.logs import show_logs

        return partial(show_logs, config)
    if config.mode == "cancel":
        from isosweep.modes.cancel import cancel_sweep

        return partial(cancel_sweep, config)
    if config.mode == "dashboard":
        from isosweep.modes.dashboard import show_dashboard

        return partial(show_dashboard, config)
    from isosweep.modes.clean import clean_sweeps

    return partial(clean_sweeps, config)


def _question(config: SweepConfig) -> Action:
    """A mode that asks something of records or of worlds, and starts no run."""
    from isosweep.preflight.machine import require_analysis

    require_analysis()
    if config.mode == "simulate":
        from isosweep.modes.simulate import simulate_sweeps
        from isosweep.plan.study import resolve

        return partial(simulate_sweeps, resolve(config))
    if config.mode == "recommend":
        from isosweep.modes.recommend import recommend_split

        return partial(recommend_split, config)
    if config.mode == "compare":
        from isosweep.modes.compare import compare_sweeps

        return partial(compare_sweeps, config)
    if config.mode == "next":
        from isosweep.modes.proposal import propose_next

        return partial(propose_next, config)
    if config.mode == "calibrate":
        from isosweep.modes.calibrate import calibrate_sweep

        return partial(calibrate_sweep, config)
    return partial(_analyse, config)


def _require_own_unit(config: SweepConfig, stored: SweepConfig) -> None:
    """Raise SettingError where the command names another unit than that of the sweep's budgets."""
    asked, own = config.budget_unit, stored.budget_unit
    if "budget_unit" in config.given and asked != own:
        rule = (
            f"this sweep's budgets are in {own}; what it has spent is analysed by other units too"
        )
        raise SettingError("budget_unit", asked, rule, f"analysis.compute_axis={asked}")


def _analyse(config: SweepConfig, console: Console) -> int:
    from isosweep.modes.analyse import analyse_sweep
    from isosweep.modes.track import asked_tracking, catch_up

    # What is asked of the records is this command's to say, not the sweep's.
    sweep = stored_sweep(config)
    _require_own_unit(config, sweep.config)
    tracking = asked_tracking(config, sweep.config)
    asked = replace(sweep.config, analysis=config.analysis, tracking=tracking)
    status = analyse_sweep(asked, sweep.plan, sweep.paths, console)
    catch_up(asked, sweep.plan, sweep.paths, console)
    return status
