"""Held-out evaluation, and further sets of problems that a run is evaluated on."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Protocol, Self, TypeVar

from pydantic import BeforeValidator

from isosweep.config.base import Named, Positive, PositiveInt, Settings, Whole
from isosweep.config.identity import OUTSIDE, identity
from isosweep.config.task import PARTS, TaskConfig, errors_at, find_data, load_tasks
from isosweep.errors import SettingError


class EvaluationSet(Settings, group="evaluation.sets"):
    """A further set of problems, and how it is sampled; null: as in the main evaluation."""

    problems: Literal["heldout", "train"] = "heldout"
    """`heldout`: problems that are not trained on; `train`: as many of the problems that are, of
    the sweep's own task."""
    task: TaskConfig | None = None
    """The problems, with all settings of one task: `+task@evaluation.sets.NAME.task=CHOICE`; null:
    the sweep's."""
    samples_per_problem: PositiveInt | None = None
    """k of avg@k."""
    temperature: Positive | None = None
    """Sampling temperature."""

    @property
    def is_chosen(self) -> bool:
        """Whether its problems are chosen by difficulty, apart from the sweep's."""
        return self.task is not None and self.task.difficulty is not None


def _with_tasks(sets: Any) -> Any:
    if not isinstance(sets, dict):
        return sets
    own = {
        name: each["task"]
        for name, each in sets.items()
        if isinstance(each, dict) and each.get("task")
    }
    tasks = load_tasks(own, "evaluation.sets.{}.task")
    return {
        name: {**each, "task": tasks[name]} if name in tasks else each
        for name, each in sets.items()
    }


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
    keep_completions: Annotated[Whole, OUTSIDE] = 8
    """Held-out problems, the same for all runs, whose answers are kept at every record, to be read
    (docs/completions.md); 0: none."""
    # No number of training depends on it.
    sets: Annotated[Named[EvaluationSet] | None, BeforeValidator(_with_tasks), OUTSIDE] = None
    """Further sets of problems, by name; every record has their results
    (docs/evaluation_sets.md)."""

    def _check(self) -> None:
        for name, own in (self.sets or {}).items():
            place = f"evaluation.sets.{name}"
            if own.task is not None and own.problems == "train":
                rule = "is of the problems trained on, and has no task of its own"
                raise SettingError(f"{place}.problems", "train", rule)
            if own.task is not None and own.task.mixture is not None:
                rule = "a set is of one task"
                raise SettingError(f"{place}.task.kind", "mixture", rule)


class Evaluated(Protocol):
    """A sweep's settings, or a run's."""

    @property
    def task(self) -> TaskConfig:
        """The problems."""

    @property
    def evaluation(self) -> EvaluationConfig:
        """Held-out evaluation, with its further sets."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same with other values, which are not validated."""


T = TypeVar("T", bound=Evaluated)


def on_all(asked: T) -> dict[str, T]:
    """What `asked` is with each part of its mixture, and each further set, as its main evaluation:
    all that a record has besides its own, by name."""
    main, task = asked.evaluation, asked.task
    sets = {name: EvaluationSet(task=part) for name, part in task.parts.items()}
    found = {}
    for name, own in (sets | (main.sets or {})).items():
        if own.problems == "train":
            least = min(task.num_eval_problems, task.num_train_problems)
            own = own.model_copy(
                update={"task": task.model_copy(update={"num_eval_problems": least})}
            )
        sampled = {
            "samples_per_problem": own.samples_per_problem or main.samples_per_problem,
            "temperature": own.temperature or main.temperature,
        }
        evaluation = main.model_copy(update={"sets": None, **sampled})
        found[name] = asked.model_copy(update={"task": own.task or task, "evaluation": evaluation})
    return found


def task_places(asked: Evaluated) -> Iterator[tuple[str, TaskConfig]]:
    """Every task whose problems are drawn, with the dotted name of its settings."""
    yield "task", asked.task
    for name, part in asked.task.parts.items():
        yield f"{PARTS}.{name}", part
    for name, own in (asked.evaluation.sets or {}).items():
        if own.task is not None:
            yield f"evaluation.sets.{name}.task", own.task


def set_identities(asked: Evaluated) -> dict[str, Any]:
    """What makes the numbers of each set of a run, besides the run, by the set's name."""
    evaluated = on_all(asked)
    return {
        name: [own.problems, identity(evaluated[name].task), identity(evaluated[name].evaluation)]
        for name, own in (asked.evaluation.sets or {}).items()
    }


def find_data_of_sets(evaluation: dict[str, Any]) -> None:
    """As `find_data`, for the evaluation's further sets."""
    sets = evaluation.get("sets")
    for name, own in sets.items() if isinstance(sets, dict) else ():
        if isinstance(own, dict) and isinstance(own.get("task"), dict):
            with errors_at(f"evaluation.sets.{name}.task"):
                find_data(own["task"])
