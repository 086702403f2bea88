"""What each mode does, made ready: all that can be refused is refused before anything starts."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

from rich.console import Console

from isosweep.config.sweep import Mode, SweepConfig
from isosweep.errors import SettingError

# What is left to do; returns the exit status: 0, 1 if runs failed, 130 after Ctrl-C.
Action = Callable[[Console], int]

# The module of `isosweep.modes` and its function, called with the command's config and a console,
# of each mode that plans nothing to launch.
FUNCTIONS: dict[Mode, tuple[str, str]] = {
    "resume": ("launch", "resume_sweep"),
    "status": ("status", "sweep_status"),
    "cancel": ("cancel", "cancel_sweep"),
    "clean": ("clean", "clean_sweeps"),
    "dashboard": ("dashboard", "show_dashboard"),
    "difficulty": ("difficulty", "measure_difficulty"),
    "analyse": ("analyse", "analyse_stored"),
    "compare": ("analyse", "compare_sweeps"),
    "next": ("next", "propose_next"),
    "recommend": ("recommend", "recommend_split"),
    "import": ("importing", "import_runs"),
}
ANALYSES = ("import", "analyse", "compare", "next", "recommend")


def prepare_all(configs: Sequence[SweepConfig]) -> list[Action]:
    """What the jobs of a multirun do, in their order; raises as `prepare` does.

    A job that comes after a measurement is made ready when its turn comes, since it is planned
    with what was measured.
    """
    _require_own_names(configs)
    actions: list[Action] = []
    measures = False
    for config in configs:
        actions.append(partial(_prepare_and_do, config) if measures else prepare(config))
        measures |= config.mode == "difficulty"
    return actions


def _require_own_names(configs: Sequence[SweepConfig]) -> None:
    """Raise SettingError where several jobs would make a sweep of one name."""
    known = set[str]()
    for config in configs:
        if config.mode not in ("plan", "run", "launch"):
            continue
        for name in config.sweep or ():
            if name in known:
                rule = "is one directory, and the sweeps of these jobs are several"
                nearest = f"'sweep={name}-${{model.name}}', or whatever differs between them"
                raise SettingError("sweep", name, rule, nearest)
            known.add(name)


def _prepare_and_do(config: SweepConfig, console: Console) -> int:
    return prepare(config)(console)


def prepare(config: SweepConfig) -> Action:
    """What `config.mode` says, ready to be done.

    Raises the IsosweepError of anything that a plan or this machine lacks; what only a stored
    sweep can show is raised when it is done, for an earlier job of a multirun may make that sweep.
    """
    # Each mode imports what it alone needs: `mode=plan` is to answer at once, and `mode=status`.
    if config.mode in ANALYSES:
        from isosweep.preflight.machine import ANALYSIS, require_packages

        require_packages(*ANALYSIS)
    if config.mode in FUNCTIONS:
        module, function = FUNCTIONS[config.mode]
        return partial(getattr(import_module(f"isosweep.modes.{module}"), function), config)
    if config.steps is not None:
        from isosweep.modes.single import describe_runs

        return partial(describe_runs, config)
    from isosweep.plan.study import resolve

    study = resolve(config)
    if config.mode == "plan":
        from isosweep.modes.launch import plan_sweep
        from isosweep.preflight.plan import require_functions

        require_functions(study.variants)
        return partial(plan_sweep, study)
    from isosweep.modes.launch import launch, show_launch

    if config.dry_run:
        return partial(show_launch, study)
    from isosweep.modes.price import require_affordable
    from isosweep.modes.sweeps import places_of, sweep_paths
    from isosweep.preflight.machine import preflight
    from isosweep.preflight.plan import require_disk

    require_affordable(study)
    preflight(study.config, study.variants)
    require_disk(study, sweep_paths(study), places_of(study))
    return partial(launch, study, follow=config.mode == "run")
