"""Problems of a task's rows: a JSON lines or Parquet file, or a Hugging Face dataset.

JSON is read here and not by `datasets`, which guesses types ("007" becomes 7), takes a list of
numbers for rows, and names no row that is wrong.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from isosweep.config.task import RowsConfig, TaskConfig, file_sha256
from isosweep.errors import SettingError
from isosweep.tasks.problem import Problem, content_id, distinct, normalised, shuffled

# Row numbers named in a message.
_NAMED_ROWS = 8

Row = dict[str, Any]


def usable_problems(
    task: TaskConfig,
    config: RowsConfig,
    wanted: int,
    rows: Iterable[tuple[int, Problem]],
    check: Callable[[Sequence[Problem]], Iterable[Problem | str]],
    skip: str,
) -> list[Problem]:
    """`wanted` distinct problems of `rows`, chosen by the hash of their text; all where there are
    fewer.

    `check`: of each problem what it is used as, or why it cannot be. `skip`: the setting that
    leaves such rows out. Raises SettingError, with their numbers, where it does not.
    """
    numbered = list(rows)
    # Of problems that are there twice the first is kept.
    numbers = {problem.problem_id: number for number, problem in reversed(numbered)}
    left = shuffled(distinct(problem for _, problem in numbered), task.data_seed)
    chosen, unusable = list[Problem](), dict[int, str]()
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
        raise refused(config, skip, rule, f"{config.group}.{skip}=true, which leaves them out")
    return chosen


def read_problems(
    config: RowsConfig, columns: Sequence[str], answer: Callable[[int, Row], str]
) -> Iterator[tuple[int, Problem]]:
    """Row numbers, from 1, and the problems of the rows, with what `answer` says of each.

    `columns`: settings of columns that the kind of task needs besides. Raises SettingError for what
    cannot be read, a missing column, and a row without text.
    """
    kind = config.group.removeprefix("task.")
    for number, row in _read_rows(config):
        for name in ("problem_column", *columns, "id_column", "level_column"):
            column = getattr(config, name)
            if column is not None and column_value(row, column) is MISSING:
                rule = f"row {number} of {source(config)} has only {', '.join(row)}"
                raise refused(config, name, rule)
        prompt, level = text(config, number, row, "problem_column"), None
        problem_id = content_id(kind, prompt)
        if config.id_column is not None:
            problem_id = text(config, number, row, "id_column")
        if config.level_column is not None:
            # "Level 5" is 5.
            digits = re.search(r"-?\d+(?:\.\d+)?", str(column_value(row, config.level_column)))
            level = float(digits[0]) if digits else None
        found = answer(number, row)
        yield number, Problem(problem_id=problem_id, level=level, prompt=prompt, answer=found)


# What no row holds: null is a value.
MISSING = object()


def column_value(row: Row, column: str) -> Any:
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


def text(config: RowsConfig, number: int, row: Row, name: str) -> str:
    """What a row has in the column that the setting `name` names. Raises SettingError where that is
    no text, or no column."""
    column = getattr(config, name)
    if column is None:
        rule = "null is told from the first row by task.math alone; here it names a column"
        raise refused(config, name, rule)
    value = column_value(row, column)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        if normalised(text):
            return text
    rule = f"row {number} of {source(config)} has {value!r} in that column, which is no text"
    nearest = f"{config.group}.{name}=COLUMN of text, or a file without that row"
    raise refused(config, name, rule, nearest)


def refused(config: RowsConfig, name: str, rule: str, nearest: str = "") -> SettingError:
    """The error of the group's setting `name`."""
    return SettingError(f"{config.group}.{name}", getattr(config, name), rule, nearest)


def source(config: RowsConfig) -> str:
    """Where the rows come from, as it is named in messages."""
    if config.path is not None:
        return config.path
    return ":".join(part for part in (config.dataset, config.subset, config.split) if part)


def first_row(config: RowsConfig) -> Row:
    """The first row. Raises SettingError for what cannot be read, or has none."""
    for _, row in _read_rows(config):
        return row
    raise refused(config, "path", "has no rows")


def _read_rows(config: RowsConfig) -> Iterator[tuple[int, Row]]:
    """Row numbers, from 1, and rows. Raises SettingError for what cannot be read, and for a file
    that is not the one that `data_sha256` was taken of."""
    path = config.path
    if path is not None and config.data_sha256 is not None:
        now = file_sha256(f"{config.group}.path", path)
        if now != config.data_sha256:
            rule = (
                f"has changed: its sha256 is {now[:12]}..., and what was planned is "
                f"{config.data_sha256[:12]}..."
            )
            nearest = "put the old file back, or plan anew with mode=plan and another sweep_dir"
            raise refused(config, "path", rule, nearest)
    if path is None or path.endswith(".parquet"):
        return enumerate(_dataset(config), start=1)
    return _json(config, path)


def _json(config: RowsConfig, path: str) -> Iterator[tuple[int, Row]]:
    """Rows of a JSON list, or of one JSON object a line, whatever the file is called."""
    with Path(path).open("rb") as file:
        listed = file.read(1 << 10).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
        file.seek(0)
        for number, line in enumerate([file.read()] if listed else file, start=1):
            if not line.strip():
                continue
            try:
                read = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                at = line.count(b"\n", 0, error.start) + number
                rule = f"{'line' if listed else 'row'} {at} is not UTF-8"
                raise refused(config, "path", rule, "the same file saved as UTF-8") from None
            except ValueError as error:
                rule = f"{'the list' if listed else f'row {number}'} cannot be read: {error}"
                raise refused(config, "path", rule) from None
            for at, row in enumerate(read if listed else [read], start=number):
                if not isinstance(row, dict):
                    raise refused(config, "path", f"row {at} is not a JSON object")
                try:
                    # The escape \ud835 makes text that no file and no tokenizer takes.
                    json.dumps(row, ensure_ascii=False).encode()
                except UnicodeEncodeError:
                    rule = f"row {at} has half of a character (a lone surrogate)"
                    raise refused(config, "path", rule, "a file without that row") from None
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
            raise refused(config, "path", rule) from None
        rule = f"datasets cannot load split {split!r} of subset {subset}: {why}"
        named = ", ".join(map(repr, filter(None, (name, subset))))
        nearest = (
            f"""load it into the local cache once with a network, python -c "import datasets; """
            f"""datasets.load_dataset({named})"; or give problems of your own, """
            f"{config.group}.dataset=null {config.group}.path=FILE.jsonl (docs/tasks.md); or "
            "generated ones, task=reasoning_gym"
        )
        raise refused(config, "dataset", rule, nearest) from None
