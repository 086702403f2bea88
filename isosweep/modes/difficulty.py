"""`mode=difficulty`: how often the base model solves each problem, measured on this machine."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from isosweep.config.axes import combinations
from isosweep.config.base import replaced
from isosweep.config.evaluation import EvaluationConfig, on_parts
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import DIFFICULTIES
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
from isosweep.files import append_line, write_json
from isosweep.models.weights import weights
from isosweep.modes.signals import INTERRUPTED
from isosweep.modes.terminal import say
from isosweep.plan.spec import RunSpec, answers_at_once, run_spec
from isosweep.preflight.machine import preflight
from isosweep.tasks import Problem, problem_pool
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.words.numbers import percent


def measure_difficulty(config: SweepConfig, console: Console) -> int:
    """Measure all that the config chooses problems from; returns 0, or INTERRUPTED.

    Raises PreflightError for what this machine lacks, and as `measure` does.
    """
    configs = measured_configs(config)
    for single in configs:
        preflight(single, [ChosenVariant(axes={}, config=single)])
    try:
        for single in configs:
            if len(configs) > 1:
                how = f"temperature {temperature_of(single):g}, top_p {single.recipe.top_p:g}"
                say(console, f"{single.model.name}, {single.task.name}, {how}:")
            measure(single, console)
    except KeyboardInterrupt:
        say(console, "stopped; the same command continues from here")
        return INTERRUPTED
    return 0


def measured_configs(config: SweepConfig) -> list[SweepConfig]:
    """What `config` needs measured: every variant of `grid.axes`, and of a mixture
    every part, that has a pool of its own."""
    configs: dict[Path, SweepConfig] = {}
    for variant in combinations(config):
        parts = on_parts(variant.config)
        alone = {variant.config.task.name: variant.config}
        for name, config in (parts or alone).items():
            task = replaced(config.task, name=name, difficulty=None)
            single = replaced(config, task=task, grid=replaced(config.grid, axes=None))
            configs.setdefault(_path(single), single)
    return list(configs.values())


def _path(config: SweepConfig) -> Path:
    return measurement_path(config, Path(config.sweeps_dir).absolute())


def measure(config: SweepConfig, console: Console) -> Measurement:
    """Measure what is not measured yet, and show the split; every finished batch is kept.

    A second process waits for the first. Raises RecordError if the file is of other problems.
    """
    path = _path(config)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        measured = _complete(config, path, console)
    _show(measured, console)
    return measured


def _complete(config: SweepConfig, path: Path, console: Console) -> Measurement:
    settings = config.difficulty
    pool = tuple(problem_pool(config.task, settings.max_problems))
    digest = _digest(pool)
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
    if len(done) < len(pool):
        _measure_rest(config, path, pool, done, console)
        measured = read_measurement(path)
    return measured


def _digest(pool: tuple[Problem, ...]) -> str:
    document = [[problem.problem_id, problem.prompt, problem.answer] for problem in pool]
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _measure_rest(
    config: SweepConfig, path: Path, pool: tuple[Problem, ...], done: set[str], console: Console
) -> None:
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
        bar = progress.add_task("difficulty", total=len(pool), completed=len(done))
        for start in range(0, len(pool), size):
            batch = [p for p in pool[start : start + size] if p.problem_id not in done]
            if not batch:
                continue
            evaluator = Evaluator(spec, tokenizer, problems=batch, top_p=spec.recipe.top_p)
            successes = evaluator(model).successes
            entries = [
                {"problem": asdict(problem), "successes": count}
                for problem, count in zip(batch, successes, strict=True)
            ]
            append_line(path, {"problems": entries}, sync=True)
            progress.advance(bar, len(batch))


def _spec(config: SweepConfig) -> RunSpec:
    """A run's spec, of which only model, task, sampling and device matter here."""
    settings = config.difficulty
    evaluation = EvaluationConfig(
        samples_per_problem=settings.samples_per_problem,
        batch_size=settings.batch_size,
        temperature=temperature_of(config),
        seed=settings.seed,
    )
    sizes = {"num_generations": 2, "problems_per_batch": 1, "seed": 0, "micro_batch": 1}
    config = replaced(config, evaluation=evaluation)
    spec = replaced(run_spec(config, **sizes), evaluation_batch=answers_at_once(config))
    return replaced(spec, weights_dtype=spec.dtype)


def _show(measured: Measurement, console: Console) -> None:
    """Print the split and write it beside the measurement."""
    rates = measured.rates
    counts = dict.fromkeys(DIFFICULTIES, 0)
    for rate in rates:
        for name in buckets_of(rate):
            counts[name] += 1
    k = measured.samples_per_problem
    say(console, f"{len(rates)} problems, avg@{k} {sum(rates) / len(rates):.3f}")
    table = Table(box=None)
    table.add_column("difficulty")
    for heading in ("success rate", "problems", "share"):
        table.add_column(heading, justify="right")
    for name, (low, high) in DIFFICULTIES.items():
        # What begins beside a round number does not include that.
        first = f"{low:g}" if low == float(f"{low:g}") else f"above {low:g}"
        span = f"{first} to {high:g}" if low < high else first
        table.add_row(name, span, f"{counts[name]:,}", percent(counts[name] / len(rates)))
    console.print(table)
    say(
        console, "extremely_hard is part of hard; a rate on the border of two ranges counts in both"
    )
    histogram = [measured.successes.count(successes) for successes in range(k + 1)]
    document: dict[str, Any] = {"version": FORMAT_VERSION, "problems": len(rates)}
    document |= {"samples_per_problem": k, "difficulties": counts, "by_successes": histogram}
    write_json(measured.path.with_suffix(".json"), document)
    say(console, f"difficulty: {measured.path}")
