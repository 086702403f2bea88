"""Held-out evaluation."""

from dataclasses import dataclass

from isosweep.config.rules import positive


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Held-out evaluation: avg@k over all held-out problems, `samples_per_problem` = k.

    Records are taken at step 0, at milestones, and `records_per_decade` times per factor of ten
    of training FLOPs. `batch_size` counts completions sampled at once.
    """

    samples_per_problem: int = 8
    records_per_decade: int = 5
    batch_size: int = 2048
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        positive("evaluation", self, "samples_per_problem", "records_per_decade", "batch_size")
        positive("evaluation", self, "temperature")
