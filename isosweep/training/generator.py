"""The process that samples beside a trainer: it answers `Beside`, and ends with its trainer."""

import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from isosweep.files import JsonObject
from isosweep.store.paths import RunPaths
from isosweep.training.attempt import lean_imports, spec_of
from isosweep.training.distributed import end_with

# The trainer decides what these mean.
_FOR_THE_TRAINER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


def main(text: str) -> None:
    """Answer the process that started this one until it has no more to ask; `text`: `work` of
    `Beside`, as JSON."""
    work = json.loads(text)
    end_with(work["pid"])
    for number in _FOR_THE_TRAINER:
        signal.signal(number, signal.SIG_IGN)
    for fd in work["fds"]:
        # What judges for this process must not keep them open.
        os.set_inheritable(fd, False)
    end, memory = work["fds"]
    run = RunPaths(Path(work["run_dir"]))
    spec = spec_of(run, trust=work["trust"])
    with lean_imports():
        from isosweep.training.assembly import make_generator
        from isosweep.training.beside import SharedWeights, receive, send

    trainer, sampler = make_generator(spec, run, work["directory"])
    weights, pipe = SharedWeights(trainer.model, memory), Connection(end)
    with suppress(EOFError, OSError):
        while True:
            asked = receive(pipe)
            try:
                weights.take()
                trainer.be_at(asked["step"])
                if "evaluate" in asked:
                    assert sampler is not None
                    answer: object = sampler.sample(**asked["evaluate"])
                else:
                    trainer.restore_sampling(asked["state"])
                    batch = {n: v.cpu() for n, v in trainer.fresh_batch(asked["count"]).items()}
                    answer = batch, trainer.sampling_state(), trainer.unlogged()
                message: JsonObject = {"answer": answer}
            except Exception as error:
                # The trainer names it; the log has where it was.
                traceback.print_exc()
                message = {"error": f"{type(error).__name__}: {error}"}
            send(pipe, message)


if __name__ == "__main__":
    main(sys.argv[1])
