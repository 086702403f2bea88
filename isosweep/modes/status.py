"""`mode=status`: all sweeps of `sweeps_dir`, or how every run of one stands at this moment.

What is printed is worded from the documents that `format=json` prints.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError, RecordError
from isosweep.files import JsonObject, highest_of, names, read_json
from isosweep.modes.display_search import as_asked, as_searched, stored_search
from isosweep.modes.observed import Jobs, ObservedRun, choose_runs, observe_runs
from isosweep.modes.sweeps import (
    StoredSweep,
    never_launched,
    read_sweep,
    stored_sweep,
    sweep_roots,
)
from isosweep.modes.terminal import aligned, say, show_json
from isosweep.plan.tally import Standing, Tally
from isosweep.store.checkpoints import complete_bytes
from isosweep.store.completions import AnsweredProblem, Completion, read_completions
from isosweep.store.drivers import living_driver
from isosweep.store.paths import RunPaths, rank_of_log
from isosweep.words import status as words
from isosweep.words.escape import printable
from isosweep.words.numbers import of_planned

# Raised when a field of a document goes or changes its meaning; fields may be added.
VERSION: Final = 2
# Where there are more runs, those that are quiet are only counted.
_MANY = 40
_QUIET = (Standing.DONE, Standing.NOT_BEGUN)
# Lines of a log that a document has of each run that went wrong; of the first such runs the last
# lines are printed.
_TAIL_LINES, _QUOTED, _QUOTED_LINES = 20, 5, 4
# Bytes of a log's end that are looked at.
_READ_BYTES = 1_000_000
# Bars of transformers and the Hub over files: Loading weights:  45%|####5     | 130/290 [00:01<
_LOADING = re.compile(r"^(Loading|Fetching|Downloading|\S+\.safetensors)\b[^|]*\d+%\|")


def sweep_status(config: SweepConfig, console: Console) -> int:
    """Print all sweeps, or one that the command names; 1 if a run failed or a sweep is broken."""
    if config.sweep is None and not config.runs:
        return list_sweeps(config, console)
    sweep = stored_sweep(config)
    return show_status(sweep, config, Jobs(sweep.config), console)


def list_sweeps(config: SweepConfig, console: Console) -> int:
    """Print every sweep with its counts and verdict; 1 if one cannot be read, else 0."""
    listed = [listed_sweep(root) for root in sweep_roots(config.sweeps_dir)]
    if config.format == "json":
        where = str(Path(config.sweeps_dir).absolute())
        show_json(console, {"version": VERSION, "sweeps_dir": where, "sweeps": listed})
    elif not listed:
        say(console, f"{config.sweeps_dir} holds no sweep")
    else:
        say(console, *(_described(sweep) for sweep in listed if sweep["launched"]))
        if plans := [sweep["name"] for sweep in listed if not sweep["launched"]]:
            say(console, words.plans(plans))
    return 1 if any(sweep["fault"] for sweep in listed) else 0


def listed_sweep(root: Path) -> JsonObject:
    """Return the document of one sweep in the list; docs/json.md explains its fields."""
    listed: JsonObject = {
        "name": root.name,
        "planned_unix_time": (root / "plan.json").stat().st_mtime,
        "launched": not never_launched(root),
        **{"model": "", "task": "", "budgets": [], "budget_unit": "", "counts": None},
        **{"collapsed": None, "verdict": None, "followed_by": None, "fault": None},
    }
    try:
        sweep = read_sweep(root)
        search = stored_search(sweep)
        runs = {name: as_searched(each, search) for name, each in sweep.standing().runs.items()}
        tally, verdict = Tally.of(runs, sweep.collapsed()), _verdict(sweep)
    except (IsosweepError, OSError) as error:
        return listed | {"launched": True, "fault": str(error)}
    return listed | {
        "model": sweep.config.model.name or "",
        "task": sweep.config.task.name,
        "budgets": list(sweep.plan.budgets),
        "budget_unit": sweep.plan.budget_unit,
        "counts": {each.value: count for each, count in tally.counts.items()},
        "collapsed": tally.collapsed,
        "verdict": verdict,
        "followed_by": _follower(sweep),
    }


def _verdict(sweep: StoredSweep) -> str | None:
    """The verdict of the sweep's analysis, of every variant's where they differ; None before it."""
    verdicts: list[str] = []
    for path in sorted(sweep.paths.analysis.rglob("answer.json")):
        try:
            verdicts.append((read_json(path) or {})["verdict"])
        except (ValueError, KeyError, TypeError):
            verdicts.append("unreadable")
    return ", ".join(dict.fromkeys(verdicts)) or None


def _follower(sweep: StoredSweep) -> str | None:
    """Who follows the sweep now; None where nobody does, or where that cannot be read."""
    try:
        driver = living_driver(sweep.paths.drivers)
    except (RecordError, OSError):
        return None
    return words.driver(driver) if driver else None


def _described(sweep: JsonObject) -> str:
    planned = datetime.fromtimestamp(sweep["planned_unix_time"], UTC).astimezone()
    when = f"{planned:%Y-%m-%d %H:%M}  {sweep['name']}"
    if sweep["fault"]:
        return f"{when}: cannot be read: {sweep['fault']}"
    return f"{when}  {words.listed(sweep)}"


def show_status(sweep: StoredSweep, config: SweepConfig, jobs: Jobs, console: Console) -> int:
    """Print the runs of `sweep` that `config.runs` chooses; 1 if one of them has failed, else 0."""
    search = stored_search(sweep, console if config.format == "text" else None)
    every = [as_asked(run, search) for run in observe_runs(sweep, jobs)]
    runs = choose_runs(config.runs, every)
    document = status_document(sweep, runs, search)
    if config.runs and len(runs) == 1:
        logs = log_files(runs[0].paths)
        document["logs"] = {str(path): last_lines(path, config.lines) for path in logs}
        document["completions"] = newest_answers(runs[0].paths)
    if config.format == "json":
        show_json(console, document)
    else:
        say(console, *words.summary(document))
        if document["unanswered"]:
            say(console, words.unanswered(document), style="yellow")
        if search is not None:
            say(console, *words.search(document, len(every)))
        _show_runs(document, config, console)
    return 1 if document["counts"]["failed"] else 0


def _show_runs(document: JsonObject, config: SweepConfig, console: Console) -> None:
    """Print a table of the document's runs, and what the logs say of those that went wrong."""
    shown = document["runs"]
    if len(shown) > _MANY and not config.runs:
        shown = [run for run in shown if run["standing"] not in _QUIET]
    rows = [("run", "standing", "try", "steps", "spent", "held-out")]
    for run in shown:
        steps, share = of_planned(run["step"], run["num_steps"]), run["spent"] / run["planned"]
        reward = "" if run["reward"] is None else f"{run['reward']:.3f}"
        attempt = str(run["attempt"] or "")
        rows.append((run["label"], run["standing"], attempt, steps, f"{share:.0%}", reward))
    heads = aligned(rows, left=2)
    width = max(map(len, heads))
    for head, note in zip(heads, ["", *map(_note, shown)], strict=True):
        if shown:
            # Faster than a console's own way, where there are thousands.
            print(printable(f"{head:<{width}}  {note}".rstrip()), file=console.file)
    if document.get("completions"):
        for line in words.answers(document["completions"]):
            print(printable(line), file=console.file)
    if "logs" in document:
        if not document["logs"]:
            say(console, f"{shown[0]['run_id']} has no log yet")
        ranks = {path: rank_of_log(Path(path)) for path in document["logs"]}
        for path, lines in document["logs"].items():
            rank = f" (rank {ranks[path]})" if any(ranks.values()) else ""
            print(printable("\n".join([f"==> {path}{rank} <==", *lines])), file=console.file)
        return
    quoted = [run for run in shown if run["log_tail"]]
    for run in quoted[:_QUOTED]:
        say(console, f"{run['standing']}: {run['run_id']}, the end of its log:")
        say(console, *(f"  {line}" for line in run["log_tail"][-_QUOTED_LINES:]))
    if len(quoted) > _QUOTED:
        say(console, "more logs: mode=status runs=RUN")


def _note(run: JsonObject) -> str:
    live = run["job_status"] is not None and run["job_id"] is not None
    parts = [f"job {run['job_id']}" if live else "", "collapsed" if run["collapsed"] else ""]
    return "; ".join(filter(None, [*parts, run["note"]]))


def status_document(
    sweep: StoredSweep, runs: Sequence[ObservedRun], search: JsonObject | None
) -> JsonObject:
    """Return the document of one sweep and `runs` of it; docs/json.md has its fields.

    `search`: as `stored_search` returns it.
    """
    collapsed = sweep.collapsed()
    counted = Tally.of({each.run.run_id: each.standing for each in runs}, collapsed)
    jobs = [each.job for each in runs if each.job is not None and each.job.status == "unknown"]
    reasons: Counter[str | None] = Counter(job.reason or "no answer" for job in jobs)
    ((unanswered, count),) = reasons.most_common(1) or [(None, 0)]
    attempts = [each.attempt for each in runs if each.attempt is not None]
    return {
        "version": VERSION,
        "sweep": sweep.name,
        "sweep_dir": str(sweep.paths.root),
        "budget_unit": sweep.plan.budget_unit,
        "counts": {standing.value: number for standing, number in counted.counts.items()},
        "collapsed": counted.collapsed,
        "verdict": _verdict(sweep),
        "followed_by": _follower(sweep),
        "unanswered": unanswered,
        "unanswered_runs": count,
        "checkpoint_bytes": sum(complete_bytes(attempt.run) for attempt in attempts),
        "device_hours": math.fsum(each.compute.spent("device_hours") for each in attempts),
        "pricing": asdict(sweep.plan.pricing),
        "search": search,
        "runs": [_run_document(each, sweep, each.run.run_id in collapsed) for each in runs],
    }


def _run_document(seen: ObservedRun, sweep: StoredSweep, collapsed: bool) -> JsonObject:
    run, attempt, job = seen.run, seen.attempt, seen.job
    cancelled = seen.standing is Standing.CANCELLED and attempt and attempt.cancel is None
    wrong = seen.standing is Standing.FAILED or cancelled
    return {
        "run_id": run.run_id,
        "label": run.label,
        "num_generations": run.num_generations,
        "problems_per_batch": run.problems_per_batch,
        "seed": run.seed,
        "axes": run.axes,
        "standing": seen.standing.value,
        "collapsed": collapsed and seen.standing is Standing.DONE,
        "note": seen.note,
        "launcher": attempt.launcher if attempt else None,
        "job_id": seen.job_id,
        "job_status": job.status if job else None,
        "job_reason": job.reason if job else None,
        "cancel_requested_by": attempt.cancel if attempt else None,
        "attempt": attempt.number if attempt else 0,
        "step": attempt.step if attempt else 0,
        "num_steps": run.num_steps,
        "spent": attempt.compute.spent(sweep.plan.budget_unit) if attempt else 0.0,
        "planned": run.milestones[-1],
        "reward": attempt.reward if attempt else None,
        "warnings": list(attempt.warnings) if attempt else [],
        "activity": attempt.activity if attempt and seen.heartbeat_s is not None else None,
        "heartbeat_age_s": seen.heartbeat_s,
        "progress_age_s": seen.progress_s,
        "log_tail": log_tail(seen.paths, _TAIL_LINES) if wrong else [],
    }


def newest_answers(run: RunPaths) -> JsonObject | None:
    """Return the best and the worst answer to one problem at the run's newest record: the problem
    whose answers differ most in reward; None where no answers are kept."""
    kept = read_completions(run)
    if not kept:
        return None

    def ranked(problem: AnsweredProblem) -> list[Completion]:
        return sorted(problem.completions, key=lambda made: made.reward)

    problem = max(kept[-1].problems, key=lambda p: ranked(p)[-1].reward - ranked(p)[0].reward)
    return {
        "step": kept[-1].step,
        "problem_id": problem.problem_id,
        "prompt": problem.prompt,
        "reference": problem.answer,
        "best": asdict(ranked(problem)[-1]),
        "worst": asdict(ranked(problem)[0]),
    }


def log_files(run: RunPaths) -> list[Path]:
    """Return the logs of the run's newest attempt that hold anything, by rank, errors first."""
    directory = run.attempt_logs(highest_of(names(run.logs)))
    logs = [directory / name for name in names(directory) if name.endswith((".out", ".err"))]
    return sorted(
        (path for path in logs if path.stat().st_size),
        key=lambda path: (rank_of_log(path), path.name),
    )


def log_tail(run: RunPaths, count: int) -> list[str]:
    """Return the last `count` lines of the newest attempt's errors, or of its output where it has
    none; of each rank that writes a log of its own as many fewer."""
    files = log_files(run)
    errors = [path for path in files if path.suffix == ".err"] or files
    each = max(1, count // max(1, len(errors)))
    return [line for path in errors for line in last_lines(path, each) if line.strip()]


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last `count` lines of a file. Of a progress bar, which is drawn over itself, the
    last state is a line; those of files that are loaded are none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _READ_BYTES))
        text = file.read().decode(errors="replace").replace("\r\n", "\n").removesuffix("\n")
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return [line for line in lines if not _LOADING.search(line)][-count:]
