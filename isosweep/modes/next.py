"""`mode=next`: the further runs that would decide a sweep, and what each is worth."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import replaced
from isosweep.config.study import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject, to_json
from isosweep.modes.analyse import settings_with
from isosweep.modes.sweeps import StoredSweep, never_launched, store_plan, stored_sweep, sweep_paths
from isosweep.modes.terminal import aligned, say, show_json, typed
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.study import Study, resolve_stored
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


def propose_next(config: SweepConfig, console: Console) -> int:
    """Print which runs to train next, what each is worth, and the command that trains them; 0.

    They keep to `search.max_compute`. Nothing is launched: the runs are planned in a sweep of
    their own, which shares all that was trained. Raises SettingError for a sweep without records,
    and for one that searches cannot go on with.
    """
    from isosweep.importing.plan import further_plan
    from isosweep.search.proposing import first_n, propose, widened

    sweep = stored_sweep(config)
    # On the sweep's own budgets: steps end at them.
    asked = replaced(sweep.config.analysis, compute_axis=None)
    views = [_view(sweep, asked, axes) for axes in sweep.plan.axes]
    curves = [curve for view in views for curve in view.curves if curve.compute.size]
    spent = math.fsum(float(curve.compute[-1]) for curve in curves)
    if spent == 0.0:
        rule = "none of its runs has a record after step 0, so no run can be valued"
        nearest = f"mode=resume {typed('sweep', sweep.reference)} first"
        raise SettingError("sweep", sweep.name, rule, nearest)
    further = {n for view in views for n in (*widened(view.plan, view), first_n(view, asked)) if n}
    # Of what was trained elsewhere only what its own runs cost is known.
    planned = sweep.kind == "planned"
    plan = _widened(sweep, further) if planned else further_plan(sweep.plan, further, _SEEDS)
    most = (config.search.max_compute or _SHARE * spent) / len(views)
    seed = config.search.seed
    proposals = [
        propose(view, _view(sweep, asked, axes, plan), asked, most, seed)
        for view, axes in zip(views, sweep.plan.axes, strict=True)
    ]
    steps = [step for proposal in proposals for step in proposal.steps]
    variants = [
        {
            "axes": axes,
            "stop": to_json(asdict(proposal.stop)) if proposal.stop else None,
            "chances": proposal.chances,
            "agree": proposal.agree,
            "expected_loss": proposal.loss,
            "steps": [_step(step, plan) for step in proposal.steps],
        }
        for axes, proposal in zip(sweep.plan.axes, proposals, strict=True)
    ]
    document = {
        "version": VERSION,
        "sweep_dir": str(sweep.paths.root),
        "budget_unit": plan.budget_unit,
        "spent": spent,
        "pricing": to_json(asdict(plan.pricing)),
        "command": _store_steps(sweep, steps, spent) if steps and planned else None,
        "variants": variants,
    }
    if config.format == "json":
        show_json(console, document)
    else:
        say(console, *_lines(sweep, document, proposals))
    return 0


def _view(
    sweep: StoredSweep, asked: AnalysisConfig, axes: dict[str, Any], plan: Plan | None = None
) -> "SweepData":
    """What the sweep's records say of one variant, by its own plan or by another one."""
    from isosweep.analysis.load import load_view

    other = None if plan is None else plan.of_axes(axes)
    return load_view(sweep.paths, asked, axes, lambda own: other or own)


def _widened(sweep: StoredSweep, generations: Iterable[int]) -> Plan:
    """The sweep's plan with further n and seeds, by the planner itself."""
    grid = sweep.config.grid
    settings = [settings_with(grid, n) for n in generations]
    batches = {B for each in settings for B in each.get("problems_per_batch", ())}
    last = max(grid.seeds)
    seeds = range(last + 1, last + 1 + _SEEDS)
    plan = _resolved(sweep, SearchConfig(), generations, batches, seeds).plan
    if {run.run_id for run in sweep.plan.runs} <= {run.run_id for run in plan.runs}:
        return plan
    rule = "was planned by another version of isosweep, and this one would not reuse its runs"
    raise SettingError("sweep", sweep.name, rule, "a sweep of this version")


def _resolved(
    sweep: StoredSweep,
    search: SearchConfig,
    generations: Iterable[int],
    batches: Iterable[int],
    seeds: Iterable[int],
) -> Study:
    """The sweep planned anew with a wider grid and another search."""
    grid = sweep.config.grid
    wider = replaced(
        grid,
        num_generations=sorted({*grid.num_generations, *generations}),
        problems_per_batch=sorted({*grid.problems_per_batch, *batches}),
        seeds=sorted({*grid.seeds, *seeds}),
    )
    return resolve_stored(replaced(sweep.config, mode="run", sweep=None, grid=wider, search=search))


def _store_steps(sweep: StoredSweep, steps: "Sequence[Proposed]", spent: float) -> str:
    """Plan a search over the sweep's grid and the proposed runs beside the sweep, and return the
    command that trains them."""
    # Rounded to four digits, and not below what the steps take.
    limit = float(f"{1.001 * (spent + math.fsum(step.compute for step in steps)):.4g}")
    seed = sweep.config.search.seed
    search = SearchConfig(name="frontier", max_compute=limit, seed=seed)
    sizes = zip(
        *((s.run.num_generations, s.run.problems_per_batch, s.run.seed) for s in steps),
        strict=True,
    )
    study = _resolved(sweep, search, *sizes)
    name = f"{sweep.name}-next-{study.plan.plan_id}"
    for number in count(1):
        own = name if number == 1 else f"{name}-{number}"
        study = replace(study, config=replaced(study.config, sweep=[own]))
        paths = sweep_paths(study)
        # One that was launched keeps its settings.
        if not paths.plan.exists() or never_launched(paths.root):
            break
    store_plan(study, paths)
    return f"python -m isosweep mode=resume {typed('sweep', paths.root)}"


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


def _lines(sweep: StoredSweep, document: JsonObject, proposals: "Sequence[Proposal]") -> list[str]:
    """The document in words."""
    unit, pricing = sweep.plan.budget_unit, sweep.plan.pricing
    lines = [f"{sweep.name}: its runs have spent {amount(document['spent'], unit)}"]
    for variant, proposal in zip(document["variants"], proposals, strict=True):
        label = variant_label(variant["axes"])
        lines += words.belief(proposal, label)
        rows = [("n", "B", "seed", "to", "adds", "devices", "saves", "decides", "agree")]
        for step in variant["steps"]:
            hours, adds = step["device_hours"], f"{step['compute']:.3g}"
            cost = "" if hours is None else price(hours, pricing, predicted=False)
            n, B, seed = step["num_generations"], step["problems_per_batch"], step["seed"]
            end, agree = f"{step['milestone']:.3g}", f"{step['agree']:.0%}"
            worth = f"{step['loss_saved']:.2g}", f"{step['verdict_decided']:.1%}", agree
            rows.append((str(n), str(B), str(seed), end, adds, cost, *worth))
        if variant["steps"]:
            lines += [f"  {line}" for line in aligned(rows)]
            lines += words.steps(variant, label, unit, pricing)
    if document["command"]:
        lines += [words.NOT_LAUNCHED, f"  {document['command']}"]
    return lines
