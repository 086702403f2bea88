"""Problems of the further sets that a run is evaluated on."""

from collections.abc import Sequence
from dataclasses import replace

from isosweep.config.evaluation_sets import Evaluated, is_chosen, of_set, on_sets
from isosweep.config.mixture import of_part
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks import Problem, heldout_problems, problem_pool, training_problems
from isosweep.tasks.mixing import in_part, same_ids
from isosweep.tasks.problem import Distinct

# What is trained on: each task, of a mixture each part, with its problems.
_Trained = Sequence[tuple[TaskConfig, Sequence[Problem]]]


def problems_of_sets(asked: Evaluated, training: Sequence[Problem]) -> dict[str, list[Problem]]:
    """The problems of every set of `asked`, by the set's name; `training`: those trained on.

    Those of a set that was chosen by difficulty have to be loaded. Raises SettingError where a set
    cannot be drawn: too few problems beside those trained on, unreadable, or a broken source.
    """
    found = {}
    trained: _Trained = [(asked.task, training)]
    for name, on in on_sets(asked).items():
        if asked.task.parts:
            trained = [(part, training_problems(part)) for part in asked.task.parts.values()]
        own = (asked.evaluation.sets or {})[name]
        if own.problems == "train":
            found[name] = list(training[: on.task.num_eval_problems])
        elif is_chosen(own, on.task):
            # Chosen among problems that are not trained on.
            found[name] = heldout_problems(on.task)
        else:
            try:
                found[name] = _of_parts(on.task, asked.task, trained) or _apart(on.task, trained)
            except SettingError as error:
                raise of_set(name, error) from None
    return found


def _of_parts(task: TaskConfig, asked: TaskConfig, trained: _Trained) -> list[Problem]:
    """The problems of a set of the sweep's mixture, `asked`; none of another set."""
    found: list[Problem] = []
    for name, part in task.parts.items():
        try:
            chosen = part.difficulty is not None
            problems = _chosen(part, asked.parts[name]) if chosen else _apart(part, trained)
            found += [in_part(name, problem) for problem in problems]
        except SettingError as error:
            rule = f"{of_part(name, error).rule} (part {name})"
            setting, own = "task.num_eval_problems", asked.num_eval_problems
            raise SettingError(setting, task.num_eval_problems, rule, f"{setting}={own}") from None
    return found


def _chosen(part: TaskConfig, asked: TaskConfig) -> list[Problem]:
    """Held-out problems of a part that is chosen by difficulty, among those of the sweep's."""
    problems, wanted = heldout_problems(asked), part.num_eval_problems
    if wanted > len(problems):
        rule = (
            f"asks for more than the {len(problems)} problems of its difficulty that it holds out"
        )
        raise SettingError("task.num_eval_problems", wanted, rule, "")
    return problems[:wanted]


def _apart(task: TaskConfig, trained: _Trained) -> list[Problem]:
    """The held-out problems of `task`, with others in the place of those that are trained on."""
    # Of `sort` the problems to train on come first.
    first = task.num_train_problems if task.kind == "sort" else 0
    wanted, more = task.num_eval_problems, 0
    while True:
        asked = first + wanted + more
        pool = problem_pool(task, asked)
        kept = _not_among(task, trained, pool.problems[first:])
        if len(kept) >= wanted:
            return kept[:wanted]
        if len(pool.problems) < asked:
            break
        more += wanted - len(kept)
    rule = (
        f"asks for more problems than {pool.source} has beside those that are trained on: "
        f"{len(kept)} ({pool.dropped} duplicates left out)"
    )
    nearest = f"task.num_eval_problems={len(kept)}" if kept else "a set with a source of its own"
    raise SettingError("task.num_eval_problems", wanted, rule, nearest)


def _not_among(task: TaskConfig, trained: _Trained, problems: Sequence[Problem]) -> list[Problem]:
    distinct, ids = Distinct(), set[str]()
    for place, (other, training) in enumerate(trained):
        if same_ids(task, other):
            ids |= {problem.problem_id for problem in training}
        for problem in training:
            distinct.take(replace(problem, problem_id=f"trained:{place}:{problem.problem_id}"))
    return [p for p in problems if p.problem_id not in ids and distinct.take(p)]
