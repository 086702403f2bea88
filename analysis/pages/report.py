"""The report as one HTML page that needs nothing but itself. Every value is escaped."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs
from plotly.utils import PlotlyJSONEncoder

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.all import Figures
from isosweep.analysis.figures.axes import UNITS
from isosweep.analysis.figures.colors import DARK
from isosweep.analysis.figures.description import Figure, LeftOut
from isosweep.analysis.figures.draw_plotly import to_plotly
from isosweep.analysis.pages.tables import (
    asymptote_table,
    cell_table,
    change_table,
    fit_table,
    frontier_table,
    html_table,
    missing_runs,
    validation_text,
    view_table,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.summary import summarise

_HERE = Path(__file__).parent


def render_page(
    data: SweepData,
    findings: Findings,
    figures: Figures,
    settings: Mapping[str, Any],
) -> str:
    """The whole page. `settings`: names and values shown in the last table."""
    frontier, saturation = findings.frontier, findings.saturation
    axes = [f"{name}={value}" for run in data.plan.runs[:1] for name, value in run.axes.items()]
    metric = [] if data.metric == "avg" else [f"{data.metric}@k"]
    title = "isosweep: " + ", ".join([_name(data, "model"), _name(data, "task"), *axes, *metric])
    parts = [
        f'<p class="summary">{escape(" ".join(summarise(data, findings)))}</p>',
        f'<div class="verdict"><strong>{escape(saturation.verdict)}</strong>',
        f"<p>{escape(saturation.reason)}</p></div>",
        *(html_figure(figure) for figure in figures.drawn),
        _left_out(figures.left_out),
        "<h2>Frontier</h2>",
        frontier_table(data, frontier),
        "<h2>Cells</h2>",
        f"<p>Compute in {escape(UNITS[data.plan.budget_unit])}; ~ marks a reading interpolated "
        "in log compute between two records.</p>",
        cell_table(data),
        "<h2>Other metrics and difficulties</h2>",
        "<p>At the largest budget, each by its own reward surface. best@k: any of a problem's k "
        "samples is right (coverage); worst@k: all are (sharpness).</p>",
        view_table(findings.views),
        "<h2>Problems</h2>",
        change_table(findings.changes),
        "<h2>Forecast check</h2>",
        validation_text(findings.validation, UNITS[data.plan.budget_unit]),
        "<h2>Fits</h2>",
        "<p>R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B), one fit a run; ± standard error. "
        "Parameters that the records do not identify are left out. Best law: of sigmoid, power "
        "law, log-linear (arXiv 2509.25300) and rise then fall, by QAICc.</p>",
        fit_table(data, findings.fits),
        "<h2>Asymptotes</h2>",
        asymptote_table(findings),
        "<h2>Runs and cells that are missing</h2>",
        missing_runs(data),
        "<h2>Settings</h2>",
        html_table(("setting", "value"), settings.items(), words=(0, 1)),
    ]
    return html_page(title, parts)


def html_page(title: str, parts: Sequence[str]) -> str:
    """A whole page under `title`, which follows the reader's light or dark colours."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title>",
            f"<style>{_own_file('page.css')}</style><script>{get_plotlyjs()}</script></head><body>",
            '<button id="colors" type="button" title="light, dark, or as the system has it">'
            "colours: auto</button>",
            f"<h1>{escape(title)}</h1>",
            *parts,
            _data("dark-colors", "", DARK),
            f"<script>{_own_file('page.js')}</script>",
            "</body></html>",
        ]
    )


def _name(data: SweepData, group: str) -> str:
    """Name of the model or task, as the sweep's config or its plan tells it."""
    described = data.config_document.get(group)
    if isinstance(described, dict) and "name" in described:
        return str(described["name"])
    models = data.plan_document.get("cost_models")
    known = models[0] if isinstance(models, list) and isinstance(models[0], dict) else {}
    return str(known.get(group, f"unnamed {group}"))


def _own_file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def html_figure(figure: Figure) -> str:
    place = f"figure-{figure.name}"
    described = to_plotly(figure).to_plotly_json()
    return (
        f'<figure><div class="plot" id="{place}" role="img" aria-label="{escape(figure.title)}">'
        f"</div>{_data('', place, described)}"
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _data(name: str, place: str, value: object) -> str:
    """JSON for the page's script, under an id or as the figure of a place."""
    which = f'class="figure" data-place="{place}"' if place else f'id="{name}"'
    text = json.dumps(value, cls=PlotlyJSONEncoder, separators=(",", ":"))
    # Inside a script element only "<" can end the data or begin a comment.
    text = text.replace("<", "\\u003c")
    return f'<script type="application/json" {which}>{text}</script>'


def _left_out(figures: Sequence[LeftOut]) -> str:
    if not figures:
        return ""
    told = "; ".join(f"{figure.name} ({figure.reason})" for figure in figures)
    return f'<p class="aside">Figures left out: {escape(told)}.</p>'
