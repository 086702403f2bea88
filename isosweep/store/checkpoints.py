"""A checkpoint's files: synced before the marker that lists them, checked against it, removed."""

import fnmatch
import os
import shutil
import socket
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isosweep.files import entered, read_json, remove_tree, write_json
from isosweep.store.claims import names
from isosweep.store.paths import (
    CHECKPOINT,
    CHECKPOINT_FILES,
    CHECKPOINT_PROGRESS,
    RunPaths,
    complete_checkpoints,
)
from isosweep.store.presence import LOOK_S

MARKER_VERSION = 1
_BLOCK = 1 << 22
# How long another node's file may not be seen: NFS shows a directory and sizes from memory for 60 s
# at most (nfs(5), acdirmax and acregmax).
_SEEN_S = 180.0
# zlib lets other threads run: as many large files at once as a checkpoint has of them.
_READERS = 4
# What only a resumed run reads: of transformers' and accelerate's trainers, and ours.
_STATES = (
    *("optimizer*", "scheduler.pt", "rng_state*.pth", "scaler.pt", "trainer_state.json"),
    *("training_args.bin", "pytorch_model_fsdp_0"),
    *("isosweep*.json", "waiting-*.safetensors"),
)
# Which the trainer writes beside its checkpoints.
_CARD = "README.md"


def complete(checkpoint: Path, written: Mapping[str, int] = MappingProxyType({})) -> None:
    """Force every file of `checkpoint`, and every directory from the run's on, to the disk, then
    write its marker, which is on the disk when this returns: the one before may go.

    The marker lists each file with its bytes and CRC-32, as read back. Whoever may look into the
    directory may read them, and nobody else may write them. `written`: bytes of files, by name,
    that processes have written, on other nodes perhaps: it is waited until all can be read here.
    Raises OSError, and TimeoutError with what is not seen within `_SEEN_S`.
    """
    _await(checkpoint, written)
    # Names in a directory are shown from memory for a while.
    files = sorted({*_files(checkpoint), *(checkpoint / name for name in written)})
    # Libraries write some for their user alone (safetensors), and some for the group to change.
    for path in files:
        with suppress(OSError):
            path.chmod(checkpoint.stat().st_mode & 0o644)
    _sync_all(checkpoint, files)
    listed = {
        str(path.relative_to(checkpoint)): {"bytes": path.stat().st_size, "crc32": crc}
        for path, crc in zip(files, _checksums(files), strict=True)
    }
    marker = {"version": MARKER_VERSION, "files": listed}
    write_json(checkpoint / CHECKPOINT_FILES, marker, below=_run_of(checkpoint))
    _sync(checkpoint)


def written_here(checkpoint: Path) -> dict[str, int]:
    """Bytes of each file of a checkpoint by name, as this node sees them; what it wrote itself is
    then on the disk. Raises OSError."""
    files = sorted(_files(checkpoint))
    _sync_all(checkpoint, files)
    return {str(path.relative_to(checkpoint)): path.stat().st_size for path in files}


def fault(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint that was completed: which file, and how; None if nothing.

    Every file is compared in size, and then in CRC-32 with what the marker says.
    """
    try:
        document = read_json(checkpoint / CHECKPOINT_FILES) or {}
        if document.get("version") != MARKER_VERSION:
            return f"{CHECKPOINT_FILES} has version {document.get('version')}"
        listed = {name: (int(f["bytes"]), f["crc32"]) for name, f in document["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        return f"{CHECKPOINT_FILES} cannot be read ({type(error).__name__})"
    if CHECKPOINT_PROGRESS not in listed:
        return f"{CHECKPOINT_FILES} does not list {CHECKPOINT_PROGRESS}"
    for name, (size, _) in listed.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes and was written with {size}"
    try:
        checksums = _checksums([checkpoint / name for name in listed])
    except OSError as error:
        return f"{Path(error.filename or checkpoint).name} cannot be read ({error.strerror})"
    for (name, (_, expected)), found in zip(listed.items(), checksums, strict=True):
        if found != expected:
            return f"{name} has checksum {found} and was written with {expected}"
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
        # Somebody else's may not be removed by everybody, and what is a link is not ours.
        with suppress(OSError):
            own = _checkpoints(directory, run.root)
            for checkpoint in own:
                if checkpoint not in kept:
                    remove(checkpoint)
            if any(checkpoint in kept for checkpoint in own):
                continue
            with entered(directory, run.root) as descriptor, suppress(FileNotFoundError):
                os.unlink(_CARD, dir_fd=descriptor)
            with entered(run.checkpoints, run.root) as parent:
                # Only where nothing is left in it.
                os.rmdir(name, dir_fd=parent)


def _checkpoints(directory: Path, below: Path) -> list[Path]:
    """Checkpoints in an attempt's directory, complete or not. Raises OSError where it is a link."""
    with entered(directory, below) as descriptor:
        there = os.listdir(descriptor)  # noqa: PTH208 (of a descriptor)
    return [directory / name for name in there if CHECKPOINT.fullmatch(name)]


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint; its marker first, for a kill in between leaves none that is broken.

    Of what cannot be removed, or is a link, nothing is: that ends no training.
    """
    below = _run_of(checkpoint)
    with suppress(OSError), entered(checkpoint, below) as descriptor:
        os.unlink(CHECKPOINT_FILES, dir_fd=descriptor)
    with suppress(OSError):
        remove_tree(checkpoint, below)


def states_of(checkpoint: Path) -> list[Path]:
    """What of a checkpoint only a run that goes on reads: its optimiser's states, mostly."""
    return [checkpoint / name for name in names(str(checkpoint)) if _is_state(name)]


def _is_state(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _STATES)


def keep_weights(checkpoint: Path) -> None:
    """Leave of a checkpoint what a model is loaded from; no run goes on from it any more."""
    with entered(checkpoint, _run_of(checkpoint)) as descriptor:
        with suppress(FileNotFoundError):
            os.unlink(CHECKPOINT_FILES, dir_fd=descriptor)
        for name in os.listdir(descriptor):  # noqa: PTH208 (of a descriptor)
            if not _is_state(name):
                continue
            try:
                os.unlink(name, dir_fd=descriptor)
            except IsADirectoryError:
                shutil.rmtree(name, dir_fd=descriptor)


def _run_of(checkpoint: Path) -> Path:
    """The directory of the run whose checkpoint it is: `checkpoints/<attempt>/` lies between."""
    return checkpoint.parents[2]


def _files(checkpoint: Path) -> Iterator[Path]:
    """Every file of a checkpoint but its marker."""
    for path in checkpoint.rglob("*"):
        if path.is_file() and path != checkpoint / CHECKPOINT_FILES:
            yield path


def _checksums(files: Collection[Path]) -> list[str]:
    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(_crc32, files))


def _crc32(path: Path) -> str:
    """CRC-32 of a file: 1.6 GB/s on one core, against 0.65 of BLAKE2b; finds damage, no intent."""
    checksum, block = 0, memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(block):
            checksum = zlib.crc32(block[:count], checksum)
    return f"{checksum:08x}"


def _await(checkpoint: Path, written: Mapping[str, int]) -> None:
    """Return once each file has its bytes here. Raises TimeoutError naming those that do not."""
    deadline = time.monotonic() + _SEEN_S
    while unseen := [name for name in written if _bytes(checkpoint / name) < written[name]]:
        if time.monotonic() > deadline:
            first, further = unseen[0], len(unseen) - 1
            more = f" and {further} more" if further else ""
            here = f"{socket.gethostname()} has {_bytes(checkpoint / first)} bytes"
            raise TimeoutError(
                f"{first}{more}: after {_SEEN_S:.0f} s {here}, and {written[first]} were written "
                "by a process of this run; the directory must be on a file system that all nodes "
                "of a run share"
            )
        time.sleep(LOOK_S)


def _bytes(path: Path) -> int:
    """Bytes of a file, 0 where there is none: directory and file are opened, since a network file
    system may answer a `stat` from memory."""
    try:
        with os.scandir(path.parent), path.open("rb") as file:
            return os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return 0


def _sync_all(checkpoint: Path, files: Collection[Path]) -> None:
    """Force to the disk the files, and every directory from the run's on."""
    directories = [path for path in checkpoint.rglob("*") if path.is_dir()]
    # A directory's name is in the one above it.
    for path in [*files, *directories, checkpoint, *checkpoint.parents[:3]]:
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
