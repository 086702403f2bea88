"""Rows of a task's data: a JSON lines or Parquet file, or a Hugging Face dataset."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isosweep.config.data_files import UNREADABLE, file_sha256
from isosweep.config.task import MathConfig
from isosweep.errors import SettingError


def require_unchanged(config: MathConfig) -> None:
    """Raise SettingError if the file is not the one that `data_sha256` was taken of."""
    if config.path is None or config.data_sha256 is None:
        return
    now = file_sha256(config.path)
    if now != config.data_sha256:
        rule = (
            f"has changed: its sha256 is {now[:12]}..., and what was planned is "
            f"{config.data_sha256[:12]}..."
        )
        nearest = "put the old file back, or plan anew with mode=plan and another sweep_dir"
        raise SettingError("task.math.path", config.path, rule, nearest)


def read_rows(config: MathConfig) -> Iterator[tuple[int, dict[str, Any]]]:
    """Row numbers, from 1, and rows. Raises SettingError for what cannot be read."""
    if config.path is None:
        yield from enumerate(_dataset(config), start=1)
        return
    require_unchanged(config)
    if config.path.endswith(".parquet"):
        yield from enumerate(_parquet(config.path), start=1)
    else:
        yield from _json_lines(config.path)


def _json_lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("not a JSON object")
            except ValueError as error:
                rule = f"row {number} cannot be read: {error}"
                raise SettingError("task.math.path", path, rule, UNREADABLE) from None
            yield number, row


def _parquet(path: str) -> Iterator[dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        rule = f"is no Parquet file that can be read: {str(error).splitlines()[0]}"
        raise SettingError("task.math.path", path, rule, UNREADABLE) from None


def _dataset(config: MathConfig) -> Iterator[dict[str, Any]]:
    import datasets

    try:
        rows = datasets.load_dataset(
            config.dataset, config.subset, split=config.split, revision=config.revision
        )
    # The library raises its own kinds of error and others' (HTTP, file system, values).
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        rule = f"datasets cannot load split {config.split!r} of subset {config.subset}: {lines[0]}"
        raise SettingError("task.math.dataset", config.dataset, rule, other_data(config)) from None
    yield from rows


def is_cached(config: MathConfig) -> bool:
    """Whether the dataset was loaded on this machine before, and so can be without a network."""
    import datasets
    from datasets.naming import camelcase_to_snakecase

    if config.dataset is None or Path(config.dataset).exists():
        return True
    *owner, name = config.dataset.split("/")
    # As `CachedDatasetModuleFactory` in datasets/load.py looks for it.
    folder = "___".join([*owner, camelcase_to_snakecase(name)])
    return any(Path(datasets.config.HF_DATASETS_CACHE).expanduser().glob(f"{folder}/*/*/*"))


def other_data(config: MathConfig) -> str:
    """What to do where the dataset cannot be loaded."""
    named = ", ".join(map(repr, filter(None, (config.dataset, config.subset))))
    return (
        f"""load it into the local cache once with a network, python -c "import datasets; """
        f"""datasets.load_dataset({named})"; or give problems of your own, """
        "task.math.dataset=null task.math.path=FILE.jsonl (columns: docs/tasks.md); or generated "
        "ones, task=reasoning_gym"
    )
