"""A generator beside the trainer: another process samples the next generation meanwhile.

Step t of a run with `recipe.rollout_lag` trains on a generation of an earlier step, and samples one
with the policy of before its update. The second process is sent that policy, and where the sampling
is: which problems come next, and what has been spent. It answers with the generation as training
will need it, scored and with the policy's log-probabilities. It remembers nothing between two
generations, so one that was killed is started anew and asked again, with the same answer. Where
vLLM samples it has the only engine, and held-out answers are sampled there too.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from isosweep.files import JsonObject
from isosweep.training.channel import Channel, Message, SharedWeights
from isosweep.training.rollouts import Batch

# A generation is asked for again so often, where the generator ends without an answer.
RESTARTS = 3
# Loading a model from a cold network disk takes minutes.
LOADING_S = 1800.0
# How long a generator takes to leave by itself: what judges for it is to end as well.
_LEAVE_S = 5.0


class GeneratorError(RuntimeError):
    """The generator beside the trainer cannot sample; the run can be tried again."""


class Beside:
    """The generator's process, as the trainer sees it; one generation is under way at a time.

    `asked`: the step whose generation that is.
    """

    def __init__(self, work: JsonObject, environment: Mapping[str, str], patience_s: float) -> None:
        """Start it. `work`: what it is told to do, `environment`: further variables of it, its
        devices among them, `patience_s`: how long a generation may take."""
        self._work, self._environment, self._patience = work, environment, patience_s
        self._memory = os.memfd_create("weights", os.MFD_CLOEXEC)
        self._weights: SharedWeights | None = None
        self._request: JsonObject | None = None
        self._restarts = 0
        self._channel: Channel
        self._start()

    def share(self, model: Any) -> None:
        """The policy that is trained."""
        self._weights = SharedWeights(model, self._memory)

    @property
    def asked(self) -> bool:
        """Whether a generation is under way."""
        return self._request is not None

    def ask(self, step: int, count: int, state: JsonObject) -> None:
        """Begin the generation of `step`, of `count` rollouts of the policy as it is now.

        `state`: of the sampling, as `CountedGRPOTrainer` gives it.
        """
        self._begin(step, {"count": count, "state": state})

    def answer(self, device: Any) -> tuple[Batch, JsonObject, dict[str, list[float]]]:
        """The generation under way, once it is sampled: its tensors on `device`, the state after
        it, and its metrics. Raises GeneratorError."""
        said, tensors = self._finish()
        batch = {name: value.to(device) for name, value in tensors.items()}
        return batch, said["state"], said["metrics"]

    def evaluate(self, step: int, asked: JsonObject) -> JsonObject:
        """What the generator samples of `asked`, arguments of a sampler of held-out answers, by the
        policy as it is after `step` updates. Raises GeneratorError."""
        self._begin(step, {"evaluate": asked})
        return self._finish().said

    def _begin(self, step: int, asked: JsonObject) -> None:
        assert self._weights is not None
        self._weights.put()
        self._request = {"step": step, "layout": self._weights.layout, **asked}
        with suppress(EOFError):
            self._channel.send(self._request, seconds=self._limit)

    def _finish(self) -> Message:
        """What is answered. A generator that has ended is started again, RESTARTS times.

        Raises GeneratorError where that did not help, where it takes longer than its time, and with
        what it met.
        """
        assert self._request is not None
        while True:
            try:
                message = self._channel.receive(self._limit)
                break
            except EOFError:
                self._start_again()
            except TimeoutError:
                self._end(0.0)
                raise GeneratorError(
                    f"the generator has given no answers of step {self._request['step']} for "
                    f"{self._limit:.0f} s"
                ) from None
        if "error" in message.said:
            raise GeneratorError(f"the generator failed: {message.said['error']}")
        self._request, self._restarts, self._loaded = None, 0, True
        return message

    def close(self) -> None:
        """End the generator."""
        self._end(_LEAVE_S if self._loaded else 0.0)
        os.close(self._memory)

    @property
    def _limit(self) -> float:
        """Seconds that the next answer may take; the first waits for a model to be loaded."""
        return self._patience if self._loaded else max(self._patience, LOADING_S)

    def _start(self) -> None:
        own, its = socket.socketpair()
        self._loaded = False
        work = {**self._work, "pid": os.getpid(), "fds": [its.fileno(), self._memory]}
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "isosweep.training.generator", json.dumps(work)],
                env={**os.environ, **self._environment},
                pass_fds=work["fds"],
                stdin=subprocess.DEVNULL,
            )
        self._channel = Channel(own, lambda: self._process.poll() is None)

    def _start_again(self) -> None:
        """Start a new one, and ask it for what was under way."""
        assert self._request is not None
        self._end(0.0)
        ended = f"the generator ended with status {self._process.returncode}"
        if self._restarts == RESTARTS:
            raise GeneratorError(
                f"{ended} at step {self._request['step']}, after {RESTARTS} new starts"
            )
        self._restarts += 1
        sys.stderr.write(f"{ended} at step {self._request['step']}: it is started again\n")
        self._start()
        with suppress(EOFError):
            self._channel.send(self._request, seconds=self._limit)

    def _end(self, grace_s: float) -> None:
        """End the process, which may leave by itself within so many seconds."""
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            if grace_s:
                self._process.wait(grace_s)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
