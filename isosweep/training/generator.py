"""A generator beside the trainer: another process samples the next generation meanwhile.

Step t of a run with `recipe.rollout_lag` trains on a generation of an earlier step, and samples one
with the policy before its update. The generator receives that policy, through memory that both
processes see, and the state of the sampling: which problems come next, and what has been spent. It
answers with the generation as training will need it, scored and with the policy's
log-probabilities, and remembers nothing between two generations. So where either process ends the
next attempt goes on from a checkpoint with the same numbers. With vLLM the generator has the only
engine, and samples held-out answers too.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.files import JsonObject
from isosweep.store.paths import RunPaths
from isosweep.training.distributed import Rank, end_with
from isosweep.training.environment import forget_ranks_and_precision

if TYPE_CHECKING:
    from isosweep.training.microbatches import Batch
    from isosweep.training.trainer import SweepTrainer

# Loading a model from a cold network disk takes minutes.
LOADING_S = 1800.0
# Between two looks at whether the generator still runs.
_POLL_S = 0.2
# How long a generator takes to leave by itself: its judging processes end as well.
_LEAVE_S = 5.0
# The trainer decides what these mean.
_FOR_THE_TRAINER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


class GeneratorError(RuntimeError):
    """The generator beside the trainer cannot sample; the run can be tried again."""


class Generator:
    """The generator as the processes that train see it: all call alike, the first speaks with it.

    `sampling`: whether a generation is under way.
    """

    def __init__(
        self, rank: Rank, work: JsonObject, environment: Mapping[str, str], patience_s: float
    ) -> None:
        """Start the generator, on rank 0. `work`: its job; `environment`: variables, such as
        its devices; `patience_s`: the longest a generation may take."""
        self._rank, self._patience = rank, patience_s
        self._loaded = self.sampling = False
        self._process: subprocess.Popen[bytes] | None = None
        if not rank.leads:
            return
        inherited = dict(os.environ)
        forget_ranks_and_precision(inherited)
        self._memory = os.memfd_create("weights", os.MFD_CLOEXEC)
        self._pipe, its = Pipe()
        fds = [its.fileno(), self._memory]
        document = json.dumps({**work, "pid": os.getpid(), "fds": fds})
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "isosweep.training.generator", document],
            env={**inherited, **environment},
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
        )
        its.close()

    def connect(self, trainer: "SweepTrainer") -> None:
        """Sample by the policy of `trainer` from now on."""
        self._trainer = trainer
        if self._process is not None:
            self._weights = _SharedWeights(trainer.model, self._memory)

    def begin(self, count: int, state: JsonObject) -> None:
        """Begin sampling `count` rollouts for each training rank with the current policy.

        `state`: the trainer's `sampling_state`.
        """
        self._ask({"count": count * self._rank.count, "state": state})
        self.sampling = True

    def finish(self) -> "tuple[Batch, JsonObject, dict[str, list[float]]]":
        """Return the generation under way, once it is sampled: this process's tensors, the state
        after it, and its metrics. Raises GeneratorError."""
        from isosweep.training.microbatches import cut, rows_of

        whole, state, metrics = self._answer()
        self.sampling = False
        size = len(whole["prompt_ids"]) // self._rank.count
        first = self._rank.number * size
        batch = cut(rows_of(whole, range(first, first + size)))
        return {n: value.to(self._trainer.own_device) for n, value in batch.items()}, state, metrics

    def sample(self, prompts: Sequence[Sequence[int]], *, k: int, **asked: Any) -> list[list[int]]:
        """Return what `VllmSampler` there samples of this process's held-out `prompts`, as many as
        each other's. Raises GeneratorError."""
        from accelerate.utils import gather_object

        everyones = gather_object([list(prompt) for prompt in prompts])
        self._ask({"evaluate": {"prompts": everyones, "k": k, **asked}})
        own = len(prompts) * k
        completions: list[list[int]] = self._answer()
        return completions[self._rank.number * own :][:own]

    def close(self) -> None:
        """End the generator."""
        if self._process is None:
            return
        self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S if self._loaded else 0.0)
        self._process.kill()
        self._process.wait()
        os.close(self._memory)

    def _ask(self, question: JsonObject) -> None:
        self._step = self._trainer.steps_done
        if self._process is not None:
            self._weights.put()
            # Where it has ended there is no answer, which says so.
            with suppress(OSError):
                _send(self._pipe, {"step": self._step, **question})

    def _answer(self) -> Any:
        """What it answers, in all processes."""
        return self._rank.agree(None if self._process is None else self._received(self._process))

    def _received(self, process: subprocess.Popen[bytes]) -> Any:
        limit = self._patience if self._loaded else max(self._patience, LOADING_S)
        deadline, step = time.monotonic() + limit, self._step
        try:
            while not self._pipe.poll(_POLL_S):
                # What it started may hold its end of the pipe open.
                if process.poll() is not None and not self._pipe.poll():
                    raise EOFError
                if time.monotonic() > deadline:
                    process.kill()
                    raise GeneratorError(
                        f"the generator has given no answers of step {step} for {limit:.0f} s"
                    )
            message = _receive(self._pipe)
        except (EOFError, ConnectionResetError):
            status = process.wait()
            raise GeneratorError(
                f"the generator ended with status {status} at step {step}"
            ) from None
        if "error" in message:
            raise GeneratorError(f"the generator failed: {message['error']}")
        self._loaded = True
        return message["answer"]


class _SharedWeights:
    """The trained weights of a model, in anonymous memory that two processes share by `fd`."""

    def __init__(self, model: Any, fd: int) -> None:
        import torch

        self._trained = [each for each in model.parameters() if each.requires_grad]
        sizes = [each.numel() * each.element_size() for each in self._trained]
        os.ftruncate(fd, sum(sizes))
        memory = torch.from_file(f"/proc/self/fd/{fd}", True, sum(sizes), dtype=torch.uint8)
        self._shared = memory.split(sizes)

    def put(self) -> None:
        """Copy the model's weights into the memory."""
        for weight, shared in zip(self._trained, self._shared, strict=True):
            shared.copy_(weight.detach().contiguous().view(-1).view(shared.dtype))

    def take(self) -> None:
        """Copy the memory's weights into the model."""
        for weight, shared in zip(self._trained, self._shared, strict=True):
            # A copy begins where its type can: a part of the memory may not.
            weight.detach().copy_(shared.clone().view(weight.dtype).view(weight.shape))


def _send(pipe: Connection, message: JsonObject) -> None:
    """Send plain values, and tensors that lie on a CPU."""
    import torch

    buffer = BytesIO()
    torch.save(message, buffer)
    pipe.send_bytes(buffer.getbuffer())


def _receive(pipe: Connection) -> JsonObject:
    """Return the next message. Raises EOFError where the other process is gone."""
    import torch

    message: JsonObject = torch.load(BytesIO(pipe.recv_bytes()), weights_only=True)
    return message


def main(text: str) -> None:
    """Answer the process that started this one until it has no more to ask; `text`: `work` of
    `Generator`, as JSON."""
    work = json.loads(text)
    end_with(work["pid"])
    for number in _FOR_THE_TRAINER:
        signal.signal(number, signal.SIG_IGN)
    for fd in work["fds"]:
        # What judges for this process must not keep them open.
        os.set_inheritable(fd, False)
    end, memory = work["fds"]
    from isosweep.training.session import lean_imports, spec_of

    run = RunPaths(Path(work["run_dir"]))
    spec = spec_of(run, trust=work["trust"])
    with lean_imports():
        from isosweep.training.assembly import make_generator
        from isosweep.training.lag import restore_sampling, sampling_state

    trainer, sampler = make_generator(spec, run, work["directory"])
    weights, pipe = _SharedWeights(trainer.model, memory), Connection(end)
    with suppress(EOFError, OSError):
        while True:
            asked = _receive(pipe)
            try:
                weights.take()
                trainer.state.global_step = asked["step"]
                if "evaluate" in asked:
                    assert sampler is not None
                    answer: object = sampler.sample(**asked["evaluate"])
                else:
                    restore_sampling(trainer, asked["state"])
                    batch = {n: v.cpu() for n, v in trainer.fresh_batch(asked["count"]).items()}
                    answer = batch, sampling_state(trainer), trainer.take_metrics()
                message: JsonObject = {"answer": answer}
            except Exception as error:
                # The trainer names it; the log has where it was.
                traceback.print_exc()
                message = {"error": f"{type(error).__name__}: {error}"}
            _send(pipe, message)


if __name__ == "__main__":
    main(sys.argv[1])
