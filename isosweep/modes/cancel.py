"""`mode=cancel`: stop every live run of a sweep, wherever it runs."""

import os
import signal
import socket

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.modes.directory import stored_sweep
from isosweep.store.state import known_state, mark


def cancel_sweep(config: SweepConfig, console: Console) -> int:
    """Stop the runs; returns 1 if some run on another machine and have to be stopped there."""
    from isosweep.launchers.slurm import cancel_job

    sweep = stored_sweep(config)
    stopped = missed = 0
    for run in sweep.plan.runs:
        paths = sweep.paths.run(run.run_id)
        state = known_state(paths)
        if state is None or not state.alive():
            continue
        if state.job_id is None and state.host != socket.gethostname():
            where = f"process {state.pid} of {state.host}"
            console.print(f"{run.run_id} is {where}: cancel it on {state.host}", soft_wrap=True)
            missed += 1
            continue
        mark(paths, "cancelled", "mode=cancel")
        if state.job_id is not None:
            cancel_job(state.job_id)
        else:
            os.kill(state.pid, signal.SIGKILL)
        stopped += 1
    console.print(f"{stopped} runs cancelled")
    return 1 if missed else 0
