"""A part of a sweep is analysed as a sweep of its own that had no more runs and records."""

import json
import shutil
from pathlib import Path

import pytest

import isosweep
from isosweep.door.sweep import Sweep
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.store.paths import SweepPaths
from tests.analysis.sweeps import (
    BUDGETS,
    COST,
    REWARD,
    make_plan,
    records_file,
    write_end,
    write_plan,
    write_sweep,
)
from tests.conftest import make_config

PLAN = make_plan(generations=(2, 4, 8), batches=(4,), seeds=(0, 1, 2))
PART = make_plan(generations=(4, 8), batches=(4,), seeds=(0, 2), budgets=BUDGETS[:3])


def opened(paths: SweepPaths) -> Sweep:
    settings = make_config("analysis.readings_per_decade=0")
    write_json(paths.config, settings.model_dump() | {"budget": list(settings.budgets)})
    return isosweep.open(paths.root)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return opened(write_sweep(tmp_path_factory.mktemp("whole"), REWARD, plan=PLAN))


def test_a_part_is_analysed_as_a_sweep_that_has_no_more(whole: Sweep, tmp_path: Path) -> None:
    copy = SweepPaths(tmp_path / "sweep", tmp_path / "runs")
    shutil.copytree(whole.stored.paths.runs, copy.runs)
    for run in PART.runs:
        file = records_file(copy, run.run_id)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        kept = [
            line
            for line in lines
            if line["kind"] == "attempt" or line["compute"]["rollouts"] * COST <= BUDGETS[2] * 1.01
        ]
        assert len(kept) < len(lines)
        file.write_text("".join(json.dumps(line) + "\n" for line in kept))
        write_end(copy, run.run_id, "finished", "")
    write_plan(copy, PART)
    alone, part = opened(copy), whole.select(n=(4, 8), seeds=[2, 0], budgets=BUDGETS[:3])
    assert part.part.plan_id == PART.plan_id
    for name in ("cells", "choices", "frontier", "records"):
        assert getattr(part, name).to_csv() == getattr(alone, name).to_csv(), name
    first, second = part.verdict.answer.document(), alone.verdict.answer.document()
    # What the workers of the copy never said.
    for document in (first, second):
        del document["plan_id"], document["runs"]["standings"]
    assert first == second


def test_one_value_several_and_a_part_of_a_part_are_chosen(whole: Sweep) -> None:
    assert set(whole.select(n=4).runs.n) == {4}
    part = whole.select(n=range(4, 9, 4)).select(seeds=1)
    assert list(part.runs.n) == [4, 8]
    assert set(part.runs.seed) == {1}
    assert repr(part) == "<Sweep sweep, n=[4, 8] seeds=[1]: 2 runs, 5 budgets up to 3.2e7 FLOPs>"
    assert list(part.variants.values()) == [part]
    assert set(whole.select(budgets=[2.001e6]).cells.budget) == {2e6}
    assert len(whole.runs) == len(PLAN.runs)


def test_what_the_sweep_has_not_is_refused_with_the_nearest(whole: Sweep) -> None:
    for chosen, rule in (
        ({"n": 5}, r"^n=5: the sweep has \[2, 4, 8\]\. .*works: n=\[4\]$"),
        (
            {"budgets": [9e6]},
            r"^budgets=9000000\.0: the sweep has \[2e6, .*: budgets=\[8e6\]$",
        ),
        ({"seeds": []}, r"^seeds=\[\]: chooses nothing; the sweep has \[0, 1, 2\]$"),
        ({"B": "four"}, r"^B=four: must be a number or a list of them"),
        ({"b": 4}, r"^select=b: must be one of seeds, n, B, budgets"),
    ):
        with pytest.raises(SettingError, match=rule):
            whole.select(**chosen)
