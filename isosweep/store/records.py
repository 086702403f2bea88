"""Records: one held-out evaluation a line, append-only, readable after any crash.

A run may be executed by several attempts, one after another or (a cluster can do that) at once.
Each attempt writes a file of its own, whose first line says which earlier attempt's checkpoint it
starts from; a reader follows that chain back from the newest attempt, so lines of an attempt that
was overtaken never mix with those that count. Metrics and warnings are kept in the same way.

A directory of such files is called a log here. Sweeps of before kept all attempts' lines in one
file beside it, `NAME.jsonl`, which is read as well.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from isosweep.compute import Compute
from isosweep.files import JsonObject, append_line, read_lines
from isosweep.store.claims import names
from isosweep.store.warnings import HealthWarning

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Record:
    """One held-out evaluation after `step` optimiser updates.

    `successes`: (problems,) how many of `samples_per_problem` completions solved each held-out
    problem, in the task's order. `completion_tokens` is the evaluation's mean response length.
    `unix_time` is when it was taken, and `seconds` what that took: no part of the budget.
    """

    step: int
    compute: Compute
    successes: tuple[int, ...]
    samples_per_problem: int
    completion_tokens: float
    unix_time: float
    seconds: float = 0.0

    @property
    def reward(self) -> float:
        """avg@k: mean success over held-out problems and samples."""
        return math.fsum(self.successes) / (len(self.successes) * self.samples_per_problem)

    def reproducible(self) -> JsonObject:
        """What a second execution of the run must reproduce: all but the times."""
        document = asdict(self)
        del document["unix_time"], document["seconds"]
        counts = document["compute"].items()
        document["compute"] = {k: v for k, v in counts if not k.endswith("_seconds")}
        return document


@dataclass(frozen=True, kw_only=True)
class AttemptStart:
    """The first line of an attempt: it goes on from `parent`'s checkpoint at `resumed_step`."""

    attempt: int
    parent: int | None
    resumed_step: int


@dataclass(frozen=True, kw_only=True)
class RecordFile:
    """What a records file says: the records that count, by step, and what was wrong with it."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]


def append_attempt(log: Path, start: AttemptStart) -> None:
    """Write an attempt's first line and force it to the disk. Raises OSError on a full disk."""
    log.mkdir(parents=True, exist_ok=True)
    path = attempt_file(log, start.attempt)
    append_line(path, {"kind": "attempt", "version": FORMAT_VERSION, **asdict(start)}, sync=True)


def append_record(log: Path, attempt: int, record: Record) -> None:
    """Append and force to the disk. Raises OSError on a full disk; earlier records stay."""
    document = {"kind": "record", "version": FORMAT_VERSION, "attempt": attempt, **asdict(record)}
    append_line(attempt_file(log, attempt), document, sync=True)


def attempt_file(log: Path, attempt: int) -> Path:
    """The file of a log that `attempt`, and nobody else, writes."""
    return log / f"{attempt}.jsonl"


def log_files(log: Path) -> list[Path]:
    """Every file of a log, that of sweeps of before first, then by attempt."""
    old = log.with_suffix(".jsonl")
    stems = (name.removesuffix(".jsonl") for name in names(log) if name.endswith(".jsonl"))
    numbers = sorted(int(stem) for stem in stems if stem.isdecimal())
    return [*([old] if old.exists() else []), *(attempt_file(log, number) for number in numbers)]


def _lines(log: Path) -> Iterator[tuple[Path, int, JsonObject | None]]:
    for path in log_files(log):
        for number, line in read_lines(path):
            yield path, number, line


def read_records(log: Path) -> RecordFile:
    """Records of the run whose log is `log`, in order of step; an absent log has none."""
    starts: dict[int, AttemptStart] = {}
    lines: list[tuple[int, Record]] = []
    seen: set[tuple[int, int]] = set()
    problems = []
    for path, number, line in _lines(log):
        try:
            if line is None:
                raise ValueError("not a JSON object (a torn line)")
            if line.get("version") != FORMAT_VERSION:
                raise ValueError(f"format version {line.get('version')}, not {FORMAT_VERSION}")
            if line.get("kind") == "attempt":
                start = _attempt_start(line)
                starts[start.attempt] = start
            else:
                attempt, record = int(line["attempt"]), _record(line)
                if (attempt, record.step) in seen:
                    raise ValueError(f"step {record.step} again in attempt {attempt}")
                seen.add((attempt, record.step))
                lines.append((attempt, record))
        except (KeyError, TypeError, ValueError) as error:
            problems.append(f"{path}:{number}: {error}")
    return RecordFile(records=_follow_chain(starts, lines), problems=tuple(problems))


def attempt_chain(log: Path, before: float = math.inf) -> dict[int, float]:
    """`valid_until` of the attempts in the records `log` with numbers less than `before`."""
    starts = {}
    for _, _, line in _lines(log):
        # What is no line of an attempt is for `read_records` to report.
        with suppress(KeyError, TypeError, ValueError):
            if line is not None and line.get("kind") == "attempt":
                start = _attempt_start(line)
                starts[start.attempt] = start
    return valid_until({number: start for number, start in starts.items() if number < before})


def valid_until(starts: dict[int, AttemptStart]) -> dict[int, float]:
    """Last step up to which each attempt's lines count, the newest attempt first.

    The chain leads from the newest of `starts` to its parent, and so on; attempts off it are
    absent.
    """
    limits: dict[int, float] = {}
    attempt: int | None = max(starts, default=None)
    limit = math.inf
    while attempt is not None and attempt in starts:
        limits[attempt] = limit
        limit = min(limit, starts[attempt].resumed_step)
        attempt = starts[attempt].parent
    return limits


def read_metrics(metrics: Path, records: Path) -> list[JsonObject]:
    """Per-step training metrics that count, by step; the chain is that of `records`."""
    by_step = {int(line["step"]): line for line in _on_chain(metrics, records)}
    return [by_step[step] for step in sorted(by_step)]


def read_warnings(warnings: Path, records: Path) -> list[HealthWarning]:
    """Health warnings that count, in the order they were raised; the chain is the records'."""
    names = [item.name for item in fields(HealthWarning)]
    return [
        HealthWarning(**{name: line[name] for name in names})
        for line in _on_chain(warnings, records)
    ]


def append_metrics(log: Path, attempt: int, line: JsonObject) -> None:
    """Append a step's metrics, not forced to the disk."""
    log.mkdir(parents=True, exist_ok=True)
    append_line(attempt_file(log, attempt), {"attempt": attempt, **line}, sync=False)


def append_warning(log: Path, attempt: int, warning: HealthWarning) -> None:
    """Append a warning of `attempt`, forced to the disk."""
    log.mkdir(parents=True, exist_ok=True)
    append_line(attempt_file(log, attempt), {"attempt": attempt, **asdict(warning)}, sync=True)


def _on_chain(log: Path, records: Path) -> Iterator[JsonObject]:
    """Lines of `log`, each with `attempt` and `step`, that count by the chain of `records`."""
    limits = attempt_chain(records)
    for _, _, line in _lines(log):
        if line is None or not all(isinstance(line.get(name), int) for name in ("step", "attempt")):
            continue
        if line["step"] <= limits.get(line["attempt"], -1):
            yield line


def _follow_chain(
    starts: dict[int, AttemptStart], lines: Iterable[tuple[int, Record]]
) -> tuple[Record, ...]:
    limits = valid_until(starts)
    by_step: dict[int, tuple[int, Record]] = {}
    for attempt, record in lines:
        if record.step > limits.get(attempt, -1):
            continue
        if record.step not in by_step or by_step[record.step][0] <= attempt:
            by_step[record.step] = (attempt, record)
    return tuple(by_step[step][1] for step in sorted(by_step))


def _attempt_start(line: JsonObject) -> AttemptStart:
    start = AttemptStart(
        attempt=line["attempt"], parent=line["parent"], resumed_step=line["resumed_step"]
    )
    numbers = (start.attempt, start.resumed_step, start.parent or 0)
    if not all(isinstance(number, int) for number in numbers):
        raise TypeError("an attempt, its parent and its step are whole numbers")
    if start.parent is not None and start.parent >= start.attempt:
        # The chain would lead back to where it came from, and never end.
        raise ValueError(f"attempt {start.attempt} goes on from {start.parent}, a later one")
    return start


def _record(line: JsonObject) -> Record:
    record = Record(
        step=int(line["step"]),
        compute=Compute(**line["compute"]),
        successes=_successes(line["successes"], line["samples_per_problem"]),
        samples_per_problem=line["samples_per_problem"],
        completion_tokens=line["completion_tokens"],
        unix_time=line["unix_time"],
        seconds=line.get("seconds", 0.0),
    )
    for name, value in vars(record.compute).items():
        if value is None and name.endswith("_hardware_flops"):
            continue
        if value is None or not (math.isfinite(value) and value >= 0):
            raise ValueError(f"compute.{name} is {value}")
    return record


def _successes(values: Sequence[Any], samples: int) -> tuple[int, ...]:
    if not values or not all(isinstance(v, int) and 0 <= v <= samples for v in values):
        raise ValueError(f"successes must be whole numbers from 0 to {samples}")
    return tuple(values)
