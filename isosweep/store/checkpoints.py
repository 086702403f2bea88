"""Checkpoints of a run: completed, found again, and removed.

The trainer writes its own files. `isosweep-files.json` is written last, once they are on the disk:
it names every file with its bytes, and says how far the run was. Without it a checkpoint does not
count.
"""

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from isosweep.errors import RecordError
from isosweep.files import JsonObject, highest_of, names, read_json, write_json
from isosweep.store.attempts import Status
from isosweep.store.attempts import read as read_attempt
from isosweep.store.paths import CHECKPOINT, CHECKPOINT_FILES, RunPaths, complete_checkpoints
from isosweep.store.records import read_records

_VERSION = 2
# What only a resumed run reads: of transformers' and accelerate's trainers, and ours.
_STATES = (
    *("optimizer*", "scheduler.pt", "rng_state*.pth", "scaler.pt", "trainer_state.json"),
    *("training_args.bin", "pytorch_model_fsdp_0", "waiting-*.safetensors", CHECKPOINT_FILES),
)


def complete(checkpoint: Path, **progress: object) -> None:
    """Force all files of `checkpoint` to the disk, then write how far it is: `progress`.

    Whoever may look into the directory may read its files, and nobody else may write them. Raises
    OSError.
    """
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    # Libraries write some for their user alone (safetensors), and some for the group to change.
    for path in files:
        with suppress(OSError):
            path.chmod(checkpoint.stat().st_mode & 0o644)
    sync(checkpoint)
    sizes = {str(path.relative_to(checkpoint)): path.stat().st_size for path in files}
    write_json(
        checkpoint / CHECKPOINT_FILES, {"version": _VERSION, "files": sizes, "progress": progress}
    )
    _sync(checkpoint)


def sync(checkpoint: Path) -> None:
    """Force to the disk the files of a checkpoint, and every directory from the run's on."""
    # A directory's name is in the one above it.
    for path in [*checkpoint.rglob("*"), checkpoint, *checkpoint.parents[:3]]:
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fault(checkpoint: Path) -> str | None:
    """Return what is wrong with a checkpoint that was completed, or None.

    Each file's size is compared with what it was written with.
    """
    try:
        document = read_json(checkpoint / CHECKPOINT_FILES) or {}
        if document.get("version") != _VERSION:
            return f"{CHECKPOINT_FILES} has version {document.get('version')}"
        document["progress"].items()
        for name, size in document["files"].items():
            found = (checkpoint / name).stat().st_size
            if found != size:
                return f"{name} has {found} bytes and was written with {size}"
        # What a command of the user's has written lies where that wrote it.
        foreign = document["progress"].get("foreign")
        if foreign is not None and not Path(foreign).exists():
            return f"its command has removed {foreign}"
    except FileNotFoundError as error:
        return f"{Path(error.filename).relative_to(checkpoint)} is missing"
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return f"{CHECKPOINT_FILES} cannot be read ({type(error).__name__})"
    return None


@dataclass(frozen=True)
class ResumePoint:
    """Where an attempt starts: a checkpoint of attempt `parent`, or step 0.

    `missed`: what should have been there to start from and is not.
    """

    step: int
    parent: int | None
    checkpoint: Path | None
    missed: tuple[str, ...] = ()

    @property
    def losses(self) -> tuple[str, ...]:
        """What was missed, in a sentence each."""
        return tuple(f"{what}; training goes on from step {self.step}" for what in self.missed)

    @property
    def progress(self) -> JsonObject:
        """What `complete` was given; empty at the start of a run."""
        document = read_json(self.checkpoint / CHECKPOINT_FILES) if self.checkpoint else None
        return document["progress"] if document else {}


def find_resume_point(run: RunPaths, attempt: int) -> ResumePoint:
    """Return the newest whole checkpoint on the chain of attempts before `attempt`."""
    missed: list[str] = []
    for parent, last in read_records(run.records, before=attempt).chain.items():
        checkpoints = complete_checkpoints(run.attempt_checkpoints(parent))
        for step in sorted((step for step in checkpoints if step <= last), reverse=True):
            if (wrong := fault(checkpoints[step])) is None:
                return ResumePoint(step, parent, checkpoints[step], tuple(missed))
            missed.append(
                f"the checkpoint of step {step} in {checkpoints[step]} is broken: {wrong}"
            )
    before = highest_of(name for name in names(run.attempts) if highest_of([name]) < attempt)
    # One that ended as it should has left a checkpoint.
    with suppress(RecordError):
        if not missed and read_attempt(run, before).status in (Status.FINISHED, Status.DIVERGED):
            missed.append(
                "no checkpoint to go on from is left of the run, which had ended (checkpoint.keep, "
                "or deleted)"
            )
    return ResumePoint(0, None, None, tuple(missed))


def complete_bytes(run: RunPaths) -> int:
    """Bytes of all complete checkpoints of a run, as their own lists of files say."""
    total = 0
    for marker in run.checkpoints.glob(f"*/*/{CHECKPOINT_FILES}"):
        # One that is damaged: `fault` says so to who resumes it.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            total += sum((read_json(marker) or {})["files"].values())
    return total


def can_go_on(run: RunPaths) -> bool:
    """Whether a complete checkpoint is there of any attempt."""
    return any(complete_checkpoints(attempt) for attempt in run.checkpoints.glob("*"))


def keep_only(run: RunPaths, attempt: int, kept: Collection[Path]) -> None:
    """Remove the checkpoints of `attempt` and of earlier ones, but for `kept`; not a later's.

    Nothing behind a link, and nothing of another name than a checkpoint's or the trainer's card.
    """
    for name in names(run.checkpoints):
        directory = run.checkpoints / name
        if not name.isdecimal() or int(name) > attempt or directory.is_symlink():
            continue
        with suppress(OSError):
            for path in directory.iterdir():
                if CHECKPOINT.fullmatch(path.name) and path not in kept:
                    remove(path)
            if all(path.parent != directory for path in kept):
                # The trainer's card; the directory goes where nothing else is left in it.
                (directory / "README.md").unlink(missing_ok=True)
                directory.rmdir()


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint, its list of files first: a kill in between leaves none that is broken.

    What cannot be removed stays, and ends no training; so does a link.
    """
    if not checkpoint.is_symlink():
        with suppress(OSError):
            (checkpoint / CHECKPOINT_FILES).unlink()
        with suppress(OSError):
            shutil.rmtree(checkpoint)


def keep_weights(checkpoint: Path) -> None:
    """Leave of a checkpoint what a model is loaded from; no run goes on from it any more."""
    for path in [path for pattern in reversed(_STATES) for path in checkpoint.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
