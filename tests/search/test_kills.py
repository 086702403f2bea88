"""A search killed at 20 random moments asks for the same, and trains nothing twice."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tests.runs import log_lines
from tests.search.killing import KILLS

ROOT = Path(__file__).resolve().parents[2]


def asked(directory: Path) -> list[dict[str, Any]]:
    """All that the trials of the one search in `directory` say, but for times."""
    (journal,) = directory.glob("*/search.journal")
    storage = JournalStorage(JournalFileBackend(str(journal)))
    (name,) = optuna.get_all_study_names(storage)
    found = []
    for trial in optuna.load_study(study_name=name, storage=storage).trials:
        told = dict(trial.user_attrs)
        steps = [{**step, "unix_time": None} for step in told.pop("steps")]
        seen = trial.params, trial.state.name, trial.value, trial.intermediate_values
        found.append({"seen": seen, "steps": steps, **told})
    return found


@pytest.mark.slow
def test_a_search_killed_at_random_asks_for_the_same_and_trains_nothing_twice(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.search.killing", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    # The last ones may come after its end where the machine is quicker than it was.
    assert KILLS * 3 / 4 <= int(done.stdout) <= KILLS
    straight, killed = asked(tmp_path / "straight"), asked(tmp_path / "killed")
    assert killed == straight
    steps = [step["milestone"] for trial in straight for step in trial["steps"]]
    assert len(steps) > len(straight) > 2
    for trial in killed:
        milestones = [step["milestone"] for step in trial["steps"]]
        assert milestones == sorted(set(milestones))
    assert len({trial["run_id"] for trial in killed}) == len(killed)
    for run in (tmp_path / "killed" / "runs").iterdir():
        lines = log_lines(run / "records")
        taken = Counter(line["step"] for line in lines if line["kind"] == "record")
        assert set(taken.values()) <= {1}
