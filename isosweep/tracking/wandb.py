"""A view of a sweep in a project of W&B: a run for the sweep and one for each of its runs.

W&B writes a directory for each run, in the sweep's own, and sends it at once, or later by `wandb
sync`. A server adds the rows of every directory to those that it has. So a directory that was not
sent is removed and made anew from the run's files, and one that was sent is continued: a note in
each directory says how far its rows go.
"""

import hashlib
import math
import os
import shutil
from pathlib import Path
from typing import Any

from filelock import FileLock

from isosweep.config.study import TrackingConfig
from isosweep.config.trust import require_own, without_password
from isosweep.files import read_json, write_json
from isosweep.plan.cells import Plan
from isosweep.store.paths import COMPLETIONS, SweepPaths
from isosweep.tracking.points import COMPUTE, Content, Point
from isosweep.tracking.tracker import StoredRun, StoredRuns, sweep_name

# In a directory of a run: the last step of its rows.
_NOTE = "isosweep.json"
# Exit statuses that W&B shows as failed and killed; every other as finished.
_EXIT = {"FAILED": 1, "KILLED": 255}
# Series of points that are rows of a run's history; n, B and T are in its config.
_ROWS = ("heldout", "train")
# Seconds for a server to answer: less together than the end of a sweep waits.
_ANSWER_S = 25.0


class WandbBackend:
    """The project of `config`, with the sweep's runs, made in the sweep's directory."""

    def __init__(self, config: TrackingConfig, paths: SweepPaths, plan: Plan) -> None:
        self._config, self._root, self._folder = config, paths.root, paths.root / "wandb"
        self._sweep, self._compute = sweep_name(paths, plan), COMPUTE[plan.budget_unit]
        self._offline = is_offline(config)
        self.name = str(self._folder) if self._offline else without_password(_server(config))
        self._lock = FileLock(self._folder / "isosweep.lock", timeout=0)
        self._opened: list[StoredRun] = []
        self.link: str | None = None

    def open(self) -> StoredRuns:
        """As `Backend`: nothing is known to be there. One process of a sweep has it open."""
        require_own(("tracking.uri", self._config.uri))
        # W&B's own files would lie in the user's home.
        for variable, folder in (("CACHE", "cache"), ("DATA", "data"), ("ARTIFACT", "artifacts")):
            os.environ.setdefault(f"WANDB_{variable}_DIR", str(self._folder / folder))
        os.environ.setdefault("WANDB_SILENT", "true")
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        return {}

    def create(self, run_id: str | None, name: str, begun: float | None) -> StoredRun:
        """As `Backend`: a run that the server has is continued there."""
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
            # The command, which may hold secrets, and this machine are not the runs'.
            settings=wandb.Settings(
                **{"base_url": _server(self._config), "console": "off", "silent": True},
                **{"disable_code": True, "disable_git": True, "x_save_requirements": False},
                **dict.fromkeys(
                    ("x_disable_stats", "x_disable_meta", "x_disable_machine_info"), True
                ),
                **dict.fromkeys(("init_timeout", "finish_timeout"), _ANSWER_S),
            ),
        )
        run = StoredRun(key=key, handle=handle)
        # The server takes no row before the last that it has.
        self._note(run, handle.step - 1 if handle.resumed else last)
        if run_id:
            for metric in ("heldout/*", "sets/*"):
                handle.define_metric(metric, step_metric=self._compute)
        else:
            self.link = None if self._offline else handle.url
        self._opened.append(run)
        return run

    def write(self, run: StoredRun, news: Content) -> None:
        """As `Backend`: report and figures are panels too. A run that is not running is closed."""
        import wandb

        run.handle.config.update(dict(news.params))
        rows = _rows(news)
        if rows:
            self._note(run, max(rows))
        for step, point in sorted(rows.items()):
            run.handle.log(point.values | {"_timestamp": point.unix_time}, step=step)
        for point in news.points:
            if not point.series:
                run.handle.summary.update(point.values)
        run.handle.summary.update(dict(news.tags))
        status = news.status or run.status
        if run.handle.job_type == "run" and status != "RUNNING":
            self._end(run, status)
            return
        if news.note:
            run.handle.notes = news.note
        panels: dict[str, Any] = {}
        for file, folder in news.files:
            kept = Path(run.handle.dir, folder, file.name)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, kept)
            run.handle.save(str(kept), base_path=run.handle.dir, policy="now")
            if file.suffix == ".png":
                panels[f"{folder}/{file.stem}"] = wandb.Image(str(file))
            elif file.name == "report.html":
                panels["report"] = wandb.Html(str(file), inject=False)
            if file.name == COMPLETIONS and (table := read_json(file)) is not None:
                panels[file.stem] = wandb.Table(**table)
        if panels:
            run.handle.log(panels)

    def close(self) -> None:
        """As `Backend`: each run ends as it stands."""
        try:
            for run in list(self._opened):
                self._end(run, run.status)
        finally:
            self._opened.clear()
            self._lock.release()

    def _note(self, run: StoredRun, last: int) -> None:
        run.sent = dict.fromkeys(_ROWS, last) | {"numbers": 0}
        write_json(Path(run.handle.dir).parent / _NOTE, {"step": last}, sync=False)

    def _last_sent(self, key: str) -> int:
        """Return the last step of a run that a server has by one of its directories, or -1; remove
        the directories that were not sent."""
        last = -1
        for older in self._folder.glob(f"*run-*-{key}"):
            was_sent = older.name.startswith("run-") or any(older.glob("*.wandb.synced"))
            if was_sent and (note := read_json(older / _NOTE)) is not None:
                last = max(last, note["step"])
            else:
                shutil.rmtree(older)
        return last

    def _end(self, run: StoredRun, status: str) -> None:
        self._opened.remove(run)
        run.closed = True
        run.handle.finish(exit_code=_EXIT.get(status, 0))
        run.handle = None


def is_offline(config: TrackingConfig) -> bool:
    """Whether nothing is sent: as the setting says, else WANDB_MODE, else if W&B has no key."""
    if config.offline is not None:
        return config.offline
    if mode := os.environ.get("WANDB_MODE"):
        return mode not in ("online", "run", "shared")
    if "WANDB_API_KEY" in os.environ:
        return False
    from requests.utils import get_netrc_auth

    return get_netrc_auth(_server(config)) is None


def _server(config: TrackingConfig) -> str:
    return config.uri or os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"


def _rows(news: Content) -> dict[int, Point]:
    """Return the rows of a run's history that are complete, by step.

    W&B takes a row once. It is complete with the record of its step, or with a later one.
    """
    points = [point for point in news.points if point.series in _ROWS]
    records = [point.step for point in points if point.series == "heldout"]
    last = math.inf if news.complete else max(records, default=-1)
    rows: dict[int, Point] = {}
    for point in points:
        if point.step <= last:
            other = rows.get(point.step, point)
            when = max(point.unix_time, other.unix_time)
            rows[point.step] = Point(point.step, when, {**other.values, **point.values})
    return rows
