"""What the jobs of a run have printed, and how that ends."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from isosweep.files import highest_of, names
from isosweep.store.paths import RunPaths, rank_of_log

# Bytes that a line of a log is taken to have at most, on average, when its end is looked for.
_BYTES_A_LINE = 400
# Bars of transformers and datasets about files, which say nothing of a run.
_LOADED = re.compile(
    r"((Loading|Writing) (weights|checkpoint shards|model shards)|Map|Generating \w+ split).*\d+%\|"
)


def log_ends(run: RunPaths, count: int) -> dict[Path, list[str]]:
    """The last `count` lines of each log of the run's newest attempt, by path."""
    return {path: last_lines(path, count) for path in log_files(run)}


def log_files(run: RunPaths) -> list[Path]:
    """The logs of the run's newest attempt that hold anything, by rank and name: `.err` before
    `.out`."""
    directory = run.attempt_logs(highest_of(names(run.logs)))
    try:
        with os.scandir(directory) as entries:
            files = [
                Path(entry.path)
                for entry in entries
                if entry.is_file() and entry.name.endswith((".out", ".err"))
            ]
    except OSError:
        return []
    return sorted((path for path in files if path.stat().st_size), key=_by_rank)


def _by_rank(path: Path) -> tuple[int, str]:
    return rank_of_log(path), path.name


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines of a file, read from its end; of progress bars, which are drawn over
    one another, each in its last state, and none of those about files of models and data."""
    size = path.stat().st_size
    wanted = count * _BYTES_A_LINE
    with path.open("rb") as file:
        while True:
            file.seek(max(0, size - wanted))
            lines = list(_written(file.read().decode(errors="replace")))
            if wanted >= size:
                return lines[-count:]
            if len(lines) > count:
                return lines[-count:]
            wanted *= 4


def _written(text: str) -> Iterator[str]:
    """The lines that a terminal would show of `text` in the end."""
    for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        shown = states[-1] if states else line.rpartition("\r")[2]
        # tqdm writes every state that it draws: a bar at 100% says nothing more.
        if not _LOADED.match(shown):
            yield shown


def log_tail(run: RunPaths, count: int) -> list[str]:
    """The last `count` lines of what the run's newest attempt wrote to its error output, or
    printed where that is empty; none where it wrote nothing. Its ranks share them evenly."""
    files = log_files(run)
    errors = [path for path in files if path.suffix == ".err"] or files
    first = {rank_of_log(path): path for path in reversed(errors)}
    if not any(first):
        return _tail(first[0], count) if first else []
    each = max(1, count // len(first))
    return [f"rank {n}: {line}" for n, path in sorted(first.items()) for line in _tail(path, each)]


def _tail(path: Path, count: int) -> list[str]:
    # Bars that are drawn over one another leave empty lines.
    return [line for line in last_lines(path, 2 * count) if line.strip()][-count:]
