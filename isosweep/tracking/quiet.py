"""The store's libraries kept out of the terminal: what is wrong is told in one line instead."""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# What a call of the store goes through; all of it reports at length what it then also raises.
LIBRARIES = ("mlflow", "alembic", "sqlalchemy", "urllib3")


class _OfThisThread(logging.Filter):
    """Keeps back what LIBRARIES log in the thread that made it, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        library = record.name.partition(".")[0]
        return record.thread != self._thread or library not in LIBRARIES


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing that this thread logs through LIBRARIES reaches a handler; others' lines do.

    Their warnings are ignored from then on in the whole process: filters know no threads. urllib3
    serves other libraries too, and keeps its own.
    """
    for library in LIBRARIES[:3]:
        warnings.filterwarnings("ignore", module=rf"{library}\b")
    kept = _OfThisThread()
    handlers = {handler for name in (None, *_loggers()) for handler in _handlers(name)}
    for handler in handlers:
        handler.addFilter(kept)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(kept)


def _loggers() -> list[str]:
    known = list(logging.root.manager.loggerDict)
    return [name for name in known if name.partition(".")[0] in LIBRARIES]


def _handlers(name: str | None) -> list[logging.Handler]:
    own = list(logging.getLogger(name).handlers)
    last = logging.lastResort
    return [*own, last] if name is None and last is not None else own
