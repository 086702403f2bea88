"""What every kind of task shares: problems, their ids, and splits that never meet."""

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
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


class Judged(NamedTuple):
    """What a task makes of a completion: its score, in [0, 1], and the answer that it gives, as
    text that the same answer always has; None where it gives none, or the task cannot tell."""

    score: float
    answer: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Distinct problems of a task, in the order in which they are drawn. `source` is named in
    messages; `dropped` were left out because they were there already."""

    problems: tuple[Problem, ...]
    source: str
    dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class ProblemSets:
    """The problems of a task. `dropped`: those left out because they were there already."""

    training: tuple[Problem, ...]
    heldout: tuple[Problem, ...]
    dropped: int = 0


def normalised(text: str) -> str:
    """`text` as it is compared: case, spacing and Unicode forms make no difference."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def has_half_character(text: str) -> bool:
    """Whether the text has a lone surrogate, as the escape `\\ud835` in JSON leaves, which no file
    and no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def content_id(prefix: str, text: str) -> str:
    """A problem's id where its source has none: a hash of its normalised text."""
    return f"{prefix}-{hashlib.sha256(normalised(text).encode()).hexdigest()[:16]}"


@dataclass
class Distinct:
    """Takes problems one by one, and refuses one whose id or normalised prompt it has."""

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self.dropped = 0

    def take(self, problem: Problem) -> bool:
        """Whether `problem` is new; counts it in `dropped` if not."""
        # An id and a text cannot be mistaken for each other.
        keys = {f"id:{problem.problem_id}", f"text:{normalised(problem.prompt)}"}
        if keys & self._seen:
            self.dropped += 1
            return False
        self._seen |= keys
        return True


def shuffled(problems: Iterable[Problem], seed: int) -> list[Problem]:
    """Problems by the hash of their normalised prompt: the same whatever order they come in."""

    def place(problem: Problem) -> bytes:
        return hashlib.sha256(f"{seed}:{normalised(problem.prompt)}".encode()).digest()

    return sorted(problems, key=place)


def split(task: TaskConfig, pool: Pool) -> ProblemSets:
    """Held-out problems first, so that they do not depend on how many are trained on.

    Raises SettingError where the pool is too small.
    """
    problems = pool.problems
    heldout, training = task.num_eval_problems, task.num_train_problems
    if len(problems) < heldout + training:
        rule = (
            f"with task.num_eval_problems={heldout} it asks for {heldout + training} distinct "
            f"problems, and {pool.source} has {len(problems)} ({pool.dropped} duplicates left out)"
        )
        left = len(problems) - heldout
        fewer = max(1, len(problems) // 5)
        nearest = f"task.num_train_problems={left}"
        if left < heldout:
            nearest = (
                f"task.num_train_problems={max(1, len(problems) - fewer)} "
                f"task.num_eval_problems={fewer}"
            )
        raise SettingError("task.num_train_problems", training, rule, nearest)
    return ProblemSets(
        training=tuple(problems[heldout : heldout + training]),
        heldout=tuple(problems[:heldout]),
        dropped=pool.dropped,
    )


def require_disjoint(sets: ProblemSets) -> None:
    """Raise SettingError if a problem is in both sets, or twice in one, by id or by prompt."""
    distinct = Distinct()
    for problem in (*sets.training, *sets.heldout):
        if not distinct.take(problem):
            rule = f"drew problem {problem.problem_id} twice"
            raise SettingError("task.data_seed", "", rule, "another task.data_seed")


def in_template(problem: Problem, template: str | None) -> Problem:
    """The problem with its prompt put where the template says `{problem}`."""
    if template is None:
        return problem
    return replace(problem, prompt=template.replace("{problem}", problem.prompt))
