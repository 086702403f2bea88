"""Problems chosen by difficulty, and the files that workers read them from."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from isosweep.config.mixture import apportioned
from isosweep.config.task import Share, TaskConfig, difficulty_shares
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
    sha256: str


def select(task: TaskConfig, measured: Measurement) -> Selection:
    """The task's problems, chosen by `task.difficulty` and the hash of their prompts.

    Raises SettingError where a range has too few.
    """
    shares = difficulty_shares(task.difficulty)
    rates = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
    ordered = shuffled(measured.problems, task.data_seed)
    available: list[list[Problem]] = []
    taken: set[str] = set()
    for share in shares:
        in_range = [p for p in ordered if share.low <= rates[p.problem_id] <= share.high]
        available.append([p for p in in_range if p.problem_id not in taken])
        taken |= {p.problem_id for p in in_range}
    heldout_counts = _counts(task.num_eval_problems, shares)
    training_counts = _counts(task.num_train_problems, shares)
    asked = [*zip(heldout_counts, training_counts, strict=True)]
    sizes = [len(problems) for problems in available]
    if any(size < first + more for size, (first, more) in zip(sizes, asked, strict=True)):
        raise _too_few(task, measured, shares, sizes, asked)
    heldout, training = [], []
    for problems, (first, more) in zip(available, asked, strict=True):
        heldout += problems[:first]
        training += problems[first : first + more]
    sets = ProblemSets(
        training=tuple(shuffled(training, task.data_seed)),
        heldout=tuple(shuffled(heldout, task.data_seed)),
    )
    document = {
        "version": FORMAT_VERSION,
        "training": [_entry(problem, rates) for problem in sets.training],
        "heldout": [_entry(problem, rates) for problem in sets.heldout],
    }
    return Selection(sets=sets, document=document, sha256=_sha256(document))


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


def _counts(number: int, shares: Sequence[Share]) -> list[int]:
    return apportioned(number, [share.share for share in shares])


def _too_few(
    task: TaskConfig,
    measured: Measurement,
    shares: Sequence[Share],
    sizes: Sequence[int],
    asked: Sequence[tuple[int, int]],
) -> SettingError:
    shortages = ", ".join(
        f"{share.name} (success rates {share.low:g} to {share.high:g}) has {size} of the "
        f"{sum(both)} asked for"
        for share, size, both in zip(shares, sizes, asked, strict=True)
    )
    rule = (
        f"with task.num_train_problems={task.num_train_problems} and task.num_eval_problems="
        f"{task.num_eval_problems}, of {len(measured.problems)} measured problems {shortages}"
    )
    nearest = "fewer of both, a larger difficulty.max_problems, or task.difficulty=[0,1]"
    return SettingError("task.difficulty", task.difficulty, rule, nearest)


def _entry(problem: Problem, rates: dict[str, float]) -> dict[str, Any]:
    return {"problem": asdict(problem), "success_rate": rates[problem.problem_id]}


def _sha256(document: JsonObject) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
