"""Runs as Slurm jobs: an array for each shape of job, and one question about all of them."""

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from isosweep.commands import call
from isosweep.config.axes import combinations
from isosweep.config.sweep import SweepConfig
from isosweep.files import write_text
from isosweep.launchers.cluster import Cluster
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
from isosweep.launchers.squeue import Refusal, grouped, refusal
from isosweep.launchers.throttle import Throttle
from isosweep.plan.cells import PlannedRun, predicted
from isosweep.store.batches import batch_file
from isosweep.store.submissions import Job, LauncherName, Submission, SubmissionState

# Jobs that one scancel is given: far below what a command line holds.
_AT_ONCE = 500
# What scancel says of jobs that have ended meanwhile, which is no failure.
_ENDED = ("Invalid job id", "already completing or completed")


class SlurmLauncher(Launcher):
    """Submits runs as job arrays, follows them by squeue, and asks accounting for those gone."""

    name: LauncherName = "slurm"
    detaches = True
    places = False

    def __init__(self, config: SweepConfig) -> None:
        config, _ = with_site(config, os.environ)
        self._config, self._slurm = config, config.launcher.slurm
        self._variants = combinations(config)
        self._cluster = Cluster(self._slurm)
        self._jobs = SlurmJobs(self._slurm, self._cluster)
        self.poll_s = self._jobs.poll_s
        self._throttle = Throttle(config.launcher.max_parallel)
        # Of each array and job, the files in which its workers say that they have ended.
        self._ends: dict[str, set[Path]] = {}
        # Tasks that a limit on submitted jobs leaves room for, as far as is known.
        self._room: int | None = None

    def batches(self, runs: Sequence[PlannedRun]) -> list[list[int]]:
        """Runs whose jobs ask for the same, as many together as an array may have tasks."""
        together: dict[tuple[object, ...], list[int]] = {}
        for position, run in enumerate(runs):
            together.setdefault(self._alike(run), []).append(position)
        size = self._cluster.array_size
        return [
            positions[first : first + size]
            for positions in together.values()
            for first in range(0, len(positions), size)
        ]

    def submit(self, orders: Sequence[Order]) -> list[Job | Refused]:
        """Submit each batch as a job array, in parts where a limit allows no more at once."""
        answers: dict[Path, Job | Refused] = {}
        self._forget_ended()
        # What comes after the first arrays, as a run that is tried again, is not to wait for their
        # last tasks.
        self._set_throttles(self._throttle.lowered(len(orders)))
        batches = [list(batch) for _, batch in groupby(orders, lambda o: batch_file(o.submission))]
        plan = self._throttle.plan(
            [sum(predicted(o.run.seconds) for o in batch) for batch in batches]
        )
        stopped: Refused | None = None
        # Jobs have ended since: there may be more room again.
        self._room = self._room and 2 * self._room
        for left, parallel in zip(batches, plan, strict=True):
            while left and stopped is None:
                sent = left[: self._room or len(left)]
                means, words = self._send(sent, parallel, answers)
                if means is None:
                    parallel = 0
                elif means.smaller and len(sent) > 1:
                    self._room = len(sent) // 2
                    continue
                elif means.passing:
                    # What holds for these holds for those that would come next.
                    stopped = Refused(reason=words, passing=True)
                del left[: len(sent)]
            if stopped is not None:
                answers.update((order.submission.path, stopped) for order in left)
        return [answers[order.submission.path] for order in orders]

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        """What Slurm says of their jobs, and its accounting of those that have left the queue."""
        observed = self._jobs.observe(submissions)
        self.poll_s = self._jobs.poll_s
        for state in submissions:
            if state.job is not None:
                self._follow(state.job, state.submission)
        if self._jobs.tasks is not None:
            self._throttle.seen(self._jobs.asked, self._jobs.tasks)
            self._set_throttles(self._throttle.raised())
        return observed

    def _follow(self, job: Job, submission: Submission) -> None:
        """Look for the end of `submission` whenever places are given away."""
        if self._throttle.limited:
            end = submission.run.submission(submission.number, "end")
            self._ends.setdefault(job.job_id.partition("_")[0], set()).add(end)

    def _forget_ended(self) -> None:
        """A task whose worker has said that it ended takes no place, although Slurm may have it
        for some seconds more: what is submitted then would be made to wait for the others."""
        left = {job: {end for end in ends if not end.exists()} for job, ends in self._ends.items()}
        self._ends = {job: ends for job, ends in left.items() if ends}
        self._throttle.seen((), {job: len(ends) for job, ends in self._ends.items()})

    def _set_throttles(self, parallel: dict[str, int]) -> None:
        """Have these arrays run so many tasks at once; those that cannot be changed stay so."""
        ours = self._jobs.still_ours(parallel) if parallel else ()
        for array, tasks in parallel.items():
            if array not in ours:
                continue
            command = ["scontrol", "update", f"JobId={array}", f"ArrayTaskThrottle={tasks}"]
            if call(command).failure is None:
                self._throttle.changed(array, tasks)

    def stop(self, submissions: Sequence[SubmissionState], *, kill: bool = False) -> str | None:
        """Cancel jobs that wait and send SIGTERM to the workers of others, or cancel all (`kill`:
        Slurm sends SIGTERM and, KillWait seconds later, SIGKILL)."""
        jobs, problems = self._jobs.to_stop(submissions)
        # Without srun the batch script is the worker; with it, the steps are signalled.
        term = ["--signal=TERM", *([] if self._slurm.use_srun else ["--batch"])]
        for name, of_name in jobs.items():
            # An id may be another's before the command is there: scancel sees to the name, too,
            # but not where tasks wait that are to stay (`grouped`).
            own = [f"--name={name}"]
            problems += self._cancel(own, of_name.whole)
            problems += self._cancel([], of_name.waiting)
            problems += self._cancel([*own, *([] if kill else term)], of_name.running)
        return "; ".join(dict.fromkeys(problems)) or None

    def _cancel(self, options: Sequence[str], ids: Sequence[str]) -> list[str]:
        """Call scancel for jobs of these ids; what it says of those that it could not cancel."""
        said: list[str] = []
        for first in range(0, len(ids), _AT_ONCE):
            command = ["scancel", *options, *grouped(ids[first : first + _AT_ONCE])]
            answer = call(command)
            said += (answer.failure or "").split("; ")
        return [line for line in said if line and not any(ended in line for ended in _ENDED)]

    def _send(
        self, orders: Sequence[Order], parallel: int, answers: dict[Path, Job | Refused]
    ) -> tuple[Refusal | None, str]:
        """Submit one array, or one job; how it was refused, and in which words."""
        parallel, after = self._throttle.place(parallel, len(orders))
        single = len(orders) == 1 and orders[0].submission.index == 0
        command = ["sbatch", "--parsable"]
        try:
            text = self._script(orders, parallel, after, single=single)
        except OSError as error:
            words = f"{error.strerror}: {error.filename}"
            answers.update(_all(orders, Refused(reason=words, passing=True)))
            return Refusal(words), words
        # As it was made: the file may be another by now.
        answer = call(command, given=text)
        # With several clusters it is followed by the cluster's name.
        job_id, _, cluster = answer.output.strip().rpartition("\n")[2].partition(";")
        if answer.failure is None and job_id.isdecimal():
            self._throttle.submitted(job_id, parallel, len(orders))
            self._jobs.submitted(orders[0].submission.batch, job_id)
            for order in orders:
                task = "" if single else f"_{order.submission.index}"
                job = Job(job_id=f"{job_id}{task}", cluster=cluster or self._cluster.name)
                answers[order.submission.path] = job
                self._follow(job, order.submission)
            return None, ""
        words = answer.failure or f"sbatch answered {answer.output.strip()!r}"
        # What it answers a job that it took, and cannot be read, leaves the same doubt as silence.
        means = refusal(words, timed_out=answer.timed_out or answer.failure is None)
        refused = Refused(reason=words, passing=means.passing, unknown=means.unknown)
        answers.update(_all(orders, refused))
        return means, words

    def _script(
        self, orders: Sequence[Order], parallel: int, after: Sequence[str], *, single: bool
    ) -> str:
        """Write the script of an array, or of a single job; its text."""
        first, tasks = orders[0], [order.submission.index for order in orders]
        batch = batch_file(first.submission)
        # Slurm knows one directory of output for all tasks: in it, each task's leads to the run's.
        directory = batch.with_suffix("")
        directory.mkdir(parents=True, exist_ok=True)
        for order in () if single else orders:
            link = directory / str(order.submission.index)
            if not link.is_symlink():
                link.symlink_to(order.logs.absolute(), target_is_directory=True)
        if single:
            file, logs, tasks = first.submission.path, first.logs, []
        else:
            file, logs = batch, directory
        runs = [order.run for order in orders]
        text = self._text(runs, batch.stem, file, logs, tasks, parallel, after)
        write_text(directory / f"{first.submission.index}.sbatch", text)
        return text

    def _text(
        self,
        runs: Sequence[PlannedRun],
        batch: str,
        file: Path,
        logs: Path,
        tasks: Sequence[int],
        parallel: int,
        after: Sequence[str],
    ) -> str:
        """The script whose worker is given `file`; without `tasks` it is a single job's."""
        # What comes after `%` is replaced in a pattern (sbatch(1)).
        pattern = Path(str(logs.absolute()).replace("%", "%%"))
        return sbatch_text(
            self._of_variant(runs[0]),
            largest(self._shape(run) for run in runs),
            name=job_name(batch),
            command=worker_command(self._slurm, file),
            logs=pattern / "%a" if tasks else pattern,
            tasks=tasks,
            parallel=parallel,
            after=after,
        )

    def scripts(
        self, runs: Sequence[PlannedRun], sweep: Path
    ) -> Iterator[tuple[list[PlannedRun], str]]:
        """What `submit` would hand to sbatch for `runs` of a sweep, and for which of them."""
        batches = [[runs[position] for position in batch] for batch in self.batches(runs)]
        plan = self._throttle.plan(
            [sum(predicted(run.seconds) for run in batch) for batch in batches]
        )
        for number, (batch, planned) in enumerate(zip(batches, plan, strict=True)):
            name = f"BATCH{number}"
            file = sweep / "batches" / f"{name}.json"
            parallel, after = self._throttle.place(planned, len(batch))
            self._throttle.submitted(f"ID{number}", parallel, len(batch))
            tasks = range(len(batch))
            yield (
                batch,
                self._text(batch, name, file, file.with_suffix(""), tasks, parallel, after),
            )

    def _alike(self, run: PlannedRun) -> tuple[object, ...]:
        """What runs of one array have in common. Slurm throttles each array by itself: where
        `max_parallel` is given, runs of any length share one, and none leaves a place idle."""
        config = self._of_variant(run)
        devices = (config.hardware.nodes, gpus_of_node(config))
        return (devices, self._shape(run) if self._config.launcher.max_parallel is None else None)

    def _shape(self, run: PlannedRun) -> Shape:
        return shape_of(self._of_variant(run), run, self._cluster.longest_min)

    def _of_variant(self, run: PlannedRun) -> SweepConfig:
        """The config of the run's combination of `grid.axes`."""
        return next((v.config for v in self._variants if v.axes == run.axes), self._config)


def _all(orders: Sequence[Order], answer: Job | Refused) -> Iterator[tuple[Path, Job | Refused]]:
    return ((order.submission.path, answer) for order in orders)
