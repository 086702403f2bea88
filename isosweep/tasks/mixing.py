"""The problems of a mixture: those of its parts, each of which says whose it is."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.problem import Problem, ProblemSets, normalised


@dataclass(frozen=True, kw_only=True)
class PartProblem(Problem):
    """A problem of the part `part`, whose name begins its id: two parts may number theirs alike."""

    part: str


def own_task(task: TaskConfig, problem: Problem) -> TaskConfig:
    """The task that `problem` is of: of a mixture, the part."""
    return task.parts[problem.part] if isinstance(problem, PartProblem) else task


def in_part(name: str, problem: Problem) -> PartProblem:
    """The problem as the mixture has it."""
    own = {**asdict(problem), "problem_id": f"{name}/{problem.problem_id}"}
    return PartProblem(**own, part=name)


def mixed(task: TaskConfig, parts: Mapping[str, ProblemSets]) -> ProblemSets:
    """The problems of a mixture, part by part.

    Raises SettingError where two parts share a problem, which one might train on and the other
    hold out.
    """
    _require_apart(task, parts)
    return ProblemSets(
        training=tuple(in_part(n, p) for n, sets in parts.items() for p in sets.training),
        heldout=tuple(in_part(n, p) for n, sets in parts.items() for p in sets.heldout),
        dropped=sum(sets.dropped for sets in parts.values()),
    )


def same_ids(one: TaskConfig, other: TaskConfig) -> bool:
    """Whether an id means the same problem in both; rows of two sources may share a number."""
    same_source = asdict(one)[one.kind] == asdict(other)[one.kind]
    return same_source or one.kind == other.kind in ("sort", "reasoning_gym")


def _require_apart(task: TaskConfig, parts: Mapping[str, ProblemSets]) -> None:
    for other, name in itertools.combinations(parts, 2):
        ids = same_ids(task.parts[name], task.parts[other])
        known = {key for problem in _all(parts[other]) for key in _keys(problem, ids)}
        shared = sum(bool(known & _keys(problem, ids)) for problem in _all(parts[name]))
        if shared:
            rule = (
                f"has {shared} problems that part {other} has too, and what one part holds out the "
                "other may train on"
            )
            nearest = f"task.mixture.parts.{name} with a source of its own"
            raise SettingError(f"task.mixture.parts.{name}", task.parts[name].name, rule, nearest)


def _all(sets: ProblemSets) -> tuple[Problem, ...]:
    return (*sets.training, *sets.heldout)


def _keys(problem: Problem, ids: bool) -> set[str]:
    """What a problem is known by: its text, and its id where that says it."""
    return {f"text:{normalised(problem.prompt)}"} | ({f"id:{problem.problem_id}"} if ids else set())
