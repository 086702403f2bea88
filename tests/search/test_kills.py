"""A search over made records, killed at 20 random moments: it asks for the same, and trains nothing
twice.

Drivers are forks of this process, which has imported everything already.
"""

import os
import random
import signal
import time
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.plan.cells import PlannedRun
from isosweep.plan.study import Study, resolve
from isosweep.search.asking import Search
from isosweep.store.paths import SweepPaths
from isosweep.store.records import AttemptStart, Record, append_attempt, append_record, read_records
from isosweep.store.state import claim_attempt, read_state
from tests.conftest import SMALL, make_config
from tests.runs import log_lines

KILLS = 20
_SWEEP = (
    *SMALL,
    "grid.num_generations=[2,4,8]",
    "grid.seeds=[0,1,2]",
    "grid.tolerance=0.1",
    "budget=[6.4e9,1.28e10,2.56e10,5.12e10]",
    "search=frontier",
    # So small that the search has much to ask.
    "analysis.margin=0.002",
    "tracking=none",
)

Records = dict[str, tuple[Record, ...]]


def made(study: Study) -> Records:
    """What the runs would show, the same every time."""
    world = presets_of(study.plan)["plateau"]
    return simulate_records(world, study.plan, 3, num_problems=400, samples_per_problem=8)


def train(paths: SweepPaths, run: PlannedRun, records: Records) -> None:
    """Take `run` to its last milestone: a new attempt writes what the ones before have not."""
    files = paths.run(run.run_id)
    wanted = [r for r in records[run.run_id] if r.step <= run.num_steps]
    state = read_state(files)
    if state is not None and state.status == "finished" and state.step == wanted[-1].step:
        return
    files.root.mkdir(parents=True, exist_ok=True)
    known = read_records(files.records)
    done = known.records[-1].step if known.records else -1
    attempt = claim_attempt(files, None)
    parent = max(known.chain, default=None)
    start = AttemptStart(attempt=attempt.number, parent=parent, resumed_step=max(done, 0))
    append_attempt(files.records, start)
    for record in wanted:
        if record.step > done:
            append_record(files.records, attempt.number, record)
    claimed = read_state(files)
    assert claimed is not None
    last = wanted[-1]
    attempt.write(replace(claimed, status="finished", step=last.step, compute=last.compute))


def drive(study: Study, records: Records) -> None:
    """One driver, from where the last one ended to the end of the search; one run at a time."""
    paths = sweep_paths(study)
    store_plan(study, paths)
    search = Search(study.plan, paths, study.config, places=1)
    search.open()
    while search.stop is None:
        for run in search.runs:
            train(paths, run, records)
        search._next_look = 0.0
        search.next({})
    search.close()


def driven(study: Study, records: Records, seconds: float | None) -> bool:
    """Whether a driver of its own process came to the end, before it was killed after `seconds`."""
    pid = os.fork()
    if pid == 0:
        try:
            drive(study, records)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    # What a driver leaves locked is taken away after 30 s.
    sweep_paths(study).search.with_name("search.journal.lock").unlink(missing_ok=True)
    return not os.WIFSIGNALED(status)


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
    undisturbed, study = (
        resolve(make_config(*_SWEEP, f"sweeps_dir={tmp_path / name}"))
        for name in ("straight", "killed")
    )
    records = made(undisturbed)
    began = time.monotonic()
    driven(undisturbed, records, None)
    whole = time.monotonic() - began
    moments = random.Random(11)
    kills = 0
    while kills < KILLS and not driven(study, records, moments.uniform(0, whole / 12)):
        kills += 1
    driven(study, records, None)
    # The last ones may come after its end where the machine is quicker than it was.
    assert KILLS * 3 / 4 <= kills <= KILLS
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
