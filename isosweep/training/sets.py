"""The sets that a run is evaluated on at every record, each as a main evaluation would be."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from isosweep.config.evaluation_sets import on_all
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation
from isosweep.tasks import Problem, heldout_problems
from isosweep.training.base_evaluation import BaseEvaluation, base_evaluation
from isosweep.training.evaluate import Evaluator


@dataclass(frozen=True, kw_only=True)
class EvaluatedSet:
    """What evaluates a policy on one set; `base`: where that before training is shared."""

    evaluator: Evaluator
    base: BaseEvaluation | None


def evaluated_sets(
    spec: RunSpec,
    run: RunPaths,
    problems: Mapping[str, Sequence[Problem]],
    make_evaluator: Callable[..., Evaluator],
) -> dict[str, EvaluatedSet]:
    """The parts of a mixture, and the sets of `spec`, by name, in their order; `problems`: those
    of each set."""
    problems = {**{name: heldout_problems(p) for name, p in spec.task.parts.items()}, **problems}
    return {
        name: EvaluatedSet(
            evaluator=make_evaluator(on, problems=problems[name]),
            base=base_evaluation(on, run, problems[name]),
        )
        for name, on in on_all(spec).items()
    }


def pooled(parts: Sequence[Evaluation]) -> Evaluation:
    """The evaluation of a mixture: that of its parts together, problem after problem."""
    tokens = math.fsum(len(part.successes) * (part.completion_tokens or 0.0) for part in parts)
    successes = tuple(count for part in parts for count in part.successes)
    names = set.intersection(*(set(part.scores) for part in parts))
    return Evaluation(
        successes=successes,
        samples_per_problem=parts[0].samples_per_problem,
        completion_tokens=tokens / len(successes),
        scores={n: tuple(s for part in parts for s in part.scores[n]) for n in sorted(names)},
    )
