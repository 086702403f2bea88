"""Runs as Slurm jobs: an array for each shape of job, and one question about all of them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

from isosweep.commands import call
from isosweep.config.axes import combinations
from isosweep.config.sweep import SweepConfig
from isosweep.files import write_text
from isosweep.launchers.cluster import array_size, longest_min
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.launchers.sbatch import (
    Shape,
    gpus_of_node,
    largest,
    sbatch_text,
    shape_of,
    worker_command,
)
from isosweep.launchers.site import with_site
from isosweep.launchers.slurm_jobs import SlurmJobs, job_name
from isosweep.launchers.squeue import grouped, refusal
from isosweep.plan.cells import PlannedRun
from isosweep.store.submissions import Job, LauncherName, SubmissionState

# Jobs that one scancel is given: far below what a command line holds.
_AT_ONCE = 500
# What scancel says of jobs that have ended meanwhile, which is no failure.
_ENDED = ("Invalid job id", "already completing or completed")


class SlurmLauncher(Launcher):
    """Submits runs as job arrays, and follows them by squeue.

    Slurm throttles each array by itself to `launcher.max_parallel`. So that several together keep
    to it, one that is submitted with others begins after them, and the queue submits more only
    where fewer runs are active.
    """

    name: LauncherName = "slurm"
    detaches = True
    places = False

    def __init__(self, config: SweepConfig) -> None:
        config, _ = with_site(config, os.environ)
        self._config, self._slurm = config, config.launcher.slurm
        self._variants = combinations(config)
        self._jobs = SlurmJobs(requeues=self._slurm.requeue)
        self.poll_s = self._jobs.poll_s
        # Tasks that a limit on submitted jobs leaves room for, as far as is known.
        self._room: int | None = None

    def batches(self, runs: Sequence[PlannedRun]) -> list[list[int]]:
        """Runs whose jobs ask for the same, as many together as an array may have tasks."""
        together: dict[tuple[object, ...], list[int]] = {}
        for position, run in enumerate(runs):
            together.setdefault(self._alike(run), []).append(position)
        size = self._array_size
        return [
            positions[first : first + size]
            for positions in together.values()
            for first in range(0, len(positions), size)
        ]

    def submit(self, orders: Sequence[Order]) -> list[Job | Refused]:
        """Submit each batch as a job array, in parts where a limit allows no more at once."""
        answers: list[Job | Refused] = []
        arrays: list[str] = []
        stopped: Refused | None = None
        # Jobs have ended since: there may be more room again.
        self._room = self._room and 2 * self._room
        for _, batch in groupby(orders, _batch_of):
            left = list(batch)
            while left and stopped is None:
                sent = left[: self._room or len(left)]
                answer = self._send(sent, arrays)
                if isinstance(answer[0], Refused) and answer[0].smaller and len(sent) > 1:
                    self._room = len(sent) // 2
                    continue
                answers += answer
                if isinstance(answer[0], Refused) and answer[0].passing:
                    # What holds for these holds for those that would come next.
                    stopped = replace(answer[0], unknown=False)
                del left[: len(sent)]
            answers += [stopped] * len(left) if stopped else []
        return answers

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        """What Slurm says of their jobs."""
        return self._jobs.observe(submissions)

    def stop(self, submissions: Sequence[SubmissionState], *, kill: bool = False) -> str | None:
        """Cancel jobs that wait and send SIGTERM to the workers of others, or cancel all (`kill`:
        Slurm sends SIGTERM and, KillWait seconds later, SIGKILL)."""
        waiting: list[str] = []
        others: dict[str, list[str]] = {}
        problems: list[str] = []
        for state, seen in zip(submissions, self.observe(submissions), strict=True):
            job = state.job or seen.job
            if seen.status == "unknown":
                problems.append(seen.reason)
            if job is None or seen.status == "gone":
                continue
            if seen.status == "pending":
                waiting.append(job.job_id)
            else:
                others.setdefault(job_name(state.submission.batch), []).append(job.job_id)
        # Without srun the batch script is the worker; with it, the steps are signalled.
        term = ["--signal=TERM", *([] if self._slurm.use_srun else ["--batch"])]
        # Slurm has just said that these are the sweep's, by id and name (`grouped` says why no
        # name is given).
        problems += self._cancel([], waiting)
        for name, ids in others.items():
            problems += self._cancel([f"--name={name}", *([] if kill else term)], ids)
        return "; ".join(dict.fromkeys(problems)) or None

    def _cancel(self, options: Sequence[str], ids: Sequence[str]) -> list[str]:
        """Call scancel for jobs of these ids; what it says of those that it could not cancel."""
        said: list[str] = []
        for first in range(0, len(ids), _AT_ONCE):
            answer = call(["scancel", *options, *grouped(ids[first : first + _AT_ONCE])])
            # Without a word it failed at others of the array that its filter found and that have
            # ended or wait: Slurm 22.05 tells that by its status alone.
            if answer.errors or answer.status is None:
                said += (answer.failure or "").split("; ")
        return [line for line in said if line and not any(ended in line for ended in _ENDED)]

    def _send(self, orders: Sequence[Order], arrays: list[str]) -> Sequence[Job | Refused]:
        """Submit one array, or one job, after `arrays`; what came of each order."""
        single = len(orders) == 1 and orders[0].submission.index == 0
        try:
            text = self._script(orders, arrays, single=single)
        except OSError as error:
            words = f"{error.strerror}: {error.filename}"
            return [Refused(reason=words, passing=True)] * len(orders)
        # As it was made: the file may be another by now.
        answer = call(["sbatch", "--parsable"], given=text)
        # With several clusters it is followed by the cluster's name.
        job_id = answer.output.strip().rpartition("\n")[2].partition(";")[0]
        if answer.failure is None and job_id.isdecimal():
            arrays.append(job_id)
            tasks = ["" if single else f"_{order.submission.index}" for order in orders]
            return [Job(job_id=f"{job_id}{task}") for task in tasks]
        words = answer.failure or f"sbatch answered {answer.output.strip()!r}"
        # What it answers a job that it took, and cannot be read, leaves the same doubt as silence.
        refused = refusal(words, timed_out=answer.timed_out or answer.failure is None)
        return [refused] * len(orders)

    def _script(self, orders: Sequence[Order], arrays: Sequence[str], *, single: bool) -> str:
        """Write the script of an array, or of a single job; its text."""
        first, tasks = orders[0], [order.submission.index for order in orders]
        # Slurm knows one directory of output for all tasks: in it, each task's leads to the run's.
        directory = _batch_of(first)
        directory.mkdir(parents=True, exist_ok=True)
        for order in () if single else orders:
            link = directory / str(order.submission.index)
            if not link.is_symlink():
                link.symlink_to(order.logs.absolute(), target_is_directory=True)
        file, logs = (first.submission.path, first.logs) if single else (None, directory)
        runs = [order.run for order in orders]
        batch = first.submission.batch
        text = self._text(runs, batch, logs, [] if single else tasks, arrays, file)
        write_text(directory / f"{first.submission.index}.sbatch", text)
        return text

    def _text(
        self,
        runs: Sequence[PlannedRun],
        batch: str,
        logs: Path,
        tasks: Sequence[int],
        arrays: Sequence[str],
        file: Path | None = None,
    ) -> str:
        """Return the script of an array of `tasks`, each with a link in `logs`, or of a single job
        for the submission `file`, which prints there.

        `arrays`: arrays submitted before it in the same pass."""
        most = self._config.launcher.max_parallel
        # What comes after `%` is replaced in a pattern (sbatch(1)).
        pattern = Path(str(logs.absolute()).replace("%", "%%"))
        return sbatch_text(
            self._of_variant(runs[0]),
            largest(self._shape(run) for run in runs),
            name=job_name(batch),
            command=worker_command(self._slurm, file or logs, array=file is None),
            logs=pattern / "%a" if tasks else pattern,
            tasks=tasks,
            parallel=len(tasks) if most is None else most,
            after=() if most is None else arrays,
        )

    def scripts(
        self, runs: Sequence[PlannedRun], sweep: Path
    ) -> Iterator[tuple[list[PlannedRun], str]]:
        """What `submit` would hand to sbatch for `runs` of a sweep, and for which of them."""
        arrays: list[str] = []
        for number, positions in enumerate(self.batches(runs)):
            batch, name = [runs[position] for position in positions], f"BATCH{number}"
            logs = sweep / "batches" / name
            yield batch, self._text(batch, name, logs, range(len(batch)), arrays)
            arrays.append(f"ID{number}")

    def _alike(self, run: PlannedRun) -> tuple[object, ...]:
        """What runs of one array have in common. Slurm throttles each array by itself: where
        `max_parallel` is given, runs of any length share one, and none leaves a place idle."""
        config = self._of_variant(run)
        devices = (config.hardware.nodes, gpus_of_node(config))
        return (devices, self._shape(run) if self._config.launcher.max_parallel is None else None)

    def _shape(self, run: PlannedRun) -> Shape:
        return shape_of(self._of_variant(run), run, self._longest_min)

    @cached_property
    def _array_size(self) -> int:
        return array_size()

    @cached_property
    def _longest_min(self) -> float:
        return longest_min(self._slurm)

    def _of_variant(self, run: PlannedRun) -> SweepConfig:
        """The config of the run's combination of `grid.axes`."""
        return next((v.config for v in self._variants if v.axes == run.axes), self._config)


def _batch_of(order: Order) -> Path:
    """The directory of the order's batch."""
    return Path(order.submission.sweep).absolute() / "batches" / order.submission.batch
