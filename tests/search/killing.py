"""Drives a search over made records, killed at random: `python -m tests.search.killing DIR`.

In DIR/straight the search goes through undisturbed, in DIR/killed its driver is ended by SIGKILL
again and again. Prints how often it was ended alive. Drivers are forks of this process, which has
imported everything already.
"""

import os
import random
import signal
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

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


def main() -> None:
    """Search straight through, then with kills."""
    directory = Path(sys.argv[1])
    straight, killed = (
        resolve(make_config(*_SWEEP, f"sweeps_dir={directory / name}"))
        for name in ("straight", "killed")
    )
    records = made(straight)
    began = time.monotonic()
    driven(straight, records, None)
    whole = time.monotonic() - began
    moments = random.Random(11)
    kills = 0
    while kills < KILLS and not driven(killed, records, moments.uniform(0, whole / 12)):
        kills += 1
    driven(killed, records, None)
    print(kills)


if __name__ == "__main__":
    main()
