"""Sets that are asked of runs that exist: they have them from their beginning, or are refused."""

import json
import shutil
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.launch import plan_sweep
from isosweep.modes.run_files import store_runs
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import Study, resolve
from isosweep.store.attempts import claim
from isosweep.store.paths import SweepPaths
from tests.conftest import SMALL, make_config, set_of
from tests.modes.looked_after import printed, terminal
from tests.modes.sweeps import QUIET

HARD = set_of("hard", "sort", "sort.levels=[9]")
TRAIN = ("+evaluation.sets.train.problems=train",)


def study_in(root: Path, *sets: str) -> Study:
    budget = ("budget=6.4e9", f"sweeps_dir={root / 'sweeps'}")
    return resolve(make_config(*SMALL, *QUIET, *budget, *sets))


def launched(root: Path, *sets: str, begun: bool = True) -> SweepPaths:
    """A sweep whose first run has begun."""
    study = study_in(root, *sets)
    paths = SweepPaths(root / "sweeps" / "s", root / "sweeps" / "runs")
    store_runs(study, paths)
    if begun:
        claim(paths.run(study.plan.runs[0].run_id))
    return paths


def planned(root: Path, *sets: str) -> str:
    console = terminal()
    plan_sweep(study_in(root, *sets), console)
    return printed(console)


def stored_sets(root: Path) -> list[list[str]]:
    documents = [json.loads(p.read_text()) for p in (root / "sweeps" / "runs").glob("*/spec.json")]
    specs = [RunSpec.from_json(document["spec"]) for document in documents]
    return [sorted(spec.evaluation.sets or {}) for spec in specs]


def test_a_set_is_refused_where_a_run_has_begun_without_it(tmp_path: Path) -> None:
    paths = launched(tmp_path)
    with pytest.raises(SettingError) as caught:
        planned(tmp_path, *HARD)
    assert caught.value.setting == "evaluation.sets.hard"
    assert "1 of 2 runs have begun without this set" in caught.value.rule
    assert caught.value.nearest.startswith("~evaluation.sets.hard, or ")
    # Nothing was written, and the runs without sets are there to be gone on with.
    assert [path.name for path in (tmp_path / "sweeps").iterdir()] == ["runs"]
    planned(tmp_path)
    # The other sweeps_dir that it names has none of these runs.
    shutil.move(paths.runs, tmp_path / "elsewhere")
    planned(tmp_path, *HARD)


def test_sets_may_come_while_nothing_has_begun_and_stay_once_they_are_there(
    tmp_path: Path,
) -> None:
    launched(tmp_path, begun=False)
    planned(tmp_path, *HARD)
    launched(tmp_path, *HARD)
    assert stored_sets(tmp_path) == [["hard"]] * 2
    # A sweep that asks for none goes on with the runs as they began.
    launched(tmp_path, begun=False)
    assert stored_sets(tmp_path) == [["hard"]] * 2
