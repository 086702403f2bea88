"""What the report's page shows: values for its template."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from isosweep.analysis.columns import Table, page_table
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.all import Figures
from isosweep.analysis.figures.axes import UNITS
from isosweep.analysis.figures.description import Section
from isosweep.analysis.pages.render import render
from isosweep.analysis.pages.tables import missing_runs, set_table, view_table
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.summary import summarise
from isosweep.analysis.tables import cell_page
from isosweep.heldout import CHANGED
from isosweep.plan.cells import variant_label


def render_report(
    data: SweepData,
    findings: Findings,
    figures: Figures,
    tables: Sequence[Table[Any]],
    settings: Mapping[str, Any],
) -> str:
    """The whole page. `tables`: those of its files; `settings`: names and values, shown last."""
    return render(
        "report.html",
        _title(data),
        summary=summarise(data, findings),
        verdict=findings.saturation.verdict,
        reason=findings.saturation.reason,
        drawn={section: figures.of(section) for section in get_args(Section)},
        left_out=figures.left_out,
        frontier=findings.frontier,
        tables={table.name: table.to_page() for table in tables},
        cells=cell_page(data),
        unit=UNITS[data.plan.budget_unit],
        views=view_table(findings.views),
        sets=set_table(data),
        changed=CHANGED,
        validation=findings.validation,
        missing=missing_runs(data),
        searched=data.searched,
        survived=findings.survivals,
        num_rejected=len(data.plan.rejected),
        problems=data.problems,
        settings=page_table(("setting", "value"), settings.items(), left=(0, 1)),
    )


def _title(data: SweepData) -> str:
    axes = [variant_label(run.axes) for run in data.plan.runs[:1] if run.axes]
    metric = [] if data.metric == "avg" else [f"{data.metric}@k"]
    scored = [f"scored on {data.evaluation_set}"] if data.evaluation_set is not None else []
    named = [_name(data, "model"), _name(data, "task"), *axes, *scored, *metric]
    return "isosweep: " + ", ".join(named)


def _name(data: SweepData, group: str) -> str:
    """Name of the model or task, as the sweep's config or its plan has it."""
    described = data.config_document.get(group)
    if isinstance(described, dict) and "name" in described:
        return str(described["name"])
    models = data.plan_document.get("cost_models")
    known = models[0] if isinstance(models, list) and isinstance(models[0], dict) else {}
    return str(known.get(group, f"unnamed {group}"))
