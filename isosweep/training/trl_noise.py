"""Gradients of some rollouts of an update, as TRL's trainer would add them up: for `noise`.

Nothing of training changes: no metric is logged, no random number of its generators is drawn, and
the weights have no gradients when it is done.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from isosweep.training.changed import changed
from isosweep.training.microbatches import bearing, by_prompt, cut, joined, rows_of
from isosweep.training.noise import norms_of_parts, squared_norm
from isosweep.training.rollouts import Batch

# Losses that are means over a micro-batch's rollouts; the others are sums with a fixed divisor.
_MEANS = frozenset({"grpo", "dr_grpo"})


class UpdateNoise:
    """Measures one update: before its first micro-batch, and when all are summed up."""

    def __init__(self, trainer: Any, parts: Sequence[Batch], packed: Sequence[Batch]) -> None:
        """`parts`: the update's rollouts in this process, of one width; `packed`: the micro-batches
        that were made of them. All processes measure at once."""
        self._trainer = trainer
        self._weights = [each for each in trainer.model.parameters() if each.requires_grad]
        self._batch = joined(parts)
        self._share_of_token = sum(each["entropy_share"] for each in packed) / max(
            int(bearing(self._batch).sum()), 1
        )
        problems = list(by_prompt(self._batch).items())
        names = torch.zeros(len(self._batch["prompt_ids"]), dtype=torch.int64)
        for prompt, places in problems:
            # The hash of a tuple of numbers is the same in every process.
            names[places] = hash(prompt)
        everyones = Counter(trainer.of_all(names.to(trainer.own_device)).tolist())
        self._rollouts = sum(everyones.values())
        self._same = sum(count * (count - 1) for count in everyones.values())
        self._sums = self._of_parts([places for _, places in problems])

    def ended(self) -> list[float]:
        """The update's `_SUMS`, once its gradient is summed up and before it is clipped."""
        rollouts = self._rollouts
        update = squared_norm(self._weights) * rollouts**2
        apart = rollouts * (rollouts - 1) - self._same
        return [*self._sums, update, rollouts, self._same, apart]

    def _of_parts(self, problems: list[list[int]]) -> list[float]:
        trainer = self._trainer
        generator = torch.Generator().manual_seed(trainer.args.seed + trainer.steps_done)
        cuda = [trainer.own_device] if trainer.own_device.type == "cuda" else []
        metrics: dict[str, Any] = {"train": defaultdict(list), "eval": defaultdict(list)}
        # What TRL logs of a loss is of all processes, which need not have as many parts.
        alone = {"gather": _as_given, "reduce": _as_given}
        with (
            torch.random.fork_rng(cuda),
            changed(trainer, _metrics=metrics),
            changed(trainer.accelerator, **alone),
        ):
            sums = norms_of_parts(
                self._weights,
                problems,
                trainer.args.per_device_train_batch_size,
                generator,
                self._backward,
            )
        processes = trainer.accelerator.num_processes
        # Devices average their gradients.
        scale = (self._rollouts / processes) ** 2
        sums[0], sums[3] = sums[0] * scale, sums[3] * scale
        own = torch.tensor([sums], dtype=torch.float64, device=trainer.own_device)
        total: list[float] = trainer.of_all(own).sum(0).tolist()
        return total

    def _backward(self, places: list[int]) -> None:
        """Add what the rollouts at `places` add to the update's gradient."""
        trainer = self._trainer
        part = cut(rows_of(self._batch, places))
        if not (trainer.beta or trainer.entropy_coef or part["advantages"].any()):
            # A problem whose rollouts are all right or all wrong adds exactly nothing.
            return
        share = len(places) / trainer.args.per_device_train_batch_size
        share = share if trainer.loss_type in _MEANS else 1.0
        part["entropy_share"] = int(bearing(part).sum()) * self._share_of_token / share
        with trainer.compute_loss_context_manager():
            loss = trainer._compute_loss(trainer.model, part)
        trainer.accelerator.backward(loss * share)


def _as_given(tensor: Any, *_: Any, **__: Any) -> Any:
    return tensor
