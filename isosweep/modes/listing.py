"""`mode=list`: the sweeps of `sweeps_dir`, the newest first."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from isosweep import words
from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError
from isosweep.files import JsonObject, read_json
from isosweep.modes.directory import StoredSweep, never_launched, read_sweep, sweep_roots
from isosweep.modes.display_search import as_searched, stored_search
from isosweep.modes.look import collapsed_runs
from isosweep.modes.status import driver_of, who
from isosweep.modes.terminal import say
from isosweep.plan.shortened import up_to
from isosweep.plan.standing import standing
from isosweep.plan.tally import Tally

# Raised when a field goes or changes its meaning; fields may be added.
LIST_VERSION: Final = 1
_LATE = "%Y-%m-%d %H:%M"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A sweep in the list; `fault` says what is wrong with one that cannot be read.

    `asked`: of one that is searched, runs that have come as far as asked, and runs asked for.
    """

    name: str
    planned: float
    launched: bool = True
    model: str = ""
    task: str = ""
    budgets: tuple[float, ...] = ()
    unit: str = ""
    tally: Tally | None = None
    verdict: str | None = None
    driver: str | None = None
    fault: str | None = None
    asked: tuple[int, int] | None = None

    @property
    def counts(self) -> dict[str, int] | None:
        """How many of its runs stand how, by the words for it."""
        if self.tally is None:
            return None
        return {standing.value: count for standing, count in self.tally.counts.items()}


def list_sweeps(config: SweepConfig, console: Console) -> int:
    """Print every sweep with how its runs stand and what was found; 0, or 1 if one is broken."""
    listed = [_document(listed_sweep(root)) for root in sweep_roots(config.sweeps_dir)]
    if config.format == "json":
        where = str(Path(config.sweeps_dir).absolute())
        document = {"version": LIST_VERSION, "sweeps_dir": where, "sweeps": listed}
        print(json.dumps(document, indent=1, allow_nan=False), file=console.file)
    elif not listed:
        say(console, f"{config.sweeps_dir} holds no sweep")
    else:
        for sweep in listed:
            say(console, _described(sweep))
    return 1 if any(sweep["fault"] for sweep in listed) else 0


def listed_sweep(root: Path) -> Listed:
    """The sweep in `root` as its files say that it is; one that cannot be read has a `fault`."""
    planned = (root / "plan.json").stat().st_mtime
    try:
        sweep = read_sweep(root)
    except IsosweepError as error:
        return Listed(name=root.name, planned=planned, fault=str(error))
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}"
        return Listed(name=root.name, planned=planned, fault=fault)
    runs = standing(sweep.plan, sweep.paths.run, sweep.config.health.stop).runs
    document = stored_search(sweep)
    runs = {name: as_searched(each, document) for name, each in runs.items()}
    return Listed(
        name=root.name,
        planned=planned,
        launched=not never_launched(root),
        model=sweep.config.model.name or "",
        task=sweep.config.task.name,
        budgets=sweep.plan.budgets,
        unit=sweep.plan.budget_unit,
        tally=Tally.of(runs, collapsed_runs(sweep.config, sweep.plan, sweep.paths)),
        verdict=_verdict(sweep),
        asked=_as_far_as_asked(sweep, document),
        driver=who(driver) if (driver := driver_of(sweep.paths.drivers)) else None,
    )


def _as_far_as_asked(sweep: StoredSweep, document: JsonObject | None) -> tuple[int, int] | None:
    """See `Listed.asked`; None where no search has asked for anything."""
    if document is None:
        return None
    runs = {run.run_id: run for run in sweep.plan.runs}
    asked = [
        up_to(sweep.plan, runs[run_id], milestone)
        for run_id, milestone in document["asked"].items()
        if run_id in runs
    ]
    plan = replace(sweep.plan, runs=tuple(asked))
    found = standing(plan, sweep.paths.run, sweep.config.health.stop).runs
    return sum(each.ended for each in found.values()), len(asked)


def _verdict(sweep: StoredSweep) -> str | None:
    """The verdict of its analysis, of every variant's where there are several, or the values that
    `search=tune` has found; None before it."""
    if sweep.config.search.kind == "tune":
        return _tuned(sweep)
    verdicts = []
    for path in sorted(sweep.paths.analysis.rglob("fits.json")):
        try:
            document: Any = read_json(path)
            verdicts.append(str(document["verdict"]))
        except (OSError, ValueError, KeyError, TypeError):
            verdicts.append("unreadable")
    return ", ".join(dict.fromkeys(verdicts)) or None


def _tuned(sweep: StoredSweep) -> str | None:
    try:
        document: Any = read_json(sweep.paths.tuning)
        handed = None if document is None else document["settings_for_the_grid"]
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable"
    return " ".join(f"{name}={value}" for name, value in (handed or {}).items()) or None


def _described(sweep: JsonObject) -> str:
    when = datetime.fromtimestamp(sweep["planned_unix_time"], UTC).astimezone().strftime(_LATE)
    if sweep["fault"]:
        return f"{when}  {sweep['name']}: cannot be read: {sweep['fault']}"
    return f"{when}  {sweep['name']}  {words.line('status', 'listed', sweep)}"


def _document(sweep: Listed) -> JsonObject:
    return {
        "name": sweep.name,
        "planned_unix_time": sweep.planned,
        "launched": sweep.launched,
        "model": sweep.model,
        "task": sweep.task,
        "budgets": list(sweep.budgets),
        "budget_unit": sweep.unit,
        "counts": sweep.counts,
        "collapsed": None if sweep.tally is None else sweep.tally.collapsed,
        "asked_for": None if sweep.asked is None else sweep.asked[1],
        "as_far_as_asked": None if sweep.asked is None else sweep.asked[0],
        "verdict": sweep.verdict,
        "followed_by": sweep.driver,
        "fault": sweep.fault,
    }
