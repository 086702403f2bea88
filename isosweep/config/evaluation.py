"""Held-out evaluation."""

import math

from isosweep.config.settings import settings
from isosweep.config.values import Positive, PositiveInt, Whole

# Choices of `evaluation=` that are for their size: held-out problems, and k of avg@k. Ascending.
SIZES = {"small": (128, 4), "large": (1024, 8), "thorough": (3072, 8)}


@settings("evaluation")
class EvaluationConfig:
    """Held-out evaluation: avg@k over all held-out problems, at step 0, milestones and between.

    How many they are is `task.num_eval_problems`, which choices of this group may set.
    """

    samples_per_problem: PositiveInt = 8
    """k of avg@k: completions sampled for each held-out problem."""
    records_per_decade: PositiveInt = 5
    """Records besides step 0 and milestones, per factor of ten of training FLOPs."""
    batch_size: PositiveInt = 2048
    """Completions sampled at once, by transformers; which answers it draws depends on it."""
    temperature: Positive = 1.0
    """Sampling temperature."""
    seed: Whole = 0
    """Seed of the samples, the same for every run."""

    def completions_at_once(self, problems: int, devices: int) -> int:
        """Completions that transformers samples at once on each of `devices` for all `problems`:
        whole problems, at least one."""
        at_once = max(1, self.batch_size // self.samples_per_problem)
        return min(at_once, math.ceil(problems / devices)) * self.samples_per_problem
