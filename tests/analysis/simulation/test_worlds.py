"""Simulated worlds: the planted best n, the form of records, and their noise."""

import math
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from isosweep.analysis.load import load_sweep
from isosweep.analysis.simulation.presets import delayed_worlds
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.analysis.simulation.worlds import Floats, World
from isosweep.files import write_json
from isosweep.plan.cells import Plan
from isosweep.plan.document import plan_document
from isosweep.plan.study import Study, resolve
from isosweep.store.paths import SweepPaths
from isosweep.store.records import AttemptStart, Record, append_attempt, append_record
from tests.conftest import make_config


@cache
def the_study() -> Study:
    settings = ("budget=logspace:1e10:1e12:5", "grid.tolerance=0.05", "grid.min_steps=1")
    return resolve(make_config(*settings))


def the_plan() -> Plan:
    return the_study().plan


PRESETS = delayed_worlds(1e11, 8, 2048)


def simulated(
    world: World, seed: int = 0, plan: Plan | None = None
) -> dict[str, tuple[Record, ...]]:
    return simulate_records(
        world, plan or the_plan(), seed, num_problems=200, samples_per_problem=8
    )


def at_128(n: Floats) -> Floats:
    return np.full((1, len(n)), 128.0)


@pytest.mark.parametrize(
    ("name", "rise", "rate"),
    # L and k of log2 n* = L / (1 + exp(-k (log10 C - log10 C0))) + b as read off the Playbook's
    # figures (arXiv 2603.12151), the easy rise cut to the grid's six doublings below the plateau.
    [("easy", 6.0, 4.75), ("hard", 4.47, 7.23)],
)
def test_the_presets_follow_the_published_law(name: str, rise: float, rate: float) -> None:
    world = PRESETS[name]
    decades = np.linspace(-2.5, 2.5, 41)
    best = np.log2([world.best_n(1e11 * 10**d, 2.0, 65536.0, at_128) for d in decades])
    assert best[-1] == pytest.approx(math.log2(world.saturation_n), abs=0.1)
    assert best[0] == pytest.approx(math.log2(world.saturation_n) - rise, abs=0.1)
    assert (np.diff(best) > -1e-3).all()
    # The logistic of that rate and rise, its centre free: delays shift it along C.
    law = np.array(
        [rise / (1 + np.exp(-rate * (decades - c))) + best[0] for c in np.linspace(-1, 1, 201)]
    )
    assert np.abs(law - best).max(axis=1).min() < 0.12 * rise


def test_records_are_the_worlds_mean_plus_noise() -> None:
    quiet = replace(PRESETS["easy"], seed_sd=0.0, seed_midpoint_sd=0.0, wander_sd=0.0)
    gaps = []
    for seed in range(3):
        records = simulated(quiet, seed)
        for run in the_plan().runs:
            for record in records[run.run_id][1:]:
                compute = np.array(record.compute.flops)
                mean = quiet.reward(compute, run.num_generations, run.problems_per_batch)
                gaps.append(record.reward - float(mean))
    # 200 problems x 8 samples: a standard error of at most 0.0125, and no bias.
    assert abs(float(np.mean(gaps))) < 0.0006
    assert 0.005 < float(np.std(gaps)) < 0.0125


def test_seeds_differ_by_what_the_world_says() -> None:
    still = replace(PRESETS["flat"], wander_sd=0.0, width_batch=math.inf)
    world = replace(still, seed_sd=0.2, seed_midpoint_sd=0.3)
    at = [np.array([world.midpoint, 1e20])] * 2000
    drawn = world.curves([the_plan().runs[0]] * 2000, at, np.random.default_rng(0))
    middle, end = np.array(list(drawn)).T - world.base_reward
    assert np.log(end).std() == pytest.approx(0.2, rel=0.05)
    later = special.logit(middle / end) / world.exponent
    assert later.std() == pytest.approx(0.3, rel=0.05)


def test_simulated_records_are_read_like_real_ones(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path / "sweep", tmp_path / "runs")
    paths.root.mkdir()
    write_json(paths.plan, plan_document(the_study().plan))
    records = simulated(PRESETS["easy"])
    for run in the_plan().runs:
        files = paths.run(run.run_id)
        files.root.mkdir(parents=True)
        append_attempt(files.records, AttemptStart(attempt=1, parent=None, resumed_step=0))
        for record in records[run.run_id]:
            append_record(files.records, 1, record)
    read, direct = load_sweep(paths), simulated_sweep(the_plan(), records)
    assert read.problems == ()
    assert [asdict(r) for r in read.readings] == [asdict(r) for r in direct.readings]
    assert {reading.reading for reading in read.readings} == {"exact"}
