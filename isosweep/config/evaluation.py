"""Held-out evaluation, and further sets of problems that a run is evaluated on."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from isosweep.config.identity import OUTSIDE
from isosweep.config.settings import settings
from isosweep.config.values import Positive, PositiveInt, Whole

# Choices of `evaluation=` that are for their size: held-out problems, and k of avg@k. Ascending.
SIZES = {"small": (128, 4), "large": (1024, 8), "thorough": (3072, 8)}

# Names of sets are parts of paths, and of the names of metrics.
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@settings("evaluation.sets")
class EvaluationSet:
    """A further set of problems, and how it is sampled; null: as the main evaluation."""

    problems: Literal["heldout", "train"] = "heldout"
    """`heldout`: problems that are not trained on; `train`: the first `task.num_eval_problems` of
    those that are."""
    task: dict[str, Any] | None = None
    """Settings of the task that this set has otherwise, as the group `task` has them; a source of
    its own (another `kind`, `dataset`, `path`, `generator` or `function`) takes over nothing of the
    sweep's."""
    samples_per_problem: PositiveInt | None = None
    """k of avg@k."""
    temperature: Positive | None = None
    """Sampling temperature."""


def _named(sets: dict[str, Any] | None) -> dict[str, Any] | None:
    for name in sets or {}:
        if not _NAME.fullmatch(name):
            raise ValueError(f"has a name {name!r}: letters, digits, - and _ make one")
    return sets


@settings("evaluation")
class EvaluationConfig:
    """Held-out evaluation: avg@k over all held-out problems, at step 0, milestones and between.

    How many they are is `task.num_eval_problems`, which choices of this group may set.
    """

    samples_per_problem: PositiveInt = 8
    """k of avg@k: completions sampled for each held-out problem."""
    records_per_decade: PositiveInt = 5
    """Records besides step 0 and milestones, per factor of ten of training FLOPs."""
    # Every answer has random numbers of its own.
    batch_size: Annotated[PositiveInt | None, OUTSIDE] = None
    """Completions that transformers samples at once; null: as many as fit into a device's memory,
    2,048 at most."""
    temperature: Positive = 1.0
    """Sampling temperature."""
    seed: Whole = 0
    """Seed of the samples, the same for every run."""
    # They change no number of training, and none of the main evaluation.
    sets: Annotated[dict[str, EvaluationSet] | None, AfterValidator(_named), OUTSIDE] = None
    """Further sets of problems, by name, that every record has the results of, apart from these."""
