"""What models answered: the answers that the report shows, and signs that rewards are gamed.

No verdict rests on either. A sign is a rule with its numbers and an example: a reader decides what
it means.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal

from isosweep.analysis.curves import Curve, SweepData
from isosweep.store.completions import (
    AnsweredProblem,
    Completion,
    KeptCompletions,
    read_completions,
)
from isosweep.store.paths import SweepPaths

# Runs of an n whose completions are read, those that went furthest: files have megabytes.
_RUNS = 3
# Answers of a run to a problem at one record that the page shows, and characters of each.
_SHOWN, _LONGEST = 2, 1200
# Fewer answers, or problems, show no habit.
_FEWEST, _FEWEST_PROBLEMS = 8, 4
# Median tokens of rewarded answers change by this factor or more.
_FACTOR = 3.0
# Of rewarded answers a share that is a habit.
_HABIT = 0.5
# By this much, and by so many standard errors, the reward in training gains more than the held-out
# one.
_GAP, _ERRORS = 0.2, 5.0
# What a prompt that wants reasoning says, and tokens of an answer that has none.
_ASKS = re.compile(r"<think|<reasoning|step[- ]by[- ]step|\breason", re.IGNORECASE)
_NO_REASONING = 10
# Answers that a text offers: in a box, or between tags.
_OFFERED = re.compile(r"\\boxed\{([^{}]*)\}|<answer>(.*?)</answer>", re.DOTALL)

# Letters of a reference that an answer may be looked for in; longer ones are tests, or rubrics.
_REFERENCE = 40

Kind = Literal[
    "length",
    "limit",
    "repeated",
    "no reasoning",
    "several answers",
    "no reference",
    "training only",
]


@dataclass(frozen=True, kw_only=True)
class Sign:
    """What of the answers of one n a reader should look at.

    `before` and `after` are of the first and the last record, pooled over runs and problems: median
    tokens (`length`, `no reasoning`), shares of rewarded answers (`limit`, `several answers`,
    `no reference`) or of problems (`repeated`), and for `training only` the reward that training
    gained and the held-out one; `reward`: the held-out one at the end. `example`: an answer that
    shows it.
    """

    kind: Kind
    num_generations: int
    before: float
    after: float
    reward: float
    example: str


@dataclass(frozen=True, kw_only=True)
class ShownAnswers:
    """Answers of the run with this n after `step` updates: a few, and how many of all are right."""

    num_generations: int
    step: int
    right: int
    samples: int
    completions: tuple[Completion, ...]


@dataclass(frozen=True, kw_only=True)
class ShownProblem:
    """A problem with what models answered: `before` training, at `half` and at the `end`, each by
    n."""

    problem: AnsweredProblem
    moments: Mapping[str, tuple[ShownAnswers, ...]]


@dataclass(frozen=True, kw_only=True)
class Completions:
    """What a few runs of each n have kept: by n, each run's curve and records."""

    runs: Mapping[int, tuple[tuple[Curve, Sequence[KeptCompletions]], ...]]
    success_at: float

    def is_right(self, completion: Completion) -> bool:
        """Return whether it counts as a success."""
        return completion.reward >= self.success_at


def read_kept(paths: SweepPaths, data: SweepData) -> Completions:
    """Return what the runs of each n that went furthest have kept."""
    by_n: dict[int, list[Curve]] = defaultdict(list)
    for curve in sorted(data.curves, key=lambda each: -each.compute.max(initial=0.0)):
        by_n[curve.run.num_generations].append(curve)
    found = {}
    for n in sorted(by_n):
        read = [(each, read_completions(paths.run(each.run.run_id))) for each in by_n[n][:_RUNS]]
        if runs := tuple((curve, kept) for curve, kept in read if kept):
            found[n] = runs
    task = data.config_document.get("task")
    success_at = task.get("success_at", 1.0) if isinstance(task, dict) else 1.0
    return Completions(runs=found, success_at=float(success_at))


def shown_problems(kept: Completions, use: int | None) -> list[ShownProblem]:
    """Return the problems with answers of the smallest n, of the one to `use`, and of the largest,
    at the beginning, half-way and at the end of a run of each."""
    every = [*kept.runs]
    chosen = sorted({*every[:1], *every[-1:], *(n for n in every if n == use)})
    records = {n: _three(kept.runs[n][0][1]) for n in chosen}
    known = {
        each.problem_id: each
        for three in records.values()
        for one in three
        for each in one.problems
    }
    return [
        ShownProblem(
            problem=problem,
            moments={
                moment: tuple(_answers(kept, problem.problem_id, records, chosen, at))
                for at, moment in enumerate(("before", "half", "end"))
            },
        )
        for problem in known.values()
    ]


# Columns of the table.
_COLUMNS = ("n", "B", "seed", "step", "problem", "prompt", "reference", "completion", "reward")


def table(kept: Completions) -> dict[str, list[Any]]:
    """Return answers of the run of each n that went furthest, at its first and its last record, as
    the columns and the rows of a table of MLflow's."""
    rows = [
        [
            *(curve.run.num_generations, curve.run.problems_per_batch, curve.run.seed, record.step),
            *(problem.problem_id, problem.prompt, problem.answer, made.text, made.reward),
        ]
        for (curve, records), *_ in kept.runs.values()
        for record in (records[0], records[-1])
        for problem in record.problems
        for made in problem.completions
    ]
    return {"columns": [*_COLUMNS], "data": rows}


def _three(kept: Sequence[KeptCompletions]) -> tuple[KeptCompletions, ...]:
    half = min(kept, key=lambda each: abs(each.step - kept[-1].step / 2))
    return kept[0], half, kept[-1]


def _answers(
    kept: Completions,
    problem_id: str,
    records: Mapping[int, tuple[KeptCompletions, ...]],
    chosen: Sequence[int],
    at: int,
) -> Iterator[ShownAnswers]:
    for n in chosen:
        record = records[n][at]
        # Before training all n have the same model.
        if record.step == 0 and (at > 0 or n != chosen[0]):
            continue
        for problem in record.problems:
            if problem.problem_id == problem_id:
                right = [each for each in problem.completions if kept.is_right(each)]
                wrong = [each for each in problem.completions if not kept.is_right(each)]
                # One of each kind, where there are both.
                few = [*right[:1], *wrong[:1], *right[1:], *wrong[1:]][:_SHOWN]
                yield ShownAnswers(
                    num_generations=n,
                    step=record.step,
                    right=len(right),
                    samples=len(problem.completions),
                    completions=tuple(few),
                )


def visible(text: str) -> str:
    """Return the text with what changes how others are shown written out, such as control and
    direction characters, and cut to what the page shows."""
    more = len(text) - _LONGEST
    if more > 0:
        text = f"{text[: _LONGEST // 2]} [... {more} characters ...] {text[-_LONGEST // 2 :]}"
    return "".join(
        c if c.isprintable() or c in "\n\t\u200c\u200d" else ascii(c)[1:-1] for c in text
    )


def find_signs(data: SweepData, kept: Completions) -> tuple[Sign, ...]:
    """Return the signs of each n, over the runs whose completions were read."""
    found: list[Sign] = []
    for n, runs in kept.runs.items():
        first, last = (
            [problem for _, records in runs for problem in records[at].problems] for at in (0, -1)
        )
        before, after = (_rewarded(kept, problems) for problems in (first, last))
        reward = fmean(each.reward for problem in last for each in problem.completions)
        common: dict[str, Any] = {"num_generations": n, "reward": reward}
        if len(after) >= _FEWEST:
            found += _of_rewarded(before, after, last, common)
            found += _without_reference(kept, first, last, common)
        found += _repeated(last, common)
        found += _training_only(data, runs, after, common)
    return tuple(found)


def _rewarded(kept: Completions, problems: Iterable[AnsweredProblem]) -> list[Completion]:
    return [each for problem in problems for each in problem.completions if kept.is_right(each)]


def _of_rewarded(
    before: Sequence[Completion],
    after: Sequence[Completion],
    problems: Sequence[AnsweredProblem],
    common: Mapping[str, Any],
) -> Iterator[Sign]:
    """Signs of rewarded answers, of which there are enough at the end."""
    by_length = sorted((each.tokens, each.text) for each in after if each.tokens is not None)
    if by_length:
        tokens = median(length for length, _ in by_length)
        first = median([each.tokens for each in before if each.tokens is not None] or [tokens])
        if len(before) >= _FEWEST and not 1 / _FACTOR < tokens / first < _FACTOR:
            _, example = by_length[-1 if tokens > first else 0]
            yield Sign(kind="length", before=first, after=tokens, example=example, **common)
        asks = all(_ASKS.search(problem.prompt) for problem in problems)
        if asks and tokens <= _NO_REASONING:
            _, example = by_length[0]
            yield Sign(kind="no reasoning", before=first, after=tokens, example=example, **common)

    def habit(kind: Kind, shows: Any) -> Iterator[Sign]:
        own = [each for each in after if shows(each)]
        if len(own) >= _HABIT * len(after):
            share = sum(map(shows, before)) / len(before) if before else 0.0
            example = own[0].text
            yield Sign(
                kind=kind, before=share, after=len(own) / len(after), example=example, **common
            )

    yield from habit("limit", lambda each: each.ended is False)
    yield from habit("several answers", lambda each: len({*_OFFERED.findall(each.text)}) > 1)


def _without_reference(
    kept: Completions,
    first: Sequence[AnsweredProblem],
    last: Sequence[AnsweredProblem],
    common: Mapping[str, Any],
) -> Iterator[Sign]:
    """Rewarded answers that the reference answer does not appear in."""

    def rewarded(problems: Sequence[AnsweredProblem]) -> list[tuple[bool, str]]:
        return [
            (problem.answer not in made.text, made.text)
            for problem in problems
            if 0 < len(problem.answer) <= _REFERENCE
            for made in problem.completions
            if kept.is_right(made)
        ]

    before, after = rewarded(first), rewarded(last)
    without = [text for lacks, text in after if lacks]
    if len(after) >= _FEWEST and len(without) >= _HABIT * len(after):
        yield Sign(
            kind="no reference",
            before=fmean(lacks for lacks, _ in before) if before else 0.0,
            after=len(without) / len(after),
            example=without[0],
            **common,
        )


def _repeated(problems: Sequence[AnsweredProblem], common: Mapping[str, Any]) -> Iterator[Sign]:
    """One text that answers many problems whose references differ."""
    references = {problem.problem_id: problem.answer for problem in problems}
    said = Counter[str]()
    for name in references:
        own = [problem for problem in problems if problem.problem_id == name]
        said.update({made.text.strip() for problem in own for made in problem.completions})
    different = len({*references.values()})
    for text, count in said.most_common(1):
        if different >= _FEWEST_PROBLEMS and count >= _HABIT * len(references):
            share = count / len(references)
            yield Sign(kind="repeated", before=0.0, after=share, example=text, **common)


def _training_only(
    data: SweepData,
    runs: Sequence[tuple[Curve, Sequence[KeptCompletions]]],
    rewarded: Sequence[Completion],
    common: Mapping[str, Any],
) -> Iterator[Sign]:
    """Training's own reward gains what the held-out one does not."""
    courses = {each.run.run_id: each.values.get("reward", ()) for each in data.training}
    gained = []
    for curve, _ in runs:
        seen = [each for each in courses.get(curve.run.run_id, ()) if each is not None]
        third = len(seen) // 3
        if third and curve.reward.size > 1:
            own = fmean(seen[-third:]) - fmean(seen[:third])
            # Twice the largest variance of a share, over the answers of a record.
            variance = 0.5 / max(1, curve.successes.shape[1] * curve.samples_per_problem)
            gained.append((own, float(curve.reward[-1] - curve.reward[0]), variance))
    if gained:
        training, heldout, variance = (fmean(own) for own in zip(*gained, strict=True))
        error = math.sqrt(variance / len(gained))
        if training - heldout >= max(_GAP, _ERRORS * error):
            example = rewarded[0].text if rewarded else ""
            yield Sign(
                kind="training only", before=training, after=heldout, example=example, **common
            )
