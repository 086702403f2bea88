"""What models answered: the answers that the report shows, and signs that rewards are gamed.

No verdict rests on either. A sign is a rule with its numbers and an example: a reader decides what
it means.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from isosweep.analysis.curves import Curve, SweepData
from isosweep.store.completions import (
    AnsweredProblem,
    Completion,
    KeptCompletions,
    completion_rows,
    read_completions,
    shortened,
)
from isosweep.store.paths import SweepPaths
from isosweep.words.escape import printable

# Runs of an n whose completions are read, those that went furthest: files have megabytes.
_RUNS = 3
# Problems that the page shows, answers of a run to each at one record, and characters of each.
_PROBLEMS, _SHOWN, _LONGEST = 8, 2, 1200
# Fewer answers, or problems, show no habit.
_FEWEST, _FEWEST_PROBLEMS = 8, 4
# Median tokens of rewarded answers change by this factor or more.
_FACTOR = 3.0
# Of rewarded answers a share that is a habit, and by how much more of them have it than before
# training: a task may accept other spellings of the reference, and limits may be too short.
_HABIT, _RISE = 0.5, 0.25
# By this much more than before training the reward in training exceeds the held-out one. Standard
# errors of means of so many answers, and of so many draws of a problem, are 0.05 or less (0.5 /
# sqrt(100)). Over 8 draws an honest run's reward in training moved by 0.3.
_GAP, _MANY = 0.2, 100
# Answers that a text offers: in a box, or between tags.
_OFFERED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}|<answer>(.*?)</answer>", re.DOTALL)
# What a prompt that wants reasoning says, and median tokens of answers that have none.
_ASKS = re.compile(r"<think|<reasoning|step[- ]by[- ]step", re.IGNORECASE)
_NO_REASONING = 10
# Letters of a reference that an answer may be looked for in; longer ones are tests, or rubrics.
_REFERENCE = 40

Kind = Literal[
    "length",
    "limit",
    "no reasoning",
    "no reference",
    "repeated",
    "several answers",
    "training only",
]


@dataclass(frozen=True, kw_only=True)
class Sign:
    """What of the answers of one n a reader should look at.

    `before` (None where that is not known) and `after` are of step 0 and of the last record, pooled
    over runs and problems: median tokens (`length`, `no reasoning`), shares of rewarded answers
    (`limit`, `no reference`, `several answers`) or of problems (`repeated`), or by how much the
    reward in training exceeds the held-out one (`training only`); `reward`: at the end.
    `example`: an answer that shows it.
    """

    kind: Kind
    num_generations: int
    before: float | None
    after: float
    reward: float
    example: str


@dataclass(frozen=True, kw_only=True)
class KeptByRun:
    """A run's curve, and what it kept at three records: before training (None where that was not
    kept), half-way and at the end. `training`: mean rewards of the first third of its updates and
    of the last, where they are known, of enough problems."""

    curve: Curve
    before: KeptCompletions | None
    half: KeptCompletions
    end: KeptCompletions
    training: tuple[float, float] | None


# Of a few runs of each n, the one that went furthest first.
Completions = Mapping[int, Sequence[KeptByRun]]
# Answers to one problem, by moment: the n, the step, and the problem with all its answers.
ShownProblem = dict[str, list[tuple[int, int, AnsweredProblem]]]


def read_kept(paths: SweepPaths, data: SweepData) -> Completions:
    """Return what the runs of each n that went furthest have kept."""
    by_n: dict[int, list[Curve]] = defaultdict(list)
    for curve in sorted(data.curves, key=lambda each: -each.compute.max(initial=0.0)):
        if curve.steps.size:
            by_n[curve.run.num_generations].append(curve)
    courses = {each.run.run_id: each.values.get("reward", ()) for each in data.training}
    found: dict[int, list[KeptByRun]] = {}
    for n in sorted(by_n):
        for curve in by_n[n][:_RUNS]:
            steps = curve.steps.tolist()
            half = min(steps, key=lambda step: abs(step - steps[-1] / 2))
            kept = read_completions(paths.run(curve.run.run_id), {0, half, steps[-1]})
            later = [each for each in kept if each.step > 0]
            if later:
                course = [each for each in courses.get(curve.run.run_id, ()) if each is not None]
                third = len(course) // 3
                draws = steps[-1] // 3 * curve.run.problems_per_batch
                many = third and draws >= _MANY
                ends = (fmean(course[:third]), fmean(course[-third:])) if many else None
                before = kept[0] if kept[0].step == 0 else None
                run = KeptByRun(
                    curve=curve, before=before, half=later[0], end=later[-1], training=ends
                )
                found.setdefault(n, []).append(run)
    return found


def shown_problems(kept: Completions, use: int | None) -> list[ShownProblem]:
    """Return problems with the answers of the smallest n, of the one to `use`, and of the largest:
    `before` training, at `half` and at the `end` of a run of each."""
    every = [*kept]
    chosen = {n: kept[n][0] for n in every if n in (every[0], use, every[-1])}
    moments: dict[str, dict[int, KeptCompletions]] = {
        # Before training all n have the same model.
        "before": {n: run.before for n, run in [*chosen.items()][:1] if run.before},
        "half": {n: run.half for n, run in chosen.items() if run.half is not run.end},
        "end": {n: run.end for n, run in chosen.items()},
    }
    found: dict[str, ShownProblem] = {}
    for moment, records in moments.items():
        for n, record in records.items():
            for problem in record.problems:
                by_moment = found.setdefault(problem.problem_id, {})
                by_moment.setdefault(moment, []).append((n, record.step, problem))
    return [*found.values()][:_PROBLEMS]


def few_answers(problem: AnsweredProblem) -> AnsweredProblem:
    """Return the problem with two short answers: right and wrong, where there are both."""
    right = [each for each in problem.completions if each.right]
    wrong = [each for each in problem.completions if not each.right]
    few = [*right[:1], *wrong[:1], *right[1:], *wrong[1:]][:_SHOWN]
    return shortened(replace(problem, completions=tuple(few)), _LONGEST)


def table(kept: Completions) -> dict[str, list[Any]]:
    """Return a few answers of the run of each n that went furthest, before training and at the end,
    as the columns and the rows of a table of MLflow's."""
    rows = [
        {
            "n": run.curve.run.num_generations,
            "B": run.curve.run.problems_per_batch,
            "seed": run.curve.run.seed,
            "step": record.step,
            **{k: printable(v) if isinstance(v, str) else v for k, v in row.items()},
        }
        for run, *_ in kept.values()
        for record in ([run.before] if run.before else []) + [run.end]
        for row in completion_rows(map(few_answers, record.problems[:_PROBLEMS]))
    ]
    return {"columns": [*rows[0]], "data": [[*row.values()] for row in rows]}


@dataclass(frozen=True)
class _Moment:
    """Answers of one n at one moment: `problems` of all runs; `rewarded` answers, each with its
    problem; `gap`: by how much the reward in training exceeds the held-out one."""

    problems: Sequence[AnsweredProblem]
    gap: float | None

    @property
    def rewarded(self) -> list[tuple[AnsweredProblem, Completion]]:
        return [(p, made) for p in self.problems for made in p.completions if made.right]


# The number that a rule looks at, None where too few answers show it, and an answer that has it.
_Measured = tuple[float | None, str]


def _median_tokens(at: _Moment) -> _Measured:
    """Of rewarded answers, where their lengths are known."""
    by_length = sorted((made.tokens, made.text) for _, made in at.rewarded if made.tokens)
    return by_length[len(by_length) // 2] if len(by_length) >= _FEWEST else (None, "")


def _tokens_for_reasoning(at: _Moment) -> _Measured:
    """The same, where every problem asks for reasoning."""
    asked = all(_ASKS.search(problem.prompt) for problem in at.problems)
    return _median_tokens(at) if asked else (None, "")


def _share(shows: Callable[[AnsweredProblem, Completion], bool]) -> Callable[[_Moment], _Measured]:
    """Of rewarded answers those that show something."""

    def measure(at: _Moment) -> _Measured:
        shown = [made.text for problem, made in at.rewarded if shows(problem, made)]
        few = len(at.rewarded) < _FEWEST
        return (None, "") if few else (len(shown) / len(at.rewarded), (shown or [""])[0])

    return measure


def _is_cut(_: AnsweredProblem, made: Completion) -> bool:
    return made.ended is False


def _lacks_reference(problem: AnsweredProblem, made: Completion) -> bool:
    reference = _plain(problem.answer)
    return 0 < len(problem.answer) <= _REFERENCE and reference not in _plain(made.text)


def _offers_several(_: AnsweredProblem, made: Completion) -> bool:
    return len({_plain(boxed or tagged) for boxed, tagged in _OFFERED.findall(made.text)}) > 1


def _plain(text: str) -> str:
    """The text without what spellings differ in: case, spaces, separators of thousands."""
    return re.sub(r"[\s,$]", "", text).casefold()


def _repeated(at: _Moment) -> _Measured:
    """Of problems with different references, those for which one text is rewarded."""
    references = {problem.problem_id: problem.answer for problem in at.problems}
    said: dict[str, set[str]] = defaultdict(set)
    for problem, made in at.rewarded:
        said[made.text.strip()].add(problem.problem_id)
    text, names = max(said.items(), key=lambda each: len(each[1]), default=("", set()))
    several = len({references[name] for name in names}) >= _FEWEST_PROBLEMS
    return (len(names) / len(references) if several else None), text


def _gap(at: _Moment) -> _Measured:
    return at.gap, next((made.text for _, made in at.rewarded), "")


def _is_new_habit(before: float | None, after: float) -> bool:
    return before is not None and after >= max(_HABIT, before + _RISE)


# What is measured of a moment, and which numbers before training and at the end are a sign.
_RULES: Mapping[
    Kind, tuple[Callable[[_Moment], _Measured], Callable[[float | None, float], bool]]
] = {
    "length": (
        _median_tokens,
        lambda before, after: before is not None and not 1 / _FACTOR < after / before < _FACTOR,
    ),
    "limit": (_share(_is_cut), _is_new_habit),
    "no reasoning": (_tokens_for_reasoning, lambda _, after: after <= _NO_REASONING),
    "no reference": (_share(_lacks_reference), _is_new_habit),
    "repeated": (_repeated, lambda _, after: after >= _HABIT),
    "several answers": (_share(_offers_several), _is_new_habit),
    "training only": (
        _gap,
        lambda before, after: before is not None and after >= before + _GAP,
    ),
}


def find_signs(kept: Completions) -> tuple[Sign, ...]:
    """Return the signs of each n, over the runs whose completions were read."""
    found: list[Sign] = []
    for n, runs in kept.items():
        before = _moment([run.before for run in runs if run.before], runs, 0)
        end = _moment([run.end for run in runs], runs, -1)
        reward = fmean(made.reward for problem in end.problems for made in problem.completions)
        for kind, (measure, is_sign) in _RULES.items():
            (first, _), (last, example) = measure(before), measure(end)
            if last is not None and is_sign(first, last):
                found.append(
                    Sign(
                        kind=kind,
                        num_generations=n,
                        before=first,
                        after=last,
                        reward=reward,
                        example=example,
                    )
                )
    return tuple(found)


def _moment(records: Iterable[KeptCompletions], runs: Sequence[KeptByRun], at: int) -> _Moment:
    """Records of runs, and the gap at place `at` of their curves, where rewards are successes."""
    problems = [problem for record in records for problem in record.problems]
    known = [run for run in runs if run.training and run.curve.reward.size > 1]
    answers = math.fsum(
        run.curve.successes.shape[1] * run.curve.samples_per_problem for run in known
    )
    shares = all(made.reward == made.right for p in problems for made in p.completions)
    if answers < _MANY or not shares:
        return _Moment(problems, None)
    gaps = [run.training[at] - float(run.curve.reward[at]) for run in known if run.training]
    return _Moment(problems, fmean(gaps))
