"""How a plan is shown before anything starts."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase

from rich.console import Console

from isosweep.errors import RecordError
from isosweep.modes.display_search import described_plan
from isosweep.modes.price import described_price
from isosweep.modes.sweeps import StoredSweep, places_of
from isosweep.modes.terminal import aligned, say, warn
from isosweep.plan.cautions import cautions
from isosweep.plan.cells import Cell, Plan, Rejection, predicted
from isosweep.plan.rules import RULES
from isosweep.plan.scheduling import makespan
from isosweep.plan.standing import run_standing
from isosweep.plan.study import Study, checkpoint_plan, evaluation_of
from isosweep.plan.tally import Standing, Tally
from isosweep.preflight.plan import free_bytes
from isosweep.store.attempts import highest, read
from isosweep.store.checkpoints import can_go_on
from isosweep.store.paths import SweepPaths
from isosweep.words import plan as words
from isosweep.words.numbers import in_hours, short

# Checkpoints that take less are not told of.
_LEAST_TOLD_BYTES = 1e9
# Rows of the terminal's table; where there are more pairs of n and B, it has a row for each n.
_ROWS = 16


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
    say(console, *totals)
    if config.mode == "plan" and (price := described_price(study)):
        say(console, price)
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
    return [*findings, *warned]


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
