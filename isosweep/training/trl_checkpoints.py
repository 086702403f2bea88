"""How TRL's trainer writes and reads checkpoints: what can wait is written while it trains.

Weights and optimiser states of a process that holds them whole (one device, or DDP's first) are
copied to host memory with torch.distributed.checkpoint's stager and written from there by another
thread, in transformers' own format: `torch.distributed.checkpoint.async_save` itself would write
files that `from_pretrained` does not read, and needs a CPU backend beside NCCL. FSDP's are
written by accelerate with collectives of all processes, which must not run beside those of
training: there everything is written at once, each process's part by itself. What is read of FSDP's
parts by `from_pretrained` is put together of the last ones alone.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from safetensors.torch import save_file
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from transformers.trainer import FSDP_MODEL_NAME, OPTIMIZER_NAME, SCHEDULER_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import ADAPTER_SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_NAME
from trl import GRPOTrainer

from isosweep.store.checkpoints import written_here

# What accelerate puts before the names of weights.
_WEIGHTS = "model."


def _numbered_cpu(storage: Any, location: str) -> Any:
    """A storage that is loaded to `cpu:0`, as transformers asks where processes share a CPU."""
    return storage if location.startswith("cpu:") else None


# torch itself knows `cpu` alone. Any priority: nothing else answers to such a name.
torch.serialization.register_package(90, lambda _: None, _numbered_cpu)


class CheckpointedTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPOTrainer with files beside its checkpoints, and large ones written later.

    `write_later`: whether that is wanted.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        self.write_later = False
        self._left: list[Callable[[], None]] = []
        super().__init__(*given, **named)

    def write_rest(self) -> None:
        """Write what of the newest checkpoint is not on the disk yet; in any thread."""
        for write in self._left:
            write()

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
        self._left = []
        directory = checkpoint_directory(self.args, self.state)
        super()._save_checkpoint(model, trial)
        self.save_beside(directory)

    def _save(self, output_dir: str, state_dict: Any = None) -> None:
        if not self._whole_and_later:
            super()._save(output_dir, state_dict)
            return
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        trained = {name for name, weights in self.model.named_parameters() if weights.requires_grad}
        own = self.model.state_dict()
        if len(trained) < len(list(self.model.parameters())):
            # Of adapters no more is saved.
            own = {name: weights for name, weights in own.items() if name in trained}
        copy = self._staged({"weights": own})["weights"]
        self._left.append(partial(super()._save, output_dir, copy))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self._whole_and_later:
            super()._save_optimizer_and_scheduler(output_dir)
        elif self.args.should_save:
            copy = self._staged(self.optimizer.state_dict())
            self._left.append(partial(torch.save, copy, Path(output_dir) / OPTIMIZER_NAME))
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _staged(self, state: dict[str, Any]) -> dict[str, Any]:
        """A copy in host memory, by a stager of its own: in torch 2.11 none stages twice."""
        cuda = self.args.device.type == "cuda"
        options = StagingOptions(
            use_pinned_memory=cuda,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=cuda,
        )
        copy: dict[str, Any] = DefaultStager(options).stage(state)
        return copy

    @property
    def _whole_and_later(self) -> bool:
        # torchao's states cannot be staged: they have no `new_empty`.
        staged = self.args.optim != "adamw_torch_8bit"
        return self.write_later and staged and not self.is_fsdp_enabled

    def train(self, resume_from_checkpoint: str | None = None, **options: Any) -> Any:
        """TRL's own, after the state beside the checkpoint is read back."""
        if resume_from_checkpoint is not None:
            self.restore_from(Path(resume_from_checkpoint))
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **options)


def checkpoint_directory(args: Any, state: Any) -> Path:
    """Where the trainer writes the checkpoint of its present step."""
    return Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"


def written_by_all(checkpoint: Path) -> dict[str, int]:
    """Bytes of each file of a checkpoint by name, as the node that wrote it sees it, once every
    process has written its part; to be called by all.

    What other nodes than the first have written is then on the disk. Raises OSError where it
    cannot be put there.
    """
    place = PartialState()
    place.wait_for_everyone()
    # The first process syncs as it completes the checkpoint.
    speaks = place.is_local_main_process and not place.is_main_process
    seen: list[dict[str, int]] = gather_object([written_here(checkpoint) if speaks else {}])
    written: dict[str, int] = {}
    for files in seen:
        for name, size in files.items():
            # A node may be shown another's file as it was.
            written[name] = max(size, written.get(name, 0))
    return written
