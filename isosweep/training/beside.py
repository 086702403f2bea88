"""Generators beside the trainer: other processes sample the next generation meanwhile.

Step t of a run with `recipe.rollout_lag` trains on a generation of an earlier step, and samples one
with the policy of before its update. The other processes, a world of their own, are sent that
policy, and where the sampling is: which problems come next, and what has been spent. Each answers
with its rows of the generation as training will need them, scored and with the policy's
log-probabilities. They remember nothing between two generations, so where one was killed all are
started anew and asked again, with the same answer. Where vLLM samples they have the only engines,
and held-out answers are sampled there too.

The first process that trains speaks with them (`Beside`), for all that train (`Shared`).
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from isosweep.files import JsonObject
from isosweep.training.channel import Channel, Message, SharedWeights, ready
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.training.microbatches import cut, joined, rows_of, widened
from isosweep.training.ranks import Group, Rank
from isosweep.training.rollouts import Batch

# A generation is asked for again so often, where a generator ends without an answer.
RESTARTS = 3
# Loading a model from a cold network disk takes minutes.
LOADING_S = 1800.0
# How long generators take to leave by themselves: what judges for them is to end as well.
_LEAVE_S = 5.0
# How much later than the others lose it a process is seen to have ended.
_SEEN_S = 2.0


class GeneratorError(RuntimeError):
    """The generators beside the trainer cannot sample; the run can be tried again."""


class Beside:
    """The generators' processes, as the first trainer sees them; one request is under way at a
    time."""

    def __init__(
        self, work: JsonObject, environment: Mapping[str, str], count: int, patience_s: float
    ) -> None:
        """Start `count` of them. `work`: what they are told to do, `environment`: further variables
        of theirs, their devices among them, `patience_s`: how long a generation may take."""
        self._work, self._count, self._patience = work, count, patience_s
        # As it is now: what training adds is not for a generator that is started again.
        inherited = dict(os.environ)
        forget_ranks_and_precision(inherited)
        self._environment = {**inherited, **environment}
        self.memory = os.memfd_create("weights", os.MFD_CLOEXEC)
        self._request: JsonObject = {}
        self._restarts = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._channels: list[Channel] = []
        self._start()

    def begin(self, request: JsonObject) -> None:
        """Ask all of them for what `generator` answers; their weights are there."""
        self._request = request
        self._send()

    def finish(self) -> list[Message]:
        """What each answers. Where one has ended all are started again, RESTARTS times.

        Raises GeneratorError where that did not help, where one takes longer than its time, and
        with what one met.
        """
        while True:
            try:
                messages = self._received()
                break
            except EOFError:
                self._start_again()
            except TimeoutError:
                self._end(0.0)
                raise GeneratorError(
                    f"the generator has given no answers of step {self._request['step']} for "
                    f"{self._limit:.0f} s"
                ) from None
        self._restarts, self._loaded = 0, True
        return messages

    def close(self) -> None:
        """End them."""
        self._end(_LEAVE_S if self._loaded else 0.0)
        os.close(self.memory)

    def _received(self) -> list[Message]:
        deadline = time.monotonic() + self._limit
        found: dict[Channel, Message] = {}
        while len(found) < self._count:
            channel = ready([each for each in self._channels if each not in found], deadline)
            message = channel.receive(max(0.0, deadline - time.monotonic()))
            if "error" in message.said:
                self._require_all()
                raise GeneratorError(f"the generator failed: {message.said['error']}")
            found[channel] = message
        return [found[channel] for channel in self._channels]

    def _require_all(self) -> None:
        """Raise EOFError where one has ended: that is what the others met."""
        if self._count > 1 and self._ended(_SEEN_S) is not None:
            raise EOFError

    def _ended(self, within_s: float = 0.0) -> int | None:
        """The exit status of the first that has ended; its socket is closed a little before."""
        deadline = time.monotonic() + within_s
        while True:
            for process in self._processes:
                if (status := process.poll()) is not None:
                    return status
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.05)

    @property
    def _limit(self) -> float:
        """Seconds that the next answer may take; the first waits for a model to be loaded."""
        return self._patience if self._loaded else max(self._patience, LOADING_S)

    def _start(self) -> None:
        self._loaded = False
        self._processes, self._channels = [], []
        group = Group.alone(self._count)
        for local in range(self._count):
            own, its = socket.socketpair()
            place = group.place(local) if self._count > 1 else {}
            work = {
                **self._work,
                "pid": os.getpid(),
                "fds": [its.fileno(), self.memory],
                "count": self._count,
            }
            with its:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "isosweep.training.generator", json.dumps(work)],
                    env={**self._environment, **place},
                    pass_fds=work["fds"],
                    stdin=subprocess.DEVNULL,
                )
            self._processes.append(process)
            self._channels.append(Channel(own, lambda: self._ended() is None))

    def _send(self) -> None:
        with suppress(EOFError):
            for channel in self._channels:
                channel.send(self._request, seconds=self._limit)

    def _start_again(self) -> None:
        """Start new ones, and ask them for what was under way."""
        ended = f"the generator ended with status {self._ended(_SEEN_S)}"
        self._end(0.0)
        if self._restarts == RESTARTS:
            raise GeneratorError(
                f"{ended} at step {self._request['step']}, after {RESTARTS} new starts"
            )
        self._restarts += 1
        sys.stderr.write(f"{ended} at step {self._request['step']}: it is started again\n")
        self._start()
        self._send()

    def _end(self, grace_s: float) -> None:
        """End the processes, which may leave by themselves within so many seconds."""
        for channel in self._channels:
            channel.close()
        deadline = time.monotonic() + grace_s
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()


class Shared:
    """The generators as each of the processes that train sees them; all call alike, and have the
    same answers but for the generation's rows.

    `beside`: theirs, None but for the first. `asked`: whether a generation is under way.
    """

    def __init__(self, beside: Beside | None, rank: Rank) -> None:
        self._beside, self._rank = beside, rank
        self._weights: SharedWeights
        self.asked = False

    def share(self, model: Callable[[], Any]) -> None:
        """What gives the policy that is trained."""
        self._weights = SharedWeights(model, self._beside.memory if self._beside else None)

    def ask(self, step: int, count: int, state: JsonObject) -> None:
        """Begin the generation of `step`, of `count` rollouts a process that trains, by the policy
        as it is now.

        `state`: of the sampling, as `CountedGRPOTrainer` gives it.
        """
        self._begin(step, {"count": count * self._rank.count, "state": state})
        self.asked = True

    def answer(self, device: Any) -> tuple[Batch, JsonObject, dict[str, list[float]]]:
        """The generation under way, once it is sampled: this process's tensors on `device`, the
        state after it, and its metrics. Raises GeneratorError."""
        messages = self._rank.agree(self._beside.finish() if self._beside else [])
        self.asked = False
        whole = joined(widened([each.tensors for each in messages]))
        size = len(whole["prompt_ids"]) // self._rank.count
        first = self._rank.number * size
        own = cut(rows_of(whole, range(first, first + size)))
        batch = {name: value.to(device) for name, value in own.items()}
        return batch, messages[0].said["state"], messages[0].said["metrics"]

    def evaluate(self, step: int, prompts: list[list[int]], asked: JsonObject) -> JsonObject:
        """What the generators sample of this process's `prompts`, as many as each other's, by the
        policy as it is after `step` updates; `asked`: further arguments of a sampler of held-out
        answers. Raises GeneratorError."""
        from accelerate.utils import gather_object

        rank, everyones = self._rank, gather_object(prompts)
        self._begin(step, {"evaluate": {"prompts": everyones, **asked}})
        parts = rank.agree([each.said for each in self._beside.finish()] if self._beside else [])
        start, end = rank.number * len(prompts), (rank.number + 1) * len(prompts)
        return {name: [row for part in parts for row in part[name]][start:end] for name in parts[0]}

    def _begin(self, step: int, asked: JsonObject) -> None:
        self._weights.put()
        if self._beside is not None:
            self._beside.begin({"step": step, "layout": self._weights.layout, **asked})
