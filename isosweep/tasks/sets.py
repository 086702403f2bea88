"""Problems of the further sets that a run is evaluated on, and what holds a run to its problems."""

from collections.abc import Mapping, Sequence

from isosweep.config.evaluation import Evaluated, is_chosen, of_set, on_sets
from isosweep.config.task import TaskConfig, of_part
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
from isosweep.tasks.problem import in_part, not_among

# What is trained on: each task, of a mixture each part, with its problems.
_Trained = Sequence[tuple[TaskConfig, Sequence[Problem]]]


def problems_of_sets(asked: Evaluated, training: Sequence[Problem]) -> dict[str, list[Problem]]:
    """The problems of every set of `asked`, by the set's name; `training`: those trained on.

    Those of a set that was chosen by difficulty have to be loaded. Raises SettingError where a set
    cannot be drawn: too few problems beside those trained on, unreadable, or a broken source.
    """
    found, sets = {}, on_sets(asked)
    trained: _Trained = [(asked.task, training)]
    if sets and asked.task.parts:
        trained = [(part, training_problems(part)) for part in asked.task.parts.values()]
    for name, on in sets.items():
        own = (asked.evaluation.sets or {})[name]
        try:
            if own.problems == "train":
                found[name] = list(training[: on.task.num_eval_problems])
            elif is_chosen(own, on.task):
                # Chosen among problems that are not trained on.
                found[name] = heldout_problems(on.task)
            elif on.task.parts:
                found[name] = _of_parts(on.task, asked.task, trained)
            else:
                found[name] = _not_trained_on(on.task, trained)
        except SettingError as error:
            raise of_set(name, error) from None
    return found


def _of_parts(task: TaskConfig, asked: TaskConfig, trained: _Trained) -> list[Problem]:
    """The problems of a set of the sweep's mixture, `asked`; of a part that is chosen by difficulty
    those that the sweep holds out."""
    found: list[Problem] = []
    for name, part in task.parts.items():
        wanted = part.num_eval_problems
        try:
            if part.difficulty is None:
                problems = _not_trained_on(part, trained)
            else:
                problems = heldout_problems(asked.parts[name])[:wanted]
            if len(problems) < wanted:
                rule = f"asks for more than the {len(problems)} of its difficulty held out"
                raise SettingError("task.num_eval_problems", wanted, rule)
        except SettingError as error:
            rule = f"{of_part(name, error).rule} (part {name})"
            setting, own = "task.num_eval_problems", asked.num_eval_problems
            raise SettingError(setting, task.num_eval_problems, rule, f"{setting}={own}") from None
        found += [in_part(name, problem) for problem in problems]
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
