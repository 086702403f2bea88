"""`mode=status`: how every run stands, as the scheduler and the runs' files say at this moment."""

import json
import textwrap
from collections.abc import Collection

from rich.console import Console

from isosweep import words
from isosweep.config.sweep import SweepConfig
from isosweep.modes.choice import choose
from isosweep.modes.directory import StoredSweep, stored_sweep
from isosweep.modes.display_search import as_asked, described_search, search_fault, stored_search
from isosweep.modes.jobs import Asked, Jobs
from isosweep.modes.logfiles import log_tail
from isosweep.modes.look import Sight, collapsed_runs, look, of_planned
from isosweep.modes.status_document import run_document, status_document, unknown
from isosweep.modes.terminal import printable
from isosweep.plan.tally import Standing

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
    """Print how the runs of a sweep stand; 1 if one has failed, else 0."""
    sweep = stored_sweep(config)
    return show_status(sweep, config, Jobs(sweep.config), console)


def show_status(sweep: StoredSweep, config: SweepConfig, jobs: Asked, console: Console) -> int:
    """`sweep_status` of `sweep`, whose jobs `jobs` knows; `config` says what is shown, and how."""
    choice = choose(config.runs, sweep.plan)
    search = stored_search(sweep)
    seen = (as_asked(sight, search) for sight in look(sweep, jobs, choice.runs))
    sights = [sight for sight in seen if choice.holds(sight.standing)]
    collapsed = collapsed_runs(sweep.config, sweep.plan, sweep.paths)
    failed = [sight for sight in sights if sight.standing is Standing.FAILED]
    document = status_document(sweep, sights, search, collapsed)
    if config.format == "json":
        document["runs"] = [run_document(sight, sweep, collapsed) for sight in sights]
        print(json.dumps(document, indent=1, allow_nan=False), file=console.file)
        return 1 if failed else 0
    for line in words.lines("status", "summary", document):
        console.print(line, markup=False, soft_wrap=True)
    if unanswered := document["unanswered"]:
        line = words.line("status", "unanswered", document)
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    if search is not None:
        for line in described_search(sweep.plan, search):
            console.print(line, markup=False, soft_wrap=True)
    elif (fault := search_fault(sweep)) is not None:
        line = f"what the search has asked for is not known: {fault}"
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    shown = sights
    if len(sights) > _MANY and not config.runs:
        shown = [sight for sight in sights if sight.standing not in _QUIET]
    if shown:
        for line in _rows(shown, sweep, collapsed, unanswered, console.width):
            print(printable(line), file=console.file)
    _quote([sight for sight in shown if _unasked_for(sight)], console)
    return 1 if failed else 0


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
    sizes = [max(len(row[place]) for row in rows) for place in range(len(_HEADING) - 1)]
    indent = " " * (sum(sizes) + len(_GAP) * len(sizes))
    room = max(_LEAST_ROOM, width - len(indent))
    lines = []
    for row in rows:
        cells = [
            cell.ljust(size) if place < _LEFT else cell.rjust(size)
            for place, (cell, size) in enumerate(zip(row[:-1], sizes, strict=True))
        ]
        note = row[-1]
        first, *more = textwrap.wrap(note, room) if len(note) > room else [note]
        lines.append(_GAP.join([*cells, first]).rstrip())
        lines += [indent + part for part in more]
    return lines


def _cells(
    sight: Sight, sweep: StoredSweep, collapsed: Collection[str], unanswered: str | None
) -> tuple[str, ...]:
    state, run = sight.state, sight.run
    spent = state.compute.spent(sweep.plan.budget_unit) / run.milestones[-1] if state else 0.0
    return (
        run.label,
        sight.standing.value,
        str(state.attempt) if state else "",
        of_planned(state.step if state else 0, run.num_steps),
        f"{spent:.0%}",
        "" if state is None or state.reward is None else f"{state.reward:.3f}",
        _told(sight, unanswered, fell=run.run_id in collapsed and sight.standing is Standing.DONE),
    )


def _told(sight: Sight, unanswered: str | None, *, fell: bool) -> str:
    """What there is to say of a run, its job first, but for `unanswered`."""
    why = unknown(sight)
    note = sight.note if why in (None, unanswered) else f"{sight.note}; {why}"
    if sight.observed is None or sight.job_id is None:
        return "; ".join(["collapsed"] * fell + [note] * bool(note))
    return f"job {sight.job_id}{': ' if note else ''}{note}"


def _unasked_for(sight: Sight) -> bool:
    """Whether it went wrong: what was cancelled by request did not."""
    if sight.standing is Standing.CANCELLED:
        return sight.view.submission is not None and sight.view.submission.cancel is None
    return sight.standing is Standing.FAILED


def _quote(sights: list[Sight], console: Console) -> None:
    """The ends of the logs of what failed."""
    quoted = 0
    for sight in sights:
        lines = log_tail(sight.paths, _QUOTED_LINES)
        if not lines:
            continue
        if quoted == _QUOTED:
            console.print("the others' logs: mode=logs runs=RUN", markup=False)
            return
        quoted += 1
        head = f"{sight.standing}: {sight.run.run_id}, the end of its log:"
        console.print(
            "\n".join([head, *(f"  {line}" for line in lines)]), markup=False, soft_wrap=True
        )
