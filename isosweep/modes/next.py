"""`mode=next`: the further runs that would decide a sweep, and what each is worth."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from rich.console import Console

from isosweep.config.base import replaced
from isosweep.config.study import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject, to_json
from isosweep.modes.analyse import settings_with
from isosweep.modes.directory import StoredSweep, store_plan, stored_sweep, sweep_paths
from isosweep.modes.terminal import aligned, say, show_json, typed
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.study import Study, resolve_stored
from isosweep.pricing import Pricing, pricing_from
from isosweep.words import next as words
from isosweep.words.numbers import amount, price

if TYPE_CHECKING:
    from isosweep.analysis.curves import SweepData
    from isosweep.search.proposing import Proposal, Proposed

# Raised when a field goes or changes its meaning; fields may be added.
VERSION: Final = 3
# Further seeds that are considered. Not a larger budget: what runs there cost decides next to
# nothing at the sweep's own, and asks another question (docs/recommend.md).
_SEEDS = 2
# Of what the sweep has spent, what a proposal may take where search.max_compute does not say.
_SHARE = 1 / 3
# The table of steps: each column's heading, and what it has of a step.
_COLUMNS: dict[str, Callable[[JsonObject, Pricing], str]] = {
    "n": lambda step, _: str(step["num_generations"]),
    "B": lambda step, _: str(step["problems_per_batch"]),
    "seed": lambda step, _: str(step["seed"]),
    "to": lambda step, _: f"{step['milestone']:.3g}",
    "adds": lambda step, _: f"{step['compute']:.3g}",
    "devices": lambda step, pricing: (
        "" if (hours := step["device_hours"]) is None else price(hours, pricing, predicted=False)
    ),
    "saves": lambda step, _: f"{step['loss_saved']:.2g}",
    "decides": lambda step, _: f"{step['verdict_decided']:.1%}",
    "agree": lambda step, _: f"{step['agree']:.0%}",
}


def propose_next(config: SweepConfig, console: Console) -> int:
    """Print which runs to train next, what each is worth, and the command that trains them; 0.

    They keep to `search.max_compute`. Nothing is launched: the runs are planned in a sweep of
    their own, which shares all that was trained. Raises SettingError for several sweeps, for one
    without records, and for one that searches cannot go on with.
    """
    from isosweep.analysis.load import load_view
    from isosweep.importing.plan import further_plan
    from isosweep.search.proposing import first_n, propose, widened

    sweep = stored_sweep(config)
    # On the sweep's own budgets: steps end at them.
    asked = replaced(sweep.config.analysis, compute_axis=None)
    views = [load_view(sweep.paths, asked, axes) for axes in sweep.plan.axes]
    spent = _spent(sweep, views)
    first = [first_n(view, asked) for view in views]
    further = {n for view in views for n in widened(view.plan, view)} | {n for n in first if n}
    study: Study | None = None
    if sweep.kind == "planned":
        study = _widened_study(sweep, further)
        plan = study.plan
    else:
        # Of what was trained elsewhere only what its own runs cost is known.
        plan = further_plan(sweep.plan, further, _SEEDS)
    most = (config.search.max_compute or _SHARE * spent) / len(views)
    proposals: list[Proposal] = []
    for own, axes in zip(views, sweep.plan.axes, strict=True):
        wide = load_view(sweep.paths, asked, axes, lambda _, axes=axes: plan.of_axes(axes))  # type: ignore[misc]
        proposals.append(propose(own, wide, asked, most, config.search.seed))
    steps = [step for proposal in proposals for step in proposal.steps]
    document = {
        "version": VERSION,
        "sweep_dir": str(sweep.paths.root),
        "budget_unit": plan.budget_unit,
        "spent": spent,
        "pricing": to_json(asdict(plan.pricing)),
        "command": _store_steps(sweep, steps, spent) if steps and study else None,
        "variants": [
            _variant(sweep, axes, n, proposal, plan)
            for axes, n, proposal in zip(sweep.plan.axes, first, proposals, strict=True)
        ],
    }
    if config.format == "json":
        show_json(console, document)
    else:
        say(console, *_lines(sweep.name, document, proposals))
    return 0


def _spent(sweep: StoredSweep, views: "Sequence[SweepData]") -> float:
    """Compute of all the sweep's runs together, in its unit."""
    curves = [curve for view in views for curve in view.curves if curve.compute.size]
    spent = math.fsum(float(curve.compute[-1]) for curve in curves)
    if spent == 0.0:
        rule = "none of its runs has a record after step 0, so no run can be valued"
        nearest = f"mode=resume {typed('sweep', sweep.reference)} first"
        raise SettingError("sweep", sweep.name, rule, nearest)
    return spent


def _widened_study(sweep: StoredSweep, generations: set[int]) -> Study:
    """The sweep's plan with further n and seeds, by the planner itself."""
    grid, last = sweep.config.grid, max(sweep.config.grid.seeds)
    seeds = [*grid.seeds, *range(last + 1, last + 1 + _SEEDS)]
    wider = replaced(grid, seeds=seeds)
    for n in generations:
        wider = replaced(wider, **settings_with(wider, n))
    study = resolve_stored(replaced(sweep.config, grid=wider, search=SearchConfig()))
    if {run.run_id for run in sweep.plan.runs} <= {run.run_id for run in study.plan.runs}:
        return study
    rule = "was planned by another version of isosweep, and this one would not reuse its runs"
    raise SettingError("sweep", sweep.name, rule, "a sweep of this version")


def _store_steps(sweep: StoredSweep, steps: "Sequence[Proposed]", spent: float) -> str:
    """Plan a search over the sweep's grid and the proposed runs beside the sweep, and return the
    command that trains them."""
    runs, grid = [step.run for step in steps], sweep.config.grid
    wider = replaced(
        grid,
        num_generations=sorted({*grid.num_generations, *(r.num_generations for r in runs)}),
        problems_per_batch=sorted(
            {*grid.problems_per_batch, *(r.problems_per_batch for r in runs)}
        ),
        seeds=sorted({*grid.seeds, *(r.seed for r in runs)}),
    )
    # Rounded to four digits, and not below what the steps take.
    limit = float(f"{1.001 * (spent + math.fsum(step.compute for step in steps)):.4g}")
    seed = sweep.config.search.seed
    search = SearchConfig(name="frontier", kind="frontier", max_compute=limit, seed=seed)
    asked = replaced(sweep.config, mode="run", sweep=None, grid=wider, search=search)
    study = resolve_stored(asked)
    name = f"{sweep.name}-next-{study.plan.plan_id}"
    study = replace(study, config=replaced(study.config, sweep=[name]))
    paths = sweep_paths(study)
    store_plan(study, paths)
    return f"python -m isosweep mode=resume {typed('sweep', paths.root)}"


def _variant(
    sweep: StoredSweep, axes: JsonObject, first: int | None, proposal: "Proposal", plan: Plan
) -> JsonObject:
    """The document of a proposal; `first`: the n that the report wants added before all else."""
    planned = sweep.kind == "planned" and first is not None
    settings = settings_with(sweep.config.grid, first) if planned and first else {}
    return {
        "axes": axes,
        "stop": to_json(asdict(proposal.stop)) if proposal.stop else None,
        "first": {"n": first, "settings": settings} if planned else None,
        "chances": proposal.chances,
        "agree": proposal.agree,
        "expected_loss": proposal.loss,
        "steps": [_step(step, plan) for step in proposal.steps],
    }


def _step(step: "Proposed", plan: Plan) -> JsonObject:
    cells = {cell.budget: cell for cell in plan.cells if cell.run_id == step.run.run_id}
    before = cells[step.reached].device_hours if step.reached in cells else 0.0
    whole = cells[step.milestone].device_hours
    return {
        "run_id": step.run.run_id,
        "num_generations": step.run.num_generations,
        "problems_per_batch": step.run.problems_per_batch,
        "seed": step.run.seed,
        "reached": step.reached,
        "milestone": step.milestone,
        "compute": step.compute,
        # That the step adds, as planned.
        "device_hours": None if whole is None else max(0.0, whole - (before or 0.0)),
        "loss_saved": step.loss,
        "verdict_decided": step.verdict,
        "agree": step.agree,
        "valued_as_n": step.like,
    }


def _lines(name: str, document: JsonObject, proposals: "Sequence[Proposal]") -> list[str]:
    """The document in words."""
    unit, pricing = document["budget_unit"], pricing_from(document["pricing"])
    lines = [f"{name}: its runs have spent {amount(document['spent'], unit)}"]
    for variant, proposal in zip(document["variants"], proposals, strict=True):
        label = variant_label(variant["axes"])
        lines += words.belief(proposal, variant["first"], label)
        if variant["steps"]:
            rows = [
                [read(step, pricing) for read in _COLUMNS.values()] for step in variant["steps"]
            ]
            lines += [f"  {line}" for line in aligned([list(_COLUMNS), *rows])]
            lines += words.steps(variant, label, unit, pricing)
    if document["command"]:
        lines += [words.NOT_LAUNCHED, f"  {document['command']}"]
    return lines
