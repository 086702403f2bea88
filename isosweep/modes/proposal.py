"""`mode=next`: the further runs that would decide a sweep, and what each is worth."""

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from isosweep import words
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import replaced
from isosweep.config.search import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject, to_json, write_json
from isosweep.modes.directory import StoredSweep, never_launched, one_sweep, store_plan, sweep_paths
from isosweep.modes.further import further_n
from isosweep.modes.terminal import aligned, say, show_json, typed
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.study import Study, resolve_stored
from isosweep.pricing import Pricing, pricing_from
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import price

if TYPE_CHECKING:
    from isosweep.analysis.answer import AddN
    from isosweep.analysis.curves import SweepData
    from isosweep.search.proposing import Proposal, Proposed

# Raised when a field goes or changes its meaning; fields may be added.
NEXT_VERSION: Final = 2
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

    sweep = one_sweep(config, "a proposal is for")
    # On the sweep's own budgets: steps end at them.
    asked = replaced(sweep.config.analysis, compute_axis=None)
    views = [load_view(sweep.paths, asked, axes) for axes in sweep.plan.axes]
    spent = _spent(sweep, views)
    most = config.search.max_compute or _SHARE * spent
    first: list[AddN | None] = [None for _ in views]
    study: Study | None = None
    if sweep.kind == "planned":
        first = [_first(sweep, view, asked) for view in views]
        study = _wide(sweep, views, first)
        plan, store = study.plan, partial(store_plan, study)
    else:
        # Nothing can be planned of what was trained elsewhere but by what it cost there.
        plan = _wide_imported(sweep, views, asked)
        store = partial(_store_imported, plan)
    found = _proposals(sweep, store, views, asked, most / len(views), config.search.seed)
    steps = tuple(step for each in found for step in each.steps)
    command = None
    if steps and study is not None:
        planned = _planned(sweep, study, steps, spent)
        command = f"python -m isosweep mode=resume {typed('sweep_dir', planned)}"
    document = {
        "version": NEXT_VERSION,
        "sweep_dir": str(sweep.paths.root),
        "budget_unit": plan.budget_unit,
        "spent": spent,
        "pricing": to_json(asdict(plan.pricing)),
        "command": command,
        "variants": [
            _variant(axes, n, proposal, plan)
            for axes, n, proposal in zip(sweep.plan.axes, first, found, strict=True)
        ],
    }
    if config.format == "json":
        show_json(console, document)
    else:
        say(console, *_lines(sweep.name, document))
    return 0


def _spent(sweep: StoredSweep, views: "list[SweepData]") -> float:
    """Compute of all the sweep's runs together, in its unit."""
    curves = [curve for view in views for curve in view.curves if curve.compute.size]
    spent = math.fsum(float(curve.compute[-1]) for curve in curves)
    if spent == 0.0:
        rule = "none of its runs has a record after step 0, so no run can be valued"
        raise SettingError(
            "from", sweep.name, rule, f"mode=resume {typed('sweep_dir', sweep.reference)} first"
        )
    return spent


def _first(sweep: StoredSweep, view: "SweepData", asked: AnalysisConfig) -> "AddN | None":
    """The n of a variant that comes before all else, with the grid that takes it."""
    from isosweep.search.proposing import first_n

    n = first_n(view, asked)
    return None if n is None else further_n(view.plan, sweep.config, n)


def _wide(sweep: StoredSweep, views: "list[SweepData]", first: "list[AddN | None]") -> Study:
    """The sweep's plan with further seeds and n, those of `first` too, by the planner itself."""
    from isosweep.search.proposing import widened

    # Another plan, which has no directory yet.
    config, plan = replaced(sweep.config, name=None, sweep_dir=None), sweep.plan
    further = {n for view in views for n in widened(view.plan, view)}
    grid = config.grid
    seeds = [*grid.seeds, *range(max(grid.seeds) + 1, max(grid.seeds) + 1 + _SEEDS)]
    added = [each.settings for each in first if each is not None]
    further.update(n for settings in added for n in settings.get("num_generations", ()))
    batches = {B for settings in added for B in settings.get("problems_per_batch", ())}
    wider = replaced(
        grid,
        num_generations=sorted({*grid.num_generations, *further}),
        problems_per_batch=sorted({*grid.problems_per_batch, *batches}),
        seeds=seeds,
    )
    study = resolve_stored(replaced(config, grid=wider, search=SearchConfig()))
    if {run.run_id for run in plan.runs} <= {run.run_id for run in study.plan.runs}:
        return study
    rule = "was planned by another version of isosweep, and this one would not reuse its runs"
    raise SettingError("from", sweep.name, rule, "a sweep of this version")


def _wide_imported(sweep: StoredSweep, views: "list[SweepData]", asked: AnalysisConfig) -> Plan:
    """The plan of runs that were trained elsewhere, with further seeds and n, at what they cost."""
    from isosweep.importing.plan import further_plan
    from isosweep.search.proposing import first_n, widened

    further = {n for view in views for n in widened(view.plan, view)}
    further.update(n for view in views if (n := first_n(view, asked)) is not None)
    return further_plan(sweep.plan, further, _SEEDS)


def _store_imported(plan: Plan, paths: SweepPaths) -> None:
    from isosweep.importing.store import imported_document

    write_json(paths.plan, imported_document(plan))


def _proposals(
    sweep: StoredSweep,
    store: Callable[[SweepPaths], None],
    views: "list[SweepData]",
    asked: AnalysisConfig,
    most: float,
    seed: int,
) -> "list[Proposal]":
    """One for each variant, of at most so much compute each."""
    from isosweep.analysis.load import load_view
    from isosweep.search.proposing import propose

    with tempfile.TemporaryDirectory() as directory:
        # The planner's own document, beside the runs that there are.
        paths = SweepPaths(Path(directory) / "wide", sweep.paths.runs)
        paths.root.mkdir()
        store(paths)
        wider = [load_view(paths, asked, axes) for axes in sweep.plan.axes]
    return [propose(own, each, asked, most, seed) for own, each in zip(views, wider, strict=True)]


def _planned(sweep: StoredSweep, wide: Study, steps: "Sequence[Proposed]", spent: float) -> Path:
    """The directory of a search over the sweep's grid and what is proposed beside it."""
    grid, config = sweep.config.grid, wide.config
    runs = [step.run for step in steps]
    limit = spent + math.fsum(step.compute for step in steps)
    # Rounded up, so that what is proposed keeps to it.
    unit = 10.0 ** (math.floor(math.log10(limit)) - 3)
    asked = replaced(
        config,
        mode="run",
        grid=replaced(
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
        study = replace(study, config=replaced(asked, sweep_dir=f"{sweep.paths.root}-next"))
    paths = first = sweep_paths(study)
    for number in count(2):
        # One that was launched keeps its settings.
        if not paths.plan.exists() or never_launched(paths.root):
            break
        study = replace(study, config=replaced(asked, sweep_dir=f"{first.root}-{number}"))
        paths = sweep_paths(study)
    store_plan(study, paths)
    return paths.root


def _variant(
    axes: JsonObject, first: "AddN | None", proposal: "Proposal", plan: Plan
) -> JsonObject:
    """The document of a proposal; `first`: the n that the report wants added before all else."""
    return {
        "axes": axes,
        "stop": to_json(asdict(proposal.stop)) if proposal.stop else None,
        "first": to_json(asdict(first)) if first else None,
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


def _lines(name: str, document: JsonObject) -> list[str]:
    """The document as the terminal has it."""
    lines, pricing = words.lines("next", "spent", name, document), pricing_from(document["pricing"])
    for variant in document["variants"]:
        label = variant_label(variant["axes"])
        lines += words.lines("next", "belief", variant, label, pricing)
        if variant["steps"]:
            lines += _table(variant["steps"], pricing)
            lines += words.lines("next", "steps", variant, label, document["budget_unit"], pricing)
    if document["command"]:
        lines += [words.line("next", "not_launched"), f"  {document['command']}"]
    return lines


def _table(steps: list[JsonObject], pricing: Pricing) -> list[str]:
    rows = [[read(step, pricing) for read in _COLUMNS.values()] for step in steps]
    return [f"  {line}" for line in aligned([list(_COLUMNS), *rows])]
