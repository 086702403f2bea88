"""Completions that a run keeps for people to read: what its model said, record by record.

Of each record all answers to a few held-out problems, and a few rollouts that the update before it
was made with. Kept in a log as metrics are (`store.records`), with one line a record, written
before the record's own; only the user who trains can read them. No number rests on them.
"""

import errno
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from isosweep.files import JsonObject, append_line, read_json, write_json, write_text
from isosweep.store.paths import RunPaths
from isosweep.store.records import attempt_file, lines_on_chain, read_records

# Characters that are kept of a text: of a longer one so many of its beginning and of its end. A
# chain of thought of 1,000 tokens is kept whole.
BEGINNING, END = 4000, 2000
MOST_CHARACTERS = BEGINNING + END
# Rollouts of training that are kept of a record.
MOST_ROLLOUTS = 8
_LEFT_OUT = " [... {} characters left out ...] "


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What a model answered.

    `tokens`: their number; `ended`: whether it came to its end before the limit; `right`: whether
    it counts as a success (each None where another trainer did not say); `reward`: the task's
    score; `answer`: what the task has read as its answer, and `reason`: why it has this reward,
    where the task tells them; `advantage`: what training weighed the rollout by.
    """

    text: str
    tokens: Annotated[int, Field(ge=1, le=2**53)] | None = None
    ended: bool | None = None
    right: bool | None = None
    reward: Annotated[float, Field(allow_inf_nan=False)]
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


def shortened(problem: AnsweredProblem) -> AnsweredProblem:
    """Return the problem with texts of bounded length that can be written as UTF-8."""
    made = (
        replace(
            each,
            text=_cut(each.text),
            answer=each.answer and _cut(each.answer),
            reason=each.reason and _cut(each.reason),
        )
        for each in problem.completions
    )
    prompt, answer = _cut(problem.prompt), _cut(problem.answer)
    return replace(problem, prompt=prompt, answer=answer, completions=tuple(made))


def _cut(text: str) -> str:
    text = text.encode(errors="replace").decode()
    more = len(text) - MOST_CHARACTERS
    return text if more <= 0 else text[:BEGINNING] + _LEFT_OUT.format(more) + text[-END:]


def append_completions(run: RunPaths, attempt: int, kept: KeptCompletions) -> None:
    """Append what is kept of a record, in a directory that only its user can read.

    Raises OSError on a full disk.
    """
    _make_private(run.completions)
    append_line(attempt_file(run.completions, attempt), _line(attempt, kept), sync=False)


def write_completions(run: RunPaths, kept: Iterable[KeptCompletions]) -> None:
    """Write all that is kept of a run that one attempt made, in place of what there was."""
    _make_private(run.completions)
    lines = (json.dumps(_line(1, each), allow_nan=False) + "\n" for each in kept)
    write_text(attempt_file(run.completions, 1), "".join(lines))


def _line(attempt: int, kept: KeptCompletions) -> JsonObject:
    return {"attempt": attempt, **asdict(kept)}


def _make_private(directory: Path) -> None:
    """Make a directory that only this user can read. Raises OSError for a link."""
    if directory.is_symlink():
        raise OSError(errno.ELOOP, "a link in the place of a directory", str(directory))
    directory.mkdir(mode=0o700, exist_ok=True)


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


def share_completions(base: Path, heldout: Sequence[AnsweredProblem]) -> None:
    """Write what is kept of the evaluation before training that is stored at `base`."""
    place = _beside(base)
    _make_private(place.parent)
    write_json(place, {"step": 0, "heldout": [asdict(each) for each in heldout]})


def shared_completions(base: Path) -> tuple[AnsweredProblem, ...]:
    """Return what `share_completions` wrote; nothing where that is not there, or another user's."""
    with suppress(OSError, ValueError):
        document = read_json(_beside(base))
        return _kept()(document).heldout if document else ()
    return ()


def _beside(base: Path) -> Path:
    return base.with_suffix("") / "completions.json"


@cache
def _kept() -> Callable[[JsonObject], KeptCompletions]:
    return TypeAdapter(KeptCompletions).validate_python
