"""A sweep that is exported and imported has the same n*(C); of rewards alone, no surer one."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
from rich.console import Console

import isosweep
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.config.compose import config_of
from isosweep.modes.importing import import_runs
from isosweep.modes.sweeps import read_sweep
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from tests.analysis.sweeps import make_plan, peaked, write_sweep
from tests.contract.surface import write_csv

ANALYSIS = config_of(["mode=analyse"]).analysis
BUDGETS = (2e6, 4e6, 8e6, 16e6, 32e6)
PLAN = make_plan(generations=(2, 4, 8, 16), seeds=(0, 1, 2), budgets=BUDGETS)
Row = dict[str, Any]


def rows_of(paths: SweepPaths) -> Iterator[Row]:
    """What its records say, a row each."""
    for run in PLAN.runs:
        for record in read_records(paths.run(run.run_id).records).records:
            yield {
                "run": run.run_id,
                "n": run.num_generations,
                "B": run.problems_per_batch,
                "seed": run.seed,
                "step": record.step,
                "flops": record.compute.flops,
                "eval_reward": record.reward,
                "successes": json.dumps(record.successes),
                "samples": record.samples_per_problem,
                "problems": len(record.successes),
            }


def findings(paths: SweepPaths) -> Findings:
    data = load_sweep(paths, ANALYSIS)
    return find(data, ANALYSIS)


def imported(tmp_path: Path, source: Path) -> SweepPaths:
    where = tmp_path / "imported"
    typed = ["mode=import", f"import.files={source}", f"sweep={where}", f"sweeps_dir={tmp_path}/s"]
    assert import_runs(config_of([*typed, "budget=[2e6,4e6,8e6,16e6,32e6]"]), Console()) == 0
    return read_sweep(where).paths


def widths(found: Findings) -> list[float]:
    known = [each.n_star for each in found.frontier.optima if each.n_star is not None]
    return [math.log2(interval.high / interval.low) for interval in known]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], Findings]:
    # The best n grows.
    reward = peaked(lambda budget: 4 * (budget / 2e6) ** 0.5)
    paths = write_sweep(tmp_path_factory.mktemp("own"), reward, plan=PLAN)
    return list(rows_of(paths)), findings(paths)


def test_of_counts_n_star_is_the_same_to_the_digit(
    own: tuple[list[Row], Findings], tmp_path: Path
) -> None:
    rows, direct = own
    write_csv(tmp_path / "runs.csv", rows)
    again = findings(imported(tmp_path, tmp_path / "runs.csv"))
    assert again.frontier.optima == direct.frontier.optima
    assert again.saturation.verdict == direct.saturation.verdict
    frame = pandas.DataFrame(rows).rename(columns={"n": "group"})
    sweep = isosweep.from_frame(frame, tmp_path / "f", columns={"n": "group"})
    assert sweep.verdict.kind == direct.saturation.verdict


def test_of_rewards_n_star_is_the_same_and_no_surer(
    own: tuple[list[Row], Findings], tmp_path: Path
) -> None:
    rows, direct = own
    counts = ("successes", "samples")
    write_csv(tmp_path / "a.csv", [{k: row[k] for k in row if k not in counts} for row in rows])
    again = findings(imported(tmp_path, tmp_path / "a.csv"))
    assert again.saturation.verdict == direct.saturation.verdict
    for now, before in zip(again.frontier.optima, direct.frontier.optima, strict=True):
        assert now.budget == before.budget
        assert now.n_star is not None
        assert before.n_star is not None
        assert now.n_star.median == pytest.approx(before.n_star.median, rel=0.02)
    for width, least in zip(widths(again), widths(direct), strict=True):
        assert width >= least * 0.99
