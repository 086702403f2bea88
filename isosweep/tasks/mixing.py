"""The problems of a mixture: those of its parts, each of which says whose it is."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.problem import Distinct, Problem, ProblemSets


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
    problems = {name: (*sets.training, *sets.heldout) for name, sets in parts.items()}
    for other, name in itertools.combinations(parts, 2):
        known = [(task.parts[other], problems[other])]
        own = not_among(task.parts[name], problems[name], known)
        if shared := len(problems[name]) - len(own):
            rule = (
                f"has {shared} problems that part {other} has too, and what one part holds out the "
                "other may train on"
            )
            nearest = f"task.mixture.parts.{name} with a source of its own"
            raise SettingError(f"task.mixture.parts.{name}", task.parts[name].name, rule, nearest)
    return ProblemSets(
        training=tuple(in_part(n, p) for n, sets in parts.items() for p in sets.training),
        heldout=tuple(in_part(n, p) for n, sets in parts.items() for p in sets.heldout),
        dropped=sum(sets.dropped for sets in parts.values()),
    )


def not_among(
    task: TaskConfig,
    problems: Iterable[Problem],
    others: Sequence[tuple[TaskConfig, Sequence[Problem]]],
) -> list[Problem]:
    """The problems of `task` that no other task has: by their text, and by their id where it means
    the same problem in both; rows of two sources may share a number."""
    distinct, ids = Distinct(), set[str]()
    for place, (other, known) in enumerate(others):
        same_source = asdict(task)[task.kind] == asdict(other)[other.kind]
        if same_source or task.kind == other.kind in ("sort", "reasoning_gym"):
            ids |= {problem.problem_id for problem in known}
        for problem in known:
            distinct.take(replace(problem, problem_id=f"other:{place}:{problem.problem_id}"))
    return [p for p in problems if p.problem_id not in ids and distinct.take(p)]
