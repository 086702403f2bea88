"""The process that samples beside a trainer: it answers `Beside`, and ends with its trainer."""

import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.files import JsonObject
from isosweep.store.paths import RunPaths
from isosweep.training.worker import lean_imports, spec_of

if TYPE_CHECKING:
    from isosweep.training.channel import Channel, SharedWeights
    from isosweep.training.trainer import CountedGRPOTrainer

# Of <linux/prctl.h>: which signal this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
# The trainer decides what these mean.
_FOR_THE_TRAINER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


def main(text: str) -> None:
    """Answer the process that started this one until it has no more to ask; `text`: `work` of
    `Beside`, as JSON."""
    work = json.loads(text)
    _end_with(work["pid"])
    for number in _FOR_THE_TRAINER:
        signal.signal(number, signal.SIG_IGN)
    for fd in work["fds"]:
        # What judges for this process must not keep them open.
        os.set_inheritable(fd, False)
    end, memory = work["fds"]
    trainer = _trainer(work)
    from isosweep.training.channel import Channel, SharedWeights

    weights = SharedWeights(trainer.model, memory)
    _answer(Channel(socket.socket(fileno=end)), trainer, weights)


def _end_with(parent: int) -> None:
    """Have this process killed when its parent ends, however that does, also while it computes."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def _trainer(work: JsonObject) -> "CountedGRPOTrainer":
    """A trainer that samples, and never trains."""
    run = RunPaths(Path(work["run_dir"]))
    spec = spec_of(run)
    with lean_imports():
        from isosweep.training.assembly import make_generator

    return make_generator(spec, run, work["directory"])


def _answer(channel: "Channel", trainer: "CountedGRPOTrainer", weights: "SharedWeights") -> None:
    """Sample what is asked for, one generation after the other."""
    while True:
        try:
            asked, _ = channel.receive()
        except EOFError:
            return
        try:
            said, batch = _sampled(trainer, weights, asked)
        except Exception as error:
            said, batch = {"error": f"{type(error).__name__}: {error}"}, {}
        channel.send(said, batch)


def _sampled(
    trainer: "CountedGRPOTrainer", weights: "SharedWeights", asked: JsonObject
) -> tuple[JsonObject, dict[str, Any]]:
    if asked["layout"] != weights.layout:
        raise ValueError("the generator's model has other weights than the trainer's")
    weights.take()
    trainer.be_at(asked["step"])
    trainer.restore_sampling(asked["state"])
    batch = trainer.fresh_batch(asked["count"])
    return {"state": trainer.sampling_state(), "metrics": trainer.unlogged()}, batch


if __name__ == "__main__":
    main(sys.argv[1])
