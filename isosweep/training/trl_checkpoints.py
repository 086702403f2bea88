"""How TRL's trainer writes and reads checkpoints, in transformers' own format.

FSDP's are written by accelerate, each process's part by itself. What `from_pretrained` reads of
them is put together of the last ones alone.
"""

from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from safetensors.torch import save_file
from torch.distributed.checkpoint import FileSystemReader
from transformers.trainer import FSDP_MODEL_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import ADAPTER_SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_NAME
from trl import GRPOTrainer

from isosweep.store.checkpoints import sync
from isosweep.training.saving import writing

# What accelerate puts before the names of weights.
_WEIGHTS = "model."


def _numbered_cpu(storage: Any, location: str) -> Any:
    """A storage that is loaded to `cpu:0`, as transformers asks where processes share a CPU."""
    return storage if location.startswith("cpu:") else None


# torch itself knows `cpu` alone. Any priority: nothing else answers to such a name.
torch.serialization.register_package(90, lambda _: None, _numbered_cpu)


class CheckpointedTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPOTrainer with files beside its checkpoints."""

    # Hooks.

    def save_beside(self, checkpoint: Path) -> None:
        """Add to a checkpoint what the trainer has to know when it goes on; on every process."""

    def restore_from(self, checkpoint: Path) -> None:
        """Take back what `save_beside` wrote."""

    def write_whole(self, checkpoint: Path) -> None:
        """Put FSDP's parts of the weights together, as `from_pretrained` reads them.

        One process does, from the files, in its host's memory.
        """
        parts = checkpoint / f"{FSDP_MODEL_NAME}_0"
        if not parts.is_dir():
            return
        stored = FileSystemReader(parts).read_metadata().state_dict_metadata
        tied = {f"{_WEIGHTS}{name}" for name in self.model.all_tied_weights_keys}
        weights = {
            name: torch.empty(kept.size, dtype=kept.properties.dtype)
            for name, kept in stored.items()
            if name not in tied
        }
        torch.distributed.checkpoint.load(weights, checkpoint_id=parts, no_dist=True)
        adapted = getattr(self.model, "peft_config", {})
        for described in adapted.values() or (self.model.config, self.model.generation_config):
            described.save_pretrained(checkpoint)
        self.processing_class.save_pretrained(checkpoint)
        save_file(
            {name.removeprefix(_WEIGHTS): tensor for name, tensor in weights.items()},
            checkpoint / (ADAPTER_SAFE_WEIGHTS_NAME if adapted else SAFE_WEIGHTS_NAME),
            metadata={"format": "pt"},
        )

    # Overrides: TRL calls them.

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        directory = checkpoint_directory(self.args, self.state)
        with writing(directory):
            super()._save_checkpoint(model, trial)
            self.save_beside(directory)

    def train(self, resume_from_checkpoint: str | None = None, **options: Any) -> Any:
        """TRL's own, after the state beside the checkpoint is read back."""
        if resume_from_checkpoint is not None:
            self.restore_from(Path(resume_from_checkpoint))
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **options)


def checkpoint_directory(args: Any, state: Any) -> Path:
    """Where the trainer writes the checkpoint of its present step."""
    return Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"


def sync_all_nodes(checkpoint: Path) -> None:
    """Return once every process has written its part of a checkpoint, and what other nodes than the
    first wrote is on the disk; to be called by all. Raises OSError."""
    place = PartialState()
    place.wait_for_everyone()
    # The first process syncs as it completes the checkpoint.
    if place.is_local_main_process and not place.is_main_process:
        sync(checkpoint)
    place.wait_for_everyone()
