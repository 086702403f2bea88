"""What each mode does, made ready: all that can be refused is refused before anything starts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import Mode, SweepConfig
from isosweep.errors import SettingError

if TYPE_CHECKING:
    from isosweep.plan.study import Study

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
    with what was measured. The price of all launches is asked for with the first.
    """
    actions: list[Action] = []
    measures = False
    for config in configs:
        actions.append(partial(_prepare_and_do, config) if measures else prepare(config))
        measures |= config.mode == "difficulty"
    _require_own_directories([each.study for each in actions if isinstance(each, Planned)])
    launches = [each for each in actions if isinstance(each, Planned) and each.launches]
    if launches[1:]:
        from isosweep.modes.price import require_affordable

        studies = tuple(each.study for each in launches)
        require_affordable(*studies)
        first = actions.index(launches[0])
        actions = [
            Planned(study=each.study, priced=studies if place == first else ())
            if isinstance(each, Planned)
            else each
            for place, each in enumerate(actions)
        ]
    return actions


def _require_own_directories(studies: Sequence["Study"]) -> None:
    """Raise SettingError where one directory would have several plans, or ways to choose runs."""
    from isosweep.modes.sweeps import sweep_paths

    known: dict[Path, Study] = {}
    for study in studies:
        root = sweep_paths(study).root
        first = known.setdefault(root, study)
        if first.plan.plan_id != study.plan.plan_id:
            rule = "is one directory, and the sweeps of these jobs are several"
            nearest = f"'sweep={root.name}-${{model.name}}', or whatever differs between them"
            given = ",".join(study.config.sweep or [root.name])
            raise SettingError("sweep", given, rule, nearest)
        if first.config.search != study.config.search:
            rule = f"these jobs are one sweep, {root}, and differ in how its runs are chosen"
            names = f"{first.config.search.name},{study.config.search.name}"
            raise SettingError("search", names, rule, "one command after another")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A study and what its mode does with it. `priced`: whose price it asks for first."""

    study: "Study"
    priced: tuple["Study", ...]

    @property
    def launches(self) -> bool:
        """Whether runs are started."""
        return self.study.config.mode != "plan" and not self.study.config.dry_run

    def __call__(self, console: Console) -> int:
        """Do it; returns as an Action."""
        from isosweep.modes.launch import launch, plan_sweep, show_launch

        if self.launches:
            return launch(self.study, console, self.priced)
        return (show_launch if self.study.config.dry_run else plan_sweep)(self.study, console)


def _prepare_and_do(config: SweepConfig, console: Console) -> int:
    return prepare(config)(console)


def study_of(config: SweepConfig) -> "Study":
    """What a command that plans works out, with the budgets that its total chooses, if it has one;
    raises as `resolve`."""
    if config.total is not None:
        from isosweep.modes.total import resolve_total

        return resolve_total(config)
    from isosweep.plan.study import resolve

    return resolve(config)


def prepare(config: SweepConfig) -> Action:
    """What `config.mode` says, ready to be done.

    Raises the IsosweepError of anything that a plan or this machine lacks; what only a stored
    sweep can show is raised when it is done, for an earlier job of a multirun may make that sweep.
    """
    # Each mode imports what it alone needs: `mode=plan` is to answer at once, and `mode=status`.
    if config.mode in ANALYSES:
        from isosweep.preflight.packages import ANALYSIS, require_packages

        require_packages(*ANALYSIS)
    if config.mode in FUNCTIONS:
        module, function = FUNCTIONS[config.mode]
        return partial(getattr(import_module(f"isosweep.modes.{module}"), function), config)
    if config.steps is not None:
        from isosweep.modes.show_plan import describe_runs

        return partial(describe_runs, config)
    from isosweep.modes.launch import require_plan
    from isosweep.modes.sweeps import places_of, sweep_paths
    from isosweep.preflight.plan import require_disk, require_functions

    study = study_of(config)
    paths, planned = sweep_paths(study), Planned(study=study, priced=(study,))
    if planned.launches:
        from isosweep.modes.price import require_affordable
        from isosweep.preflight.machine import preflight

        require_affordable(study)
        preflight(study.config, study.variants)
        require_disk(study, paths, places_of(study))
    elif config.mode == "plan":
        require_functions(study.variants)
    require_plan(study, paths)
    return planned
