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
from typing import Annotated, Any, Literal, Required

from pydantic import Field, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import core_schema
from typing_extensions import TypedDict

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
        """As it was written. Raises ValueError for what nobody measured."""
        return cls(**_measured(TypeAdapter(_Measured).validate_python(document)))


# Values of fields that a file leaves out.
_NOTHING: tuple[Any, ...] = (None, {}, ())


@dataclass(frozen=True, kw_only=True)
class Record(Evaluation):
    """One held-out evaluation after `step` optimiser updates.

    `unix_time` is when it was taken, and `seconds` what that took, with `sets`, the further sets
    that were evaluated, by name: no part of the budget.
    """

    step: int
    compute: Compute
    unix_time: float
    seconds: float = 0.0
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
    append_line(path, line, sync=True)


def append_record(log: Path, attempt: int, record: Record) -> None:
    """Append and force to the disk. Raises OSError on a full disk; earlier records stay."""
    place = {"kind": "record", "version": FORMAT_VERSION, "attempt": attempt}
    line = {**place, **record.to_json()}
    append_line(attempt_file(log, attempt), line, sync=True)


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
                    _take_line(owner, _read_line(line), starts, lines)
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


def _take_line(
    owner: int,
    document: Any,
    starts: dict[int, AttemptStart],
    lines: dict[tuple[int, int], Record],
) -> None:
    """Add what a line of attempt `owner`'s file says. Raises ValueError for what is not its."""
    attempt = document["attempt"]
    if attempt != owner:
        raise ValueError(f"it is of attempt {attempt}, in the file of attempt {owner}")
    if document["kind"] == "attempt":
        starts[attempt] = _attempt_start(document)
        return
    record = _record(document)
    if (attempt, record.step) in lines:
        raise ValueError(f"step {record.step} again in attempt {attempt}")
    lines[attempt, record.step] = record


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
    append_line(attempt_file(log, attempt), own, sync=False)


def append_warning(log: Path, attempt: int, warning: HealthWarning) -> None:
    """Append a warning of `attempt`, forced to the disk."""
    make_directory(log)
    line = {"attempt": attempt, **asdict(warning)}
    append_line(attempt_file(log, attempt), line, sync=True)


def _on_chain(log: Path, records: Path) -> Iterator[JsonObject]:
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


# Whole numbers that a float holds exactly, amounts whose sums and squares are finite, and times
# that a date can be made of (the year 9999).
_Count = Annotated[int, Field(strict=True, ge=0, le=2**53)]
_Number = Annotated[int, Field(strict=True, ge=1, le=2**53)]
_Amount = Annotated[float, Field(strict=True, ge=0, le=1e100, allow_inf_nan=False)]
_Share = Annotated[float, Field(strict=True, ge=0, le=1)]
_Time = Annotated[float, Field(strict=True, ge=0, le=253_402_300_799)]
_Version = Annotated[int, Field(strict=True, ge=1, le=FORMAT_VERSION)]
# What lines may lack.
_ADDED = frozenset(
    (
        *("scoring_hardware_flops", "training_hardware_flops"),
        *("checkpoint_seconds", "startup_seconds"),
    )
)


def _spent(*_: Any) -> core_schema.CoreSchema:
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
    return core_schema.typed_dict_schema(known, extra_behavior="forbid")


class _Measured(TypedDict, total=False):
    """An `Evaluation` as a file has it."""

    successes: list[Annotated[int, Field(strict=True)]]
    samples_per_problem: _Number
    completion_tokens: _Amount | None
    scores: dict[str, list[_Share]]
    mean_reward: _Share | None
    standard_error: _Amount | None


class _RecordLine(_Measured, total=False):
    """A `Record` as its line has it."""

    kind: Required[Literal["record"]]
    version: Required[_Version]
    attempt: Required[_Number]
    step: Required[_Count]
    compute: Required[Annotated[JsonObject, GetPydanticSchema(_spent)]]
    unix_time: Required[_Time]
    seconds: _Amount
    sets: dict[str, _Measured]


class _AttemptLine(TypedDict):
    """An `AttemptStart` as its line has it."""

    kind: Literal["attempt"]
    version: _Version
    attempt: _Number
    parent: _Number | None
    resumed_step: _Count


@cache
def _lines() -> TypeAdapter[_RecordLine | _AttemptLine]:
    return TypeAdapter(Annotated[_RecordLine | _AttemptLine, Field(discriminator="kind")])


def _read_line(line: bytes) -> Any:
    """A line of a log of records. Raises ValueError, in words, for what is none."""
    try:
        return _lines().validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid" or (first["type"], first["loc"]) == ("dict_type", ()):
        raise ValueError("not a JSON object (a torn line)")
    where = ".".join(map(str, first["loc"][1:])) or "kind"
    if first["type"] == "missing":
        raise ValueError(f"{where} is missing")
    if where == "version":
        raise ValueError(f"format version {first['input']!r}, not {FORMAT_VERSION}")
    raise ValueError(f"{where} is {first['input']!r:.80}: {first['msg']}")


def _attempt_start(line: _AttemptLine) -> AttemptStart:
    """Raises ValueError for an attempt that goes on from a later one."""
    start = AttemptStart(
        attempt=line["attempt"], parent=line["parent"], resumed_step=line["resumed_step"]
    )
    if start.parent is not None and start.parent >= start.attempt:
        # The chain would lead back to where it came from, and never end.
        raise ValueError(f"attempt {start.attempt} goes on from {start.parent}, a later one")
    return start


def _record(line: _RecordLine) -> Record:
    """Raises ValueError for what cannot have been measured."""
    spent = line["compute"]
    return Record(
        **_measured(line),
        step=line["step"],
        compute=Compute(**spent),
        unix_time=line["unix_time"],
        seconds=line.get("seconds", 0.0),
        sets={name: Evaluation(**_measured(own)) for name, own in line.get("sets", {}).items()},
    )


def _measured(line: _Measured) -> dict[str, Any]:
    """Fields of an `Evaluation`. Raises ValueError for what cannot have been measured."""
    samples, mean = line.get("samples_per_problem", 1), line.get("mean_reward")
    successes = tuple(line.get("successes", ()))
    counted = "successes" in line or mean is None
    if counted and not (successes and min(successes) >= 0 and max(successes) <= samples):
        raise ValueError(f"successes must be whole numbers from 0 to {samples}")
    scores = {name: tuple(own) for name, own in line.get("scores", {}).items()}
    for name, own in scores.items():
        if len(own) != len(successes):
            raise ValueError(f"scores.{name} must be a number from 0 to 1 for every problem")
    return {
        "successes": successes,
        "samples_per_problem": samples,
        "scores": scores,
        "mean_reward": mean,
        "standard_error": line.get("standard_error"),
        "completion_tokens": line.get("completion_tokens"),
    }
