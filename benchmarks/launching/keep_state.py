"""A job that only keeps its run's state: `python -m isosweep.training` without what trains.

    python benchmarks/launching/keep_state.py -u -m isosweep.training SUBMISSION.json [INDEX]

It takes the place of an interpreter (`launcher.slurm.python`, or of one that forks local runs).
The submission is found, its job told, an attempt claimed, two records taken, and all ended as ever.
ISOSWEEP_BENCH_SECONDS: a JSON file of how long each run takes, by its id; without, no time.
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from isosweep.compute import Compute
from isosweep.launchers import fork_server
from isosweep.store.paths import RunPaths
from isosweep.store.records import AttemptStart, Record, append_attempt, append_record
from isosweep.store.state import claim_attempt, read_state
from isosweep.training.__main__ import main


def run_attempt(train: SimpleNamespace, stop: Any, submitted: SimpleNamespace, place: Any) -> str:
    """Spend the whole budget at once."""
    run = RunPaths(Path(train.run_dir))
    attempt = claim_attempt(run, submitted.number)
    append_attempt(run.records, AttemptStart(attempt=attempt.number, parent=None, resumed_step=0))
    append_record(run.records, attempt.number, _record(0, Compute()))
    if "ISOSWEEP_BENCH_SECONDS" in os.environ:
        time.sleep(json.loads(Path(os.environ["ISOSWEEP_BENCH_SECONDS"]).read_text())[run.run_id])
    end = train.milestones[-1]
    spent = Compute(generations=1, rollouts=1, training_flops=end, completion_tokens=1)
    append_record(run.records, attempt.number, _record(1, spent))
    state = read_state(run)
    assert state is not None
    attempt.write(replace(state, status="finished", step=1, compute=spent, reward=1.0))
    return "finished"


def _record(step: int, spent: Compute) -> Record:
    return Record(
        step=step,
        compute=spent,
        successes=(step,) * 4,
        samples_per_problem=1,
        completion_tokens=1.0,
        unix_time=time.time(),
    )


if __name__ == "__main__":
    if fork_server.__name__ in sys.argv:
        # Nothing to fork from: each run executes this script anew, in the place of an interpreter.
        sys.exit()
    # In the place of `isosweep.training.worker`, which validates specs and imports the stack.
    worker: Any = ModuleType("isosweep.training.worker")
    worker.run_attempt = run_attempt
    worker.Submitted = SimpleNamespace
    worker.trusts = lambda submission: False
    worker.TrainRun = SimpleNamespace(from_json=lambda document: SimpleNamespace(**document))
    sys.modules[worker.__name__] = worker
    sys.exit(main(sys.argv[sys.argv.index("isosweep.training") + 1 :]))
