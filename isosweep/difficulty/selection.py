"""Every variant of a config with its problems chosen by difficulty, and files of such problems."""

import hashlib
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from isosweep.config.axes import Variant, combinations
from isosweep.config.base import replaced
from isosweep.config.evaluation import on_all
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import PARTS, TaskConfig, difficulty_shares, errors_at
from isosweep.difficulty.measurement import (
    FORMAT_VERSION,
    Measurement,
    measurement_path,
    read_measurement,
    require_complete,
)
from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, read_json, write_json
from isosweep.store.paths import RunPaths
from isosweep.tasks import Problem, ProblemSets, problem_sets, use_problems
from isosweep.tasks.problem import shuffled


def _apportioned(number: int, shares: Sequence[float]) -> list[int]:
    """`number` in these shares, of 1: whole numbers, the largest remainders rounded up."""
    exact = [number * share for share in shares]
    counts = [math.floor(value + 1e-9) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: number - sum(counts)]:
        counts[i] += 1
    return counts


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Problems chosen by difficulty, and the `document` that a worker reads them from, whose hash
    is its name."""

    sets: ProblemSets
    document: JsonObject
    sha256: str


def select(task: TaskConfig, measured: Measurement, excluded: Collection[str] = ()) -> Selection:
    """The task's problems, chosen by `task.difficulty` and the hash of their prompts, without those
    whose ids are `excluded`. Raises SettingError where a range has too few."""
    shares = difficulty_shares(task.difficulty)
    rates = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
    by_share = [share.share for share in shares]
    counts = zip(
        _apportioned(task.num_eval_problems, by_share),
        _apportioned(task.num_train_problems, by_share),
        strict=True,
    )
    left = shuffled((p for p in measured.problems if p.problem_id not in excluded), task.data_seed)
    total = len(left)
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
            f"{task.num_eval_problems}, of {total} measured problems "
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


def _sha256(document: JsonObject) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ChosenVariant(Variant):
    """A variant whose config names its problems by their hash; `selections`: those of its task, of
    its mixture's parts and of its further evaluation sets that are chosen by difficulty.

    `unmeasured`: some are still to be chosen, and there may be too few.
    """

    selections: tuple[Selection, ...] = ()
    unmeasured: bool = False

    @property
    def problems(self) -> ProblemSets:
        """Problems to train on and to evaluate on.

        Raises SettingError where they cannot be drawn: too few, unreadable, or a broken source.
        """
        return problem_sets(self.config.task)


def choose_variants(config: SweepConfig, *, measured: bool = True) -> tuple[ChosenVariant, ...]:
    """Every combination of `grid.axes`, in the order given; the config itself without axes.

    Where a task chooses its problems by difficulty, they are chosen, and the task has their hash.
    Raises SettingError where they have not been measured, or are too few, and as `combinations`;
    unless they need not be `measured`: then the variant is planned as if there were enough.
    """
    sweeps = Path(config.sweeps_dir).absolute()
    return tuple(_chosen(variant, sweeps, measured) for variant in combinations(config))


def _chosen(variant: Variant, sweeps: Path, needed: bool) -> ChosenVariant:
    config, selections, unmeasured = variant.config, list[Selection](), False

    def choose(on: SweepConfig, *, beside_training: bool = False) -> str:
        """The hash of the problems of `on` that are chosen; of a set those not trained on."""
        nonlocal unmeasured
        # What a set has beside unknown problems is not known either.
        measured, task = read_measurement(measurement_path(on, sweeps)), on.task
        if not needed and (unmeasured or not measured.complete):
            unmeasured = True
            # Runs of another difficulty are other runs, though it is not known yet on what.
            described = json.dumps(on.task.difficulty, sort_keys=True)
            return f"unmeasured-{hashlib.sha256(described.encode()).hexdigest()[:16]}"
        require_complete(on, measured)
        trained = set[str]()
        if beside_training:
            trained = {problem.problem_id for problem in problem_sets(config.task).training}
            # Nothing is trained on a set: one problem is the least that can be asked for.
            task = replaced(task, num_train_problems=1)
        selection = select(task, measured, trained)
        selections.append(selection)
        use_problems(replaced(on.task, selection_sha256=selection.sha256), selection.sets)
        return selection.sha256

    evaluated = on_all(config)
    if (mixture := config.task.mixture) is not None:
        parts = dict(mixture.parts)
        for name, part in parts.items():
            if part.difficulty is not None:
                with errors_at(f"{PARTS}.{name}"):
                    parts[name] = replaced(part, selection_sha256=choose(evaluated[name]))
        task = replaced(config.task, mixture=replaced(mixture, parts=parts))
        config = replaced(config, task=task)
    elif config.task.difficulty is not None:
        config = replaced(config, task=replaced(config.task, selection_sha256=choose(config)))
    sets = dict(config.evaluation.sets or {})
    for name, own in sets.items():
        if own.task is not None and own.is_chosen:
            with errors_at(f"evaluation.sets.{name}.task"):
                sha256 = choose(evaluated[name], beside_training=True)
            sets[name] = replaced(own, task=replaced(own.task, selection_sha256=sha256))
    if sets:
        config = replaced(config, evaluation=replaced(config.evaluation, sets=sets))
    return ChosenVariant(
        axes=variant.axes, config=config, selections=tuple(selections), unmeasured=unmeasured
    )
