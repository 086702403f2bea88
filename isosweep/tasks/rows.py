"""Problems of a task's rows: a JSON lines or Parquet file, or a Hugging Face dataset."""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from isosweep.config.data_files import file_sha256
from isosweep.config.rows import RowsConfig
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.problem import (
    Distinct,
    Pool,
    Problem,
    content_id,
    has_half_character,
    in_template,
    normalised,
    shuffled,
)

# Row numbers named in a message.
_NAMED_ROWS = 8

Row = dict[str, Any]


def usable_pool(
    task: TaskConfig,
    config: RowsConfig,
    wanted: int,
    rows: Iterable[tuple[int, Problem]],
    check: Callable[[Sequence[Problem]], Iterable[Problem | str]],
    skip: str,
) -> Pool:
    """`wanted` distinct problems of `rows`, chosen by the hash of their text; all where there are
    fewer.

    `check`: of each problem what it is used as, or why it cannot be. `skip`: the setting that
    leaves such rows out. Raises SettingError, with their numbers, where it does not.
    """
    distinct, numbers, known = Distinct(), dict[str, int](), list[Problem]()
    for number, problem in rows:
        if distinct.take(problem):
            known.append(problem)
            numbers[problem.problem_id] = number
    left, chosen, unusable = shuffled(known, task.data_seed), list[Problem](), dict[int, str]()
    while left and (lacking := wanted - len(chosen)):
        batch, left = left[:lacking], left[lacking:]
        for problem, found in zip(batch, check(batch), strict=True):
            if isinstance(found, Problem):
                chosen.append(found)
            else:
                unusable[numbers[problem.problem_id]] = found
    if unusable and not getattr(config, skip):
        bad = sorted(unusable)
        named = ", ".join(map(str, bad[:_NAMED_ROWS])) + ", ..." * (len(bad) > _NAMED_ROWS)
        rule = (
            f"{len(bad)} of {len(chosen) + len(bad)} rows cannot be used: rows {named} of "
            f"{source(config)}; row {bad[0]} {unusable[bad[0]]}"
        )
        nearest = f"{config.group}.{skip}=true, which leaves them out"
        raise SettingError(f"{config.group}.{skip}", False, rule, nearest)
    left_out = f", {len(unusable)} unusable rows" if unusable else ""
    return Pool(
        problems=tuple(in_template(problem, task.template) for problem in chosen),
        source=source(config) + left_out,
        dropped=distinct.dropped,
    )


def read_problems(
    config: RowsConfig, columns: Mapping[str, str | None], answer: Callable[[int, Row], str]
) -> Iterator[tuple[int, Problem]]:
    """Row numbers, from 1, and the problems of the rows, with what `answer` says of each.

    `columns`: those that the kind of task needs besides, by setting. Raises SettingError for what
    cannot be read, a missing column, and a row without text.
    """
    kind = config.group.removeprefix("task.")
    columns = {
        "problem_column": config.problem_column,
        **columns,
        "id_column": config.id_column,
        "level_column": config.level_column,
    }
    for number, row in _read_rows(config):
        for name, column in columns.items():
            if column is not None and held(row, column) is MISSING:
                rule = f"row {number} of {source(config)} has only {', '.join(row)}"
                raise SettingError(f"{config.group}.{name}", column, rule)
        prompt = text(config, number, row, "problem_column", config.problem_column)
        if config.id_column is None:
            problem_id = content_id(kind, prompt)
        else:
            problem_id = text(config, number, row, "id_column", config.id_column)
        level = None if config.level_column is None else _number(held(row, config.level_column))
        problem = Problem(
            problem_id=problem_id, level=level, prompt=prompt, answer=answer(number, row)
        )
        yield number, problem


# What no row holds: null is a value.
MISSING = object()


def held(row: Row, column: str) -> Any:
    """What a row has in a column, in which dots lead further: reward_model.ground_truth. Of a
    conversation the texts of its messages. MISSING where there is none."""
    value: Any = row
    for name in [column] if column in row else column.split("."):
        value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
    if isinstance(value, list) and value and all(isinstance(m, dict) for m in value):
        contents = [message.get("content") for message in value]
        if all(isinstance(content, str) for content in contents):
            return "\n\n".join(contents)
    return value


def text(config: RowsConfig, number: int, row: Row, name: str, column: str | None) -> str:
    """What a row has in a column. Raises SettingError where that is no text, or no column."""
    if column is None:
        rule = "null is told from the first row by task.math alone; here it names a column"
        raise SettingError(f"{config.group}.{name}", column, rule)
    value = held(row, column)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        if normalised(text):
            return text
    rule = f"row {number} of {source(config)} has {value!r} in that column, which is no text"
    nearest = f"{config.group}.{name}=COLUMN of text, or a file without that row"
    raise SettingError(f"{config.group}.{name}", column, rule, nearest)


def source(config: RowsConfig) -> str:
    """Where the rows come from, as it is named in messages."""
    if config.path is not None:
        return config.path
    return ":".join(part for part in (config.dataset, config.subset, config.split) if part)


def _number(value: Any) -> float | None:
    """The first number in `value` ("Level 5": 5), if it has any."""
    number = re.search(r"-?\d+(?:\.\d+)?", str(value))
    return float(number[0]) if number else None


def _read_rows(config: RowsConfig) -> Iterator[tuple[int, Row]]:
    """Row numbers, from 1, and rows. Raises SettingError for what cannot be read, and for a file
    that is not the one that `data_sha256` was taken of."""
    path, setting = config.path, f"{config.group}.path"
    if path is not None and config.data_sha256 is not None:
        now = file_sha256(setting, path)
        if now != config.data_sha256:
            rule = (
                f"has changed: its sha256 is {now[:12]}..., and what was planned is "
                f"{config.data_sha256[:12]}..."
            )
            nearest = "put the old file back, or plan anew with mode=plan and another sweep_dir"
            raise SettingError(setting, path, rule, nearest)
    if path is None or path.endswith(".parquet"):
        return enumerate(_dataset(config), start=1)
    return _json(setting, path)


def first_row(config: RowsConfig) -> Row:
    """The first row. Raises SettingError for what cannot be read, or has none."""
    for _, row in _read_rows(config):
        return row
    raise SettingError(f"{config.group}.path", source(config), "has no rows")


def _json(setting: str, path: str) -> Iterator[tuple[int, Row]]:
    """Rows of a JSON list, or of one JSON object a line, whatever the file is called."""
    with Path(path).open("rb") as file:
        listed = file.read(1 << 10).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
        file.seek(0)
        for number, text in enumerate([file.read()] if listed else file, start=1):
            if not text.strip():
                continue
            try:
                read = json.loads(text.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                line = text.count(b"\n", 0, error.start) + number
                rule = f"{'line' if listed else 'row'} {line} is not UTF-8"
                raise SettingError(setting, path, rule, "the same file saved as UTF-8") from None
            except ValueError as error:
                rule = f"{'the list' if listed else f'row {number}'} cannot be read: {error}"
                raise SettingError(setting, path, rule) from None
            for at, row in enumerate(read if listed else [read], start=number):
                if not isinstance(row, dict):
                    raise SettingError(setting, path, f"row {at} is not a JSON object")
                if has_half_character(json.dumps(row, ensure_ascii=False)):
                    rule = f"row {at} has half of a character (a lone surrogate)"
                    raise SettingError(setting, path, rule, "a file without that row")
                yield at, row


def _dataset(config: RowsConfig) -> Iterator[Row]:
    """Rows of a dataset or of a Parquet file, of which no copy is made."""
    import datasets

    name, subset, split = config.dataset, config.subset, config.split
    try:
        if config.path is None:
            rows = datasets.load_dataset(name, subset, split=split, revision=config.revision)
        else:
            own = {"data_files": config.path, "split": "train", "streaming": True}
            rows = datasets.load_dataset("parquet", **own)
        yield from rows
    # The library raises its own kinds of error and others' (HTTP, file system, values).
    except Exception as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        if config.path is not None:
            rule = f"is no Parquet file that can be read: {why}"
            raise SettingError(f"{config.group}.path", config.path, rule) from None
        rule = f"datasets cannot load split {split!r} of subset {subset}: {why}"
        raise SettingError(f"{config.group}.dataset", name, rule, other_data(config)) from None


def other_data(config: RowsConfig) -> str:
    """What to do where the dataset cannot be loaded."""
    named = ", ".join(map(repr, filter(None, (config.dataset, config.subset))))
    return (
        f"""load it into the local cache once with a network, python -c "import datasets; """
        f"""datasets.load_dataset({named})"; or give problems of your own, """
        f"{config.group}.dataset=null {config.group}.path=FILE.jsonl (docs/tasks.md); or "
        "generated ones, task=reasoning_gym"
    )
