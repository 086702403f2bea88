"""Held-out evaluation, and further sets of problems that a run is evaluated on."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from isosweep.config.base import Settings
from isosweep.config.identity import OUTSIDE
from isosweep.config.values import Positive, PositiveInt, Whole

# Names of sets are parts of paths, and of the names of metrics.
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class EvaluationSet(Settings, group="evaluation.sets"):
    """A further set of problems, and how it is sampled; null: as in the main evaluation."""

    problems: Literal["heldout", "train"] = "heldout"
    """`heldout`: problems that are not trained on; `train`: the first `task.num_eval_problems` that
    are."""
    task: dict[str, Any] | None = None
    """Task settings that differ in this set. A set with another source (`kind`, `dataset`, `path`,
    `generator` or `function`) takes over nothing of the sweep's."""
    samples_per_problem: PositiveInt | None = None
    """k of avg@k."""
    temperature: Positive | None = None
    """Sampling temperature."""


def _named(sets: dict[str, Any] | None) -> dict[str, Any] | None:
    for name in sets or {}:
        if not _NAME.fullmatch(name):
            raise ValueError(f"has a name {name!r}: letters, digits, - and _ make one")
    return sets


class EvaluationConfig(Settings, group="evaluation"):
    """Held-out evaluation: avg@k over the held-out problems, at step 0, at every budget and
    between. `task.num_eval_problems` sets how many problems; some choices of this group set it
    too."""

    samples_per_problem: PositiveInt = 8
    """k of avg@k: answers sampled for each held-out problem."""
    records_per_decade: PositiveInt = 5
    """Evaluations for each factor of ten of training FLOPs, besides step 0 and the budgets."""
    # Every answer has random numbers of its own.
    batch_size: Annotated[PositiveInt | None, OUTSIDE] = None
    """Answers that transformers samples at once; null: as many as fit into memory, at most
    2,048."""
    temperature: Positive = 1.0
    """Sampling temperature of held-out answers."""
    seed: Whole = 0
    """Random seed of the samples, the same for every run."""
    # No number of training depends on it.
    sets: Annotated[dict[str, EvaluationSet] | None, AfterValidator(_named), OUTSIDE] = None
    """Further sets of problems, by name; every record has their results
    (docs/evaluation_sets.md)."""
