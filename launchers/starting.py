"""Submits runs: a file first, then the job, and again later where a scheduler refuses."""

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from isosweep.errors import RecordError
from isosweep.files import make_directory
from isosweep.launchers.followed import Followed
from isosweep.launchers.launcher import Launcher, Order, Refused
from isosweep.store.submissions import Job, started, submit

# Runs submitted in one pass: the size of Slurm's largest job array by default (MaxArraySize of
# slurm.conf). The first are sent while files of the next are made.
_AT_ONCE = 1000
# Slurm's controller is back after a restart in seconds, after a failover in a minute or two; one
# call in five minutes is nothing to it.
_FIRST_S, _LONGEST_S = 5.0, 300.0


class Starter:
    """What a queue submits through. `notice` is told once what a scheduler refuses, and why."""

    def __init__(self, launcher: Launcher, notice: Callable[[str], None]) -> None:
        self._launcher, self._notice = launcher, notice
        self._refusal: str | None = None
        # Seconds of pause after the last refusal, and until when, by the caller's clock.
        self._pause = self._until = 0.0

    def ready(self, now: float, prepared: int) -> bool:
        """Whether one more may be submitted in this pass, beside those `prepared`."""
        return now >= self._until and prepared < _AT_ONCE

    def start(self, runs: Sequence[Followed], now: float, failed: dict[str, str]) -> None:
        """Submit the runs; those that were, taken by the scheduler or not yet, have a `number`.

        `failed` takes runs whose files are not in order, and why.
        """
        by_sweep: dict[str, list[Followed]] = {}
        for followed in runs:
            by_sweep.setdefault(followed.item.sweep, []).append(followed)
        made: list[Followed] = []
        for alike in by_sweep.values():
            for together in self._launcher.batches([followed.item.run for followed in alike]):
                made += self._batch([alike[place] for place in together], failed)
        self._send(made, now)

    def again(self, refused: Sequence[Followed], now: float) -> None:
        """Send once more what a scheduler has refused, if it is time."""
        if refused and now >= self._until:
            self._send([followed for followed in refused if not followed.state.cancel], now)

    def _batch(self, together: Iterable[Followed], failed: dict[str, str]) -> list[Followed]:
        """Make the submissions of one batch."""
        batch = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        made: list[Followed] = []
        for followed in together:
            item, name, index = followed.item, self._launcher.name, len(made)
            devices = self._launcher.devices(followed.slots[0]) if followed.slots else ()
            try:
                submission = submit(item.paths, name, item.job, item.sweep, batch, index, devices)
            except RecordError as error:
                failed[followed.run_id] = str(error)
                continue
            if submission is not None:
                followed.number = submission.number
                followed.files.read()
                made.append(followed)
        return made

    def _send(self, runs: Sequence[Followed], now: float) -> None:
        orders = [_order(followed) for followed in runs]
        if not orders:
            return
        answers = self._launcher.submit(orders)
        if any(isinstance(answer, Job) for answer in answers):
            self._pause = 0.0
        for followed, answer in zip(runs, answers, strict=True):
            if isinstance(answer, Job):
                # Its worker says so, too.
                with suppress(OSError):
                    started(followed.state.submission, answer)
                followed.files.read()
                followed.refused = None
            else:
                # Whether a job is there after all is for the scheduler to say.
                followed.refused = None if answer.unknown else answer
        self._say([answer for answer in answers if isinstance(answer, Refused)], now)

    def _say(self, refused: Sequence[Refused], now: float) -> None:
        """Pause where that may help, and tell what was refused, if it is news."""
        passing = [answer for answer in refused if answer.passing or answer.unknown]
        if passing:
            self._pause = min(max(_FIRST_S, 2 * self._pause), _LONGEST_S)
            self._until = now + self._pause
            reason = passing[0].reason
            if reason != self._refusal:
                runs = "1 run" if len(passing) == 1 else f"{len(passing)} runs"
                name = self._launcher.name
                self._notice(
                    f"{name} did not take {runs}: {reason}; tried again in {self._pause:.0f} s"
                )
            self._refusal = reason
        elif self._refusal is not None:
            self._notice(f"{self._launcher.name} takes runs again")
            self._refusal = None


def _order(followed: Followed) -> Order:
    submission = followed.state.submission
    logs = submission.run.submission_logs(submission.number)
    make_directory(logs)
    slot = followed.slots[0] if followed.slots else 0
    return Order(submission=submission, run=followed.item.run, logs=logs, slot=slot)
