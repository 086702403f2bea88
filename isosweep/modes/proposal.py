"""`mode=next`: the further runs that would decide a sweep, and what each is worth."""

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from isosweep import words
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.search import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject
from isosweep.modes.directory import StoredSweep, never_launched, store_plan, sweep_paths
from isosweep.modes.further import further_n
from isosweep.modes.sources import named_sweeps
from isosweep.modes.terminal import typed
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.study import Study, resolve_stored
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import in_hours

if TYPE_CHECKING:
    from isosweep.analysis.answer import AddN
    from isosweep.search.proposing import Proposal, Proposed

# Raised when a field goes or changes its meaning; fields may be added.
NEXT_VERSION: Final = 1
# Further seeds that are considered. Not a larger budget: what runs there cost decides next to
# nothing at the sweep's own, and asks another question (docs/search.md).
_SEEDS = 2
# Of what the sweep has spent, what a proposal may take where search.max_compute does not say.
_SHARE = 1 / 3
_HEADING = ("n", "B", "seed", "to", "adds", "devices", "saves", "decides", "agree")


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A proposal for one variant; `first`: the n that the report wants added before all else."""

    axes: dict[str, Any]
    proposal: "Proposal"
    first: "AddN | None"


def propose_next(config: SweepConfig, console: Console) -> int:
    """Print which runs to train next, what each is worth, and the command that trains them; 0.

    Nothing is launched: the runs are planned in a sweep of their own, which shares all that was
    trained. Raises SettingError for several sweeps, one without records, and one that searches
    cannot go on with.
    """
    (_, sweep), *more = named_sweeps(config)
    if more:
        rule = "a proposal is for one sweep"
        raise SettingError("from", config.from_sweep, rule, f"from={sweep.name}")
    spent = _spent(sweep)
    most = config.search.max_compute or _SHARE * spent
    first = _first(sweep)
    wide = _wide(sweep, first)
    found = _proposals(sweep, wide, first, most, config.search.seed)
    steps = [step for each in found for step in each.proposal.steps]
    planned = _planned(sweep, wide, steps, spent) if steps else None
    command = f"python -m isosweep mode=resume {typed('sweep_dir', planned)}" if planned else None
    if config.format == "json":
        document = _document(sweep, found, wide.plan, spent, command)
        print(json.dumps(document, indent=1, allow_nan=False), file=console.file)
        return 0
    for line in _lines(sweep, found, wide.plan, spent):
        console.print(line, markup=False, soft_wrap=True)
    if command:
        line = "nothing was launched; a search that may train these, deciding anew after each run:"
        console.print(line, soft_wrap=True)
        console.print(f"  {command}", markup=False, soft_wrap=True)
    return 0


def _asked(sweep: StoredSweep) -> AnalysisConfig:
    """The sweep's analysis on its own budgets: steps end at them."""
    return replace(sweep.config.analysis, compute_axis=None)


def _spent(sweep: StoredSweep) -> float:
    """Compute of all the sweep's runs together, in its unit."""
    from isosweep.analysis.load import load_view

    views = [load_view(sweep.paths, _asked(sweep), axes) for axes in sweep.plan.axes]
    curves = [curve for view in views for curve in view.curves if curve.compute.size]
    spent = math.fsum(float(curve.compute[-1]) for curve in curves)
    if spent == 0.0:
        rule = "no run of it has records past step 0, so that nothing is known of any run's worth"
        raise SettingError(
            "from", sweep.name, rule, f"mode=resume {typed('sweep_dir', sweep.name)} first"
        )
    return spent


def _first(sweep: StoredSweep) -> "list[AddN | None]":
    """Of each variant the n that comes before all else, with the grid that takes it."""
    from isosweep.analysis.load import load_view
    from isosweep.search.proposing import first_n

    found: list[AddN | None] = []
    for axes in sweep.plan.axes:
        n = first_n(load_view(sweep.paths, _asked(sweep), axes), _asked(sweep))
        found.append(None if n is None else further_n(sweep.plan.of_axes(axes), sweep.config, n))
    return found


def _wide(sweep: StoredSweep, first: "list[AddN | None]") -> Study:
    """The sweep's plan with further seeds and n, those of `first` too, by the planner itself."""
    from isosweep.analysis.load import load_view
    from isosweep.search.proposing import widened

    # Another plan, which has no directory yet.
    config, plan = replace(sweep.config, name=None, sweep_dir=None), sweep.plan
    further: set[int] = set()
    for axes in plan.axes:
        view = load_view(sweep.paths, _asked(sweep), axes)
        further.update(widened(view.plan, view))
    grid = config.grid
    seeds = [*grid.seeds, *range(max(grid.seeds) + 1, max(grid.seeds) + 1 + _SEEDS)]
    added = [each.settings for each in first if each is not None]
    further.update(n for settings in added for n in settings.get("num_generations", ()))
    batches = {B for settings in added for B in settings.get("problems_per_batch", ())}
    wider = replace(
        grid,
        num_generations=sorted({*grid.num_generations, *further}),
        problems_per_batch=sorted({*grid.problems_per_batch, *batches}),
        seeds=seeds,
    )
    study = resolve_stored(replace(config, grid=wider, search=SearchConfig()))
    if {run.run_id for run in plan.runs} <= {run.run_id for run in study.plan.runs}:
        return study
    rule = "was planned by another version of isosweep, whose runs this one would not share"
    raise SettingError("from", sweep.name, rule, "a sweep of this version")


def _proposals(
    sweep: StoredSweep, wide: Study, first: "list[AddN | None]", most: float, seed: int
) -> list[_Found]:
    """One for each variant, each with its share of the compute."""
    from isosweep.analysis.load import load_view
    from isosweep.search.proposing import propose

    found, asked = [], _asked(sweep)
    with tempfile.TemporaryDirectory() as directory:
        # The planner's own document, beside the runs that there are.
        paths = SweepPaths(Path(directory) / "wide", sweep.paths.runs)
        store_plan(wide, paths)
        for axes, n in zip(sweep.plan.axes, first, strict=True):
            own, wider = load_view(sweep.paths, asked, axes), load_view(paths, asked, axes)
            proposal = propose(own, wider, asked, most / len(first), seed)
            found.append(_Found(axes=axes, proposal=proposal, first=n))
    return found


def _planned(sweep: StoredSweep, wide: Study, steps: "Sequence[Proposed]", spent: float) -> Path:
    """The directory of a search over the sweep's grid and what is proposed beside it."""
    grid, config = sweep.config.grid, wide.config
    runs = [step.run for step in steps]
    limit = spent + math.fsum(step.compute for step in steps)
    # Rounded up, so that what is proposed keeps to it.
    unit = 10.0 ** (math.floor(math.log10(limit)) - 3)
    asked = replace(
        config,
        mode="run",
        grid=replace(
            grid,
            num_generations=sorted({*grid.num_generations, *(r.num_generations for r in runs)}),
            problems_per_batch=sorted(
                {*grid.problems_per_batch, *(r.problems_per_batch for r in runs)}
            ),
            seeds=sorted({*grid.seeds, *(r.seed for r in runs)}),
        ),
        search=SearchConfig(
            name="frontier",
            kind="frontier",
            max_compute=math.ceil(limit / unit) * unit,
            seed=sweep.config.search.seed,
        ),
    )
    study = resolve_stored(asked)
    if study.plan.plan_id == sweep.plan.plan_id:
        # What is left of its own plan.
        study = replace(study, config=replace(asked, sweep_dir=f"{sweep.paths.root}-next"))
    paths = first = sweep_paths(study)
    for number in count(2):
        # One that was launched keeps its settings.
        if not paths.plan.exists() or never_launched(paths.root):
            break
        study = replace(study, config=replace(asked, sweep_dir=f"{first.root}-{number}"))
        paths = sweep_paths(study)
    store_plan(study, paths)
    return paths.root


def _hours(step: "Proposed", plan: Plan) -> float:
    """Device-hours that the step adds, as planned."""
    cells = {cell.budget: cell for cell in plan.cells if cell.run_id == step.run.run_id}
    before = cells[step.reached].device_hours if step.reached in cells else 0.0
    return max(0.0, cells[step.milestone].device_hours - before)


def _lines(sweep: StoredSweep, found: list[_Found], plan: Plan, spent: float) -> list[str]:
    unit = plan.budget_unit
    lines = [f"{sweep.name}: its runs have spent {spent:.3g} {unit}"]
    for each in found:
        proposal, label = each.proposal, variant_label(each.axes)
        head = f"{label}: " if label else ""
        if proposal.chances:
            likely = sorted(proposal.chances.items(), key=lambda item: -item[1])
            told = ", ".join(f"{name} {chance:.0%}" for name, chance in likely if chance >= 0.05)
            lines.append(f"{head}believed now: {told}")
        if each.first is not None:
            joins = words.line("answer", "add_n", each.first)
            lines.append(f"{head}n = {each.first.n} comes first: {joins}")
        if proposal.stop is not None:
            lines.append(f"{head}nothing is proposed: {proposal.stop}")
            continue
        rows: list[tuple[str, ...]] = [_HEADING]
        rows += [_cells(step, plan) for step in proposal.steps]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines += [
            "  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
            for row in rows
        ]
        total = math.fsum(step.compute for step in proposal.steps)
        hours = math.fsum(_hours(step, plan) for step in proposal.steps)
        lines.append(
            f"{head}together {total:.3g} {unit}, {in_hours(hours)} of device time. saves: reward "
            "expected to be saved, over all budgets; decides: rise of the chance that two draws "
            f"of the verdict agree, which is {proposal.agree:.0%} now; agree: that chance then"
        )
        beyond = {(step.run.num_generations, step.like) for step in proposal.steps if step.like}
        lines += [f"n={n} lies beyond what was run: valued as n={like}" for n, like in beyond]
    return lines


def _cells(step: "Proposed", plan: Plan) -> tuple[str, ...]:
    run = step.run
    return (
        str(run.num_generations),
        str(run.problems_per_batch),
        str(run.seed),
        f"{step.milestone:.3g}",
        f"{step.compute:.3g}",
        in_hours(_hours(step, plan)),
        f"{step.loss:.2g}",
        f"{step.verdict:.1%}",
        f"{step.agree:.0%}",
    )


def _document(
    sweep: StoredSweep, found: list[_Found], plan: Plan, spent: float, command: str | None
) -> JsonObject:
    return {
        "version": NEXT_VERSION,
        "sweep_dir": str(sweep.paths.root),
        "budget_unit": plan.budget_unit,
        "spent": spent,
        "command": command,
        "variants": [
            {
                "axes": each.axes,
                "nothing_because": each.proposal.stop,
                "first_n": None if each.first is None else each.first.n,
                "chances": each.proposal.chances,
                "agree": each.proposal.agree,
                "expected_loss": each.proposal.loss,
                "steps": [_step_document(step, plan) for step in each.proposal.steps],
            }
            for each in found
        ],
    }


def _step_document(step: "Proposed", plan: Plan) -> JsonObject:
    return {
        "run_id": step.run.run_id,
        "num_generations": step.run.num_generations,
        "problems_per_batch": step.run.problems_per_batch,
        "seed": step.run.seed,
        "reached": step.reached,
        "milestone": step.milestone,
        "compute": step.compute,
        "device_hours": _hours(step, plan),
        "loss_saved": step.loss,
        "verdict_decided": step.verdict,
        "agree": step.agree,
        "valued_as_n": step.like,
    }
