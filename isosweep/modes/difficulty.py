"""`mode=difficulty`: how often the base model solves each problem, measured on this machine."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from filelock import FileLock
from rich.console import Console
from rich.progress import Progress

from isosweep.config.axes import combinations
from isosweep.config.base import replaced
from isosweep.config.difficulty import DIFFICULTIES
from isosweep.config.evaluation import EvaluationConfig, on_all
from isosweep.config.sweep import SweepConfig
from isosweep.difficulty.measurement import (
    FORMAT_VERSION,
    Measurement,
    buckets_of,
    measurement_path,
    read_measurement,
    temperature_of,
)
from isosweep.difficulty.selection import ChosenVariant
from isosweep.errors import RecordError
from isosweep.files import JsonObject, append_line
from isosweep.models.weights import weights
from isosweep.modes.signals import INTERRUPTED
from isosweep.modes.terminal import aligned, progress_console, say, show_json
from isosweep.plan.spec import RunSpec, answers_at_once, run_spec
from isosweep.preflight.machine import preflight
from isosweep.tasks import Problem, problem_pool
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.words.numbers import percent

# Raised when a field of the document goes or changes its meaning; fields may be added.
VERSION: Final = 1


def measure_difficulty(config: SweepConfig, console: Console) -> int:
    """Measure all problems that the config chooses from; returns 0, or INTERRUPTED.

    Raises PreflightError for what this machine lacks, and as `measure` does.
    """
    told, configs = progress_console(config, console), measured_configs(config)
    for single in configs:
        preflight(single, [ChosenVariant(axes={}, config=single)])
    documents = []
    try:
        for single in configs:
            how = f"temperature {temperature_of(single):g}, top_p {single.recipe.top_p:g}"
            say(told, f"{single.model.name}, {single.task.name}, {how}:")
            documents.append(_show(measure(single, told), told))
    except KeyboardInterrupt:
        say(told, "stopped; the same command continues from here")
        return INTERRUPTED
    if config.format == "json":
        show_json(console, {"version": VERSION, "measurements": documents})
    return 0


def measured_configs(config: SweepConfig) -> list[SweepConfig]:
    """Return what is measured for `config`: one config for each pool of problems, of the variants
    of `grid.axes` and the parts of a mixture."""
    configs: dict[Path, SweepConfig] = {}
    for variant in combinations(config):
        alone = {variant.config.task.name: variant.config}
        evaluated = on_all(variant.config)
        parts = {name: evaluated[name] for name in variant.config.task.parts}
        for name, part in (parts or alone).items():
            task = replaced(part.task, name=name, difficulty=None)
            single = replaced(part, task=task, grid=replaced(part.grid, axes=None))
            configs.setdefault(_path(single), single)
    return list(configs.values())


def _path(config: SweepConfig) -> Path:
    return measurement_path(config, Path(config.sweeps_dir).absolute())


def measure(config: SweepConfig, console: Console) -> Measurement:
    """Measure what is not measured yet; every finished batch is kept.

    A second process waits for the first. Raises RecordError if the file is of other problems.
    """
    path, settings = _path(config), config.difficulty
    pool = tuple(problem_pool(config.task, settings.max_problems))
    known = [[problem.problem_id, problem.prompt, problem.answer] for problem in pool]
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        measured = read_measurement(path)
        if not measured.total:
            first = {
                "kind": "difficulty",
                "version": FORMAT_VERSION,
                "model": config.model.name,
                "task": config.task.name,
                "samples_per_problem": settings.samples_per_problem,
                "total": len(pool),
                "digest": digest,
            }
            append_line(path, first, sync=True)
        elif measured.digest != digest:
            raise RecordError(
                f"{path}: it measures other problems than these settings draw now: the data, or a "
                "package that draws them, has changed. Remove it to measure anew"
            )
        done = {problem.problem_id for problem in measured.problems}
        if left := [problem for problem in pool if problem.problem_id not in done]:
            _measure(config, path, left, console)
    return read_measurement(path)


def _measure(config: SweepConfig, path: Path, left: Sequence[Problem], console: Console) -> None:
    """Sample the problems `left`, and append a line for each batch of them to `path`."""
    forget_ranks_and_precision(os.environ)
    import torch

    from isosweep.training.evaluate import Evaluator
    from isosweep.training.policy import load_policy

    spec = _spec(config)
    if spec.device == "cpu":
        torch.set_num_threads(1)
    model, tokenizer = load_policy(spec, weights(config.model))
    model.to(spec.device)
    size = max(1, spec.evaluation_batch // config.difficulty.samples_per_problem)
    with Progress(console=console) as progress:
        for start in progress.track(range(0, len(left), size), description="difficulty"):
            batch = left[start : start + size]
            evaluator = Evaluator(spec, tokenizer, problems=batch, top_p=spec.recipe.top_p)
            entries = [
                {"problem": asdict(problem), "successes": count}
                for problem, count in zip(batch, evaluator(model).successes, strict=True)
            ]
            append_line(path, {"problems": entries}, sync=True)


def _spec(config: SweepConfig) -> RunSpec:
    """A run's spec, of which only model, task, sampling and device matter here."""
    own = config.difficulty
    evaluation = EvaluationConfig(
        samples_per_problem=own.samples_per_problem,
        batch_size=own.batch_size,
        temperature=temperature_of(config),
        seed=own.seed,
    )
    sizes = {"num_generations": 2, "problems_per_batch": 1, "seed": 0, "micro_batch": 1}
    config = replaced(config, evaluation=evaluation)
    spec = replaced(run_spec(config, **sizes), evaluation_batch=answers_at_once(config))
    return replaced(spec, weights_dtype=spec.dtype)


def _show(measured: Measurement, console: Console) -> JsonObject:
    """Print how many problems have which difficulty, and return that."""
    rates, k = measured.rates, measured.samples_per_problem
    counts = {name: sum(name in buckets_of(rate) for rate in rates) for name in DIFFICULTIES}
    say(console, f"{len(rates)} problems, avg@{k} {sum(rates) / len(rates):.3f}")
    rows = [("difficulty", "success rate", "problems", "share")]
    for name, (low, high) in DIFFICULTIES.items():
        # What begins beside a round number does not include that.
        first = f"{'' if low == float(f'{low:.3g}') else 'above '}{low:.3g}"
        span = f"{first} to {high:.3g}" if low < high else first
        rows.append((name, span, f"{counts[name]:,}", percent(counts[name] / len(rates))))
    say(console, *aligned(rows, left=1))
    note = "extremely_hard is part of hard; a rate on the border of two ranges counts in both"
    say(console, note)
    say(console, f"difficulty: {measured.path}")
    histogram = [measured.successes.count(successes) for successes in range(k + 1)]
    document = {"problems": len(rates), "samples_per_problem": k, "difficulties": counts}
    return document | {"by_successes": histogram, "path": str(measured.path)}
