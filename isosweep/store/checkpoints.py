"""A checkpoint's files: synced before the marker that lists them, checked against it, removed."""

import fnmatch
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from isosweep.files import names, read_json, write_json
from isosweep.store.paths import (
    CHECKPOINT,
    CHECKPOINT_FILES,
    CHECKPOINT_PROGRESS,
    RunPaths,
    complete_checkpoints,
)

MARKER_VERSION = 1
# What only a resumed run reads: of transformers' and accelerate's trainers, and ours.
_STATES = (
    *("optimizer*", "scheduler.pt", "rng_state*.pth", "scaler.pt", "trainer_state.json"),
    *("training_args.bin", "pytorch_model_fsdp_0"),
    *("isosweep*.json", "waiting-*.safetensors"),
)
# Which the trainer writes beside its checkpoints.
_CARD = "README.md"


def complete(checkpoint: Path) -> None:
    """Force every file of `checkpoint`, and every directory from the run's on, to the disk, then
    write its marker, which is on the disk when this returns: the one before may go.

    The marker lists each file with its bytes. Whoever may look into the directory may read them,
    and nobody else may write them. Raises OSError.
    """
    files = sorted(_files(checkpoint))
    # Libraries write some for their user alone (safetensors), and some for the group to change.
    for path in files:
        with suppress(OSError):
            path.chmod(checkpoint.stat().st_mode & 0o644)
    sync(checkpoint)
    listed = {str(path.relative_to(checkpoint)): {"bytes": path.stat().st_size} for path in files}
    marker = {"version": MARKER_VERSION, "files": listed}
    write_json(checkpoint / CHECKPOINT_FILES, marker)
    _sync(checkpoint)


def sync(checkpoint: Path) -> None:
    """Force to the disk the files of a checkpoint, and every directory from the run's on."""
    # A directory's name is in the one above it.
    for path in [*checkpoint.rglob("*"), checkpoint, *checkpoint.parents[:3]]:
        _sync(path)


def fault(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint that was completed: which file, and how; None if nothing.

    Every file is compared in size with what the marker says.
    """
    try:
        document = read_json(checkpoint / CHECKPOINT_FILES) or {}
        if document.get("version") != MARKER_VERSION:
            return f"{CHECKPOINT_FILES} has version {document.get('version')}"
        listed = {name: int(file["bytes"]) for name, file in document["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        return f"{CHECKPOINT_FILES} cannot be read ({type(error).__name__})"
    if CHECKPOINT_PROGRESS not in listed:
        return f"{CHECKPOINT_FILES} does not list {CHECKPOINT_PROGRESS}"
    for name, size in listed.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes and was written with {size}"
    return None


def size_of(checkpoint: Path) -> int:
    """Bytes of all files of a checkpoint."""
    return sum(path.stat().st_size for path in _files(checkpoint))


def complete_bytes(run: RunPaths) -> int:
    """Bytes of all complete checkpoints of a run, as their own lists of files say."""
    total = 0
    # As text: of a Path each takes longer.
    checkpoints = str(run.checkpoints)
    for attempt in names(checkpoints):
        for name in names(f"{checkpoints}/{attempt}"):
            try:
                marker: Any = read_json(f"{checkpoints}/{attempt}/{name}/{CHECKPOINT_FILES}")
                total += sum(int(known["bytes"]) for known in marker["files"].values())
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                # Not complete, or damaged: `fault` says so to who resumes it.
                continue
    return total


def can_go_on(run: RunPaths) -> bool:
    """Whether a complete checkpoint is there of any attempt."""
    return any(complete_checkpoints(attempt) for attempt in run.checkpoints.glob("*"))


def newest(run: RunPaths, attempt: int, start: Path | None) -> list[Path]:
    """The completed checkpoints that `attempt` has to go back to, the newest first.

    Its own, then `start`, which it went on from.
    """
    own = complete_checkpoints(run.attempt_checkpoints(attempt))
    return [own[step] for step in sorted(own, reverse=True)] + ([start] if start else [])


def keep_only(run: RunPaths, attempt: int, kept: Collection[Path]) -> None:
    """Remove the checkpoints of `attempt` and of earlier ones, but for `kept`; not a later's.

    Nothing behind a link, and nothing of another name than a checkpoint's or the trainer's card.
    """
    for name in names(run.checkpoints):
        if not name.isdecimal() or int(name) > attempt:
            continue
        directory = run.checkpoints / name
        # What is a link is not ours, and somebody else's may not be removed by everybody.
        if directory.is_symlink():
            continue
        with suppress(OSError):
            own = [path for path in directory.iterdir() if CHECKPOINT.fullmatch(path.name)]
            for checkpoint in own:
                if checkpoint not in kept:
                    remove(checkpoint)
            if any(checkpoint in kept for checkpoint in own):
                continue
            (directory / _CARD).unlink(missing_ok=True)
            # Only where nothing is left in it.
            directory.rmdir()


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint; its marker first, for a kill in between leaves none that is broken.

    Of what cannot be removed, or is a link, nothing is: that ends no training.
    """
    if checkpoint.is_symlink():
        return
    with suppress(OSError):
        (checkpoint / CHECKPOINT_FILES).unlink()
    with suppress(OSError):
        shutil.rmtree(checkpoint)


def states_of(checkpoint: Path) -> list[Path]:
    """What of a checkpoint only a run that goes on reads: its optimiser's states, mostly."""
    return [
        checkpoint / name
        for name in names(checkpoint)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in _STATES)
    ]


def keep_weights(checkpoint: Path) -> None:
    """Leave of a checkpoint what a model is loaded from; no run goes on from it any more."""
    (checkpoint / CHECKPOINT_FILES).unlink(missing_ok=True)
    for path in states_of(checkpoint):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _files(checkpoint: Path) -> Iterator[Path]:
    """Every file of a checkpoint but its marker."""
    for path in checkpoint.rglob("*"):
        if path.is_file() and path != checkpoint / CHECKPOINT_FILES:
            yield path


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
