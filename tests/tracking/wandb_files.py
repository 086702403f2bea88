"""What a .wandb file says: W&B's records in the log format of LevelDB, read by the format alone.

wandb 0.31 reads it in its service, which hands records to a server and to nobody else.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK, _HEADER = 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass
class WandbRun:
    """A run as `wandb sync` would send it; `rows` as they were logged, in that order."""

    key: str = ""
    name: str = ""
    group: str = ""
    notes: str = ""
    job_type: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    axes: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    exit_code: int | None = None

    def points(self, metric: str) -> list[tuple[int, float]]:
        return [(row["_step"], row[metric]) for row in self.rows if metric in row]


def read_run(path: Path) -> WandbRun:
    from wandb.proto import wandb_internal_pb2

    run = WandbRun()
    for content in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        _add(run, record)
    return run


def _add(run: WandbRun, record: Any) -> None:
    match record.WhichOneof("record_type"):
        case "run":
            said = record.run
            run.key, run.name, run.group = said.run_id, said.display_name, said.run_group
            run.job_type, run.notes = said.job_type, said.notes or run.notes
            run.config |= _values(said.config.update)
        case "config":
            run.config |= _values(record.config.update)
        case "history":
            run.rows.append(_values(record.history.item))
        case "summary":
            run.summary |= _values(record.summary.update)
        case "metric":
            said = record.metric
            run.axes[said.glob_name or said.name] = said.step_metric
        case "files":
            run.files += [each.path for each in record.files.files]
        case "exit":
            run.exit_code = record.exit.exit_code


def _values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(content: bytes) -> Iterator[bytes]:
    """Every record that is whole: the service may be in the middle of the next one."""
    # W&B's own header, of as many bytes as one of the records.
    assert content[:4] in (b":W&B", b"")
    at, parts = _HEADER, b""
    while at + _HEADER <= len(content):
        if _BLOCK - at % _BLOCK < _HEADER:
            at += _BLOCK - at % _BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        part = content[at + _HEADER : at + _HEADER + length]
        if len(part) < length:
            return
        parts += part
        at += _HEADER + length
        if kind in (_FULL, _LAST):
            yield parts
            parts = b""
