"""Workers of this machine that execute the code that a submission has for a job."""

import json
from pathlib import Path
from typing import Any

from isosweep.launchers.launcher import Order
from isosweep.launchers.local import LocalLauncher
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import Job, SubmissionState, newest_submission, started, submit
from tests.launchers.fake import the_plan
from tests.runs import wait_for

# Many times what a start takes.
TIMEOUT_S = 300.0

# Stands for `isosweep.training.__main__` in processes that find it first: executes the code that a
# submission has for a job, however they were started.
FINDER = """
import sys, importlib.util
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "isosweep.training.__main__":
            return importlib.util.spec_from_file_location(name, %r)
sys.meta_path.insert(0, Finder)
"""
ENTRY = """
import json, sys
def main(argv):
    exec(json.load(open(argv[0]))["job"]["code"], {"argv": argv})
    return 0
if __name__ == "__main__":
    main(sys.argv[1:])
"""


def server_of(launcher: LocalLauncher) -> int:
    assert launcher._server is not None
    return launcher._server.pid


def order_of(root: Path, job: dict[str, Any], slot: int = 0) -> Order:
    run = RunPaths(root)
    submission = submit(run, "local", job, str(root), "a-batch")
    assert submission is not None
    logs = run.submission_logs(submission.number)
    logs.mkdir(parents=True)
    return Order(submission=submission, run=the_plan().runs[0], logs=logs, slot=slot)


def start(launcher: LocalLauncher, root: Path, code: str, slot: int = 0) -> SubmissionState:
    """Execute `code`, in a process whose run lies at `root`."""
    order = order_of(root, {"code": code}, slot)
    (job,) = launcher.submit([order])
    assert isinstance(job, Job)
    started(order.submission, job)
    state = newest_submission(order.submission.run)
    assert state is not None
    return state


def pid_of(state: SubmissionState) -> int:
    assert state.job is not None
    return int(state.job.job_id)


def ended(launcher: LocalLauncher, state: SubmissionState) -> bool:
    return launcher.observe([state])[0].status == "gone"


def outputs(state: SubmissionState) -> tuple[str, str]:
    logs = state.submission.run.submission_logs(1)
    out, err = (logs / f"worker.{name}" for name in ("out", "err"))
    # A forked process makes them itself.
    return out.read_text() if out.exists() else "", err.read_text() if err.exists() else ""


def result(launcher: LocalLauncher, state: SubmissionState) -> Any:
    """What the process printed as JSON, in its last line."""
    wait_for(lambda: ended(launcher, state), TIMEOUT_S)
    out, err = outputs(state)
    assert out, err
    return json.loads(out.splitlines()[-1])


def sleeping(go: Path) -> str:
    """Code that waits for a file, and prints its process id."""
    return f"""
import os, time
while not os.path.exists({str(go)!r}):
    time.sleep(0.02)
print(os.getpid())
"""
