"""Problems of the further sets that a run is evaluated on, and what holds a run to its problems."""

from collections.abc import Mapping, Sequence

from isosweep.config.evaluation import Evaluated, on_all
from isosweep.config.task import TaskConfig, errors_at
from isosweep.errors import RecordError, SettingError
from isosweep.files import read_json, write_json
from isosweep.store.paths import RunPaths
from isosweep.tasks import (
    Problem,
    heldout_problems,
    problem_pool,
    problems_digest,
    training_problems,
)
from isosweep.tasks.problem import not_among

# What is trained on: each task, of a mixture each part, with its problems.
_Trained = Sequence[tuple[TaskConfig, Sequence[Problem]]]


def problems_of_sets(asked: Evaluated, training: Sequence[Problem]) -> dict[str, list[Problem]]:
    """The problems of every set of `asked`, by the set's name; `training`: those trained on.

    Those of a set that was chosen by difficulty have to be loaded. Raises SettingError where a set
    cannot be drawn: too few problems beside those trained on, unreadable, or a broken source.
    """
    found, evaluated = {}, on_all(asked)
    trained: _Trained = [(asked.task, training)]
    if evaluated and asked.task.parts:
        trained = [(part, training_problems(part)) for part in asked.task.parts.values()]
    for name, own in (asked.evaluation.sets or {}).items():
        task = evaluated[name].task
        with errors_at(f"evaluation.sets.{name}.task"):
            if own.problems == "train":
                found[name] = list(training[: task.num_eval_problems])
            elif own.task is None or own.is_chosen:
                # Chosen among problems that are not trained on.
                found[name] = heldout_problems(task)
            else:
                found[name] = _not_trained_on(task, trained)
    return found


def _not_trained_on(task: TaskConfig, trained: _Trained) -> list[Problem]:
    """The held-out problems of `task`, with others in the place of those that are trained on."""
    # Of `sort` the problems to train on come first.
    first = task.num_train_problems if task.sort else 0
    wanted, drawn = task.num_eval_problems, first + task.num_eval_problems
    while True:
        pool = problem_pool(task, drawn)
        kept = not_among(task, pool[first:], trained)
        if len(kept) >= wanted:
            return kept[:wanted]
        if len(pool) < drawn:
            break
        drawn += wanted - len(kept)
    rule = (
        f"asks for more problems than {task.name} has beside those that are trained on: {len(kept)}"
    )
    nearest = f"task.num_eval_problems={len(kept)}" if kept else "a set with a source of its own"
    raise SettingError("task.num_eval_problems", wanted, rule, nearest)


def hold_problems(
    run: RunPaths, task: TaskConfig, further: Mapping[str, Sequence[Problem]] | None = None
) -> None:
    """Store the digest of the run's problems, or compare it with what an earlier attempt stored.

    `further`: the problems of its further evaluation sets, by the set's name. Problems chosen by
    difficulty have to be loaded (`load_selection`). Raises RecordError if the problems are others
    now: the data, or what draws them, has changed.
    """
    digest = problems_digest(task, further)
    try:
        stored = read_json(run.problems)
        held = None if stored is None else str(stored["sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{run.problems}: cannot be read ({error!r}); remove it") from None
    if held is None:
        write_json(run.problems, {"sha256": digest})
    elif held != digest:
        raise RecordError(
            f"{run.problems}: this run's problems had the sha256 {held[:12]}..., those drawn now "
            f"have {digest[:12]}...: the data, or a package that draws them, has changed. "
            f"Put that back, or remove {run.root} to train the run anew"
        )
