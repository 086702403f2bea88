"""Ranges of the success rates that the base model has, and how these are measured."""

import math
from typing import Any

from isosweep.config.base import Positive, PositiveInt, Settings, Whole

# IsoCompute Playbook (arXiv 2603.12151): ranges of the base model's avg@16, ends included. Of the
# hard problems the extremely hard ones were never solved. `medium` and `solved` are ours: what lies
# between, and above 0.9. No rate is in none.
DIFFICULTIES = {
    "solved": (math.nextafter(0.9, 1.0), 1.0),
    "very_easy": (0.6, 0.9),
    "easy": (0.3, 0.6),
    "medium": (0.0625, 0.3),
    "hard": (0.0, 0.0625),
    "extremely_hard": (0.0, 0.0),
}


def parse_difficulty(value: Any) -> tuple[float, float]:
    """The range of success rates that a name or [low, high] means. Raises ValueError if none."""
    if isinstance(value, str) and value in DIFFICULTIES:
        return DIFFICULTIES[value]
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = value
        if all(isinstance(end, int | float) for end in value) and 0 <= low <= high <= 1:
            return float(low), float(high)
    raise ValueError(f"must be {', '.join(DIFFICULTIES)}, or a range [low, high] between 0 and 1")


class DifficultyConfig(Settings, group="difficulty"):
    """How `mode=difficulty` measures the base model on the task's problems (docs/difficulty.md)."""

    samples_per_problem: PositiveInt = 16
    """k of avg@k: answers sampled for each problem."""
    max_problems: PositiveInt = 4096
    """Most problems to measure."""
    batch_size: PositiveInt | None = None
    """Answers sampled at once; null: as many as fit into memory, at most 2,048."""
    temperature: Positive | None = None
    """Sampling temperature; null: that of training, `recipe.temperature`."""
    seed: Whole = 0
    """Random seed of the samples."""
