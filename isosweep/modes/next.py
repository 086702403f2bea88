"""`mode=next`: the steps that a search would take next on a stored sweep, and what each costs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from isosweep.config.base import replaced
from isosweep.config.study import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject, to_json
from isosweep.modes.sweeps import StoredSweep, never_launched, store_plan, stored_sweep, sweep_paths
from isosweep.modes.terminal import say, show_json, typed
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.study import Study, resolve_stored
from isosweep.words import next as words

if TYPE_CHECKING:
    from isosweep.analysis.curves import SweepData
    from isosweep.search.candidates import Step

# Raised when a field goes or changes its meaning; fields may be added.
VERSION: Final = 4
# Further seeds that are considered. Not a larger budget, which asks another question.
_SEEDS = 2
# Steps that are priced: what comes after them depends on what they show.
_STEPS = 8


def propose_next(config: SweepConfig, console: Console) -> int:
    """Print which runs a search would train next, what they cost, and the command for them; 0.

    The search is `search=frontier` over the sweep's grid with two further seeds, within
    `search.max_compute`. Nothing is launched: it is planned in a directory of its own, which shares
    all that was trained. Raises SettingError for a sweep without records, and for one that a search
    cannot go on with.
    """
    from isosweep.analysis.load import load_sweep
    from isosweep.search.asking import on_budgets, steps_to_train
    from isosweep.search.frontier import decide

    sweep = stored_sweep(config)
    study, plan = _further(sweep, config.search)
    analysis = on_budgets(sweep.config).analysis

    def view(axes: dict[str, Any]) -> "SweepData":
        return load_sweep(sweep.paths, analysis, axes, lambda _: plan.of_axes(axes))

    datas = [view(axes) for axes in sweep.plan.axes]
    spent = math.fsum(float(c.compute[-1]) for d in datas for c in d.curves if c.compute.size)
    if spent == 0.0:
        rule = "none of its runs has a record after step 0, so no run can be valued"
        nearest = f"mode=resume {typed('sweep', sweep.reference)} first"
        raise SettingError("sweep", sweep.name, rule, nearest)
    asked = replaced(sweep.config, search=_frontier(config.search))
    decision = steps_to_train(*(plan, datas, sweep.paths, asked, _STEPS), decide=decide, pending={})
    command = None
    if study is not None and decision.steps:
        command = _store(sweep, study, decision.steps, spent)
    document = {
        "version": VERSION,
        "sweep": sweep.name,
        "sweep_dir": str(sweep.paths.root),
        "budget_unit": plan.budget_unit,
        "spent": spent,
        "pricing": to_json(asdict(plan.pricing)),
        "command": command,
        "stop": decision.stop,
        "chances": decision.chances,
        "expected_loss": decision.loss,
        "steps": [_step(step, plan) for step in decision.steps],
        "considered": [_step(step, plan) for step in decision.considered],
    }
    if config.format == "json":
        show_json(console, document)
    else:
        say(console, *words.lines(document, plan.pricing))
    return 0


def _frontier(search: SearchConfig) -> SearchConfig:
    return SearchConfig(name="frontier", max_compute=search.max_compute, seed=search.seed)


def _further(sweep: StoredSweep, search: SearchConfig) -> tuple[Study | None, Plan]:
    """The sweep planned anew with further seeds and a search; no study of an imported one, of which
    only what its own runs cost is known."""
    if sweep.kind != "planned":
        from isosweep.importing.plan import further_plan

        return None, further_plan(sweep.plan, (), _SEEDS)
    seeds = sweep.config.grid.seeds
    more = range(max(seeds) + 1, max(seeds) + 1 + _SEEDS)
    grid = replaced(sweep.config.grid, seeds=sorted({*seeds, *more}))
    wider = replaced(sweep.config, mode="run", sweep=None, grid=grid, search=_frontier(search))
    study = resolve_stored(wider)
    if {run.run_id for run in sweep.plan.runs} <= {run.run_id for run in study.plan.runs}:
        return study, study.plan
    rule = "was planned by another version of isosweep, and this one would not reuse its runs"
    raise SettingError("sweep", sweep.name, rule, "a sweep of this version")


def _store(sweep: StoredSweep, study: Study, steps: "Sequence[Step]", spent: float) -> str:
    """Plan the search beside the sweep, with compute for `steps`, and return the command that
    trains them."""
    # Rounded to four digits, and not below what the steps take.
    limit = float(f"{1.001 * (spent + math.fsum(step.compute for step in steps)):.4g}")
    search = replaced(study.config.search, max_compute=limit)
    name = f"{sweep.name}-next-{study.plan.plan_id}"
    for number in count(1):
        own = name if number == 1 else f"{name}-{number}"
        study = replace(study, config=replaced(study.config, sweep=[own], search=search))
        paths = sweep_paths(study)
        # One that was launched keeps its settings.
        if not paths.plan.exists() or never_launched(paths.root):
            break
    store_plan(study, paths)
    return f"python -m isosweep mode=resume {typed('sweep', paths.root)}"


def _step(step: "Step", plan: Plan) -> JsonObject:
    """A step with its run, and the device-hours that it adds by the plan."""
    run = next(run for run in plan.runs if run.run_id == step.run_id)
    hours = {c.budget: c.device_hours for c in plan.cells if c.run_id == step.run_id}
    whole, reached = hours[step.milestone], 1.001 * (step.milestone - step.compute)
    before = max((h or 0.0 for budget, h in hours.items() if budget <= reached), default=0.0)
    return {
        **asdict(step),
        "num_generations": run.num_generations,
        "problems_per_batch": run.problems_per_batch,
        "seed": run.seed,
        "axes": run.axes,
        "variant": variant_label(run.axes),
        "device_hours": None if whole is None else max(0.0, whole - before),
    }
