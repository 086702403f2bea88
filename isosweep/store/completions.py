"""Completions that a run keeps for people to read: what its model said, record by record.

Of each record all answers to a few held-out problems, and a few rollouts that the update before it
was made with. Kept in a log as metrics are (`store.records`), with one line a record, written
before the record's own; only the user who trains can read them. No number rests on them.
"""

import errno
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from isosweep.files import JsonObject, append_line, read_lines
from isosweep.store.paths import RunPaths
from isosweep.store.records import attempt_file, lines_on_chain, read_records

# Characters that are kept of a text: a chain of thought of 1,000 tokens is kept whole.
MOST_CHARACTERS = 6000
# Rollouts of training that are kept of a record.
MOST_ROLLOUTS = 8


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What a model answered.

    `reward`: the task's score; `right`: whether it counts as a success; `tokens`: their number, and
    `ended`: whether it came to its end before the limit, None where another trainer did not say;
    `answer`: what the task has read as its answer, and `reason`: why it has this reward, where the
    task tells them; `advantage`: what training weighed the rollout by.
    """

    text: str
    reward: Annotated[float, Field(allow_inf_nan=False)]
    right: bool
    tokens: Annotated[int, Field(ge=1, le=2**53)] | None = None
    ended: bool | None = None
    answer: str | None = None
    reason: str | None = None
    advantage: float | None = None


@dataclass(frozen=True, kw_only=True)
class AnsweredProblem:
    """A problem, its reference `answer`, and what a model answered to it."""

    problem_id: str
    prompt: str
    answer: str
    completions: Annotated[tuple[Completion, ...], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class KeptCompletions:
    """What is kept of the record after `step` updates: answers to `heldout` problems, and rollouts
    of `training`."""

    step: int
    heldout: tuple[AnsweredProblem, ...]
    training: tuple[AnsweredProblem, ...] = ()

    @property
    def problems(self) -> tuple[AnsweredProblem, ...]:
        """The held-out problems; where another trainer kept none, those of training."""
        return self.heldout or self.training


def kept_problems(problem_ids: Sequence[str], count: int) -> set[str]:
    """Return the ids of the `count` problems whose completions are kept: the same of a set for
    every run, and of a larger number a larger part."""
    by_hash = sorted(problem_ids, key=lambda name: hashlib.sha256(name.encode()).digest())
    return set(by_hash[:count])


def completion_rows(problems: Iterable[AnsweredProblem]) -> Iterator[JsonObject]:
    """Yield a row of a table for each completion, with its problem."""
    for problem in problems:
        about = {"problem": problem.problem_id, "prompt": problem.prompt}
        for made in problem.completions:
            own = asdict(made)
            yield {**about, "reference": problem.answer, "completion": own.pop("text"), **own}


def shortened(problem: AnsweredProblem, most: int = MOST_CHARACTERS) -> AnsweredProblem:
    """Return the problem with texts of about `most` characters, which can be written as UTF-8."""

    def cut(text: str) -> str:
        text = text.encode(errors="replace").decode()
        if (more := len(text) - most) <= 0:
            return text
        end = most // 3
        return f"{text[: most - end]} [... {more} characters left out ...] {text[-end:]}"

    completions = (
        replace(
            each,
            text=cut(each.text),
            answer=each.answer and cut(each.answer),
            reason=each.reason and cut(each.reason),
        )
        for each in problem.completions
    )
    prompt, answer = cut(problem.prompt), cut(problem.answer)
    return replace(problem, prompt=prompt, answer=answer, completions=tuple(completions))


def append_completions(directory: Path, attempt: int, kept: KeptCompletions) -> None:
    """Append what is kept of a record to a directory that only its user can read.

    Raises OSError on a full disk, and for a link in the directory's place.
    """
    if directory.is_symlink():
        raise OSError(errno.ELOOP, "a link in the place of a directory", str(directory))
    directory.mkdir(mode=0o700, exist_ok=True)
    line = {"attempt": attempt, **asdict(kept)}
    append_line(attempt_file(directory, attempt), line, sync=False)


def read_completions(run: RunPaths, steps: Collection[int] | None = None) -> list[KeptCompletions]:
    """Return what is kept of the run's records that count, by step, or of `steps` alone.

    Lines that hold no completions are passed over, and so are all of another user's run.
    """
    found: dict[int, KeptCompletions] = {}
    with suppress(OSError):
        taken = {record.step for record in read_records(run.records).records}
        for line in lines_on_chain(run.completions, run.records):
            if line["step"] in taken and (steps is None or line["step"] in steps):
                with suppress(ValidationError):
                    found[line["step"]] = _kept()(line)
    return [found[step] for step in sorted(found) if found[step].problems]


def shared_completions(directory: Path) -> tuple[AnsweredProblem, ...]:
    """Return what was appended last of an evaluation that runs share; nothing where there is
    nothing, or another user's."""
    with suppress(OSError, ValueError):
        *_, (_, line) = read_lines(attempt_file(directory, 1))
        return _kept()(line).heldout
    return ()


@cache
def _kept() -> Callable[[object], KeptCompletions]:
    return TypeAdapter(KeptCompletions).validate_python
