"""A sweep whose records never were on disk."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from isosweep.analysis.curves import Ending, SweepData, judged_curves
from isosweep.analysis.readings import read_runs
from isosweep.analysis.records import comparable, make_curve
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import Evaluated, Seed, simulate_records
from isosweep.analysis.simulation.worlds import World
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan
from isosweep.store.records import Record

if TYPE_CHECKING:
    from isosweep.config.sweep import SweepConfig


def simulated_sweep(
    plan: Plan, records: Mapping[str, Sequence[Record]], config: AnalysisConfig | None = None
) -> SweepData:
    """The plan's sweep with these records, by run id, read as `config` asks; every run has
    finished."""
    config, finished = config or AnalysisConfig(), Ending(status="finished")
    curves = []
    for run in plan.runs:
        kept, _ = comparable(records[run.run_id], config.metric, None)
        curves.append(make_curve(run, kept, plan.budget_unit, finished, config.metric))
    judged = judged_curves(curves)
    plan, readings = read_runs(plan, judged, config.readings_per_decade, config.decades)
    return SweepData(
        plan=plan,
        curves=judged,
        readings=readings,
        plan_document={},
        config_document={},
        problems=(),
        metric=config.metric,
    )


def read_plan(plan: Plan, config: AnalysisConfig) -> Plan:
    """The plan with every budget at which an analysis by `config` reads runs that all finish."""
    flat = presets_of(plan)["flat"]
    return sweep_of(flat, plan, config, 0, num_problems=1, samples_per_problem=1).plan


def sweep_of(
    world: World,
    plan: Plan,
    config: AnalysisConfig,
    seed: Seed,
    **evaluation: Unpack[Evaluated],
) -> SweepData:
    """One simulated sweep of the plan in `world`, read as `config` asks."""
    return simulated_sweep(plan, simulate_records(world, plan, seed, **evaluation), config)


def wide_config(*overrides: str) -> "SweepConfig":
    """Settings of a sweep to simulate, whatever it would cost."""
    from hydra import compose, initialize_config_dir

    from isosweep.config.compose import from_hydra
    from isosweep.config.refusals import config_directory

    wide = (
        *("model=qwen-0.5b", "grid.tolerance=0.05", "grid.max_epochs=1e6", "grid.max_steps=1e9"),
        "grid.max_completions_per_step=65536",
    )
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return from_hydra(compose("config", overrides=[*wide, *overrides]))
