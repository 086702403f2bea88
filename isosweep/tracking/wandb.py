"""A view of a sweep in a project of W&B: a run for the sweep and one for each of its runs.

What W&B makes here is a directory for each run, in the sweep's own: sent while it is made, or,
where there is no network, later by `wandb sync`. A server adds the rows of every directory to those
that it has. Hence what was not sent is removed and made anew, with all that the run's files say,
and what was sent is gone on from: a note in each directory says how far its rows go.
"""

import hashlib
import math
import netrc
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock
from PIL import Image

from isosweep.config.tracking import TrackingConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError
from isosweep.files import open_plain, read_json, write_bytes, write_json
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths
from isosweep.tracking.backend import StoredRun, StoredRuns
from isosweep.tracking.faults import StoreError, described, store_name
from isosweep.tracking.news import News
from isosweep.tracking.overview import Overview
from isosweep.tracking.points import Point
from isosweep.tracking.tags import sweep_name
from isosweep.tracking.view import COMPUTE

# What W&B calls its directory of runs, and where it then has everything else.
FOLDER = "wandb"
# Of a directory of a run: the last step of its rows.
_NOTE = "isosweep.json"
# W&B's own servers, of which it takes one where neither the setting nor WANDB_BASE_URL does: by
# these names `wandb login` writes a key into ~/.netrc (wandb.sdk.lib.urls).
_OWN_HOSTS = ("api.wandb.ai", "api.forge.coreweave.com", "forge.coreweave.com")
# As a process that ended so: W&B shows 255 as killed, every other but 0 as failed.
_EXIT = {"FAILED": 1, "KILLED": 255}
# Series of points that are rows of a run's history; n, B and T are numbers of its config.
_ROWS = ("heldout", "train")
# Seconds for a server to answer, which together are less than `background.JOIN_S`.
_ANSWER_S = 25.0


class WandbBackend:
    """The project of `config`, with the sweep's runs, made in its directory."""

    def __init__(self, config: TrackingConfig, paths: SweepPaths, plan: Plan) -> None:
        self._config = config
        self._root = paths.root
        self._sweep = sweep_name(paths, plan)
        self._compute = COMPUTE[plan.budget_unit]
        self._offline = is_offline(config)
        self.name = str(self._folder) if self._offline else store_name(_server(config) or "W&B")
        self._lock = FileLock(self._folder / "isosweep.lock", timeout=0)
        self._place: tuple[int, int] | None = None
        self._opened: list[StoredRun] = []
        self._address: str | None = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """As `Backend`; a key is sent to no address that somebody else may have said."""
        try:
            require_own({"tracking.uri": self._config.uri})
        except SettingError as error:
            raise StoreError(str(error)) from None
        # What it keeps of its own would lie in the user's home.
        for variable, folder in (("CACHE", "cache"), ("DATA", "data"), ("ARTIFACT", "artifacts")):
            os.environ.setdefault(f"WANDB_{variable}_DIR", str(self._folder / folder))
        os.environ.setdefault("WANDB_SILENT", "true")
        try:
            yield
        except Exception as error:
            raise StoreError(f"{self.name}: {described(error, self.name)}") from error

    def open(self, known: StoredRuns | None) -> StoredRuns | None:
        """As `Backend`: at first, after a fault, and where the directory is another, none. One
        process of a sweep has it open."""
        if known is not None and self._place == self._identity():
            return None
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        self._place = self._identity()
        return {}

    def emptied(self, error: BaseException) -> bool:
        """As `Backend`: a run that is not at the server is made there."""
        return False

    def create(
        self, run_id: str | None, name: str, tags: dict[str, str], begun: float | None
    ) -> StoredRun:
        """As `Backend`: one that the server has goes on there; `tags` are params too."""
        import wandb

        key = hashlib.sha256(f"{self._sweep}:{run_id or ''}".encode()).hexdigest()[:16]
        last = self._last_sent(key)
        handle = wandb.init(
            entity=self._config.entity,
            project=self._config.experiment,
            dir=self._root,
            id=key,
            name=name,
            group=self._sweep,
            job_type="run" if run_id else "sweep",
            config={"run_id": run_id} if run_id else {},
            mode="offline" if self._offline else "online",
            resume="allow",
            reinit="create_new",
            settings=_settings(self._config),
        )
        for metric in ("heldout/*", "sets/*") if run_id else ():
            handle.define_metric(metric, step_metric=self._compute)
        # The server of one that goes on takes no row before its last.
        last = handle.step - 1 if handle.resumed else last
        run = StoredRun(key=key, handle=handle)
        self._note(run, last)
        if run_id is None:
            self._address = None if self._offline else handle.url
        self._opened.append(run)
        return run

    def write(self, run: StoredRun, news: News) -> None:
        """As `Backend`; of the runs those stay open that more is expected of."""
        if news.params:
            run.handle.config.update(dict(news.params))
        status = news.status or run.status
        rows = [point for point in news.points if point.series in _ROWS]
        # A row is taken once: it is complete once the record of its step, or a later one, is there.
        records = [point.step for point in rows if point.series == "heldout"]
        last = math.inf if news.complete else max(records, default=-1)
        rows = [point for point in _merged(rows) if point.step <= last]
        if rows:
            self._note(run, rows[-1].step)
        for point in rows:
            values = point.values | {"_timestamp": point.unix_time}
            run.handle.log(values, step=point.step)
        for point in news.points:
            if not point.series:
                run.handle.summary.update(point.values)
        if news.tags:
            run.handle.summary.update(dict(news.tags))
        if run.handle.job_type == "run" and status != "RUNNING":
            self._end(run, status)

    def tags(self, overview: Overview, run_id: str | None, run: StoredRun) -> dict[str, str]:
        """As `Backend`."""
        return dict(overview.tags.get(run_id, {}))

    def put(self, run: StoredRun, overview: Overview, files: Sequence[tuple[Path, str]]) -> None:
        """As `Backend`: figures and tables as panels, the verdict as notes, the rest as files."""
        import wandb

        handle = run.handle
        if overview.note:
            handle.notes = overview.note
        problems = {each.name: {**each.source, "count": each.count} for each in overview.problems}
        if problems:
            handle.config.update({"problems": problems}, allow_val_change=True)
        panels: dict[str, Any] = {}
        for name, table in overview.tables.items():
            rows = [list(row) for row in table.rows]
            panels[f"tables/{name}"] = wandb.Table(
                list(table.columns), rows, allow_mixed_types=True
            )
        for file, folder in [*files, *((file, "") for file in overview.files)]:
            with open(file, "rb", opener=open_plain) as opened:
                if file.suffix == ".png":
                    with Image.open(opened) as image:
                        panels[str(PurePosixPath(folder, file.stem))] = wandb.Image(image)
                    continue
                path = Path(handle.dir, folder, file.name)
                write_bytes(path, opened.read(), sync=False)
            handle.save(str(path), base_path=handle.dir, policy="now")
        if panels:
            handle.log(panels)

    def close(self) -> None:
        """As `Backend`: each run ends as it stands."""
        try:
            for run in list(self._opened):
                self._end(run, run.status)
        finally:
            self._opened.clear()
            self._place = None
            self._lock.release()

    def link(self) -> str | None:
        """As `Backend`: the sweep's own run."""
        return self._address

    @property
    def _folder(self) -> Path:
        return self._root / FOLDER

    def _note(self, run: StoredRun, last: int) -> None:
        run.sent = dict.fromkeys(_ROWS, last) | {"numbers": 0}
        path = Path(run.handle.dir).parent / _NOTE
        write_json(path, {"step": last}, sync=False)

    def _last_sent(self, key: str) -> int:
        """The last step of a run that a server has by one of its directories, -1 for none; no other
        of these is left."""
        last, kept = -1, None
        for older in self._folder.glob(f"*run-*-{key}"):
            was_sent = older.name.startswith("run-") or any(older.glob("*.wandb.synced"))
            note = read_json(older / _NOTE) if was_sent else None
            drop: Path | None = older
            if note is not None and note["step"] >= last:
                last, kept, drop = note["step"], older, kept
            if drop is not None:
                shutil.rmtree(drop)
        return last

    def _identity(self) -> tuple[int, int] | None:
        with suppress(FileNotFoundError):
            stat = self._folder.stat()
            return stat.st_dev, stat.st_ino
        return None

    def _end(self, run: StoredRun, status: str) -> None:
        self._opened.remove(run)
        run.closed = True
        run.handle.finish(exit_code=_EXIT.get(status, 0))
        run.handle = None


def is_offline(config: TrackingConfig) -> bool:
    """Whether nothing is sent: as the setting says, else WANDB_MODE, else where W&B has no key."""
    if config.offline is not None:
        return config.offline
    if mode := os.environ.get("WANDB_MODE"):
        return mode not in ("online", "run", "shared")
    if {"WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"} & os.environ.keys():
        return False
    try:
        known = netrc.netrc(os.environ.get("NETRC") or Path.home() / ".netrc")
    except (OSError, netrc.NetrcParseError):
        return True
    server = _server(config)
    hosts = (urlsplit(server).netloc,) if server else _OWN_HOSTS
    return not any(known.authenticators(host) for host in hosts)


def _server(config: TrackingConfig) -> str | None:
    """W&B's settings of a process are made once, so that it is said with each run."""
    return config.uri or os.environ.get("WANDB_BASE_URL")


def _settings(config: TrackingConfig) -> Any:
    """Of this process nothing is recorded: the runs are others, its command may hold secrets."""
    import wandb

    server = _server(config)
    return wandb.Settings(
        console="off",
        silent=True,
        disable_code=True,
        disable_git=True,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
        init_timeout=_ANSWER_S,
        finish_timeout=_ANSWER_S,
        **({"base_url": server} if server else {}),
    )


def _merged(points: Sequence[Point]) -> list[Point]:
    """One point a step, by step."""
    merged: dict[int, Point] = {}
    for point in sorted(points, key=lambda each: each.step):
        before = merged.get(point.step)
        values = {**before.values, **point.values} if before else point.values
        when = max(point.unix_time, before.unix_time if before else 0.0)
        merged[point.step] = Point(point.step, when, values)
    return list(merged.values())
