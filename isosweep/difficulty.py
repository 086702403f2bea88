"""Difficulty: problems chosen by how often the base model solves them.

`mode=difficulty` (measure.py) appends what it measures to `<sweeps_dir>/difficulty/<hash>.jsonl`:
a first line that says of what, then one line a batch with the problems and their successes. A
complete file is all that choosing takes: no package of the task, no model, no network.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, read_json, read_lines, write_json
from isosweep.models import content_identity
from isosweep.paths import RunPaths
from isosweep.settings import DIFFICULTIES, DifficultyConfig, ModelConfig
from isosweep.task_settings import Share, TaskConfig, difficulty_shares
from isosweep.tasks import Problem, ProblemSets, use_problems
from isosweep.tasks.problem import shuffled

FORMAT_VERSION = 1


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
        return tuple(count / self.samples_per_problem for count in self.successes)

    @property
    def complete(self) -> bool:
        return self.total > 0 and len(self.problems) == self.total


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Problems chosen by difficulty, and the `document` that a worker reads them from."""

    sets: ProblemSets
    document: JsonObject
    sha256: str


def buckets_of(rate: float) -> tuple[str, ...]:
    """Names of the difficulties that a success rate before training falls into; they overlap."""
    return tuple(name for name, (low, high) in DIFFICULTIES.items() if low <= rate <= high)


def bucket_rewards(
    rates: Sequence[float | None], successes: Sequence[int], samples: int
) -> dict[str, float]:
    """avg@k of each difficulty that has problems: `rates`, `successes`: (problems,)."""
    found: dict[str, list[int]] = {}
    for rate, count in zip(rates, successes, strict=True):
        for name in buckets_of(rate) if rate is not None else ():
            found.setdefault(name, []).append(count)
    return {name: sum(counts) / (len(counts) * samples) for name, counts in found.items()}


def measurement_path(
    model: ModelConfig, task: TaskConfig, config: DifficultyConfig, sweeps_dir: Path
) -> Path:
    """Where the measurement of this model on this task lies: named by all that can change it."""
    kind = dict(asdict(task)[task.kind])
    for name in ("path", "directory"):
        kind.pop(name, None)
    inputs = {
        "version": FORMAT_VERSION,
        "model": content_identity(model),
        "task": [task.kind, task.template, task.data_seed, task.success_at, kind],
        "max_completion_tokens": task.completion_limit,
        "sampling": [config.samples_per_problem, config.temperature, config.seed],
        "max_problems": config.max_problems,
    }
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
    return sweeps_dir / "difficulty" / f"{digest}.jsonl"


def read_measurement(path: Path) -> Measurement:
    """What has been measured so far. Raises RecordError for a file that is something else.

    A torn line, which a kill can leave, does not count; what was measured twice counts once.
    """
    return _read(path, path.stat().st_size if path.exists() else 0)


@lru_cache(maxsize=8)
def _read(path: Path, size: int) -> Measurement:
    """The file at `path`, which only grows, when it has `size` bytes."""
    first: JsonObject = {}
    found: dict[str, tuple[Problem, int]] = {}
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
                found.setdefault(problem.problem_id, (problem, int(entry["successes"])))
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: not a measurement of difficulty ({error})") from None
    return Measurement(
        path=path,
        problems=tuple(problem for problem, _ in found.values()),
        successes=tuple(count for _, count in found.values()),
        samples_per_problem=first.get("samples_per_problem", 1),
        total=first.get("total", 0),
        digest=first.get("digest", ""),
    )


def select(task: TaskConfig, measured: Measurement) -> Selection:
    """The task's problems, chosen by `task.difficulty` and the hash of their prompts.

    Raises SettingError where a range has too few, with the numbers that work.
    """
    shares = difficulty_shares(task.difficulty)
    rates = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
    ordered = shuffled(measured.problems, task.data_seed)
    there: list[list[Problem]] = []
    taken: set[str] = set()
    for share in shares:
        held = [p for p in ordered if share.low <= rates[p.problem_id] <= share.high]
        there.append([p for p in held if p.problem_id not in taken])
        taken |= {p.problem_id for p in held}
    sizes = [len(problems) for problems in there]
    heldout_counts = _counts(task.num_eval_problems, shares)
    training_counts = _counts(task.num_train_problems, shares)
    if not _enough(sizes, heldout_counts, training_counts):
        raise _too_few(task, measured, shares, sizes)
    heldout, training = [], []
    for problems, first, more in zip(there, heldout_counts, training_counts, strict=True):
        heldout += problems[:first]
        training += problems[first : first + more]
    sets = ProblemSets(
        training=tuple(shuffled(training, task.data_seed)),
        heldout=tuple(shuffled(heldout, task.data_seed)),
    )
    document = {
        "version": FORMAT_VERSION,
        "training": [_entry(problem, rates) for problem in sets.training],
        "heldout": [_entry(problem, rates) for problem in sets.heldout],
    }
    return Selection(sets=sets, document=document, sha256=_sha256(document))


def resolve(
    model: ModelConfig, task: TaskConfig, config: DifficultyConfig, sweeps_dir: Path
) -> TaskConfig:
    """The task with the hash of its problems, where it chooses them by difficulty.

    Raises SettingError where they have not been measured (all of them), or are too few.
    """
    if task.difficulty is None:
        return task
    selection = select(task, _complete(model, task, config, sweeps_dir))
    resolved = replace(task, selection_sha256=selection.sha256)
    use_problems(resolved, selection.sets)
    return resolved


def store_for_run(
    run: RunPaths, model: ModelConfig, task: TaskConfig, config: DifficultyConfig
) -> None:
    """Write what the run needs of a measurement, if there is one: its problems, where they were
    chosen by difficulty, and the rates of its held-out problems."""
    measured = read_measurement(measurement_path(model, task, config, run.root.parent.parent))
    if task.selection_sha256 is not None:
        path = run.selection(task.selection_sha256)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, select(task, measured).document)
    if measured.problems:
        from isosweep.tasks import heldout_problems

        known = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
        rates = [known.get(problem.problem_id) for problem in heldout_problems(task)]
        write_json(run.base_rates, {"version": FORMAT_VERSION, "rates": rates})


def load_selection(run: RunPaths, task: TaskConfig) -> None:
    """Make this process use the problems that were chosen for the run.

    Raises RecordError where their file is missing or has been changed.
    """
    if task.selection_sha256 is None:
        return
    path = run.selection(task.selection_sha256)
    document = read_json(path)
    if document is None or _sha256(document) != task.selection_sha256:
        what = "is missing" if document is None else "is not what was chosen at launch"
        raise RecordError(f"{path}: {what}; start the sweep again, which writes it")
    training, heldout = (
        tuple(Problem(**entry["problem"]) for entry in document[name])
        for name in ("training", "heldout")
    )
    use_problems(task, ProblemSets(training=training, heldout=heldout))


def read_base_rates(run: RunPaths) -> tuple[float | None, ...] | None:
    """Success rates before training of the run's held-out problems; None if never measured."""
    document = read_json(run.base_rates)
    return None if document is None else tuple(document["rates"])


def _complete(
    model: ModelConfig, task: TaskConfig, config: DifficultyConfig, sweeps_dir: Path
) -> Measurement:
    measured = read_measurement(measurement_path(model, task, config, sweeps_dir))
    if not measured.complete:
        state = (
            f"only {len(measured.problems)} of {measured.total} problems are measured"
            if measured.total
            else f"{model.name} has not been measured on these problems"
        )
        rule = f"{state} ({measured.path})"
        command = "python -m isosweep mode=difficulty, with the same model, task and difficulty"
        raise SettingError("task.difficulty", task.difficulty, rule, f"first run {command}")
    return measured


def _counts(number: int, shares: Sequence[Share]) -> list[int]:
    """`number` problems in these shares: whole numbers, the largest remainders rounded up."""
    exact = [number * share.share for share in shares]
    counts = [math.floor(value + 1e-9) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: number - sum(counts)]:
        counts[i] += 1
    return counts


def _enough(sizes: Sequence[int], heldout: Sequence[int], training: Sequence[int]) -> bool:
    return all(a >= b + c for a, b, c in zip(sizes, heldout, training, strict=True))


def _too_few(
    task: TaskConfig, measured: Measurement, shares: Sequence[Share], sizes: Sequence[int]
) -> SettingError:
    heldout = _counts(task.num_eval_problems, shares)
    training = _counts(task.num_train_problems, shares)
    told = ", ".join(
        f"{share.name} (success rates {share.low:g} to {share.high:g}) has {size} of the "
        f"{more + first} asked for"
        for share, size, first, more in zip(shares, sizes, heldout, training, strict=True)
    )
    rule = (
        f"with task.num_train_problems={task.num_train_problems} and task.num_eval_problems="
        f"{task.num_eval_problems}, of {len(measured.problems)} measured problems {told}"
    )
    nearest = _nearest_numbers(task, shares, sizes)
    if nearest is None:
        nearest = "a larger difficulty.max_problems, or task.difficulty=[0,1]"
    return SettingError("task.difficulty", task.difficulty, rule, nearest)


def _nearest_numbers(task: TaskConfig, shares: Sequence[Share], sizes: Sequence[int]) -> str | None:
    """The largest numbers of problems in the same proportion that there are; None if none."""
    total = task.num_train_problems + task.num_eval_problems
    for wanted in range(min(total, sum(sizes)), 1, -1):
        heldout = max(1, wanted * task.num_eval_problems // total)
        training = wanted - heldout
        if _enough(sizes, _counts(heldout, shares), _counts(training, shares)):
            return f"task.num_train_problems={training} task.num_eval_problems={heldout}"
    return None


def _entry(problem: Problem, rates: dict[str, float]) -> dict[str, Any]:
    return {"problem": asdict(problem), "success_rate": rates[problem.problem_id]}


def _sha256(document: JsonObject) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
