"""Held-out evaluation, and further sets of problems that a run is evaluated on."""

import re
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import AfterValidator

from isosweep.config.base import Positive, PositiveInt, Settings, Whole, load, replaced
from isosweep.config.identity import OUTSIDE, identity
from isosweep.config.task import Kind, TaskConfig, find_data, of_part
from isosweep.errors import SettingError

# Names of sets are parts of paths, and of the names of metrics.
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class EvaluationSet(Settings, group="evaluation.sets"):
    """A further set of problems, and how it is sampled; null: as in the main evaluation."""

    problems: Literal["heldout", "train"] = "heldout"
    """`heldout`: problems that are not trained on; `train`: the first `task.num_eval_problems` that
    are."""
    task: dict[str, Any] | None = None
    """Task settings that differ in this set. A set with another source (`kind`, `dataset`, `path`,
    `generator` or `function`) takes over nothing of the sweep's."""
    samples_per_problem: PositiveInt | None = None
    """k of avg@k."""
    temperature: Positive | None = None
    """Sampling temperature."""


def _named(sets: dict[str, Any] | None) -> dict[str, Any] | None:
    for name in sets or {}:
        if not _NAME.fullmatch(name):
            raise ValueError(f"has a name {name!r}: letters, digits, - and _ make one")
    return sets


class EvaluationConfig(Settings, group="evaluation"):
    """Held-out evaluation: avg@k over the held-out problems, at step 0, at every budget and
    between. `task.num_eval_problems` sets how many problems; some choices of this group set it
    too."""

    samples_per_problem: PositiveInt = 8
    """k of avg@k: answers sampled for each held-out problem."""
    records_per_decade: PositiveInt = 5
    """Evaluations for each factor of ten of training FLOPs, besides step 0 and the budgets."""
    # Every answer has random numbers of its own.
    batch_size: Annotated[PositiveInt | None, OUTSIDE] = None
    """Answers that transformers samples at once; null: as many as fit into memory, at most
    2,048."""
    temperature: Positive = 1.0
    """Sampling temperature of held-out answers."""
    seed: Whole = 0
    """Random seed of the samples, the same for every run."""
    # No number of training depends on it.
    sets: Annotated[dict[str, EvaluationSet] | None, AfterValidator(_named), OUTSIDE] = None
    """Further sets of problems, by name; every record has their results
    (docs/evaluation_sets.md)."""


# Settings that say where the problems of a kind come from.
_SOURCES: dict[Kind, tuple[str, ...]] = {
    "sort": (),
    "reasoning_gym": ("generator",),
    "math": ("dataset", "path"),
    "code": ("dataset", "path"),
    "custom": ("function",),
    "mixture": (),
}
# Of another kind of task nothing else is taken over.
_OF_ANY_KIND = ("name", "num_train_problems", "num_eval_problems", "data_seed", "success_at")
# What a set of training problems may have otherwise.
_OF_TRAINING = ("num_eval_problems", "max_completion_tokens", "success_at")


class Evaluated(Protocol):
    """A sweep's settings, or a run's."""

    @property
    def task(self) -> TaskConfig:
        """The problems."""

    @property
    def evaluation(self) -> EvaluationConfig:
        """Held-out evaluation, with its further sets."""


T = TypeVar("T", bound=Evaluated)


def on_parts(asked: T) -> dict[str, T]:
    """What `asked` would be with each part of its mixture as its task, by the part's name: together
    they are its main evaluation. Raises SettingError where it could not be."""
    found: dict[str, T] = {}
    for name, task in asked.task.parts.items():
        try:
            changed: Any = asked
            evaluation = replaced(asked.evaluation, sets=None)
            found[name] = replaced(changed, task=task, evaluation=evaluation)
        except SettingError as error:
            raise of_part(name, error) from None
    return found


def on_all(asked: T) -> dict[str, T]:
    """`on_parts` and `on_sets`: all that a record has besides its main evaluation, by name."""
    parts, sets = on_parts(asked), on_sets(asked)
    if both := [name for name in sets if name in parts]:
        rule = "is the name of a part of task.mixture, whose held-out problems are a set already"
        raise SettingError(f"evaluation.sets.{both[0]}", "{...}", rule)
    return {**parts, **sets}


def on_sets(asked: T) -> dict[str, T]:
    """What `asked` would be with each of its further sets as the main evaluation, by name.

    Raises SettingError, of the set's own settings, where it could not be.
    """
    found: dict[str, T] = {}
    for name, own in (asked.evaluation.sets or {}).items():
        try:
            task = _set_task(asked.task, own)
            main = asked.evaluation
            evaluation = replaced(
                main,
                sets=None,
                samples_per_problem=own.samples_per_problem or main.samples_per_problem,
                temperature=own.temperature or main.temperature,
            )
            changed: Any = asked
            found[name] = replaced(changed, task=task, evaluation=evaluation)
        except SettingError as error:
            rule = error.rule
            if asked.task.parts:
                rule += "; a set of one task takes over nothing of a mixture's parts"
            raise of_set(name, SettingError(error.setting, error.value, rule)) from None
    return found


def set_identities(asked: Evaluated) -> dict[str, Any]:
    """What makes the numbers of each set of a run, besides the run, by the set's name."""
    sets = asked.evaluation.sets or {}
    return {
        name: [sets[name].problems, identity(on.task), identity(on.evaluation)]
        for name, on in on_sets(asked).items()
    }


def is_chosen(own: EvaluationSet, task: TaskConfig) -> bool:
    """Whether the problems of a set, whose `task` this is, are chosen by difficulty."""
    return own.problems == "heldout" and task.difficulty is not None


def _set_task(task: TaskConfig, own: EvaluationSet) -> TaskConfig:
    changes = own.task or {}
    if own.problems == "train":
        return _training_task(task, changes)
    if "mixture" in changes:
        rule = "a set is of the sweep's own mixture or of one task"
        raise SettingError("task.mixture", "{...}", rule)
    kind: Kind = changes.get("kind", task.kind)
    group, plain = changes.get(kind), task.model_dump()
    if kind != task.kind:
        plain = {name: plain[name] for name in _OF_ANY_KIND}
    elif isinstance(group, dict) and any(group.get(name) for name in _SOURCES.get(kind, ())):
        plain |= {kind: {}, "difficulty": None}
    if isinstance(group, dict):
        plain[kind] = {**(plain.get(kind) or {}), **group}
    # The hash of what the sweep's own task has chosen says nothing of these.
    plain["selection_sha256"] = None
    return load(TaskConfig, plain | {name: v for name, v in changes.items() if name != kind})


def _training_task(task: TaskConfig, changes: dict[str, Any]) -> TaskConfig:
    for name, value in changes.items():
        if name not in _OF_TRAINING:
            rule = (
                "is not for a set of the training problems, which are the sweep's own: it may have "
                f"{', '.join(_OF_TRAINING)} otherwise"
            )
            raise SettingError(f"task.{name}", value, rule)
    asked = changes.get("num_eval_problems")
    number = task.num_train_problems
    if isinstance(asked, int) and asked > number:
        rule = f"counts problems that are trained on, and task.num_train_problems={number}"
        raise SettingError("task.num_eval_problems", asked, rule)
    least = min(task.num_eval_problems, number)
    return load(TaskConfig, {**task.model_dump(), "num_eval_problems": least, **changes})


def of_set(name: str, error: SettingError) -> SettingError:
    """The error of a main evaluation as one of the set's own settings."""
    place = f"evaluation.sets.{name}"

    def renamed(text: str) -> str:
        text = re.sub(r"(?<![\w.])evaluation\.(?!sets)", f"{place}.", text)
        return re.sub(r"(?<![\w.])task\.", f"{place}.task.", text)

    return SettingError(renamed(error.setting), error.value, error.rule, renamed(error.nearest))


def find_data_of_sets(evaluation: dict[str, Any]) -> None:
    """As `find_data`, for the evaluation's further sets."""
    sets = evaluation.get("sets")
    for name, own in sets.items() if isinstance(sets, dict) else ():
        if isinstance(own, dict) and isinstance(own.get("task"), dict):
            try:
                find_data(own["task"])
            except SettingError as error:
                raise of_set(name, error) from None
