"""The one place that knows what every file of a sweep is called."""

import re
from dataclasses import dataclass
from pathlib import Path

from isosweep.reserved import EVALUATIONS, PROBLEMS, TRAINED

# What those read who look at every run: see `RunPaths.text`.
ATTEMPTS, SPEC = "attempts", "spec.json"
LOGS = "logs"
# The table of completions, which stores show as one.
COMPLETIONS = "completions.json"


class _Named:
    """A path by its name in the directory `root`, or in another of the same object."""

    def __init__(self, name: str, within: str = "root") -> None:
        self._name, self._within = name, within

    def __get__(self, paths: object, _: type) -> Path:
        directory: Path = getattr(paths, self._within)
        return directory / self._name


@dataclass(frozen=True)
class RunPaths:
    """Files of one training run (`runs/<run_id>/`), shared by every sweep that needs it."""

    root: Path

    spec = _Named(SPEC)
    """What the run's id is made of."""
    problems = _Named("problems.json")
    """The digest of its problems, which every attempt compares."""
    base_rates = _Named("base_rates.json")
    """Success rates of the held-out problems before training, where they were measured."""
    records = _Named("records")
    """The directory of records: `log`, a file for each attempt."""
    metrics = _Named("metrics")
    """The directory of training's metrics, a file for each attempt."""
    warnings = _Named("warnings")
    """The directory of the health monitor's warnings, a file for each attempt."""
    completions = _Named("completions")
    """The directory of completions that are kept to be read, a file for each attempt."""
    attempts = _Named(ATTEMPTS)
    """The directory of attempts."""
    checkpoints = _Named("checkpoints")
    """The directory of all attempts' checkpoints."""
    logs = _Named(LOGS)
    """The directory of logs, with one for each attempt that was submitted."""

    def text(self, name: str) -> str:
        """`name` in its directory, as text. To make a Path takes as long as to read such a file:
        those who look at ten files of each of 10,000 runs make none."""
        return f"{self.root}/{name}"

    @property
    def run_id(self) -> str:
        """The run's id: its directory's name."""
        return self.root.name

    def attempt(self, number: int, part: str = "") -> Path:
        """Attempt `number`, or its `begun`, `cancel` or `end` (`store.attempts`)."""
        return self.attempts / (f"{number}.{part}.json" if part else f"{number}.json")

    def attempt_checkpoints(self, number: int) -> Path:
        """Each attempt writes its own checkpoints: two alive at once cannot mix theirs."""
        return self.checkpoints / str(number)

    def trained(self, attempt: int) -> Path:
        """What a command of the user's writes in an attempt: beside the runs, for it may have links
        among its files."""
        return self.root.parent.parent / TRAINED / self.run_id / str(attempt)

    def attempt_logs(self, number: int) -> Path:
        """What the job of attempt `number` prints: one that was requeued goes on in it.

        The worker's output is in files that end in `.out` and `.err`; each rank that Slurm has
        started has its own (`rank_of_log`).
        """
        return self.logs / str(number)

    def selection(self, sha256: str) -> Path:
        """Problems chosen by difficulty: beside the runs, for all that share them."""
        return self.root.parent.parent / PROBLEMS / f"{sha256}.json"

    def base_evaluation(self, sha256: str) -> Path:
        """The evaluation of a model before training: beside the runs, for all that share it."""
        return self.root.parent.parent / EVALUATIONS / f"{sha256}.json"


# As Slurm's `%t` numbers the tasks of a step (srun(1)).
_RANK_LOG = re.compile(r"_(\d+)_log\.(?:out|err)")


def rank_of_log(path: Path) -> int:
    """The rank that printed into the log `path`; 0 where all share one."""
    match = _RANK_LOG.search(path.name)
    return int(match[1]) if match else 0


# Written last into a checkpoint, so its presence means that the checkpoint was complete
# (`store.checkpoints.complete`).
CHECKPOINT_FILES = "isosweep-files.json"
# What the trainer calls a checkpoint: by its step.
CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def complete_checkpoints(directory: Path) -> dict[int, Path]:
    """Step of every checkpoint in one attempt's directory that was completed, and where it lies.

    `store.checkpoints.fault` says whether it still is what was written.
    """
    checkpoints = {}
    for path in directory.glob("checkpoint-*"):
        match = CHECKPOINT.fullmatch(path.name)
        if match and (path / CHECKPOINT_FILES).exists():
            checkpoints[int(match[1])] = path
    return checkpoints


@dataclass(frozen=True)
class SweepPaths:
    """Files of one sweep (`sweep_dir`): a plan over runs, and what came of it.

    `view` names one variant of `grid.axes`, or a metric: its analysis has a directory of its own.
    """

    root: Path
    runs: Path
    view: str = ""

    plan = _Named("plan.json")
    """The plan: `plan.cells.Plan`, and what `plan.document` adds."""
    plan_csv = _Named("plan.csv")
    """The plan's cells and rejections as a table."""
    plan_page = _Named("plan.html")
    """The plan as a page."""
    config = _Named("config.json")
    """The settings that the sweep was launched with."""
    drivers = _Named("drivers")
    """The directory of drivers: who follows the sweep, and who did before."""
    search = _Named("search.journal")
    """The journal of Optuna that holds the search."""
    jobs = _Named("jobs")
    """The directory of Slurm's job arrays: their scripts, and links from their tasks to logs."""
    report = _Named("report.html", "analysis")
    """The analysis as a page."""
    answer = _Named("answer.json", "analysis")
    """What was concluded, an `analysis.answer.Answer`."""
    comparison = _Named("comparison.json", "analysis")
    """What sets sweeps apart (`mode=compare`), or the variants of one."""
    recommendation = _Named("recommendation.json", "analysis")
    """What `mode=recommend` says of one budget."""
    frontier = _Named("frontier.csv", "analysis")
    """The table of the best n at each budget."""
    completions = _Named(COMPLETIONS, "analysis")
    """A table of what models answered at the beginning and at the end."""
    figures = _Named("figures", "analysis")
    """The directory of the figures' files."""

    @property
    def analysis(self) -> Path:
        """The directory of the view's analysis."""
        return self.root / "analysis" / self.view

    def table(self, name: str) -> Path:
        """One of the analysis's tables: frontier, choices, optima, survival, fits."""
        return self.analysis / f"{name}.csv"

    def run(self, run_id: str) -> RunPaths:
        """The files of one run."""
        return RunPaths(self.runs / run_id)
