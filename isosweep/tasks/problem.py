"""What every kind of task shares: problems, their ids, splits and mixtures that never overlap."""

import hashlib
import itertools
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One question. `problem_id` is stable; `level` is a known difficulty, if there is one;
    `metadata` is JSON text that the task's verifier needs besides the `answer`."""

    problem_id: str
    level: float | None = None
    prompt: str
    answer: str
    metadata: str = ""


@dataclass(frozen=True, kw_only=True)
class PartProblem(Problem):
    """A problem of the part `part`, whose name begins its id: two parts may number theirs alike."""

    part: str


class Judged(NamedTuple):
    """A completion's score, in [0, 1]; the answer that it gives, as text that the same answer
    always has, None where it gives none, or the task cannot tell; and the reason of the score, for
    people to read, where the task has one."""

    score: float
    answer: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProblemSets:
    """The problems of a task."""

    training: tuple[Problem, ...]
    heldout: tuple[Problem, ...]


def normalised(text: str) -> str:
    """`text` as it is compared: case, spacing and Unicode forms make no difference."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def content_id(prefix: str, text: str) -> str:
    """A problem's id where its source has none: a hash of its normalised text."""
    return f"{prefix}-{hashlib.sha256(normalised(text).encode()).hexdigest()[:16]}"


def distinct(problems: Iterable[Problem], known: Collection[str] = ()) -> list[Problem]:
    """The problems whose id and normalised prompt none before them has; `known` are taken too."""
    kept, seen = list[Problem](), set(known)
    for problem in problems:
        keys = {_id_key(problem), _text_key(problem)}
        if not keys & seen:
            kept.append(problem)
            seen |= keys
    return kept


# An id and a text cannot be mistaken for each other.
def _id_key(problem: Problem) -> str:
    return f"id:{problem.problem_id}"


def _text_key(problem: Problem) -> str:
    return f"text:{normalised(problem.prompt)}"


def shuffled(problems: Iterable[Problem], seed: int) -> list[Problem]:
    """Problems by the hash of their normalised prompt: the same whatever order they come in."""

    def place(problem: Problem) -> bytes:
        return hashlib.sha256(f"{seed}:{normalised(problem.prompt)}".encode()).digest()

    return sorted(problems, key=place)


def split(task: TaskConfig, problems: Sequence[Problem]) -> ProblemSets:
    """Held-out problems first, so that they do not depend on how many are trained on.

    Raises SettingError where there are too few.
    """
    heldout, training, count = task.num_eval_problems, task.num_train_problems, len(problems)
    if count < heldout + training:
        rule = (
            f"with task.num_eval_problems={heldout} it asks for {heldout + training} distinct "
            f"problems, and {task.name} has {count}"
        )
        fewer = heldout if 2 * heldout <= count else max(1, count // 5)
        nearest = f"task.num_train_problems={count - fewer} task.num_eval_problems={fewer}"
        raise SettingError("task.num_train_problems", training, rule, nearest)
    return ProblemSets(
        training=tuple(problems[heldout : heldout + training]), heldout=tuple(problems[:heldout])
    )


def task_of(task: TaskConfig, problem: Problem) -> TaskConfig:
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
    )


def not_among(
    task: TaskConfig,
    problems: Iterable[Problem],
    others: Sequence[tuple[TaskConfig, Sequence[Problem]]],
) -> list[Problem]:
    """The problems of `task` that no other task has: by their text, and by their id where it means
    the same problem in both; rows of two sources may share a number."""
    known = set[str]()
    for other, theirs in others:
        same_source = task.model_dump()[task.kind] == other.model_dump()[other.kind]
        known |= set(map(_text_key, theirs))
        if same_source or task.kind == other.kind in ("sort", "reasoning_gym"):
            known |= set(map(_id_key, theirs))
    return distinct(problems, known)
