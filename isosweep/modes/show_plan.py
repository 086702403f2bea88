"""How a plan is shown before anything starts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError
from isosweep.modes.display_search import described_plan
from isosweep.modes.price import at_launch
from isosweep.modes.sweeps import StoredSweep, places_of
from isosweep.modes.terminal import aligned, say, show_json, warn
from isosweep.plan.cautions import cautions
from isosweep.plan.cells import Cell, Plan, predicted
from isosweep.plan.scheduling import makespan
from isosweep.plan.single import single_runs
from isosweep.plan.standing import run_standing
from isosweep.plan.study import Study, checkpoint_plan, evaluation_of
from isosweep.plan.tally import Standing, Tally
from isosweep.preflight.plan import free_bytes
from isosweep.store.attempts import highest, read
from isosweep.store.checkpoints import can_go_on
from isosweep.store.paths import SweepPaths
from isosweep.words import plan as words
from isosweep.words.numbers import in_hours, short

# Of the document of single runs: raised when a field goes or changes its meaning.
_SINGLE_VERSION = 1
# Checkpoints that take less are not told of.
_LEAST_TOLD_BYTES = 1e9


def show_plan(study: Study, paths: SweepPaths, console: Console) -> list[str]:
    """Print what the plan takes, what it warns of and could find, and its table; return its notes,
    which its page has too."""
    plan, config, places = study.plan, study.config, places_of(study)
    asked = Path(config.sweeps_dir).absolute()
    if paths.runs.parent.resolve() != asked.resolve():
        place = f"the runs of this sweep are in {paths.runs}"
        say(console, f"{place}; sweeps_dir={asked} applies to new sweeps")
    seconds = [predicted(run.seconds) for run in plan.runs]
    totals = words.totals(
        plan,
        config.hardware,
        flops=sum(predicted(run.planned_flops) for run in plan.runs),
        device_hours=study.device_hours,
        hours=makespan(seconds, places or len(seconds)) / 3600,
        places=places,
    )
    say(console, *study.notes, *totals)
    if config.mode == "plan":
        say(console, *at_launch(study))
    warned, findings = described_cautions(study), described_findings(study)
    warn(console, *warned, *described_losses(study, paths))
    stored = StoredSweep(config=config, plan=plan, paths=paths)
    found = stored.standing()
    tally = Tally.of(found.runs, stored.collapsed())
    if found.left < 1 or tally.counts[Standing.NOT_BEGUN] < len(plan.runs):
        say(console, words.standing(tally, found.left))
    say(console, *findings, *described_plan(plan, config))
    _show_table(plan, console)
    planned, free = checkpoint_plan(study, places), free_bytes(paths.runs)
    # Of small models it is nothing to think of.
    if planned.peak_bytes >= _LEAST_TOLD_BYTES:
        say(console, words.checkpoints(planned, free))
    return [*study.notes, *findings, *warned]


def described_findings(study: Study) -> list[str]:
    """What evaluation takes and what the plan could find, a line each."""
    from isosweep.analysis.outlook import outlook_of_variants

    plan, config = study.plan, study.config
    if config.trainer.name == "command":
        first = words.commanded(config.trainer.command)
    else:
        first = words.evaluation(evaluation_of(study), len(plan.runs))
    return [first, words.findings(outlook_of_variants(plan, config))]


def described_cautions(study: Study) -> list[str]:
    """What the plan warns of, a line each."""
    unit = study.plan.budget_unit
    return [words.caution(each, unit) for each in cautions(study.candidates)]


def described_losses(study: Study, paths: SweepPaths) -> Iterator[str]:
    """What has been lost of runs that the plan asks for, a line each."""
    commanded = study.config.trainer.name == "command"
    cause = "trainer.checkpoints" if commanded else "checkpoint.keep, or deleted"
    for run in study.plan.runs:
        files = paths.run(run.run_id)
        try:
            number = highest(files)
            attempt = read(files, number) if number else None
        except RecordError as error:
            yield str(error)
            continue
        stop = study.config.health.stop
        how_far = run_standing(run, attempt, study.plan.budget_unit, stop)
        if how_far is Standing.TO_EXTEND and not can_go_on(files):
            yield (
                f"{run.run_id}: no checkpoint to go on from is left ({cause}): to be extended it "
                "is trained again from step 0"
            )


def _show_table(plan: Plan, console: Console) -> None:
    """Print T and device time by n (down) and budget (across), and what was rejected."""
    for axes in plan.axes:
        own = plan.of_axes(axes)
        say(console, words.heading(plan.budget_unit, axes))
        say(console, *aligned(_plan_rows(own)))
    counts = Counter(rejection.rule for rejection in plan.rejected)
    for rule, count in counts.items():
        one = next(r for r in plan.rejected if r.rule == rule)
        say(console, words.rejected(count, one))


def _plan_rows(plan: Plan) -> list[list[str]]:
    """A row for each n, below their head: its B, and at each budget T and device time over all B
    that are planned; - where all candidates are rejected."""
    cells = defaultdict[tuple[int, float], list[Cell]](list)
    for cell in plan.cells:
        cells[cell.num_generations, cell.budget].append(cell)
    rows = [["n", "B", *map(short, plan.budgets)]]
    for n in sorted({each.num_generations for each in (*plan.cells, *plan.rejected)}):
        at = [cells[n, budget] for budget in plan.budgets]
        batches = [cell.problems_per_batch for own in at for cell in own]
        rows.append([str(n), _span(batches, str), *map(_steps_and_time, at)])
    return rows


def _steps_and_time(cells: Sequence[Cell]) -> str:
    hours = [predicted(cell.device_hours) for cell in cells]
    steps = _span([cell.num_steps for cell in cells], "{:,}".format)
    return f"{steps}  {_span(hours, in_hours, ' to ')}" if cells else "-"


def _span(values: Sequence[Any], shown: Callable[[Any], str], to: str = "-") -> str:
    """The least and the largest of the values, once where they look alike."""
    return to.join(dict.fromkeys(map(shown, (min(values), max(values))))) if values else "-"


def describe_runs(config: SweepConfig, console: Console) -> int:
    """Print what is planned of each single run of `mode=plan steps=T`, in ten lines or as a
    document; returns 0."""
    runs = list(single_runs(config))
    if config.format == "json":
        show_json(console, {"version": _SINGLE_VERSION, "runs": [asdict(run) for run in runs]})
        return 0
    for number, run in enumerate(runs):
        say(console, *[""][: min(number, 1)], *words.single(run))
    return 0
