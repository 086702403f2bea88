"""`mode=status`: one sweep, or all of `sweeps_dir`, the newest first; plans that never ran last."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from isosweep import words
from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError
from isosweep.files import JsonObject, read_json
from isosweep.modes.directory import (
    StoredSweep,
    never_launched,
    read_sweep,
    stored_sweep,
    sweep_roots,
)
from isosweep.modes.display_search import as_searched, stored_search
from isosweep.modes.jobs import Jobs
from isosweep.modes.status import driver_of, show_status, who
from isosweep.modes.terminal import say, show_json
from isosweep.plan.shortened import up_to
from isosweep.plan.tally import Tally

# Raised when a field goes or changes its meaning; fields may be added.
LIST_VERSION: Final = 1
_UNKNOWN = (
    "counts",
    "collapsed",
    "asked_for",
    "as_far_as_asked",
    "verdict",
    "followed_by",
    "fault",
)
_LATE = "%Y-%m-%d %H:%M"


def sweep_status(config: SweepConfig, console: Console) -> int:
    """Print how the runs of a sweep stand, or all sweeps where the command names none and no runs;
    1 if a run has failed or a sweep is broken, else 0."""
    if config.sweep_dir is None and config.name is None and not config.runs:
        return list_sweeps(config, console)
    sweep = stored_sweep(config)
    return show_status(sweep, config, Jobs(sweep.config), console)


def list_sweeps(config: SweepConfig, console: Console) -> int:
    """Print every sweep with how its runs stand and what was found; 0, or 1 if one is broken."""
    found = [listed_sweep(root) for root in sweep_roots(config.sweeps_dir)]
    listed = sorted(found, key=lambda sweep: not sweep["launched"])
    if config.format == "json":
        where = str(Path(config.sweeps_dir).absolute())
        show_json(console, {"version": LIST_VERSION, "sweeps_dir": where, "sweeps": listed})
    else:
        nothing = f"{config.sweeps_dir} holds no sweep"
        begun = [_described(sweep) for sweep in listed if sweep["launched"]]
        say(console, *(begun if listed else [nothing]))
        if plans := [sweep["name"] for sweep in listed if not sweep["launched"]]:
            say(console, words.line("status", "plans", plans))
    return 1 if any(sweep["fault"] for sweep in listed) else 0


def listed_sweep(root: Path) -> JsonObject:
    """The sweep in `root` as its files say that it is; one that cannot be read has a `fault`.

    `asked_for`: of one that is searched, how many runs were; `as_far_as_asked`: of them, those that
    have come so far. docs/looking_after.md says what each field is.
    """
    listed: JsonObject = {
        "name": root.name,
        "planned_unix_time": (root / "plan.json").stat().st_mtime,
        "launched": True,
        "model": "",
        "task": "",
        "budgets": [],
        "budget_unit": "",
        **dict.fromkeys(_UNKNOWN),
    }
    try:
        sweep = read_sweep(root)
    except IsosweepError as error:
        return listed | {"fault": str(error)}
    except OSError as error:
        return listed | {"fault": f"{error.filename}: {error.strerror}"}
    search = stored_search(sweep)
    runs = {name: as_searched(each, search) for name, each in sweep.standing().runs.items()}
    tally = Tally.of(runs, sweep.collapsed())
    driver = driver_of(sweep.paths.drivers)
    return listed | {
        "launched": not never_launched(root),
        "model": sweep.config.model.name or "",
        "task": sweep.config.task.name,
        "budgets": list(sweep.plan.budgets),
        "budget_unit": sweep.plan.budget_unit,
        "counts": {each.value: count for each, count in tally.counts.items()},
        "collapsed": tally.collapsed,
        **_asked(sweep, search),
        "verdict": _verdict(sweep),
        "followed_by": who(driver) if driver else None,
    }


def _asked(sweep: StoredSweep, search: JsonObject | None) -> dict[str, int]:
    """What a search has asked for; nothing where there is none."""
    if search is None:
        return {}
    runs = {run.run_id: run for run in sweep.plan.runs}
    asked = [
        up_to(sweep.plan, runs[run_id], milestone)
        for run_id, milestone in search["asked"].items()
        if run_id in runs
    ]
    found = replace(sweep, plan=replace(sweep.plan, runs=tuple(asked))).standing().runs
    done = sum(each.ended for each in found.values())
    return {"asked_for": len(asked), "as_far_as_asked": done}


def _verdict(sweep: StoredSweep) -> str | None:
    """The verdict of its analysis, of every variant's where there are several; None before it."""
    verdicts = []
    for path in sorted(sweep.paths.analysis.rglob("answer.json")):
        try:
            document: Any = read_json(path)
            verdicts.append(str(document["verdict"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            verdicts.append("unreadable")
    return ", ".join(dict.fromkeys(verdicts)) or None


def _described(sweep: JsonObject) -> str:
    when = datetime.fromtimestamp(sweep["planned_unix_time"], UTC).astimezone().strftime(_LATE)
    if sweep["fault"]:
        return f"{when}  {sweep['name']}: cannot be read: {sweep['fault']}"
    return f"{when}  {sweep['name']}  {words.line('status', 'listed', sweep)}"
