"""`mode=status`: all of `sweeps_dir`, or how every run of one sweep stands at this moment, as the
scheduler and the runs' files say.

Documents for programs, whose fields stay, are what the terminal words.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from isosweep import words
from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError, RecordError
from isosweep.files import JsonObject, read_json
from isosweep.modes.choice import choose
from isosweep.modes.directory import (
    StoredSweep,
    never_launched,
    read_sweep,
    stored_sweep,
    sweep_roots,
)
from isosweep.modes.display_search import (
    as_asked,
    as_searched,
    described_search,
    search_fault,
    stored_search,
)
from isosweep.modes.jobs import Jobs
from isosweep.modes.logs import log_ends, log_tail
from isosweep.modes.look import Sight, look, of_planned
from isosweep.modes.terminal import aligned, printable, say, show_json
from isosweep.plan.shortened import up_to
from isosweep.plan.tally import Standing, Tally
from isosweep.store.checkpoints import complete_bytes
from isosweep.store.drivers import Driver, living_driver
from isosweep.store.paths import RunPaths, rank_of_log
from isosweep.store.records import read_records

# Raised when a field of the documents goes or changes its meaning; fields may be added.
LIST_VERSION: Final = 1
STATUS_VERSION: Final = 1
# What is not known of a sweep that cannot be read.
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
_TAIL_LINES = 20
# Up to here every run is shown; above, those of whom there is something to tell.
_MANY = 40
# Runs whose logs are quoted, and how much of them.
_QUOTED = 5
_QUOTED_LINES = 4
# The table: the first two columns are text, the others numbers; a note has this room at least.
_HEADING = ("run", "standing", "try", "steps", "spent", "held-out", "")
_LEFT = 2
_GAP = "  "
_LEAST_ROOM = 24
_QUIET = (Standing.DONE, Standing.NOT_BEGUN)


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


def show_status(sweep: StoredSweep, config: SweepConfig, jobs: Jobs, console: Console) -> int:
    """Print how the runs of `sweep` stand, whose jobs `jobs` knows; 1 if one has failed, else 0.

    `config` says what is shown, and how: where its `runs` choose one run, with the run's logs.
    """
    choice = choose(config.runs, sweep.plan)
    search = stored_search(sweep)
    seen = (as_asked(sight, search) for sight in look(sweep, jobs, choice.runs))
    sights = [sight for sight in seen if choice.holds(sight.standing)]
    collapsed = sweep.collapsed()
    failed = [sight for sight in sights if sight.standing is Standing.FAILED]
    logs = log_ends(sights[0].paths, config.lines) if config.runs and len(sights) == 1 else None
    document = status_document(sweep, sights, search, collapsed)
    if config.format == "json":
        document["runs"] = [run_document(sight, sweep, collapsed) for sight in sights]
        if logs is not None:
            document["logs"] = {str(path): lines for path, lines in logs.items()}
        show_json(console, document)
        return 1 if failed else 0
    say(console, *words.lines("status", "summary", document))
    if unanswered := document["unanswered"]:
        say(console, words.line("status", "unanswered", document), style="yellow")
    if search is not None:
        say(console, *described_search(sweep.plan, search))
    elif (fault := search_fault(sweep)) is not None:
        say(console, f"the runs that the search chose are not known: {fault}", style="yellow")
    shown = sights
    if len(sights) > _MANY and not config.runs:
        shown = [sight for sight in sights if sight.standing not in _QUIET]
    if shown:
        for line in _rows(shown, sweep, collapsed, unanswered, console.width):
            print(printable(line), file=console.file)
    if logs is None:
        _quote([sight for sight in shown if _unasked_for(sight)], console)
    else:
        _show_logs(logs, sights[0].paths, console)
    return 1 if failed else 0


def status_document(
    sweep: StoredSweep,
    sights: Sequence[Sight],
    search: JsonObject | None,
    collapsed: Collection[str],
) -> JsonObject:
    """The document but for its `runs`; docs/looking_after.md says what each field is.

    `search`: as `read_search` has it; `collapsed`: ids, as `StoredSweep.collapsed` has them.
    """
    counted = Tally.of({sight.run.run_id: sight.standing for sight in sights}, collapsed)
    reasons: Counter[str | None] = Counter(reason for sight in sights if (reason := unknown(sight)))
    ((unanswered, count),) = reasons.most_common(1) or [(None, 0)]
    driver = driver_of(sweep.paths.drivers)
    return {
        "version": STATUS_VERSION,
        "sweep": sweep.name,
        "sweep_dir": str(sweep.paths.root),
        "budget_unit": sweep.plan.budget_unit,
        "counts": {standing.value: count for standing, count in counted.counts.items()},
        "collapsed": counted.collapsed,
        "driver": _driver(driver) if driver else None,
        "unanswered": unanswered,
        "unanswered_runs": count,
        "checkpoint_bytes": sum(map(_checkpoint_bytes, sights)),
        "device_hours": math.fsum(map(device_hours, sights)),
        "evaluation_device_hours": math.fsum(
            _evaluation_seconds(sight) * sweep.config.devices_taken / 3600 for sight in sights
        ),
        "pricing": asdict(sweep.plan.pricing),
        "search": search,
    }


def unknown(sight: Sight) -> str | None:
    """Why it is not known how the run's job is; None where it is known, or there is none."""
    if sight.observed is None or sight.observed.status != "unknown":
        return None
    return sight.observed.reason or "no answer"


def driver_of(drivers: Path) -> Driver | None:
    """Who follows the sweep now; None where nobody does, or where that cannot be read."""
    try:
        return living_driver(drivers)
    except (RecordError, OSError):
        return None


def _driver(driver: Driver) -> JsonObject:
    return {
        "user": driver.user,
        "host": driver.by.host,
        "pid": driver.by.pid,
        "since_unix_time": driver.unix_time,
    }


def _checkpoint_bytes(sight: Sight) -> int:
    """What its checkpoints take on the disk."""
    return 0 if sight.attempt is None else complete_bytes(sight.paths)


def device_hours(sight: Sight) -> float:
    """Device-hours that training it has spent, as far as its worker has recorded them."""
    return 0.0 if sight.attempt is None else sight.attempt.compute.spent("device_hours")


def _evaluation_seconds(sight: Sight) -> float:
    """What its records say that evaluation has taken, which is no part of its training."""
    if sight.attempt is None:
        return 0.0
    return math.fsum(record.seconds for record in read_records(sight.paths.records).records)


def run_document(sight: Sight, sweep: StoredSweep, collapsed: Collection[str]) -> JsonObject:
    """One of the document's `runs`."""
    run, attempt = sight.run, sight.attempt
    unit, judges = sweep.plan.budget_unit, sweep.config.health.judges
    ended = sight.standing in (Standing.FAILED, Standing.CANCELLED)
    return {
        "run_id": run.run_id,
        "num_generations": run.num_generations,
        "problems_per_batch": run.problems_per_batch,
        "seed": run.seed,
        "axes": run.axes,
        "standing": sight.standing.value,
        "collapsed": sight.standing is Standing.DONE and run.run_id in collapsed,
        "note": sight.note,
        "launcher": attempt.launcher if attempt else None,
        "job_id": sight.job_id,
        "job_status": sight.observed.status if sight.observed else None,
        "job_reason": sight.observed.reason if sight.observed else None,
        "cancel_requested_by": attempt.cancel if attempt else None,
        "attempt": attempt.number if attempt else 0,
        "step": attempt.step if attempt else 0,
        "num_steps": run.num_steps,
        "spent": attempt.compute.spent(unit) if attempt else 0.0,
        "planned": run.milestones[-1],
        "reward": attempt.reward if attempt else None,
        "warnings": list(attempt.warnings) if attempt else [],
        "health_judged": judges(attempt.compute.generations) if attempt else False,
        "activity": attempt.activity if attempt and sight.heartbeat_s is not None else None,
        "heartbeat_age_s": sight.heartbeat_s,
        "progress_age_s": sight.progress_s,
        "log_tail": log_tail(sight.paths, _TAIL_LINES) if ended else [],
    }


def _rows(
    sights: list[Sight],
    sweep: StoredSweep,
    collapsed: Collection[str],
    unanswered: str | None,
    width: int,
) -> list[str]:
    """A line for each run under a heading, notes in the last column, wrapped at `width`;
    `unanswered` has been said.

    Of rich's tables one of 2,000 runs takes a second.
    """
    rows = [_HEADING, *(_cells(sight, sweep, collapsed, unanswered) for sight in sights)]
    heads = aligned([row[:-1] for row in rows], left=_LEFT)
    indent = max(map(len, heads)) + len(_GAP)
    room = max(_LEAST_ROOM, width - indent)
    lines = []
    for head, (*_, note) in zip(heads, rows, strict=True):
        first, *more = textwrap.wrap(note, room) if len(note) > room else [note]
        lines += [f"{head:<{indent}}{first}".rstrip(), *(" " * indent + part for part in more)]
    return lines


def _cells(
    sight: Sight, sweep: StoredSweep, collapsed: Collection[str], unanswered: str | None
) -> tuple[str, ...]:
    attempt, run = sight.attempt, sight.run
    spent = attempt.compute.spent(sweep.plan.budget_unit) if attempt else 0.0
    return (
        run.label,
        sight.standing.value,
        str(attempt.number) if attempt and attempt.begun else "",
        of_planned(attempt.step if attempt else 0, run.num_steps),
        f"{spent / run.milestones[-1]:.0%}",
        "" if attempt is None or attempt.reward is None else f"{attempt.reward:.3f}",
        _told(sight, unanswered, fell=run.run_id in collapsed and sight.standing is Standing.DONE),
    )


def _told(sight: Sight, unanswered: str | None, *, fell: bool) -> str:
    """What there is to say of a run, its job first, but for `unanswered`."""
    why = unknown(sight)
    note = sight.note if why in (None, unanswered) else f"{sight.note}; {why}"
    if sight.observed is None or sight.job_id is None:
        return "; ".join(["collapsed"] * fell + [note] * bool(note))
    return f"job {sight.job_id}{': ' if note else ''}{note}"


def _show_logs(logs: Mapping[Path, list[str]], run: RunPaths, console: Console) -> None:
    """The ends of a run's logs, each below its path."""
    if not logs:
        say(console, f"{run.run_id} has no log yet: {run.logs}")
    several = any(map(rank_of_log, logs))
    for path, lines in logs.items():
        rank = f" (rank {rank_of_log(path)})" if several else ""
        print(printable(f"==> {path}{rank} <=="), file=console.file)
        for line in lines or ["(progress bars alone)"]:
            print(printable(line), file=console.file)


def _quote(sights: list[Sight], console: Console) -> None:
    """The ends of the logs of what failed."""
    quoted = 0
    for sight in sights:
        lines = log_tail(sight.paths, _QUOTED_LINES)
        if not lines:
            continue
        if quoted == _QUOTED:
            say(console, "more logs: mode=status runs=RUN")
            return
        quoted += 1
        head = f"{sight.standing}: {sight.run.run_id}, the end of its log:"
        say(console, "\n".join([head, *(f"  {line}" for line in lines)]))


def _unasked_for(sight: Sight) -> bool:
    """Whether it went wrong: what was cancelled by request did not."""
    if sight.standing is Standing.CANCELLED:
        return sight.attempt is not None and sight.attempt.cancel is None
    return sight.standing is Standing.FAILED


def who(driver: Driver) -> str:
    """Who follows a sweep, where, and since when."""
    return words.line("status", "driver", _driver(driver))
