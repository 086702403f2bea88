"""Difficulty: how often the base model solves each problem.

`mode=difficulty` appends what it measures to `<sweeps_dir>/difficulty/<hash>.jsonl`:
a first line that says of what, then one line a batch with the problems and their successes. A
complete file is all that choosing takes: no package of the task, no model, no network.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isosweep.config.difficulty import DIFFICULTIES
from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, read_json, read_lines, write_json
from isosweep.models.weights import content_identity
from isosweep.reserved import DIFFICULTY
from isosweep.store.paths import RunPaths
from isosweep.tasks import Problem

FORMAT_VERSION = 1
# Raised when what is measured changes: measurements of before are then not found.
_NUMERICS_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a file says: `problems` and `successes`: (problems,), of `samples_per_problem` each.

    `total` problems make it complete; 0 means that there is no file yet. `digest` is of them all.
    """

    path: Path
    problems: tuple[Problem, ...]
    successes: tuple[int, ...]
    samples_per_problem: int
    total: int
    digest: str

    @property
    def rates(self) -> tuple[float, ...]:
        """Success rate of each measured problem: (problems,), from 0 to 1."""
        return tuple(count / self.samples_per_problem for count in self.successes)

    @property
    def complete(self) -> bool:
        """Whether every problem is measured."""
        return self.total > 0 and len(self.problems) == self.total


def measurement_path(config: SweepConfig, sweeps_dir: Path) -> Path:
    """Where the measurement of this model on this task lies: named by all that can change it."""
    model, task, recipe, settings = config.model, config.task, config.recipe, config.difficulty
    kind = dict(task.model_dump()[task.kind])
    for name in ("path", "directory"):
        kind.pop(name, None)
    inputs = {
        "version": FORMAT_VERSION,
        "numerics": _NUMERICS_VERSION,
        "model": content_identity(model),
        "task": [task.kind, task.template, task.data_seed, task.success_at, kind],
        "max_completion_tokens": task.completion_limit,
        "sampling": [
            *(settings.samples_per_problem, temperature_of(config), settings.seed),
            # Left out where all probability mass is sampled from.
            *([recipe.top_p] if recipe.top_p != 1 else []),
        ],
        "max_problems": settings.max_problems,
    }
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
    return sweeps_dir / DIFFICULTY / f"{digest}.jsonl"


def temperature_of(config: SweepConfig) -> float:
    """Temperature that problems are measured at: of training, unless another one is given."""
    return config.difficulty.temperature or config.recipe.temperature


def read_measurement(path: Path) -> Measurement:
    """What has been measured so far. Raises RecordError for a file that is something else.

    A torn line, which a kill can leave, does not count; what was measured twice counts once.
    """
    first: JsonObject = {}
    measured: dict[str, tuple[Problem, int]] = {}
    try:
        for _, line in read_lines(path):
            if line is None:
                continue
            if not first:
                if line.get("kind") != "difficulty" or line.get("version") != FORMAT_VERSION:
                    raise ValueError(f"it begins with {json.dumps(line)[:60]}")
                first = line
                continue
            for entry in line["problems"]:
                problem = Problem(**entry["problem"])
                measured.setdefault(problem.problem_id, (problem, int(entry["successes"])))
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: not a measurement of difficulty ({error})") from None
    return Measurement(
        path=path,
        problems=tuple(problem for problem, _ in measured.values()),
        successes=tuple(count for _, count in measured.values()),
        samples_per_problem=first.get("samples_per_problem", 1),
        total=first.get("total", 0),
        digest=first.get("digest", ""),
    )


def store_base_rates(run: RunPaths, rates: Sequence[float | None]) -> None:
    """Write the success rates before training of the run's held-out problems, in their order."""
    write_json(run.base_rates, {"version": FORMAT_VERSION, "rates": list(rates)})


def read_base_rates(run: RunPaths) -> tuple[float | None, ...] | None:
    """Success rates before training of the run's held-out problems; None if never measured."""
    document = read_json(run.base_rates)
    return None if document is None else tuple(document["rates"])


def require_complete(config: SweepConfig, measured: Measurement) -> None:
    """Raise SettingError where some of the task's problems are not measured."""
    if not measured.complete:
        state = (
            f"only {len(measured.problems)} of {measured.total} problems are measured"
            if measured.total
            else f"{config.model.name} has not been measured on these problems"
        )
        rule = f"{state} ({measured.path})"
        first = "first the same command with mode=difficulty, which measures them"
        raise SettingError("task.difficulty", config.task.difficulty, rule, first)


def buckets_of(rate: float) -> tuple[str, ...]:
    """Names of the difficulties that a success rate before training falls into; they overlap."""
    return tuple(name for name, (low, high) in DIFFICULTIES.items() if low <= rate <= high)


def bucket_rewards(
    rates: Sequence[float | None], successes: Sequence[int], samples: int
) -> dict[str, float]:
    """avg@k of each difficulty that has problems: `rates`, `successes`: (problems,)."""
    by_name: dict[str, list[int]] = {}
    for rate, count in zip(rates, successes, strict=True):
        for name in buckets_of(rate) if rate is not None else ():
            by_name.setdefault(name, []).append(count)
    return {name: sum(counts) / (len(counts) * samples) for name, counts in by_name.items()}
