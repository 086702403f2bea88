"""Difficulty: ranges of the base model's success rate, and how it is measured."""

from dataclasses import dataclass
from typing import Any

from isosweep.config.rules import positive
from isosweep.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class DifficultyConfig:
    """`mode=difficulty`: the base model's avg@k, `samples_per_problem` = k, on up to
    `max_problems` problems of the task's source. `batch_size` counts completions sampled at
    once, and changes no result that is stored already."""

    samples_per_problem: int = 16
    max_problems: int = 4096
    batch_size: int = 2048
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        positive("difficulty", self, "samples_per_problem", "max_problems", "batch_size")
        positive("difficulty", self, "temperature")


# IsoCompute Playbook (arXiv 2603.12151): ranges of the base model's avg@16, ends included. Of the
# hard problems the extremely hard ones were never solved.
DIFFICULTIES = {"easy": (0.3, 0.6), "hard": (0.0, 0.0625), "extremely_hard": (0.0, 0.0)}


def parse_difficulty(setting: str, value: Any) -> tuple[float, float]:
    """The range of success rates that a name or [low, high] stands for; SettingError if none."""
    if isinstance(value, str) and value in DIFFICULTIES:
        return DIFFICULTIES[value]
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = value
        if all(isinstance(end, int | float) for end in value) and 0 <= low <= high <= 1:
            return float(low), float(high)
    rule = f"must be {', '.join(DIFFICULTIES)}, or a range [low, high] between 0 and 1"
    raise SettingError(setting, value, rule, f"{setting}=hard")
