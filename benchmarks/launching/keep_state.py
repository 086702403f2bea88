"""A job that only keeps its run's state: `python -m isosweep.training` without what trains.

    python benchmarks/launching/keep_state.py -u -m isosweep.training ATTEMPT.json

It takes the place of an interpreter (`launcher.slurm.python`).
The attempt is found and begun, two records are taken, and it is ended as ever. No spec is read:
that, and how a worker stops, `tests/trivial.py` does as well, in three times the CPU time.
ISOSWEEP_BENCH_SECONDS: a JSON file of how long each run takes, by its id; without, no time.
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from isosweep.compute import Compute
from isosweep.store.attempts import Attempt, Status
from isosweep.store.records import AttemptStart, Record, append_attempt, append_record
from isosweep.training import attempt as worker
from isosweep.training.distributed import Rank
from isosweep.training.stopping import StopRequest

_ALONE = Rank()


def train(attempt: Attempt, stop: StopRequest, rank: Rank = _ALONE) -> Status | None:
    """Spend the whole budget at once."""
    run = attempt.run
    append_attempt(run.records, AttemptStart(attempt=attempt.number, parent=None, resumed_step=0))
    append_record(run.records, attempt.number, _record(0, Compute()))
    if "ISOSWEEP_BENCH_SECONDS" in os.environ:
        time.sleep(json.loads(Path(os.environ["ISOSWEEP_BENCH_SECONDS"]).read_text())[run.run_id])
    end = attempt.job["milestones"][-1]
    spent = Compute(generations=1, rollouts=1, training_flops=end, completion_tokens=1)
    append_record(run.records, attempt.number, _record(1, spent))
    ended = replace(attempt, status=Status.FINISHED, step=1, reward=1.0, updated=time.time())
    replace(ended, compute=spent, finished=spent).write()
    return Status.FINISHED


def _record(step: int, spent: Compute) -> Record:
    return Record(
        step=step,
        compute=spent,
        successes=(step,) * 4,
        samples_per_problem=1,
        completion_tokens=1.0,
        unix_time=time.time(),
    )


def keep_state(attempt: str) -> int:
    """What the job does, in the place of `isosweep.training.attempt.main`."""
    worker.train = train
    return worker.main([attempt])


if __name__ == "__main__":
    sys.exit(keep_state(sys.argv[sys.argv.index("isosweep.training") + 1]))
