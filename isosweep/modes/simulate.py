"""`mode=simulate`: what a plan could find, before it is paid for."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from isosweep import words
from isosweep.errors import SettingError
from isosweep.evidence import MIN_GENERATIONS
from isosweep.files import JsonObject, write_json
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.modes.terminal import say
from isosweep.plan.study import Study
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import price

if TYPE_CHECKING:
    from isosweep.analysis.simulation.designs import Search
    from isosweep.analysis.simulation.power import Power


def simulate_sweeps(study: Study, console: Console) -> int:
    """Analyse simulated sweeps against their truth: of the plan, or of designs of its compute.

    `simulation.json` keeps what came out. Raises SettingError for a plan with further axes, and for
    a search where no other design takes its compute.
    """
    if len(study.plan.axes) > 1:
        raise SettingError("grid.axes", "set", "a simulation has no further axes", "grid.axes=null")
    paths = sweep_paths(study)
    settings = study.config.simulation
    found = _search(study, console, paths) if settings.designs else _power(study, console, paths)
    document = {
        "version": 1,
        "plan_id": study.plan.plan_id,
        "settings": asdict(settings),
        **found,
    }
    write_json(paths.simulation, document)
    say(console, f"simulation: {paths.simulation}")
    return 0


def _search(study: Study, console: Console, paths: SweepPaths) -> JsonObject:
    """Which design of the plan's compute decides most."""
    from isosweep.analysis.simulation.designs import TOLERANCE, designs_of, num_sweeps, search

    settings = study.config.simulation
    if (known := len({run.num_generations for run in study.plan.runs})) < MIN_GENERATIONS:
        rule = f"a search takes {MIN_GENERATIONS} n or more, and the plan has {known}"
        raise SettingError("simulation.designs", settings.designs, rule, "simulation.designs=0")
    designs = designs_of(study, settings.designs)
    store_plan(study, paths)

    def report(line: str) -> None:
        say(console, line)

    report(
        f"{len(designs)} designs of {designs[0].flops:.3g} FLOPs within {TOLERANCE:.0%} (training, "
        f"generation, evaluation), in the worlds {', '.join(settings.worlds)}: about "
        f"{num_sweeps(len(designs), settings.sweeps, len(settings.worlds))} simulated sweeps, half "
        "a second to two seconds each"
    )
    found = search(study, designs, report)
    _show_search(found, console)
    return {
        "flops": found.flops,
        "tolerance": TOLERANCE,
        "truths": {name: truth.verdict for name, truth in found.truths.items()},
        "designs": [
            {
                "overrides": list(one.design.overrides),
                "flops": one.design.flops,
                "device_hours": one.design.device_hours,
                "runs": len(one.design.plan.runs),
                "num_problems": one.design.config.task.num_eval_problems,
                "sweeps": one.sweeps,
                "right": one.right,
                "false": one.false,
                "verdicts": {world: dict(counts) for world, counts in one.verdicts.items()},
                "tied_with_best": tied,
            }
            for one, tied in zip(found.scored, found.tied, strict=True)
        ],
    }


def _show_search(found: "Search", console: Console) -> None:
    """Print designs of one plan's compute, the best first, and what is typed to get each."""
    from isosweep.analysis.simulation.designs import share_interval

    table = Table("", "decided rightly", "falsely", "runs", "problems", "device time", "sweeps")
    lines = []
    for place, (one, tied) in enumerate(zip(found.scored, found.tied, strict=True), start=1):
        right, false = (
            f"{count / one.sweeps:.0%} [{low:.0%}, {high:.0%}]"
            for count in (one.right, one.false)
            for low, high in [share_interval(count, one.sweeps)]
        )
        sign = "=" if tied and place > 1 else ""
        table.add_row(
            f"{place}{sign}",
            right,
            false,
            str(len(one.design.plan.runs)),
            f"{one.design.config.task.num_eval_problems:,}",
            price(one.design.device_hours, one.design.plan.pricing),
            str(one.sweeps),
        )
        lines.append(f"{place}{sign}: {' '.join(one.design.overrides) or 'the plan itself'}")
    console.print(table)
    say(console, words.line("simulation", "designs", found.truths))
    say(console, *lines)


def _power(study: Study, console: Console, paths: SweepPaths) -> JsonObject:
    """How the plan fares in each world."""
    from isosweep.analysis.simulation.power import measure_power
    from isosweep.analysis.simulation.presets import presets_of
    from isosweep.analysis.simulation.sweep import read_plan

    config, plan, settings = study.config, study.plan, study.config.simulation
    store_plan(study, paths)
    known = presets_of(read_plan(plan, config.analysis), settings.midpoint)
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
        _show_power(power, console)
    return {"worlds": [asdict(power) for power in powers]}


def _show_power(power: "Power", console: Console) -> None:
    """Print what the analysis made of one simulated world."""
    say(console, *words.lines("simulation", "power", power))
    table = Table(
        "budget",
        *("best n", "interval covers", "doublings"),
        *("smallest good enough", "interval covers", "doublings"),
        *("set covers", "n in it", "lost"),
    )
    for at in power.budgets:
        table.add_row(
            f"{at.budget:.3g}",
            "any" if at.best_n is None else f"{at.best_n:.3g}",
            "" if at.covered is None else f"{at.covered:.0%}",
            "" if at.width is None else f"{at.width:.1f}",
            "any" if at.enough_n is None else f"{at.enough_n:.3g}",
            "" if at.enough_covered is None else f"{at.enough_covered:.0%}",
            "" if at.enough_width is None else f"{at.enough_width:.1f}",
            f"{at.held:.0%}",
            f"{at.set_size:.1f}",
            f"{at.lost:.4f}",
        )
    console.print(table)
