"""A process that samples beside a trainer: it answers `Beside`, and ends with its trainer."""

import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.files import JsonObject
from isosweep.store.paths import RunPaths
from isosweep.training.worker import lean_imports, spec_of

if TYPE_CHECKING:
    from isosweep.training.channel import Channel, SharedWeights
    from isosweep.training.trainer import CountedGRPOTrainer
    from isosweep.training.vllm import VllmSampler

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
    trainer, sampler = _made(work)
    from isosweep.training.channel import Channel, SharedWeights

    weights = SharedWeights(lambda: trainer.model, memory)
    _answer(
        Channel(socket.socket(fileno=end)), _Generator(trainer, sampler, weights, work["count"])
    )


def _end_with(parent: int) -> None:
    """Have this process killed when its parent ends, however that does, also while it computes."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def _made(work: JsonObject) -> "tuple[CountedGRPOTrainer, VllmSampler | None]":
    """A trainer that samples and never trains, and vLLM's sampler of held-out answers."""
    run = RunPaths(Path(work["run_dir"]))
    spec = spec_of(run, trust=work["trust"])
    with lean_imports():
        from isosweep.training.assembly import make_generator

    return make_generator(spec, run, work["directory"], work["count"])


@dataclass(frozen=True)
class _Generator:
    """What answers are made with."""

    trainer: "CountedGRPOTrainer"
    sampler: "VllmSampler | None"
    weights: "SharedWeights"
    count: int

    def answer(self, asked: JsonObject) -> tuple[JsonObject, dict[str, Any]]:
        """Held-out answers, or a generation and its tensors."""
        if asked["layout"] != self.weights.layout:
            raise ValueError("the generator's model has other weights than the trainer's")
        self.weights.take()
        self.trainer.be_at(asked["step"])
        if "evaluate" in asked:
            assert self.sampler is not None
            return self._evaluated(self.sampler, **asked["evaluate"]), {}
        self.trainer.restore_sampling(asked["state"])
        batch = self.trainer.fresh_batch(asked["count"] // self.count)
        state, metrics = self.trainer.sampling_state(), self.trainer.unlogged()
        return {"state": state, "metrics": metrics}, batch

    def _evaluated(
        self, sampler: "VllmSampler", prompts: list[list[int]], **asked: Any
    ) -> JsonObject:
        """Answers of this process's share of the prompts: each asks as many."""
        size = -(-len(prompts) // self.count)
        start = self.trainer.process * size
        own = prompts[start : start + size]
        filled = own + prompts[:1] * (size - len(own))
        sampled = sampler.sample(filled, **asked)._asdict()
        return {name: rows[: len(own)] for name, rows in sampled.items()}


def _answer(channel: "Channel", generator: _Generator) -> None:
    """Answer one request after the other, until nobody asks any more."""
    with suppress(EOFError):
        while True:
            asked, _ = channel.receive()
            try:
                said, batch = generator.answer(asked)
            except Exception as error:
                # The trainer names it; the log has where it was.
                traceback.print_exc()
                said, batch = {"error": f"{type(error).__name__}: {error}"}, {}
            channel.send(said, batch)


if __name__ == "__main__":
    main(sys.argv[1])
