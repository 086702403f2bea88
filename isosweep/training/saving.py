"""When the next checkpoint is due, and how one is completed while training goes on."""

import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.store.checkpoints import complete, keep_only, keep_weights, newest, remove
from isosweep.store.state import Attempt


class SavingError(OSError):
    """A checkpoint could not be written: a full disk, most likely. Names its directory."""


class Saver:
    """Of a run's processes the first has one: completes checkpoints, and removes older ones.

    `start`: the checkpoint that the attempt goes on from.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        attempt: Attempt,
        start: Path | None,
    ) -> None:
        self._config, self._attempt, self._start = config, attempt, start
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way: Future[None] | None = None
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
        """Whether it is time for a checkpoint; none is while the last one is being written.

        Asked after every step: raises what the last one met, as `finish` does.
        """
        if self._under_way is not None:
            if not self._under_way.done():
                return False
            self.finish()
        return time.monotonic() - self._decided > self.interval_s

    def decided(self) -> None:
        """A checkpoint is about to be taken: wait for the one before. Raises what that met."""
        self.finish()
        self._decided = time.monotonic()

    def begin(
        self, checkpoint: Path, write: Callable[[], object], written: Mapping[str, int]
    ) -> None:
        """`write` what is not on the disk yet of `checkpoint` and complete it, in the background.

        `written`: bytes of what all processes have written, by name. Raises what the one before
        met, or this one where the settings have no background.
        """
        self.finish()
        self._under_way = self._thread.submit(self._complete, checkpoint, write, written)
        if not self._config.background:
            self.finish()

    def finish(self) -> None:
        """Wait for the checkpoint under way. Raises SavingError, or OvertakenError."""
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()

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

    def _complete(
        self, checkpoint: Path, write: Callable[[], object], written: Mapping[str, int]
    ) -> None:
        try:
            write()
            complete(checkpoint, written)
        except Exception as error:
            # A later attempt removes what this one has not completed.
            self._attempt.check()
            # torch and safetensors say a full disk in words of their own, without a path. What is
            # there of the checkpoint would only take the room that records need.
            free = shutil.disk_usage(checkpoint.parent).free / 1e9
            remove(checkpoint)
            reason = str(error).partition("\n")[0]
            text = f"{checkpoint}: cannot be written, with {free:.3g} GB free there ({reason})"
            raise SavingError(text) from error
        self._attempt.check()
        # All of it is on the disk: the one before would only serve if the disk itself lost some.
        if self._config.keep != "all":
            keep_only(self._attempt.run, self._attempt.number, [checkpoint])
        self._taken = time.monotonic() - self._decided
