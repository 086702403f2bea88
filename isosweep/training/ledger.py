"""Compute spent, counted where it is spent: tokens and FLOPs by phase, and seconds."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from isosweep.compute import Compute
from isosweep.costs.flops import Count, PhaseFlops, attention_pairs, hardware_flops, rollout_flops
from isosweep.plan.spec import RunSpec

Phase = Literal["generation", "reward", "scoring", "training"]
# Of `Compute`: what is spent before an update is made with rollouts.
_SAMPLING = (
    *("rollouts", "prompt_tokens", "completion_tokens", "prefill_flops", "decode_flops"),
    *("old_policy_flops", "reference_flops", "scoring_hardware_flops"),
    *("generation_seconds", "reward_seconds", "scoring_seconds"),
)


class Ledger:
    """What training has spent so far; evaluation is never booked.

    Counts are of all processes together: every process keeps the same ledger. Seconds are this
    process's wall time times the run's devices. Where another process samples,
    seconds of a phase are times the devices of the process that it ran in.
    """

    def __init__(self, spec: RunSpec, *, generates: bool = False) -> None:
        """`generates`: for the process that samples beside the trainer's."""
        self._spec = spec
        self._architecture = spec.model.architecture
        # On a CPU a process is a device.
        self._all_devices = spec.devices_in_use
        self._devices = 1 if generates else spec.devices
        self._passes = spec.passes
        self.spent = Compute()
        # Of this process, times its devices, in blocks within the one that is timed.
        self._inner = 0.0

    def sampled(self, prompt_tokens: Sequence[int], completion_tokens: Sequence[int]) -> None:
        """Rollouts that were sampled, n of every prompt; both (rollouts,)."""
        sharing = self._passes.prompt_sharing
        flops = self._flops(prompt_tokens, completion_tokens, sharing)
        self.spent += Compute(
            rollouts=len(prompt_tokens),
            prompt_tokens=sum(prompt_tokens),
            completion_tokens=sum(completion_tokens),
            prefill_flops=float(np.sum(flops.prefill)),
            decode_flops=float(np.sum(flops.decode)),
        )

    def continued(self, read: Sequence[int], forced: Sequence[int], sampled: Sequence[int]) -> None:
        """Rollouts that were interrupted and went on; all (rollouts,).

        `read`: tokens of prompt and completion up to there, read again as one prompt whose last
        `forced` tokens are new; `sampled`: tokens sampled after that.
        """
        flops = self._flops(read, sampled)
        self.spent += Compute(
            completion_tokens=sum(forced) + sum(sampled),
            prefill_flops=float(np.sum(flops.prefill)),
            decode_flops=float(np.sum(flops.decode)),
        )

    def scored(self, prompt_tokens: Sequence[int], completion_tokens: Sequence[int]) -> None:
        """Rollouts whose old and reference log-probabilities were computed; both (rollouts,)."""
        flops = self._flops(prompt_tokens, completion_tokens)
        self.spent += Compute(
            old_policy_flops=float(np.sum(flops.old_policy)),
            reference_flops=float(np.sum(flops.reference)),
        )

    def trained(self, prompt_tokens: Sequence[int], completion_tokens: Sequence[int]) -> None:
        """The rollouts of one generation batch that updates are made with; both (rollouts,)."""
        flops = self._flops(prompt_tokens, completion_tokens)
        self.spent += Compute(generations=1, training_flops=float(np.sum(flops.training)))

    def computed(
        self, phase: Literal["scoring", "training"], shapes: Sequence[Sequence[int]]
    ) -> None:
        """What devices compute in one log-probability pass, or in all updates with a generation.

        `shapes`, of the micro-batches of all processes: rollouts, positions that their prompts and
        their completions are padded to, tokens of all completions.
        """
        rows, prompt, completion, answers = np.array(shapes, dtype=np.float64).T
        row = hardware_flops(
            self._architecture,
            self._passes,
            prompt=prompt,
            completion=completion,
            answer=answers / rows,
            checkpointing=self._spec.gradient_checkpointing,
            pairs=attention_pairs(self._spec.attention),
        )
        flops: Any = float(np.sum(rows * getattr(row, phase)))
        self.spent += Compute(**{f"{phase}_hardware_flops": flops})

    def took(self, kind: Literal["device", "checkpoint", "startup"], seconds: float) -> None:
        """Wall time of a whole step, that training stood still for a checkpoint, or from an
        attempt's beginning to its first evaluation or step."""
        taken: Any = seconds * self._all_devices
        self.spent += Compute(**{f"{kind}_seconds": taken})

    def of_sampling(self) -> dict[str, Any]:
        """What sampling and scoring have spent so far."""
        return {name: getattr(self.spent, name) for name in _SAMPLING}

    def restore_sampling(self, spent: dict[str, Any]) -> None:
        """Go on where `of_sampling` was called, here or in another process."""
        self.spent = replace(self.spent, **spent)

    @contextmanager
    def timing(self, phase: Phase | None) -> Iterator[None]:
        """Books the wall time of the block under `phase`, less that of blocks within it; None: the
        process waits for another, which books what it does."""
        began, outer = time.perf_counter(), self._inner
        self._inner = 0.0
        yield
        seconds = (time.perf_counter() - began) * self._devices
        if phase is not None:
            name = f"{phase}_seconds"
            booked = getattr(self.spent, name) + seconds - self._inner
            self.spent = replace(self.spent, **{name: booked})
        self._inner = outer + seconds

    def _flops(
        self, prompts: Sequence[int], completions: Sequence[int], sharing: Count = 1.0
    ) -> PhaseFlops:
        """Of rollouts; a prompt is read once for `sharing` of them."""
        return rollout_flops(
            self._architecture,
            np.asarray(prompts, dtype=np.float64),
            np.asarray(completions, dtype=np.float64),
            replace(self._passes, prompt_sharing=sharing),
        )
