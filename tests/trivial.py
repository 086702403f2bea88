"""A worker that keeps its run's files as every worker does, and trains nothing.

    python tests/trivial.py -u -m isosweep.training ATTEMPT.json

It takes the place of an interpreter (`launcher.slurm.python`): a second instead of ten for a job
whose training is not what is tested. ISOSWEEP_TEST_RUN_S: seconds that it works, none by default.
"""

import os
import sys
import time

from isosweep.compute import Compute
from isosweep.store.attempts import OvertakenError, Status
from isosweep.store.records import Record
from isosweep.training import attempt
from isosweep.training.session import Session

_STEP_S = 0.2


def train(session: Session) -> None:
    """Pass the time, then record that the whole budget was spent; no checkpoints are made."""
    reporter, end = session.reporter, session.schedule.milestones[-1]
    reporter.state(Status.RUNNING)
    reporter.started(session.start)
    _record(session, 0, Compute())
    over = time.monotonic() + float(os.environ.get("ISOSWEEP_TEST_RUN_S", "0"))
    while session.stop.reason is None and time.monotonic() < over:
        if session.stop.overtaken is not None:
            raise OvertakenError(session.stop.overtaken)
        reporter.doing("passing the time")
        time.sleep(_STEP_S)
    if session.stop.reason is None:
        reporter.step = 1
        reporter.spent = Compute(generations=1, training_flops=end, completion_tokens=1)
        _record(session, 1, reporter.spent)


def _record(session: Session, step: int, spent: Compute) -> None:
    task, samples = session.spec.task, session.spec.evaluation.samples_per_problem
    session.reporter.record(
        Record(
            step=step,
            compute=spent,
            successes=(step,) * task.num_eval_problems,
            samples_per_problem=samples,
            completion_tokens=1.0,
            unix_time=time.time(),
        )
    )


if __name__ == "__main__":
    attempt.train_session = train
    sys.exit(attempt.main(sys.argv[sys.argv.index("isosweep.training") + 1 :]))
