"""What the jobs of a run have printed: which files, and how they end."""

import os
from pathlib import Path

from isosweep.store.claims import highest
from isosweep.store.paths import RunPaths

# Bytes that a line of a log is taken to have at most, on average, when its end is looked for.
_BYTES_A_LINE = 400


def log_files(run: RunPaths) -> list[Path]:
    """The logs of the run's newest submission that hold anything, by name: `.err` before `.out`.

    Sweeps of before have them by attempt.
    """
    directory = run.submission_logs(highest(run.logs))
    try:
        with os.scandir(directory) as entries:
            files = [
                Path(entry.path)
                for entry in entries
                if entry.is_file() and entry.name.endswith((".out", ".err"))
            ]
    except OSError:
        return []
    return sorted(path for path in files if path.stat().st_size)


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines of a file, read from its end."""
    size = path.stat().st_size
    wanted = count * _BYTES_A_LINE
    with path.open("rb") as file:
        while True:
            file.seek(max(0, size - wanted))
            lines = file.read().decode(errors="replace").splitlines()
            if wanted >= size:
                return lines[-count:]
            if len(lines) > count:
                return lines[-count:]
            wanted *= 4


def log_tail(run: RunPaths, count: int) -> list[str]:
    """The last `count` lines of what the run's newest submission wrote to its error output, or
    printed where that is empty; none where it wrote nothing."""
    files = log_files(run)
    chosen = next((path for path in files if path.suffix == ".err"), files[0] if files else None)
    # Bars that are drawn over one another leave empty lines.
    lines = last_lines(chosen, 2 * count) if chosen else []
    return [line for line in lines if line.strip()][-count:]
