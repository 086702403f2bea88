"""Off-policy by a fixed lag: a trainer that learns from rollouts which an older policy made.

A generator that runs beside its trainer is a few updates behind it (arXiv 2510.13786 recommends
up to 8). This gives the same statistics in one process, exactly repeatable: every generation is
sampled by the policy of its step, with that policy's log-probabilities, and waits for `lag`
further generations before it is trained on. The first `lag` generations have nothing older to
wait for: they are trained on at once, and again in their turn; as many are never trained on at
the end. So every step still samples one generation and trains on one. What it does not give is
the time that is saved when both run at once.
"""

from collections import deque
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from isosweep.training.trainer import CountedGRPOTrainer


class LaggedGRPOTrainer(CountedGRPOTrainer):
    """Trains on rollouts `recipe.rollout_lag` generations old; a checkpoint holds what waits."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting: deque[dict[str, torch.Tensor]] = deque()

    def _due(self, fresh: dict[str, Any]) -> dict[str, Any]:
        if "old_per_token_logps" not in fresh:
            with self._ledger.timing("scoring"):
                fresh["old_per_token_logps"] = self._own_log_probabilities(fresh)
        self._waiting.append(fresh)
        enough = len(self._waiting) > self._spec.recipe.rollout_lag
        return self._waiting.popleft() if enough else fresh

    def _own_log_probabilities(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Of every completion token, by the policy as it is: (rollouts, tokens)."""
        with torch.no_grad():
            logs, *_ = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].size(1),
                batch_size=self.args.per_device_train_batch_size,
            )
        found: torch.Tensor = logs
        return found

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        tensors = {
            f"{place}.{name}": value.contiguous()
            for place, batch in enumerate(self._waiting)
            for name, value in batch.items()
        }
        save_file(tensors, self._waiting_file(Path(self.args.output_dir) / folder))

    def train(self, resume_from_checkpoint: str | None = None, **named: Any) -> Any:
        if resume_from_checkpoint is not None:
            self._waiting = self._read_waiting(Path(resume_from_checkpoint))
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **named)

    def _read_waiting(self, checkpoint: Path) -> deque[dict[str, torch.Tensor]]:
        batches: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in load_file(self._waiting_file(checkpoint)).items():
            place, _, name = key.partition(".")
            batches.setdefault(int(place), {})[name] = value.to(self.accelerator.device)
        return deque(batches[place] for place in sorted(batches))

    def _waiting_file(self, checkpoint: Path) -> Path:
        return checkpoint / f"waiting-{self.accelerator.process_index}.safetensors"
