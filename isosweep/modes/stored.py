"""A sweep's plan and runs on the disk, before any of them starts."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from string import ascii_lowercase

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import executed_by_run, read_checked
from isosweep.devices import visible_devices
from isosweep.difficulty.measurement import (
    measurement_path,
    read_measurement,
    store_base_rates,
)
from isosweep.difficulty.selection import ChosenVariant, store_selection
from isosweep.errors import RecordError
from isosweep.files import write_json
from isosweep.machine import available_cores
from isosweep.modes.directory import StoredSweep, store_plan, sweep_paths
from isosweep.modes.display_search import described_plan
from isosweep.modes.plan_facts import described_cautions, described_findings
from isosweep.modes.sets import require_sets, with_stored_sets
from isosweep.modes.terminal import aligned, say, warn
from isosweep.plan.calibration import planned_times
from isosweep.plan.cells import Cell, Plan, Rejection, predicted
from isosweep.plan.rules import RULES
from isosweep.plan.scheduling import makespan
from isosweep.plan.standing import run_standing
from isosweep.plan.study import Study, checkpoint_plan
from isosweep.plan.tally import Standing, Tally
from isosweep.preflight.plan import free_bytes, require_disk, require_search
from isosweep.store.attempts import highest, read
from isosweep.store.checkpoints import can_go_on
from isosweep.store.paths import SweepPaths
from isosweep.words import plan as words
from isosweep.words.numbers import in_hours, short

# Checkpoints that take less are not told of.
_LEAST_TOLD_BYTES = 1e9
# Rows of the terminal's table; where there are more pairs of n and B, it has a row for each n.
_ROWS = 16


def stored_plan(study: Study, console: Console) -> SweepPaths:
    """Store and show the plan; warns of what was lost of its runs.

    Raises SettingError as `require_search` and `require_sets`.
    """
    paths, places = sweep_paths(study), places_of(study)
    require_search(study)
    require_sets(study, paths)
    store_plan(study, paths, places)
    asked = Path(study.config.sweeps_dir).absolute()
    if paths.runs.parent.resolve() != asked.resolve():
        say(
            console,
            f"the runs of this sweep are in {paths.runs}; sweeps_dir={asked} applies to new sweeps",
        )
    plan, config = study.plan, study.config
    _show_plan(plan, config, places, console)
    stored = StoredSweep(config=config, plan=plan, paths=paths)
    found = stored.standing()
    tally = Tally.of(found.runs, stored.collapsed())
    if found.left < 1 or tally.counts[Standing.NOT_BEGUN] < len(plan.runs):
        say(console, words.standing(tally, found.left))
    say(console, *described_plan(plan, config))
    planned, free = checkpoint_plan(study, places), free_bytes(paths.runs)
    # Of small models it is nothing to think of.
    if planned.peak_bytes >= _LEAST_TOLD_BYTES:
        say(console, words.checkpoints(planned, free))
    say(console, *described_findings(study))
    warn(console, *described_cautions(study), *described_losses(study, paths))
    return paths


def places_of(study: Study) -> int | None:
    """Runs that can be alive at once: as configured, or what this machine holds; None: all of the
    plan, on a cluster, or as far as a machine without GPUs can tell."""
    launcher, hardware = study.config.launcher, study.config.hardware
    if launcher.name == "inline":
        return 1
    if launcher.max_parallel is not None:
        return launcher.max_parallel
    if launcher.name == "local" and hardware.device == "cpu":
        return max(1, available_cores() // study.config.devices_taken)
    gpus = len(visible_devices().names) if launcher.name == "local" else 0
    return gpus // hardware.devices_per_run or None


def _show_plan(plan: Plan, config: SweepConfig, places: int | None, console: Console) -> None:
    """Print the totals, T and device time by n (down) and budget (across), and what was rejected.

    `places`: runs that can be alive at once; None where each has one.
    """
    seconds = [predicted(run.seconds) for run in plan.runs]
    totals = words.totals(
        plan,
        config.hardware,
        flops=sum(predicted(run.planned_flops) for run in plan.runs),
        device_hours=sum(seconds) * config.devices_taken / 3600,
        hours=makespan(seconds, places or len(seconds)) / 3600,
        places=places,
    )
    say(console, *totals)
    first = {rejection.rule for rejection in plan.rejected}
    rules = [rule for rule in RULES if rule in first]
    letters = dict(zip(rules, ascii_lowercase, strict=False))
    for axes in plan.axes:
        own = plan.of_axes(axes)
        rows = _plan_rows(own, letters)
        several = len(rows) < len({(c.num_generations, c.problems_per_batch) for c in own.cells})
        say(console, words.heading(plan.budget_unit, axes, several=several))
        say(console, *_aligned(rows, [short(budget) for budget in plan.budgets], console.width))
    counts = Counter(rejection.rule for rejection in plan.rejected)
    for rule in rules:
        one = next(r for r in plan.rejected if r.rule == rule)
        say(console, words.rejected(letters[rule], counts[rule], one))


def _plan_rows(plan: Plan, letters: dict[str, str]) -> list[list[str]]:
    """n and B, and what is planned of them at each budget, or the letters of what keeps them out;
    over all B of an n where that would be many rows."""
    items: list[Cell | Rejection] = [*plan.cells, *plan.rejected]
    pairs = sorted({(item.num_generations, item.problems_per_batch) for item in items})
    groups = [[pair] for pair in pairs]
    if len(pairs) > _ROWS:
        groups = [[pair for pair in pairs if pair[0] == n] for n in sorted({n for n, _ in pairs})]
    found = defaultdict[tuple[int, int, float], list[Cell | Rejection]](list)
    for item in items:
        found[item.num_generations, item.problems_per_batch, item.budget].append(item)
    rows = []
    for group in groups:
        batches = sorted({B for _, B in group})
        row = [str(group[0][0]), str(batches[0]) if len(batches) == 1 else f"{len(batches)} B"]
        for budget in plan.budgets:
            row.append(_cell([item for pair in group for item in found[*pair, budget]], letters))
        rows.append(row)
    return rows


def _cell(items: Sequence[Cell | Rejection], letters: dict[str, str]) -> str:
    """T and device time of the cells, or why there is none."""
    cells = [item for item in items if isinstance(item, Cell)]
    if not cells:
        return "/".join(dict.fromkeys(letters[i.rule] for i in items if isinstance(i, Rejection)))
    steps, hours = [c.num_steps for c in cells], [predicted(c.device_hours) for c in cells]
    parts = [f"{min(steps):,}", in_hours(min(hours))]
    if max(steps) > min(steps):
        parts = [f"{parts[0]}-{max(steps):,}", f"{parts[1]} to {in_hours(max(hours))}"]
    return "  ".join(parts)


def _aligned(rows: Sequence[Sequence[str]], budgets: Sequence[str], width: int) -> list[str]:
    """The rows under a heading, so many budgets beside one another as `width` takes."""
    table = [["n", "B", *budgets], *rows]
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    most = max(1, (width - sum(widths[:2])) // max(widths[2:]))
    lines = []
    for begin in range(2, len(widths), most):
        lines += aligned([[*row[:2], *row[begin : begin + most]] for row in table])
    return lines


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


def require_room(study: Study, paths: SweepPaths) -> None:
    """Raise SettingError where the disk has no room for the checkpoints of the runs to come."""
    require_disk(study, paths, places_of(study) or len(study.plan.runs))


def store_runs(study: Study, paths: SweepPaths) -> None:
    """Write what the worker of each run reads: its spec, and what is known of its problems.

    A run goes on with the evaluation sets that it began with, whichever sweep asks for it.
    """
    for variant, table in zip(study.variants, study.candidates, strict=True):
        rates = _base_rates(variant, paths)
        times = planned_times(table, study.plan)
        for run in study.plan.of_axes(variant.axes).runs:
            files = paths.run(run.run_id)
            files.root.mkdir(parents=True, exist_ok=True)
            spec = with_stored_sets(study.specs[run.run_id], files)
            document = {"version": 1, "run_id": run.run_id, "spec": spec.to_json()}
            document["planned"] = times.get(run.run_id)
            # A data file that was moved makes the same run, and is read where it lies now. What
            # is no spec is written anew: the run's id says what it was.
            # Nor does a worker execute what somebody else's may say.
            stored, foreign = None, None
            with suppress(ValueError):
                stored, foreign = read_checked(files.spec)
            if stored != document or (foreign and any(executed_by_run(spec))):
                write_json(files.spec, document)
            for selection in variant.selections:
                store_selection(files, selection)
            if rates is not None:
                store_base_rates(files, rates)


def _base_rates(variant: ChosenVariant, paths: SweepPaths) -> list[float | None] | None:
    """Success rates before training of the held-out problems; None if none were measured."""
    measured = read_measurement(measurement_path(variant.config, paths.runs.parent))
    if not measured.problems:
        return None
    rates = {p.problem_id: r for p, r in zip(measured.problems, measured.rates, strict=True)}
    return [rates.get(problem.problem_id) for problem in variant.problems.heldout]
