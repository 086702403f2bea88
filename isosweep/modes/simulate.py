"""`mode=simulate`: what a plan could find, before it is paid for."""

from dataclasses import asdict

from rich.console import Console

from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.modes.display_results import show_power
from isosweep.plan.study import Study


def simulate_sweeps(study: Study, console: Console) -> int:
    """Analyse simulated sweeps, world by world, against their truth; `simulation.json` keeps it.

    Raises SettingError for a plan with further axes.
    """
    from isosweep.analysis.simulation.power import measure_power
    from isosweep.analysis.simulation.presets import presets

    config, plan, settings = study.config, study.plan, study.config.simulation
    paths = sweep_paths(study)
    store_plan(study, paths)
    if len(plan.axes) > 1:
        raise SettingError("grid.axes", "set", "a simulation has no further axes", "grid.axes=null")
    generations = [cell.num_generations for cell in plan.cells]
    known = presets(
        plan.budgets[0],
        plan.budgets[-1],
        smallest_n=min(generations),
        largest_n=max(generations),
        midpoint=settings.midpoint,
    )
    powers = []
    for name in settings.worlds:
        power = measure_power(
            plan,
            known[name],
            config.analysis,
            sweeps=settings.sweeps,
            seed=settings.seed,
            num_problems=config.task.num_eval_problems,
            samples_per_problem=config.evaluation.samples_per_problem,
        )
        powers.append(power)
        show_power(power, console)
    document = {
        "version": 1,
        "plan_id": plan.plan_id,
        "settings": asdict(settings),
        "worlds": [asdict(power) for power in powers],
    }
    write_json(paths.simulation, document)
    console.print(f"simulation: {paths.simulation}", soft_wrap=True)
    return 0
