"""The one place that knows what every file of a sweep is called."""

import errno
import re
from dataclasses import dataclass
from pathlib import Path

from isosweep.errors import RecordError
from isosweep.files import require_no_links

# What those read who look at every run: see `RunPaths.text`.
ATTEMPTS, SUBMISSIONS, OLD_STATE, SPEC = "attempts", "submissions", "state.json", "spec.json"


@dataclass(frozen=True)
class RunPaths:
    """Files of one training run (`runs/<run_id>/`), shared by every sweep that needs it."""

    root: Path

    def text(self, name: str) -> str:
        """`name` in its directory, as text. To make a Path takes as long as to read such a file:
        those who look at ten files of each of 10,000 runs make none."""
        return f"{self.root}/{name}"

    @property
    def run_id(self) -> str:
        """The run's id: its directory's name."""
        return self.root.name

    @property
    def spec(self) -> Path:
        """What the run's id is made of."""
        return self.root / SPEC

    @property
    def problems(self) -> Path:
        """The digest of its problems, which every attempt compares."""
        return self.root / "problems.json"

    @property
    def base_rates(self) -> Path:
        """Success rates of the held-out problems before training, where they were measured."""
        return self.root / "base_rates.json"

    @property
    def uses(self) -> Path:
        """The directory of the sweeps that use the run, a file for each."""
        return self.root / "uses"

    @property
    def old_state(self) -> Path:
        """Its progress, in sweeps of version 1: of whichever attempt wrote last."""
        return self.root / OLD_STATE

    @property
    def records(self) -> Path:
        """The directory of records: `log`, a file for each attempt."""
        return self.root / "records"

    @property
    def metrics(self) -> Path:
        """The directory of training's metrics, a file for each attempt."""
        return self.root / "metrics"

    @property
    def warnings(self) -> Path:
        """The directory of the health monitor's warnings, a file for each attempt."""
        return self.root / "warnings"

    @property
    def attempts(self) -> Path:
        """The directory of attempts."""
        return self.root / ATTEMPTS

    def attempt(self, number: int) -> Path:
        """The claim of attempt `number`, and then its progress, as it last reported that."""
        return self.attempts / f"{number}.json"

    @property
    def submissions(self) -> Path:
        """The directory of submissions."""
        return self.root / SUBMISSIONS

    def submission(self, number: int, part: str | None = None) -> Path:
        """Submission `number`, or what came of it: its `job`, `cancel` or `end`."""
        return self.submissions / (f"{number}.{part}.json" if part else f"{number}.json")

    @property
    def checkpoints(self) -> Path:
        """The directory of all attempts' checkpoints."""
        return self.root / "checkpoints"

    def attempt_checkpoints(self, number: int) -> Path:
        """Each attempt writes its own checkpoints: two alive at once cannot mix theirs."""
        return self.checkpoints / str(number)

    @property
    def logs(self) -> Path:
        """The directory of logs, with one for each submission."""
        return self.root / "logs"

    def submission_logs(self, number: int) -> Path:
        """What the jobs of submission `number` print: those that were requeued, one after another.

        The worker's output is in files that end in `.out` and `.err`.
        """
        return self.logs / str(number)

    def selection(self, sha256: str) -> Path:
        """Problems chosen by difficulty: beside the runs, for all that share them."""
        return self.root.parent.parent / "problems" / f"{sha256}.json"

    def base_evaluation(self, sha256: str) -> Path:
        """The evaluation of a model before training: beside the runs, for all that share it."""
        return self.root.parent.parent / "evaluations" / f"{sha256}.json"


def require_plain(run: RunPaths) -> None:
    """Raise RecordError for a link in the run's directory, or in its place: trainers, schedulers
    and shells write there, and would follow it."""
    try:
        require_no_links(run.root)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise RecordError(f"{error.filename}: {error.strerror}") from None


# Written last into a checkpoint, so its presence means that the checkpoint was complete; lists
# every other file with its size and checksum.
CHECKPOINT_FILES = "isosweep-files.json"
CHECKPOINT_PROGRESS = "isosweep.json"
CHECKPOINT_HEALTH = "isosweep-health.json"
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

    @property
    def plan(self) -> Path:
        """The plan, described by `isosweep/plan/schema.json`."""
        return self.root / "plan.json"

    @property
    def plan_csv(self) -> Path:
        """The plan's cells and rejections as a table."""
        return self.root / "plan.csv"

    @property
    def plan_page(self) -> Path:
        """The plan as a page."""
        return self.root / "plan.html"

    @property
    def config(self) -> Path:
        """The settings that the sweep was launched with."""
        return self.root / "config.json"

    @property
    def drivers(self) -> Path:
        """The directory of drivers: who follows the sweep, and who did before."""
        return self.root / "drivers"

    @property
    def search(self) -> Path:
        """The journal of Optuna that holds the search, unless `search.storage` says another."""
        return self.root / "search.journal"

    @property
    def batches(self) -> Path:
        """The directory of batches: submissions that went to a scheduler together."""
        return self.root / "batches"

    @property
    def simulation(self) -> Path:
        """How often the analysis was right in simulated sweeps."""
        return self.root / "simulation.json"

    @property
    def analysis(self) -> Path:
        """The directory of the view's analysis."""
        return self.root / "analysis" / self.view

    @property
    def report(self) -> Path:
        """The analysis as a page."""
        return self.analysis / "report.html"

    @property
    def answer(self) -> Path:
        """What was concluded, described by `analysis/answer.schema.json`."""
        return self.analysis / "answer.json"

    @property
    def fits(self) -> Path:
        """The analysis's numbers, described by `analysis/fits.schema.json`."""
        return self.analysis / "fits.json"

    @property
    def comparison(self) -> Path:
        """What sets sweeps apart (`mode=compare`), or the variants of one, described by
        `analysis/comparison.schema.json`."""
        return self.analysis / "comparison.json"

    @property
    def tuning(self) -> Path:
        """What `search=tune` has found, described by `analysis/tuning.schema.json`."""
        return self.analysis / "tuning.json"

    @property
    def recommendation(self) -> Path:
        """What `mode=recommend` says of one budget."""
        return self.analysis / "recommendation.json"

    @property
    def frontier(self) -> Path:
        """The table of the best n at each budget."""
        return self.table("frontier")

    def table(self, name: str) -> Path:
        """One of the analysis's tables: frontier, choices, asymptotes, fits, problem_changes."""
        return self.analysis / f"{name}.csv"

    @property
    def figures(self) -> Path:
        """The directory of the figures' files."""
        return self.analysis / "figures"

    def run(self, run_id: str) -> RunPaths:
        """The files of one run."""
        return RunPaths(self.runs / run_id)
