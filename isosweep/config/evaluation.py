"""Held-out evaluation."""

from isosweep.config.settings import settings
from isosweep.config.values import Positive, PositiveInt, Whole


@settings("evaluation")
class EvaluationConfig:
    """Held-out evaluation: avg@k over all held-out problems, at step 0, milestones and between."""

    samples_per_problem: PositiveInt = 8
    """k of avg@k: completions sampled for each held-out problem."""
    records_per_decade: PositiveInt = 5
    """Records besides step 0 and milestones, per factor of ten of training FLOPs."""
    batch_size: PositiveInt = 2048
    """Completions sampled at once."""
    temperature: Positive = 1.0
    """Sampling temperature."""
    seed: Whole = 0
    """Seed of the samples, the same for every run."""
