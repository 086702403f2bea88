"""What models answered: the answers that the report shows, and signs that rewards are gamed.

No verdict rests on either. A sign is a rule with its numbers and an example: a reader decides what
it means.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
# Problems that the page shows, answers of a run to each at one record, and characters of each.
_PROBLEMS, _SHOWN, _LONGEST = 8, 2, 1200
# Fewer answers, or problems, show no habit.
_FEWEST, _FEWEST_PROBLEMS = 8, 4
# Median tokens of rewarded answers change by this factor or more.
_FACTOR = 3.0
# Of rewarded answers a share that is a habit, and by how much more of them lack the reference than
# before training: a task may accept other spellings of it.
_HABIT, _RISE = 0.5, 0.25
# By this much, and by so many standard errors, the reward in training gains more than the held-out
# one.
_GAP, _ERRORS = 0.2, 5.0
# What a prompt that wants reasoning says, and tokens of an answer that has none.
_ASKS = re.compile(r"<think|<reasoning|step[- ]by[- ]step", re.IGNORECASE)
_NO_REASONING = 10
# Answers that a text offers: in a box, or between tags.
_OFFERED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}|<answer>(.*?)</answer>", re.DOTALL)
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

    `before` (None without a record before training, or enough rewarded answers there) and `after`
    are of step 0 and of the last record, pooled over runs and problems: median tokens (`length`,
    `no reasoning`), shares of rewarded answers (`limit`, `several answers`, `no reference`) or of
    problems (`repeated`), and for `training only` the reward that training gained and the held-out
    one; `reward`: at the end. `example`: an answer that shows it.
    """

    kind: Kind
    num_generations: int
    before: float | None
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
class KeptByRun:
    """A run's curve, and what it kept at three records: before training (None where that was not
    kept), half-way and at the end."""

    curve: Curve
    before: KeptCompletions | None
    half: KeptCompletions
    end: KeptCompletions


# Of a few runs of each n, the one that went furthest first.
Completions = Mapping[int, Sequence[KeptByRun]]


def is_right(completion: Completion) -> bool:
    """Return whether it counts as a success; without a word on that, whether its reward is 1."""
    return completion.reward >= 1 if completion.right is None else completion.right


def read_kept(paths: SweepPaths, data: SweepData) -> Completions:
    """Return what the runs of each n that went furthest have kept."""
    by_n: dict[int, list[Curve]] = defaultdict(list)
    for curve in sorted(data.curves, key=lambda each: -each.compute.max(initial=0.0)):
        if curve.steps.size:
            by_n[curve.run.num_generations].append(curve)
    found: dict[int, list[KeptByRun]] = {}
    for n in sorted(by_n):
        for curve in by_n[n][:_RUNS]:
            steps = curve.steps.tolist()
            half = min(steps, key=lambda step: abs(step - steps[-1] / 2))
            kept = read_completions(paths.run(curve.run.run_id), {0, half, steps[-1]})
            later = [each for each in kept if each.step > 0]
            if later:
                before = kept[0] if kept[0].step == 0 else None
                run = KeptByRun(curve=curve, before=before, half=later[0], end=later[-1])
                found.setdefault(n, []).append(run)
    return found


def shown_problems(kept: Completions, use: int | None) -> list[ShownProblem]:
    """Return problems with answers of the smallest n, of the one to `use`, and of the largest,
    before training, half-way and at the end of a run of each."""
    every = [*kept]
    chosen = {n: kept[n][0] for n in every if n in (every[0], use, every[-1])}
    moments: dict[str, dict[int, KeptCompletions]] = {
        # Before training all n have the same model.
        "before": {n: run.before for n, run in [*chosen.items()][:1] if run.before},
        "half": {n: run.half for n, run in chosen.items() if run.half is not run.end},
        "end": {n: run.end for n, run in chosen.items()},
    }
    known = {
        problem.problem_id: problem
        for records in moments.values()
        for record in records.values()
        for problem in record.problems
    }
    return [
        ShownProblem(
            problem=problem,
            moments={
                moment: tuple(_answers(records, problem.problem_id))
                for moment, records in moments.items()
            },
        )
        for problem in [*known.values()][:_PROBLEMS]
    ]


def _answers(records: Mapping[int, KeptCompletions], problem_id: str) -> Iterator[ShownAnswers]:
    for n, record in records.items():
        for problem in record.problems:
            if problem.problem_id == problem_id:
                yield ShownAnswers(
                    num_generations=n,
                    step=record.step,
                    right=sum(map(is_right, problem.completions)),
                    samples=len(problem.completions),
                    completions=_few(problem),
                )


def _few(problem: AnsweredProblem) -> tuple[Completion, ...]:
    """Of right and wrong answers one each, where there are both."""
    right = [each for each in problem.completions if is_right(each)]
    wrong = [each for each in problem.completions if not is_right(each)]
    return tuple([*right[:1], *wrong[:1], *right[1:], *wrong[1:]][:_SHOWN])


# Columns of the table.
_COLUMNS = ("n", "B", "seed", "step", "problem", "prompt", "reference", "completion", "reward")


def table(kept: Completions) -> dict[str, list[Any]]:
    """Return a few answers of the run of each n that went furthest, before training and at the end,
    as the columns and the rows of a table of MLflow's."""
    rows = [
        [
            *(run.curve.run.num_generations, run.curve.run.problems_per_batch, run.curve.run.seed),
            *(record.step, problem.problem_id, visible(problem.prompt), visible(problem.answer)),
            *(visible(made.text), made.reward),
        ]
        for run, *_ in kept.values()
        for record in ([run.before] if run.before else []) + [run.end]
        for problem in record.problems[:_PROBLEMS]
        for made in _few(problem)
    ]
    return {"columns": [*_COLUMNS], "data": rows}


def visible(text: str) -> str:
    """Return the text with what changes how others are shown written out, such as control and
    direction characters, and cut to what the page shows."""
    text = "".join(
        c if c.isprintable() or c in "\n\t\u200c\u200d" else ascii(c)[1:-1] for c in text
    )
    more = len(text) - _LONGEST
    if more <= 0:
        return text
    return f"{text[: _LONGEST // 2]} [... {more} characters ...] {text[-_LONGEST // 2 :]}"


@dataclass(frozen=True, kw_only=True)
class _Answers:
    """Answers of one n at one moment: `problems` of all runs; `rewarded` answers, each with its
    problem."""

    problems: Sequence[AnsweredProblem]
    rewarded: list[tuple[AnsweredProblem, Completion]] = field(init=False)

    def __post_init__(self) -> None:
        right = [(p, made) for p in self.problems for made in p.completions if is_right(made)]
        object.__setattr__(self, "rewarded", right)

    def share(self, shows: Callable[[AnsweredProblem, Completion], bool]) -> float | None:
        """Of rewarded answers, those that show it; None where these are too few."""
        if len(self.rewarded) < _FEWEST:
            return None
        return sum(shows(*each) for each in self.rewarded) / len(self.rewarded)

    @property
    def median_tokens(self) -> float | None:
        """Of rewarded answers; None where these are too few, or have no known length."""
        lengths = [made.tokens for _, made in self.rewarded if made.tokens is not None]
        return median(lengths) if len(lengths) >= _FEWEST else None


def find_signs(data: SweepData, kept: Completions) -> tuple[Sign, ...]:
    """Return the signs of each n, over the runs whose completions were read."""
    found: list[Sign] = []
    for n, runs in kept.items():
        first = [problem for run in runs if run.before for problem in run.before.problems]
        last = [problem for run in runs for problem in run.end.problems]
        before, after = _Answers(problems=first), _Answers(problems=last)
        reward = fmean(made.reward for problem in last for made in problem.completions)
        common: dict[str, Any] = {"num_generations": n, "reward": reward}
        found += [
            *_of_lengths(before, after, common),
            *_habits(before, after, common),
            *_repeated(after, common),
            *_training_only(data, runs, after, common),
        ]
    return tuple(found)


def _of_lengths(before: _Answers, after: _Answers, common: Mapping[str, Any]) -> Iterator[Sign]:
    """Rewarded answers that got much shorter or longer, or have no room for reasoning."""
    first, last = before.median_tokens, after.median_tokens
    if last is None:
        return
    by_length = sorted((made.tokens or 0, made.text) for _, made in after.rewarded)
    if first is not None and not 1 / _FACTOR < last / first < _FACTOR:
        _, example = by_length[-1 if last > first else 0]
        yield Sign(kind="length", before=first, after=last, example=example, **common)
    if last <= _NO_REASONING and all(_ASKS.search(each.prompt) for each in after.problems):
        _, example = by_length[0]
        yield Sign(kind="no reasoning", before=first, after=last, example=example, **common)


# What half of the rewarded answers may do.
_HABITS: Mapping[Kind, Callable[[AnsweredProblem, Completion], bool]] = {
    "limit": lambda _, made: made.ended is False,
    "several answers": lambda _, made: len(_offered(made.text)) > 1,
    "no reference": lambda problem, made: _lacks(problem.answer, made.text),
}


def _habits(before: _Answers, after: _Answers, common: Mapping[str, Any]) -> Iterator[Sign]:
    for kind, shows in _HABITS.items():
        first, last = before.share(shows), after.share(shows)
        if last is None or last < _HABIT:
            continue
        if kind == "no reference" and (first is None or last - first < _RISE):
            continue
        example = next(made.text for problem, made in after.rewarded if shows(problem, made))
        yield Sign(kind=kind, before=first, after=last, example=example, **common)


def _offered(text: str) -> set[str]:
    return {_plain(boxed or tagged) for boxed, tagged in _OFFERED.findall(text)}


def _lacks(reference: str, text: str) -> bool:
    return 0 < len(reference) <= _REFERENCE and _plain(reference) not in _plain(text)


def _plain(text: str) -> str:
    """The text without what spellings differ in: case, spaces, separators of thousands."""
    return re.sub(r"[\s,$]", "", text).casefold()


def _repeated(after: _Answers, common: Mapping[str, Any]) -> Iterator[Sign]:
    """One text that is rewarded for many problems with different references."""
    references = {problem.problem_id: problem.answer for problem in after.problems}
    said: dict[str, set[str]] = defaultdict(set)
    for problem, made in after.rewarded:
        said[made.text.strip()].add(problem.problem_id)
    for text, names in sorted(said.items(), key=lambda each: -len(each[1]))[:1]:
        different = {references[name] for name in names}
        if len(different) >= _FEWEST_PROBLEMS and len(names) >= _HABIT * len(references):
            share = len(names) / len(references)
            yield Sign(kind="repeated", before=None, after=share, example=text, **common)


def _training_only(
    data: SweepData, runs: Sequence[KeptByRun], after: _Answers, common: Mapping[str, Any]
) -> Iterator[Sign]:
    """Training's own reward gains what the held-out one does not; where both are shares of right
    answers."""
    if any(made.reward not in (0, 1) for problem in after.problems for made in problem.completions):
        return
    courses = {each.run.run_id: each.values.get("reward", ()) for each in data.training}
    gained = []
    for curve in (run.curve for run in runs):
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
            example = after.rewarded[0][1].text if after.rewarded else ""
            yield Sign(
                kind="training only", before=training, after=heldout, example=example, **common
            )
