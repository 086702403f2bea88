"""Records: one held-out evaluation a line, append-only, readable after any crash.

A run may be executed by several attempts, one after another or (a cluster can do that) at once.
Each attempt writes a file of its own, whose first line says which earlier attempt's checkpoint it
starts from; a reader follows that chain back from the newest attempt, so lines of an attempt that
was overtaken never mix with those that count. Metrics and warnings are kept in the same way.

A directory of such files is called a log here.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import core_schema, from_json

from isosweep.compute import Compute
from isosweep.files import (
    JsonObject,
    append_line,
    make_directory,
    names,
    numbered_lines,
    read_lines,
    write_text,
)
from isosweep.store.warnings import HealthWarning

# 2: scores by name, and means where single problems are not known. A line of 1 is one of 2 without
# them.
FORMAT_VERSION = 2
_OWN = re.compile(r"\d+\.jsonl")
_WARNING = tuple(item.name for item in fields(HealthWarning))

# Whole numbers that a float holds exactly, amounts whose sums and squares are finite, and times
# that a date can be made of (the year 9999).
_Count = Annotated[int, Field(strict=True, ge=0, le=2**53)]
_Number = Annotated[int, Field(strict=True, ge=1, le=2**53)]
_Amount = Annotated[float, Field(strict=True, ge=0, le=1e100, allow_inf_nan=False)]
_Share = Annotated[float, Field(strict=True, ge=0, le=1)]
_Time = Annotated[float, Field(strict=True, ge=0, le=253_402_300_799)]
# Amounts of compute that lines may lack.
_ADDED = (
    *("scoring_hardware_flops", "training_hardware_flops"),
    *("checkpoint_seconds", "startup_seconds"),
)


def _spent(*_: Any) -> core_schema.CoreSchema:
    """What a line says of compute: every amount, and nothing else."""
    count = core_schema.int_schema(strict=True, ge=0, le=2**53)
    amount = core_schema.float_schema(strict=True, ge=0, le=1e100, allow_inf_nan=False)
    uncounted = core_schema.nullable_schema(amount)
    of_default = {int: count, float: amount, type(None): uncounted}
    known = {
        item.name: core_schema.typed_dict_field(
            of_default[type(item.default)], required=item.name not in _ADDED
        )
        for item in fields(Compute)
    }
    amounts = core_schema.typed_dict_schema(known, extra_behavior="forbid")
    return core_schema.no_info_after_validator_function(lambda given: Compute(**given), amounts)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured of a policy on one set of problems.

    `successes`: (problems,) how many of `samples_per_problem` completions solved each problem, in
    the set's order; () where only `mean_reward` is known, with its `standard_error`, if that is.
    `scores`: further scores of every problem by name, (problems,), from 0 to 1: what a metric needs
    that counts do not say. `completion_tokens`: mean length of a completion, where that is known.
    """

    successes: Annotated[tuple[_Count, ...], Field(min_length=1)] = ()
    samples_per_problem: _Number = 1
    completion_tokens: _Amount | None = None
    scores: Mapping[str, tuple[_Share, ...]] = field(default_factory=dict)
    mean_reward: _Share | None = None
    standard_error: _Amount | None = None

    def __post_init__(self) -> None:
        samples = self.samples_per_problem
        nothing = not self.successes and self.mean_reward is None
        if nothing or max(self.successes, default=0) > samples:
            raise ValueError(f"successes must be whole numbers from 0 to {samples}")
        for name, own in self.scores.items():
            if len(own) != len(self.successes):
                raise ValueError(f"scores.{name} must be a number from 0 to 1 for every problem")

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
        """As it was written. Raises ValueError for what nobody measured."""
        return TypeAdapter(cls).validate_python(document)


# Values of fields that a file leaves out.
_NOTHING: tuple[Any, ...] = (None, {}, ())


@dataclass(frozen=True, kw_only=True)
class Record(Evaluation):
    """One held-out evaluation after `step` optimiser updates.

    `unix_time` is when it was taken, and `seconds` what that took, with `sets`, the further sets
    that were evaluated, by name: no part of the budget.
    """

    step: _Count
    compute: Annotated[Compute, GetPydanticSchema(_spent)]
    unix_time: _Time
    seconds: _Amount = 0.0
    sets: Mapping[str, Evaluation] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """The record as its line has it."""
        document = super().to_json() | {"compute": dict(vars(self.compute))}
        if self.sets:
            document["sets"] = {name: own.to_json() for name, own in self.sets.items()}
        return document

    def reproducible(self) -> JsonObject:
        """What a second execution of the run must reproduce: all but the times."""
        document = self.to_json()
        del document["unix_time"], document["seconds"]
        counts = document["compute"].items()
        document["compute"] = {k: v for k, v in counts if not k.endswith("_seconds")}
        return document


@dataclass(frozen=True, kw_only=True)
class AttemptStart:
    """The first line of an attempt: it goes on from `parent`'s checkpoint at `resumed_step`."""

    attempt: _Number
    parent: _Number | None
    resumed_step: _Count

    def __post_init__(self) -> None:
        if self.parent is not None and self.parent >= self.attempt:
            # The chain would lead back to where it came from, and never end.
            raise ValueError(f"attempt {self.attempt} goes on from {self.parent}, a later one")


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
    _append(log, start.attempt, _start_line(start), sync=True)


def append_record(log: Path, attempt: int, record: Record) -> None:
    """Append and force to the disk. Raises OSError on a full disk; earlier records stay.

    Where the log is away for a while, none is begun in its place.
    """
    append_line(attempt_file(log, attempt), _record_line(attempt, record), sync=True)


def append_metrics(log: Path, attempt: int, line: JsonObject) -> None:
    """Append a step's metrics, not forced to the disk."""
    _append(log, attempt, {"attempt": attempt, **line}, sync=False)


def append_warning(log: Path, attempt: int, warning: HealthWarning) -> None:
    """Append a warning of `attempt`, forced to the disk."""
    _append(log, attempt, {"attempt": attempt, **asdict(warning)}, sync=True)


def _append(log: Path, attempt: int, line: JsonObject, *, sync: bool) -> None:
    make_directory(log)
    append_line(attempt_file(log, attempt), line, sync=sync)


def _start_line(start: AttemptStart) -> JsonObject:
    return {"kind": "attempt", "version": FORMAT_VERSION, **asdict(start)}


def _record_line(attempt: int, record: Record) -> JsonObject:
    place = {"kind": "record", "version": FORMAT_VERSION, "attempt": attempt}
    return {**place, **record.to_json()}


def write_records(log: Path, records: Iterable[Record]) -> None:
    """Write the records of a run that one attempt made, all at once, as those of attempt 1."""
    make_directory(log)
    lines = [_start_line(AttemptStart(attempt=1, parent=None, resumed_step=0))]
    lines += [_record_line(1, record) for record in records]
    texts = (json.dumps(line, separators=(",", ":"), allow_nan=False) for line in lines)
    write_text(attempt_file(log, 1), "".join(f"{text}\n" for text in texts))


def attempt_file(log: Path, attempt: int) -> Path:
    """The file of a log that `attempt`, and nobody else, writes."""
    return log / f"{attempt}.jsonl"


def log_files(log: Path) -> dict[int, Path]:
    """Every file of a log, by attempt."""
    numbers = (int(name[:-6]) for name in names(log) if _OWN.fullmatch(name))
    return {number: attempt_file(log, number) for number in sorted(numbers)}


def read_records(log: Path, *, before: float = math.inf) -> RecordFile:
    """Records of the run whose log is `log`, in order of step; an absent log has none.

    `before`: of attempts with lesser numbers, as if there were no other.
    """
    starts: dict[int, AttemptStart] = {}
    lines: dict[tuple[int, int], Record] = {}
    problems: list[str] = []
    for owner, path in log_files(log).items():
        if owner >= before:
            continue
        count = len(lines)
        try:
            for number, line in numbered_lines(path):
                try:
                    read = _read_line(line, owner)
                    if isinstance(read, AttemptStart):
                        starts[owner] = read
                    elif (owner, read.step) in lines:
                        raise ValueError(f"step {read.step} again in attempt {owner}")
                    else:
                        lines[owner, read.step] = read
                except ValueError as error:
                    problems.append(f"{path}:{number}: {error}")
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
        if owner not in starts and len(lines) > count:
            lost = f"its first line, which says where attempt {owner} began, is lost"
            problems.append(f"{path}: {lost}: its records do not count")
    chain = valid_until(starts)
    # The last of the chain began at step 0, or went on from one whose first line is gone.
    first = starts[min(chain)].parent if chain else None
    if first is not None:
        path = attempt_file(log, first)
        problems.append(f"{path}: attempt {min(chain)} goes on from its records, which are lost")
    # A later attempt's lines come later.
    counted = {
        step: record for (attempt, step), record in lines.items() if step <= chain.get(attempt, -1)
    }
    return RecordFile(
        records=tuple(counted[step] for step in sorted(counted)),
        problems=tuple(problems),
        chain=chain,
    )


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
    by_step = {int(line["step"]): line for line in lines_on_chain(metrics, records)}
    return [by_step[step] for step in sorted(by_step)]


def read_warnings(warnings: Path, records: Path) -> list[HealthWarning]:
    """Health warnings that count, in the order they were raised; the chain is the records'."""
    return [
        HealthWarning(**{name: line[name] for name in _WARNING})
        for line in lines_on_chain(warnings, records)
    ]


def lines_on_chain(log: Path, records: Path) -> Iterator[JsonObject]:
    """Lines of `log`, each with `attempt` and `step`, that count by the chain of `records`."""
    files = log_files(log)
    limits = read_records(records).chain if files else {}
    for path in files.values():
        # None of a file that cannot be read.
        with suppress(OSError):
            for _, line in read_lines(path):
                if line is None:
                    continue
                step, attempt = line.get("step"), line.get("attempt")
                if not (isinstance(step, int) and isinstance(attempt, int)):
                    continue
                if step <= limits.get(attempt, -1):
                    yield line


@cache
def _kinds() -> dict[object, TypeAdapter[Any]]:
    return {"record": TypeAdapter(Record), "attempt": TypeAdapter(AttemptStart)}


def _read_line(line: bytes, owner: int) -> Record | AttemptStart:
    """A line of attempt `owner`'s records. Raises ValueError, in words, for what is none."""
    try:
        document = from_json(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ValueError("not a JSON object (a torn line)")
    kind, version, attempt = (document.get(name) for name in ("kind", "version", "attempt"))
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ValueError(f"format version {version!r:.80}, not {FORMAT_VERSION}")
    if not isinstance(kind, str) or kind not in _kinds():
        raise ValueError(f"kind is {kind!r:.80}, neither attempt nor record")
    if type(attempt) is not int or attempt != owner:
        raise ValueError(f"it is of attempt {attempt!r:.80}, in the file of attempt {owner}")
    try:
        read: Record | AttemptStart = _kinds()[kind].validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where, wrong = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{where}: {wrong}" if where else wrong) from None
    return read
