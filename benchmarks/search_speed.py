"""How long a search takes to decide, and its study to open, in seconds of one core.

    python benchmarks/search_speed.py

Deciding: a sweep of 9 n, 3 B, 10 seeds and 11 budgets that is begun; one decision of 8 steps.
Opening: the journal of a study of 200 runs, three steps and their rewards each, read again from its
file, with Optuna imported already. Of several repeats the fastest counts.
"""

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from coverage import resolve_plan
from frame import Goal, benchmark
from search import Simulated, question, revealed

from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.config.study import SearchConfig
from isosweep.search.candidates import Step, start
from isosweep.search.frontier import decide
from isosweep.search.study import SearchStudy
from isosweep.store.paths import SweepPaths

GOALS = {
    "choose": Goal("seconds to choose 8 steps", "at most", 5.0),
    "open": Goal("seconds to open the study of 200 runs", "at most", 1.0),
}
QUICK = {"repeats": 1}
_SEARCH = SearchConfig(name="frontier")
_SETTINGS = [
    "budget=logspace:1e18:1e21:11",
    "grid=fix_B",
    "grid.problems_per_batch=[64,128,256]",
    f"grid.num_generations={[8 * 2**k for k in range(9)]}",
    f"grid.seeds={list(range(10))}",
]


def seconds(act: Callable[[], object], repeats: int) -> float:
    """Time of one core that the fastest of `repeats` takes."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return min(taken)


def measure(options: Namespace) -> dict[str, float]:
    """Print both; the figures of the goals."""
    plan = resolve_plan(_SETTINGS)
    world = presets_of(plan)["plateau"]
    records = simulate_records(world, plan, 0, num_problems=256, samples_per_problem=8)
    data = revealed(Simulated(world=world, plan=plan, records=records, number=0), start(plan))
    asked = question(data, _SEARCH, 8)
    choose = seconds(lambda: decide(asked), options.repeats)
    print(f"8 steps of {len(plan.runs)} runs: chosen in {choose:.2f} s", flush=True)
    runs = {run.run_id: run for run in plan.runs[:200]}
    with tempfile.TemporaryDirectory() as folder:
        paths = SweepPaths(Path(folder) / "sweep", Path(folder) / "runs")
        paths.root.mkdir()
        study = SearchStudy(plan, paths)
        for place in range(3):
            steps = [
                Step(run_id=name, milestone=to, compute=to, value=0.01, why="tells most")
                for name, run in runs.items()
                for to in run.milestones[place : place + 1]
            ]
            study.ask(runs, steps, {"cells": 100 * place})
            for each in study.asked.values():
                study.report(each, {place: 0.5}, runs[each.run_id].milestones[0])
        opened = seconds(lambda: SearchStudy(plan, paths).asked, options.repeats)
    print(f"a study of {len(runs)} runs: open in {opened:.2f} s", flush=True)
    return {"choose": choose, "open": opened}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, {"--repeats": 3})
