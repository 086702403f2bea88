"""Records: one held-out evaluation a line, append-only, readable after any crash.

A run may be executed by several attempts, one after another or (a cluster can do that) at once.
Each attempt writes a file of its own, whose first line says which earlier attempt's checkpoint it
starts from; a reader follows that chain back from the newest attempt, so lines of an attempt that
was overtaken never mix with those that count. Metrics and warnings are kept in the same way.

A directory of such files is called a log here. Sweeps of before kept all attempts' lines in one
file beside it, `NAME.jsonl`, which is read as well.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from isosweep.compute import Compute
from isosweep.files import JsonObject, append_line, make_directory, read_lines, write_text
from isosweep.gradient_noise import GradientNoise
from isosweep.store.claims import names
from isosweep.store.warnings import HealthWarning

# 2: scores by name, and means where single problems are not known. A line of 1 is one of 2 without
# them.
FORMAT_VERSION = 2
READABLE = (1, 2)
_OWN = re.compile(r"\d+\.jsonl")
_WARNING = tuple(item.name for item in fields(HealthWarning))


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured of a policy on one set of problems.

    `successes`: (problems,) how many of `samples_per_problem` completions solved each problem, in
    the set's order; () where only `mean_reward` is known, with its `standard_error`, if that is.
    `scores`: further scores of every problem by name, (problems,), from 0 to 1: what a metric needs
    that counts do not say. `completion_tokens`: mean length of a completion, where that is known.
    """

    successes: tuple[int, ...] = ()
    samples_per_problem: int = 1
    completion_tokens: float | None = None
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    mean_reward: float | None = None
    standard_error: float | None = None

    @property
    def reward(self) -> float:
        """avg@k: mean success over problems and samples; or the mean that was reported."""
        if self.mean_reward is not None:
            return self.mean_reward
        return math.fsum(self.successes) / (len(self.successes) * self.samples_per_problem)

    def to_json(self) -> JsonObject:
        """What a file holds: without what there is nothing of."""
        return {name: value for name, value in vars(self).items() if value not in _NOTHING}

    @classmethod
    def from_json(cls, document: JsonObject) -> "Evaluation":
        """As it was written. Raises KeyError, TypeError or ValueError for what nobody measured."""
        return cls(**_measured(document))


# Values of fields that a file leaves out.
_NOTHING: tuple[Any, ...] = (None, {}, ())


@dataclass(frozen=True, kw_only=True)
class Record(Evaluation):
    """One held-out evaluation after `step` optimiser updates.

    `unix_time` is when it was taken, and `seconds` what that took, with `sets`, the further sets
    that were evaluated, by name: no part of the budget. `noise`: of the gradient, where it was
    measured.
    """

    step: int
    compute: Compute
    unix_time: float
    seconds: float = 0.0
    sets: Mapping[str, Evaluation] = field(default_factory=dict)
    noise: GradientNoise | None = None

    def to_json(self) -> JsonObject:
        """The record as its line has it."""
        document = super().to_json() | {"compute": dict(vars(self.compute))}
        if self.sets:
            document["sets"] = {name: own.to_json() for name, own in self.sets.items()}
        if self.noise is not None:
            document["noise"] = self.noise.to_json()
        return document

    def reproducible(self) -> JsonObject:
        """What a second execution of the run must reproduce: all but the times."""
        document = self.to_json()
        del document["unix_time"], document["seconds"]
        counts = document["compute"].items()
        document["compute"] = {k: v for k, v in counts if not k.endswith("_seconds")}
        return document

    @classmethod
    def from_json(cls, document: JsonObject) -> "Record":
        """As `Evaluation.from_json`."""
        record = cls(
            **_measured(document),
            step=int(document["step"]),
            compute=Compute(**document["compute"]),
            unix_time=document["unix_time"],
            seconds=document.get("seconds", 0.0),
            sets={
                name: Evaluation.from_json(own)
                for name, own in dict(document.get("sets", {})).items()
            },
            noise=GradientNoise.from_json(document["noise"]) if "noise" in document else None,
        )
        _require_counts(record.compute)
        return record


@dataclass(frozen=True, kw_only=True)
class AttemptStart:
    """The first line of an attempt: it goes on from `parent`'s checkpoint at `resumed_step`."""

    attempt: int
    parent: int | None
    resumed_step: int


@dataclass(frozen=True, kw_only=True)
class RecordFile:
    """What a log of records says: those that count, by step, and what was wrong with it.

    `chain`: `valid_until` of the attempts.
    """

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    chain: Mapping[int, float]


def append_attempt(log: Path, start: AttemptStart) -> None:
    """Write an attempt's first line and force it to the disk. Raises OSError on a full disk."""
    make_directory(log)
    path = attempt_file(log, start.attempt)
    line = {"kind": "attempt", "version": FORMAT_VERSION, **asdict(start)}
    append_line(path, line, sync=True, below=log.parent)


def append_record(log: Path, attempt: int, record: Record) -> None:
    """Append and force to the disk. Raises OSError on a full disk; earlier records stay."""
    place = {"kind": "record", "version": FORMAT_VERSION, "attempt": attempt}
    line = {**place, **record.to_json()}
    append_line(attempt_file(log, attempt), line, sync=True, below=log.parent)


def write_records(log: Path, records: Iterable[Record]) -> None:
    """Write the records of a run that one attempt made, all at once, as those of attempt 1."""
    make_directory(log)
    start = AttemptStart(attempt=1, parent=None, resumed_step=0)
    lines: list[JsonObject] = [{"kind": "attempt", "version": FORMAT_VERSION, **asdict(start)}]
    place = {"kind": "record", "version": FORMAT_VERSION, "attempt": 1}
    lines += [{**place, **record.to_json()} for record in records]
    text = "".join(
        f"{json.dumps(line, separators=(',', ':'), allow_nan=False)}\n" for line in lines
    )
    write_text(attempt_file(log, 1), text)


def attempt_file(log: Path, attempt: int) -> Path:
    """The file of a log that `attempt`, and nobody else, writes."""
    return log / f"{attempt}.jsonl"


def log_files(log: Path) -> dict[int, Path]:
    """Every file of a log, by attempt; 0 is that of sweeps of before, which has all attempts'."""
    numbers = (int(name[:-6]) for name in names(log) if _OWN.fullmatch(name))
    files = {number: attempt_file(log, number) for number in sorted(numbers)}
    old = f"{log}.jsonl"
    return {0: Path(old), **files} if os.path.isfile(old) else files  # noqa: PTH113


def read_records(log: Path, *, before: float = math.inf) -> RecordFile:
    """Records of the run whose log is `log`, in order of step; an absent log has none.

    `before`: of attempts with lesser numbers, as if there were no other.
    """
    reading = _Reading()
    for owner, path in log_files(log).items():
        if owner < before:
            reading.read(owner, path)
    starts = {number: start for number, start in reading.starts.items() if number < before}
    chain = valid_until(starts)
    problems = reading.problems
    # The last of the chain began at step 0, or went on from one whose first line is gone.
    first = starts[min(chain)].parent if chain else None
    if first is not None:
        path = attempt_file(log, first)
        problems.append(f"{path}: attempt {min(chain)} goes on from its records, which are lost")
    return RecordFile(
        records=_follow_chain(chain, reading.lines), problems=tuple(problems), chain=chain
    )


class _Reading:
    """What is read of a log, file by file: the attempts' first lines, and records with theirs."""

    def __init__(self) -> None:
        self.starts: dict[int, AttemptStart] = {}
        self.lines: dict[tuple[int, int], Record] = {}
        self.problems: list[str] = []

    def read(self, owner: int, path: Path) -> None:
        """Read a file of attempt `owner`; 0: of several."""
        count = len(self.lines)
        try:
            for number, line in read_lines(path):
                try:
                    self._line(line)
                except (KeyError, TypeError, ValueError, OverflowError) as error:
                    self.problems.append(f"{path}:{number}: {error}")
        except OSError as error:
            self.problems.append(f"{path}: {error.strerror}")
        if owner and owner not in self.starts and len(self.lines) > count:
            lost = f"its first line, which says where attempt {owner} began, is lost"
            self.problems.append(f"{path}: {lost}: its records do not count")

    def _line(self, line: JsonObject | None) -> None:
        if line is None:
            raise ValueError("not a JSON object (a torn line)")
        if line.get("version") not in READABLE:
            raise ValueError(f"format version {line.get('version')}, not {FORMAT_VERSION}")
        if line.get("kind") == "attempt":
            start = _attempt_start(line)
            self.starts[start.attempt] = start
            return
        attempt, record = int(line["attempt"]), Record.from_json(line)
        if (attempt, record.step) in self.lines:
            raise ValueError(f"step {record.step} again in attempt {attempt}")
        self.lines[attempt, record.step] = record


def attempt_chain(log: Path) -> dict[int, float]:
    """`valid_until` of the attempts in the records `log`."""
    starts = {}
    for owner, path in log_files(log).items():
        for line in (line for _, line in _sound_lines(path)):
            # What is no line of an attempt is for `read_records` to report.
            with suppress(KeyError, TypeError, ValueError):
                if line.get("kind") == "attempt":
                    start = _attempt_start(line)
                    starts[start.attempt] = start
            if owner in starts:
                break
    return valid_until(starts)


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
    return [
        HealthWarning(**{name: line[name] for name in _WARNING})
        for line in _on_chain(warnings, records)
    ]


def append_metrics(log: Path, attempt: int, line: JsonObject) -> None:
    """Append a step's metrics, not forced to the disk."""
    make_directory(log)
    own = {"attempt": attempt, **line}
    append_line(attempt_file(log, attempt), own, sync=False, below=log.parent)


def append_warning(log: Path, attempt: int, warning: HealthWarning) -> None:
    """Append a warning of `attempt`, forced to the disk."""
    make_directory(log)
    line = {"attempt": attempt, **asdict(warning)}
    append_line(attempt_file(log, attempt), line, sync=True, below=log.parent)


def _on_chain(log: Path, records: Path) -> Iterator[JsonObject]:
    """Lines of `log`, each with `attempt` and `step`, that count by the chain of `records`."""
    files = log_files(log)
    limits = attempt_chain(records) if files else {}
    for path in files.values():
        for _, line in _sound_lines(path):
            step, attempt = line.get("step"), line.get("attempt")
            if not (isinstance(step, int) and isinstance(attempt, int)):
                continue
            if step <= limits.get(attempt, -1):
                yield line


def _sound_lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Lines of a file that can be read; none where it cannot be."""
    with suppress(OSError):
        yield from ((number, line) for number, line in read_lines(path) if line is not None)


def _follow_chain(
    chain: Mapping[int, float], lines: Mapping[tuple[int, int], Record]
) -> tuple[Record, ...]:
    by_step: dict[int, tuple[int, Record]] = {}
    for (attempt, step), record in lines.items():
        if step <= chain.get(attempt, -1) and by_step.get(step, (0, record))[0] <= attempt:
            by_step[step] = (attempt, record)
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


def _measured(document: JsonObject) -> dict[str, Any]:
    """Fields of an `Evaluation`. Raises ValueError for what cannot have been measured."""
    document = dict(document)
    samples, mean = document.get("samples_per_problem", 1), document.get("mean_reward")
    counted = "successes" in document or mean is None
    successes = _successes(document["successes"], samples) if counted else ()
    scores = {name: tuple(own) for name, own in dict(document.get("scores", {})).items()}
    for name, own in scores.items():
        if not counted or len(own) != len(successes) or not _shares(own):
            raise ValueError(f"scores.{name} must be a number from 0 to 1 for every problem")
    if mean is not None and not _shares((mean,)):
        raise ValueError(f"mean_reward is {mean}, not from 0 to 1")
    known = {name: document.get(name) for name in ("standard_error", "completion_tokens")}
    for name, value in known.items():
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}")
    return {
        "successes": successes,
        "samples_per_problem": samples,
        "scores": scores,
        "mean_reward": mean,
        **known,
    }


def _shares(values: Sequence[Any]) -> bool:
    return all(0 <= value <= 1 for value in values)


def _require_counts(compute: Compute) -> None:
    """Raise ValueError for what cannot have been spent."""
    spent = vars(compute)
    uncounted = (compute.scoring_hardware_flops, compute.training_hardware_flops).count(None)
    counted = [value for value in spent.values() if value is not None]
    # All at once, and one by one only to say which: a sweep has a hundred thousand records.
    complete = len(counted) + uncounted == len(spent)
    if complete and min(counted) >= 0 and math.isfinite(sum(counted)):
        return
    for name, value in spent.items():
        if value is None and name.endswith("_hardware_flops"):
            continue
        if value is None or not (math.isfinite(value) and value >= 0):
            raise ValueError(f"compute.{name} is {value}")


def _successes(values: Sequence[Any], samples: int) -> tuple[int, ...]:
    right = tuple(values)
    # Of what are no bytes, the slower question.
    with suppress(TypeError, ValueError):
        if right and max(bytes(right)) <= samples:
            return right
    if not right or {*map(type, right)} != {int} or min(right) < 0 or max(right) > samples:
        raise ValueError(f"successes must be whole numbers from 0 to {samples}")
    return right
