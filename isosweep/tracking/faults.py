"""What is wrong with a tracking store: in plain words, without anything secret, on one line.

The store's libraries are kept out of the terminal meanwhile.
"""

import logging
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

# Longest text of a library that a line of the terminal carries.
MAX_WORDS = 160
# Settings of MLflow and W&B that hold secrets.
SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "WANDB_API_KEY")
# What a call of the store goes through; all of it reports at length what it then also raises.
LIBRARIES = ("mlflow", "alembic", "sqlalchemy", "urllib3")

# What SQLite, PostgreSQL, requests and MLflow say, and what it comes to; the first that fits.
_WORDS = (
    (r"No module named '(?P<what>mlflow|wandb|psycopg2?)\b", "{what} is not installed here"),
    (r"database is locked|file lock .* could not be acquired", "it is locked by another process"),
    (
        r"readonly database|Read-only file system|read-only transaction",
        "it cannot be written, it is read-only",
    ),
    (r"disk is full|No space left|[Qq]uota exceeded", "its disk is full"),
    (
        r"unable to open database file|Permission denied",
        "it cannot be opened: its directory is missing, or closed to this user",
    ),
    (
        r"no such table|malformed|not a database|Can't locate revision",
        "it is damaged, or not MLflow's; once it is moved away a new one is made",
    ),
    (
        r"too many (?P<what>5\d\d) error|error code (?P<code>5\d\d)|\b(?P<last>50[0-4]) Server",
        "it answers with an error (HTTP {what}{code}{last})",
    ),
    (
        r"no password supplied|password authentication failed|Access denied for user",
        "it asks for a password, or for another: see PGPASSWORD, or type tracking.uri with it",
    ),
    (r"error code 40[13]|Unauthorized|Forbidden", "it refuses access: see MLFLOW_TRACKING_TOKEN"),
    (r"[Tt]imed? ?out|[Tt]imeout", "it does not answer in time"),
    (
        r"Connection refused|Name or service not known|Failed to resolve|No route to host|"
        r"[Cc]onnection reset|RemoteDisconnected|[Cc]onnection aborted|[Cc]onnection broken|"
        r"closed the connection|shutting down|starting up|terminating connection",
        "it does not answer ({0})",
    ),
)


class StoreError(Exception):
    """A store that cannot be used; the text names it, and says what is wrong with it."""


def store_name(uri: str) -> str:
    """`uri` without a user, a password or options, which may be secret."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else uri


def described(error: BaseException, uri: str) -> str:
    """What `error` of the store at `uri` comes to, on one line."""
    text = "\n".join(_chain(error))
    for pattern, words in _WORDS:
        if match := re.search(pattern, text):
            groups = {name: value or "" for name, value in match.groupdict().items()}
            return words.format(match[0], **groups)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return _without_secrets(said, uri)[:MAX_WORDS]


def _chain(error: BaseException) -> list[str]:
    texts, seen = [], set[int]()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        texts.append(str(current))
        current = current.__cause__ or current.__context__
    return texts


def _without_secrets(text: str, uri: str) -> str:
    parts = urlsplit(uri)
    text = text.replace(uri, store_name(uri))
    for secret in (parts.password, parts.query, *(os.environ.get(name) for name in SECRETS)):
        if secret:
            text = text.replace(secret, "***")
    return text


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
