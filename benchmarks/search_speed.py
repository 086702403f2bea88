"""How long a search takes to decide, and its study to open, in seconds of one core.

    python benchmarks/search_speed.py

Deciding: a sweep of 9 n, 3 B, 8 seeds and 11 budgets of which seven seeds are begun, so that more
than 1,000 steps could be asked for; one decision of one step, and of as many as a small cluster has
devices. Opening: the journal of a study of 200 runs, three steps and their rewards each, read again
from its file, with Optuna imported already. Of several repeats the fastest counts.
"""

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from coverage import resolve_plan
from frame import Goal, benchmark
from ways import question, revealed

from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.config.study import SearchConfig
from isosweep.plan.cells import Plan
from isosweep.search.candidates import open_runs, standings, start
from isosweep.search.frontier import decide
from isosweep.search.steps import Step
from isosweep.search.study import SearchStudy
from isosweep.store.paths import SweepPaths

GOALS = {
    "actions": Goal("steps that could be asked for", "at least", 1000),
    "choose": Goal("seconds to choose one of them", "at most", 2.0),
    "runs": Goal("runs in the study", "at least", 200),
    "open": Goal("seconds to open it", "at most", 1.0),
}
QUICK = {"repeats": 1}
_SEARCH = SearchConfig(name="frontier")
_GENERATIONS = [8 * 2**k for k in range(9)]
_DEVICES = 8


def make_plan(batches: list[int], seeds: int, budgets: int) -> Plan:
    """A plan over three decades of budgets."""
    return resolve_plan(
        [
            f"budget=logspace:1e18:1e21:{budgets}",
            "grid=fix_B",
            f"grid.problems_per_batch={batches}",
            f"grid.num_generations={_GENERATIONS}",
            f"grid.seeds={list(range(seeds))}",
        ]
    )


def seconds(act: Callable[[], object], repeats: int) -> float:
    """Time of one core that the fastest of `repeats` takes."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return min(taken)


def choosing(repeats: int) -> tuple[int, float, float]:
    """How many steps could be asked for, and the time that choosing one and several takes."""
    plan = make_plan([64, 128, 256], seeds=8, budgets=11)
    world = presets_of(plan)["plateau"]
    records = simulate_records(world, plan, 0, num_problems=256, samples_per_problem=8)
    reached = start(plan)
    for run in plan.runs:
        if run.seed < 7:
            passed = [at for at in run.milestones if at <= plan.budgets[2]]
            to = passed[-1] if passed else run.milestones[0]
            reached[run.run_id] = max(reached.get(run.run_id, 0.0), to)
    data = revealed(plan, records, reached)
    at = standings(plan, data, {})
    actions = sum(to > at.reached[r.run_id] for r in open_runs(plan, at) for to in r.milestones)

    def choose(count: int) -> float:
        return seconds(lambda: decide(question(plan, data, _SEARCH, count)), repeats)

    return actions, choose(1), choose(_DEVICES)


def opening(repeats: int, folder: Path) -> tuple[int, float]:
    """How many runs a study has, and the time that opening it takes."""
    plan = make_plan([64, 128, 256], seeds=10, budgets=9)
    paths = SweepPaths(folder / "sweep", folder / "runs")
    paths.root.mkdir()
    study = SearchStudy(plan, paths, _SEARCH)
    runs = {run.run_id: run for run in plan.runs[:200]}
    for place in range(3):
        steps = [
            Step(run_id=name, milestone=to, compute=to, value=0.01, why="tells most")
            for name, run in runs.items()
            for to in run.milestones[place : place + 1]
        ]
        study.ask(runs, steps, {"cells": 100 * place})
        for asked in study.asked.values():
            study.saw(asked, {place: 0.5}, runs[asked.run_id].milestones[0])

    def again() -> None:
        assert len(SearchStudy(plan, paths, _SEARCH).asked) == len(runs)

    return len(runs), seconds(again, repeats)


def measure(options: Namespace) -> dict[str, float]:
    """Print both; the figures of the goals."""
    actions, one, several = choosing(options.repeats)
    print(f"of {actions:,} steps: one in {one:.2f} s, {_DEVICES} in {several:.2f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runs, opened = opening(options.repeats, Path(folder))
    print(f"a study of {runs} runs: open in {opened:.2f} s", flush=True)
    return {"actions": float(actions), "choose": one, "runs": float(runs), "open": opened}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, {"--repeats": 3})
