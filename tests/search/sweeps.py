"""Small simulated sweeps, as far as a search has come."""

from collections.abc import Mapping
from functools import cache

from isosweep.analysis.curves import SweepData
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.study import SearchConfig
from isosweep.search.candidates import Question, standings
from isosweep.store.records import Record
from tests.analysis.sweeps import make_plan

GENERATIONS = (8, 16, 32, 64, 128)
BUDGETS = (1e9, 3e9, 1e10, 3e10, 1e11)
PLAN = make_plan(GENERATIONS, seeds=range(3), budgets=BUDGETS)
# Of n*, which the worlds are planted by.
ANALYSIS = AnalysisConfig(quantity="best")
SEARCH = SearchConfig(name="frontier")


@cache
def recorded(world: str) -> dict[str, tuple[Record, ...]]:
    known = presets_of(PLAN)[world]
    return simulate_records(known, PLAN, 5, num_problems=2000, samples_per_problem=8)


def trained(reached: Mapping[str, float], world: str = "plateau") -> SweepData:
    """The sweep with every run trained up to the compute given, by run id."""
    kept = {
        name: tuple(r for r in records if r.compute.flops <= reached.get(name, -1.0) * 1.05)
        for name, records in recorded(world).items()
    }
    return simulated_sweep(PLAN, kept)


def question(
    data: SweepData, config: SearchConfig = SEARCH, pending: Mapping[str, float] | None = None
) -> Question:
    """What is next of a sweep that has come so far, four steps of it."""
    return Question(
        plan=data.plan,
        data=data,
        at=standings(data.plan, data, pending or {}),
        config=config,
        analysis=ANALYSIS,
        count=4,
        seed=0,
    )


def run_id(n: int, seed: int) -> str:
    return f"run-n{n}-B4-s{seed}"
