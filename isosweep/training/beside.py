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
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch

from isosweep.files import JsonObject
from isosweep.training.distributed import Rank
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.training.microbatches import Batch, cut, rows_of

if TYPE_CHECKING:
    from isosweep.training.trainer import SweepTrainer

# Loading a model from a cold network disk takes minutes.
LOADING_S = 1800.0
# Between two looks at whether the generator still runs.
_LOOK_S = 0.2
# How long a generator takes to leave by itself: its judging processes end as well.
_LEAVE_S = 5.0


class GeneratorError(RuntimeError):
    """The generator beside the trainer cannot sample; the run can be tried again."""


def send(pipe: Connection, message: JsonObject) -> None:
    """Send plain values, and tensors that lie on a CPU."""
    buffer = BytesIO()
    torch.save(message, buffer)
    pipe.send_bytes(buffer.getbuffer())


def receive(pipe: Connection) -> JsonObject:
    """Return the next message. Raises EOFError where the other process is gone."""
    message: JsonObject = torch.load(BytesIO(pipe.recv_bytes()), weights_only=True)
    return message


class SharedWeights:
    """The trained weights of a model, in anonymous memory that two processes share by `fd`."""

    def __init__(self, model: Any, fd: int) -> None:
        self._model = model
        sizes = [each.numel() * each.element_size() for each in self._trained]
        os.ftruncate(fd, sum(sizes))
        memory = torch.from_file(f"/proc/self/fd/{fd}", True, sum(sizes), dtype=torch.uint8)
        self._shared = memory.split(sizes)

    def put(self) -> None:
        """Copy the model's weights into the memory."""
        for weight, shared in zip(self._trained, self._shared, strict=True):
            shared.copy_(weight.detach().contiguous().view(-1).view(torch.uint8))

    def take(self) -> None:
        """Copy the memory's weights into the model."""
        for weight, shared in zip(self._trained, self._shared, strict=True):
            # A copy begins where its type can: a part of the memory may not.
            weight.detach().copy_(shared.clone().view(weight.dtype).view(weight.shape))

    @property
    def _trained(self) -> list[Any]:
        return [each for each in self._model.parameters() if each.requires_grad]


class Beside:
    """The generator as the processes that train see it: the first speaks with it, all call alike.

    `asked`: whether a generation is under way.
    """

    def __init__(
        self, rank: Rank, work: JsonObject, environment: Mapping[str, str], patience_s: float
    ) -> None:
        """Start the generator, on rank 0. `work`: its job; `environment`: variables, such as
        its devices; `patience_s`: the longest a generation may take."""
        self._rank, self._patience = rank, patience_s
        self._trainer: SweepTrainer
        self._loaded = self.asked = False
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

    def serve(self, trainer: "SweepTrainer") -> None:
        """Sample by the policy of `trainer` from now on."""
        self._trainer = trainer
        if self._process is not None:
            self._weights = SharedWeights(trainer.model, self._memory)

    def ask(self, count: int, state: JsonObject) -> None:
        """Begin sampling `count` rollouts for each training rank with the current policy.

        `state`: the sampling state of `SweepTrainer`.
        """
        self._begin({"count": count * self._rank.count, "state": state})
        self.asked = True

    def answer(self) -> tuple[Batch, JsonObject, dict[str, list[float]]]:
        """Return the generation under way, once it is sampled: this process's tensors, the state
        after it, and its metrics. Raises GeneratorError."""
        whole, state, metrics = self._answered()
        self.asked = False
        size = len(whole["prompt_ids"]) // self._rank.count
        first = self._rank.number * size
        batch = cut(rows_of(whole, range(first, first + size)))
        return {n: value.to(self._trainer.own_device) for n, value in batch.items()}, state, metrics

    def sample(self, prompts: Sequence[Sequence[int]], *, k: int, **asked: Any) -> list[list[int]]:
        """Return what `VllmSampler` there samples of this process's held-out `prompts`, as many as
        each other's. Raises GeneratorError."""
        from accelerate.utils import gather_object

        everyones = gather_object([list(prompt) for prompt in prompts])
        self._begin({"evaluate": {"prompts": everyones, "k": k, **asked}})
        own = len(prompts) * k
        completions: list[list[int]] = self._answered()
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

    def _begin(self, asked: JsonObject) -> None:
        self._step = self._trainer.steps_done
        if self._process is not None:
            self._weights.put()
            # Where it has ended there is no answer, which says so.
            with suppress(OSError):
                send(self._pipe, {"step": self._step, **asked})

    def _answered(self) -> Any:
        """What it answers, in all processes."""
        return self._rank.agree(None if self._process is None else self._received(self._process))

    def _received(self, process: subprocess.Popen[bytes]) -> Any:
        limit = self._patience if self._loaded else max(self._patience, LOADING_S)
        deadline, step = time.monotonic() + limit, self._step
        while not self._pipe.poll(_LOOK_S):
            # What it started may hold its end of the pipe open.
            if process.poll() is not None and not self._pipe.poll():
                raise GeneratorError(
                    f"the generator ended with status {process.returncode} at step {step}"
                )
            if time.monotonic() > deadline:
                process.kill()
                raise GeneratorError(
                    f"the generator has given no answers of step {step} for {limit:.0f} s"
                )
        try:
            message = receive(self._pipe)
        except (EOFError, ConnectionResetError):
            raise GeneratorError(
                f"the generator ended with status {process.wait()} at step {step}"
            ) from None
        if "error" in message:
            raise GeneratorError(f"the generator failed: {message['error']}")
        self._loaded = True
        return message["answer"]
