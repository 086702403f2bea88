"""What `mode=status format=json` prints: a document for programs, whose fields stay."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from isosweep import words
from isosweep.errors import RecordError
from isosweep.files import JsonObject
from isosweep.modes.directory import StoredSweep
from isosweep.modes.logfiles import log_tail
from isosweep.modes.look import Sight, health_judged
from isosweep.plan.tally import Standing, Tally
from isosweep.store.checkpoints import complete_bytes
from isosweep.store.drivers import Driver, living_driver

# Raised when a field goes or changes its meaning; fields may be added.
STATUS_VERSION: Final = 1
_TAIL_LINES = 20


def status_document(
    sweep: StoredSweep,
    sights: Sequence[Sight],
    search: JsonObject | None,
    collapsed: Collection[str],
) -> JsonObject:
    """The document but for its `runs`; docs/running.md says what each field is.

    `search`: as `read_search` has it; `collapsed`: ids, as `look.collapsed_runs` has them.
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
        "checkpoint_bytes": disk_bytes(sights),
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


def who(driver: Driver) -> str:
    """Who follows a sweep, where, and since when."""
    return words.line("status", "driver", _driver(driver))


def _driver(driver: Driver) -> JsonObject:
    return {
        "user": driver.user,
        "host": driver.by.host,
        "pid": driver.by.pid,
        "since_unix_time": driver.unix_time,
    }


def run_document(sight: Sight, sweep: StoredSweep, collapsed: Collection[str]) -> JsonObject:
    """One of the document's `runs`."""
    run, state, submission = sight.run, sight.state, sight.view.submission
    unit = sweep.plan.budget_unit
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
        "launcher": submission.submission.launcher if submission else None,
        "submission": submission.submission.number if submission else None,
        "job_id": sight.job_id,
        "job_status": sight.observed.status if sight.observed else None,
        "job_reason": sight.observed.reason if sight.observed else None,
        "cancel_requested_by": submission.cancel if submission else None,
        "attempt": state.attempt if state else 0,
        "step": state.step if state else 0,
        "num_steps": run.num_steps,
        "spent": state.compute.spent(unit) if state else 0.0,
        "planned": run.milestones[-1],
        "reward": state.reward if state else None,
        "warnings": list(state.warnings) if state else [],
        "health_judged": state is not None and health_judged(state, sweep.config.health),
        "activity": state.activity if state and sight.heartbeat_s is not None else None,
        "heartbeat_age_s": sight.heartbeat_s,
        "progress_age_s": sight.progress_s,
        "log_tail": log_tail(sight.paths, _TAIL_LINES) if ended else [],
    }


def disk_bytes(sights: Sequence[Sight]) -> int:
    """Bytes of the checkpoints of runs that have begun, as their workers have recorded them."""
    return sum(_recorded(sight) for sight in sights if sight.state is not None)


def _recorded(sight: Sight) -> int:
    known = sight.state.checkpoint_bytes if sight.state else None
    return complete_bytes(sight.paths) if known is None else known
