"""The command line: `python -m isosweep [mode=...] [overrides]`, with Hydra's own habits."""

import errno
import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig
from rich.console import Console

from isosweep.config import from_hydra
from isosweep.errors import IsosweepError
from isosweep.sweep import execute

_CONFIG = str(Path(__file__).resolve().parent / "conf")
_statuses: list[int] = []


@hydra.main(version_base="1.3", config_path=_CONFIG, config_name="config")
def _job(composed: DictConfig) -> None:
    """One job. A multirun goes on after failed runs; bad input ends it."""
    try:
        _statuses.append(execute(from_hydra(composed), Console(highlight=False)))
    except IsosweepError as error:
        print(f"isosweep: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except OSError as error:
        # A disk that is full or read-only: what is on it stays, and mode=resume goes on from it.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        print(f"isosweep: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def main() -> None:
    """Entry point; exit status 0, 1 for failed runs, 2 for bad input, 130 after Ctrl-C."""
    _job()
    sys.exit(max(_statuses, default=0))


if __name__ == "__main__":
    main()
