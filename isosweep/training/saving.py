"""When the next checkpoint is due, and what is left of those before."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.store.attempts import Attempt
from isosweep.store.checkpoints import complete, keep_only, keep_weights, newest, remove


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
    """Of a run's processes the first has one: completes checkpoints, and removes older ones.

    `start`: the checkpoint that the attempt goes on from.
    """

    def __init__(self, config: CheckpointConfig, attempt: Attempt, start: Path | None) -> None:
        self._config, self._attempt, self._start = config, attempt, start
        self._decided = time.monotonic()
        self._taken: float | None = None

    @property
    def interval_s(self) -> float:
        """Seconds from one checkpoint to the next, by what the last one took."""
        least, most = self._config.min_interval_s, self._config.max_interval_s
        wanted = least if self._taken is None else self._taken / self._config.share
        return min(max(wanted, least), most)

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._decided > self.interval_s

    def decided(self) -> None:
        """A checkpoint is about to be taken."""
        self._decided = time.monotonic()

    def complete(self, checkpoint: Path, write: Callable[[], object]) -> None:
        """Complete a checkpoint by what `write` writes. Raises SavingError, or OvertakenError."""
        with writing(checkpoint):
            write()
            complete(checkpoint)
        self._attempt.check()
        # All of it is on the disk: the one before would only serve if the disk itself lost some.
        if self._config.keep != "all":
            keep_only(self._attempt.run, self._attempt.number, [checkpoint])
        self._taken = time.monotonic() - self._decided

    def end(self, write_whole: Callable[[Path], object]) -> None:
        """Leave of the checkpoints what the settings say, now that the run is over.

        `write_whole` puts weights that lie there in parts together.
        """
        self._attempt.check()
        run, number = self._attempt.run, self._attempt.number
        last = newest(run, number, self._start)[:1]
        keep = self._config.keep
        if keep != "all":
            keep_only(run, number, () if keep == "none" else last)
        if keep == "weights":
            for checkpoint in last:
                write_whole(checkpoint)
                keep_weights(checkpoint)
