"""Problems chosen by difficulty, and the files that workers read them from."""

import hashlib
import json
from dataclasses import asdict, dataclass

from isosweep.config.mixture import apportioned
from isosweep.config.task import TaskConfig, difficulty_shares
from isosweep.difficulty.measurement import FORMAT_VERSION, Measurement
from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, read_json, write_json
from isosweep.store.paths import RunPaths
from isosweep.tasks import Problem, ProblemSets, use_problems
from isosweep.tasks.problem import shuffled


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Problems chosen by difficulty, and the `document` that a worker reads them from."""

    sets: ProblemSets
    document: JsonObject

    @property
    def sha256(self) -> str:
        """Hash of the document, which names it."""
        return _sha256(self.document)


def select(task: TaskConfig, measured: Measurement) -> Selection:
    """The task's problems, chosen by `task.difficulty` and the hash of their prompts.

    Raises SettingError where a range has too few.
    """
    shares = difficulty_shares(task.difficulty)
    rates = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
    by_share = [share.share for share in shares]
    counts = zip(
        apportioned(task.num_eval_problems, by_share),
        apportioned(task.num_train_problems, by_share),
        strict=True,
    )
    left = shuffled(measured.problems, task.data_seed)
    heldout, training, shortages = list[Problem](), list[Problem](), list[str]()
    for share, (first, more) in zip(shares, counts, strict=True):
        inside = [p for p in left if share.low <= rates[p.problem_id] <= share.high]
        left = [p for p in left if not share.low <= rates[p.problem_id] <= share.high]
        heldout += inside[:first]
        training += inside[first : first + more]
        had = f"{share.name} (success rates {share.low:g} to {share.high:g}) has {len(inside)}"
        shortages.append(f"{had} of the {first + more} asked for")
    if len(heldout) + len(training) < task.num_eval_problems + task.num_train_problems:
        rule = (
            f"with task.num_train_problems={task.num_train_problems} and task.num_eval_problems="
            f"{task.num_eval_problems}, of {len(measured.problems)} measured problems "
            f"{', '.join(shortages)}"
        )
        nearest = "fewer of both, a larger difficulty.max_problems, or task.difficulty=[0,1]"
        raise SettingError("task.difficulty", task.difficulty, rule, nearest)
    sets = ProblemSets(
        training=tuple(shuffled(training, task.data_seed)),
        heldout=tuple(shuffled(heldout, task.data_seed)),
    )
    document: JsonObject = {"version": FORMAT_VERSION}
    for name, problems in (("training", sets.training), ("heldout", sets.heldout)):
        document[name] = [
            {"problem": asdict(problem), "success_rate": rates[problem.problem_id]}
            for problem in problems
        ]
    return Selection(sets=sets, document=document)


def store_selection(run: RunPaths, selection: Selection) -> None:
    """Write the problems that were chosen, for this run and all that share them."""
    path = run.selection(selection.sha256)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, selection.document)


def load_selection(run: RunPaths, task: TaskConfig) -> None:
    """Make this process use the problems that were chosen for the run.

    Raises RecordError where their file is missing or has been changed.
    """
    if task.selection_sha256 is None:
        return
    path = run.selection(task.selection_sha256)
    document = read_json(path)
    if document is None or _sha256(document) != task.selection_sha256:
        what = "is missing" if document is None else "is not what was chosen at launch"
        raise RecordError(f"{path}: {what}; start the sweep again, which writes it")
    training, heldout = (
        tuple(Problem(**entry["problem"]) for entry in document[name])
        for name in ("training", "heldout")
    )
    use_problems(task, ProblemSets(training=training, heldout=heldout))


def _sha256(document: JsonObject) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
