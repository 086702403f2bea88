"""Checkpoints as training takes them: by transformers' own save and resume, when they are due.

FSDP's are written by torch's distributed checkpoints, each process's part by itself. What
`from_pretrained` reads of them is put together of the last ones alone.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from safetensors.torch import save_file
from torch.distributed.checkpoint import FileSystemReader
from transformers.trainer import FSDP_MODEL_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import ADAPTER_SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_NAME

from isosweep.config.study import CheckpointConfig
from isosweep.files import JsonObject
from isosweep.store.attempts import Attempt
from isosweep.store.checkpoints import (
    complete,
    find_resume_point,
    keep_only,
    keep_weights,
    remove,
    sync,
)
from isosweep.training.sampling import Tokenizer

# What accelerate puts before the names of weights.
_WEIGHTS = "model."


def _numbered_cpu(storage: Any, location: str) -> Any:
    """A storage that is loaded to `cpu:0`, as transformers asks where processes share a CPU."""
    return storage if location.startswith("cpu:") else None


# torch itself knows `cpu` alone. Any priority: nothing else answers to such a name.
torch.serialization.register_package(90, lambda _: None, _numbered_cpu)


class SavingError(OSError):
    """A checkpoint could not be written: a full disk, most likely. Names its directory."""


@contextmanager
def writing(checkpoint: Path) -> Iterator[None]:
    """Raise SavingError if the block fails to write `checkpoint`, and remove what it wrote: records
    need that room."""
    try:
        yield
    except Exception as error:
        # torch and safetensors describe a full disk in words of their own, without a path.
        free = shutil.disk_usage(checkpoint.parent).free / 1e9
        remove(checkpoint)
        reason = str(error).partition("\n")[0]
        text = f"{checkpoint}: cannot be written, with {free:.3g} GB free there ({reason})"
        raise SavingError(text) from error


class Saver:
    """When an attempt's checkpoints are due, and what is left of those before; of a run's processes
    the first asks it."""

    def __init__(self, config: CheckpointConfig, attempt: Attempt) -> None:
        self._config, self._attempt = config, attempt
        self._began = time.monotonic()
        # What the last one took.
        self._seconds = 0.0

    @property
    def interval_s(self) -> float:
        """Seconds from one checkpoint to the next, by what the last one took."""
        least, most = self._config.min_interval_s, self._config.max_interval_s
        return min(max(self._seconds / self._config.share, least), most)

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._began > self.interval_s

    def begin(self) -> None:
        """Note that a checkpoint is about to be written."""
        self._began = time.monotonic()

    def complete(self, checkpoint: Path, progress: JsonObject) -> None:
        """Complete a checkpoint, and remove those before. Raises SavingError, or OvertakenError."""
        with writing(checkpoint):
            complete(checkpoint, **progress)
        self._attempt.check()
        # All of it is on the disk: the one before would only serve if the disk itself lost some.
        if self._config.keep != "all":
            keep_only(self._attempt.run, self._attempt.number, [checkpoint])
        self._seconds = time.monotonic() - self._began

    def end(self, model: Any, tokenizer: Tokenizer) -> None:
        """Leave of the checkpoints what `checkpoint.keep` says, now that the run of `model` is
        over."""
        self._attempt.check()
        run, number, keep = self._attempt.run, self._attempt.number, self._config.keep
        last = find_resume_point(run, number + 1).checkpoint
        if keep != "all":
            keep_only(run, number, [last] if last is not None and keep != "none" else [])
        if keep == "weights" and last is not None:
            write_whole(last, model, tokenizer)
            keep_weights(last)


def write_whole(checkpoint: Path, model: Any, tokenizer: Tokenizer) -> None:
    """Put FSDP's parts of a model's weights together, as `from_pretrained` reads them.

    One process does, from the files, in its host's memory.
    """
    parts = checkpoint / f"{FSDP_MODEL_NAME}_0"
    if not parts.is_dir():
        return
    stored = FileSystemReader(parts).read_metadata().state_dict_metadata
    tied = {f"{_WEIGHTS}{name}" for name in model.all_tied_weights_keys}
    weights = {
        name: torch.empty(kept.size, dtype=kept.properties.dtype)
        for name, kept in stored.items()
        if name not in tied
    }
    torch.distributed.checkpoint.load(weights, checkpoint_id=parts, no_dist=True)
    adapted = getattr(model, "peft_config", {})
    for described in adapted.values() or (model.config, model.generation_config):
        described.save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    save_file(
        {name.removeprefix(_WEIGHTS): tensor for name, tensor in weights.items()},
        checkpoint / (ADAPTER_SAFE_WEIGHTS_NAME if adapted else SAFE_WEIGHTS_NAME),
        metadata={"format": "pt"},
    )


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
