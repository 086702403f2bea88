"""Analyses a sweep and writes what came of it: fits, frontier, figures and the report."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isosweep import __version__
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.all import Figures, describe_figures
from isosweep.analysis.figures.draw_matplotlib import write_figure
from isosweep.analysis.load import load_view
from isosweep.analysis.pages.report import render_page
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.analysis.statistics.fits import Fit
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.saturation import Saturation, Verdict
from isosweep.analysis.summary import base_reward, summarise
from isosweep.analysis.tables import all_tables, to_csv
from isosweep.config.analysis import AnalysisConfig
from isosweep.files import JsonObject, write_json, write_text
from isosweep.store.paths import SweepPaths

# 2: the reward surface, laws of n*(C), asymptotes over seeds.
ANALYSIS_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What came of a sweep. `summary`: sentences; `figures`: all files.

    `base_reward`: mean over runs before training; `best_reward`: the mean over seeds of the best
    cell at the largest budget that was read. Both None without records.
    """

    verdict: Verdict
    reason: str
    summary: tuple[str, ...]
    saturation: Saturation
    frontier: Frontier
    fits: tuple[Fit, ...]
    base_reward: float | None
    best_reward: float | None
    figures: tuple[Path, ...]
    report: Path


def analyse(
    paths: SweepPaths, config: AnalysisConfig, axes: dict[str, Any] | None = None
) -> Analysis:
    """Analyse the sweep as far as its runs have come, and replace its `analysis/`.

    `axes`: the variant of `grid.axes` to analyse, where the plan has several.

    Raises RecordError when the sweep has no readable plan.
    """
    data = load_view(paths, config, axes)
    findings = find(data, config, views=True)
    frontier, saturation = findings.frontier, findings.saturation
    figures = describe_figures(data, findings)
    drawn = _write_figures(figures, paths.figures)
    versions = {
        "isosweep": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in ("numpy", "scipy", "plotly", "matplotlib")},
    }
    write_json(paths.fits, fits_document(data, config, findings, versions))
    for table in all_tables(data, findings):
        write_text(paths.table(table.name), to_csv(table))
    settings = _settings(data, config, versions)
    write_text(paths.report, render_page(data, findings, figures, settings))
    return Analysis(
        verdict=saturation.verdict,
        reason=saturation.reason,
        summary=summarise(data, findings),
        saturation=saturation,
        frontier=frontier,
        fits=findings.fits,
        base_reward=base_reward(data),
        best_reward=frontier.budgets[-1].best.cell.mean if frontier.budgets else None,
        figures=drawn,
        report=paths.report,
    )


def _write_figures(figures: Figures, directory: Path) -> tuple[Path, ...]:
    """Write all figures, and remove those of an earlier analysis that are no longer drawn."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn = [path for figure in figures.drawn for path in write_figure(figure, directory)]
    for path in directory.iterdir():
        if path not in drawn and path.suffix in (".png", ".svg", ".pdf"):
            path.unlink()
    return tuple(drawn)


def fits_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that every fits.json holds to."""
    path = Path(__file__).parent / "fits.schema.json"
    schema: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    return schema


def fits_document(
    data: SweepData, config: AnalysisConfig, findings: Findings, versions: Mapping[str, str]
) -> JsonObject:
    """What `fits.json` holds: verdict, frontier per budget and n, one fit a run, and the rest."""
    saturation, validation = findings.saturation, findings.validation
    document = {
        "version": ANALYSIS_VERSION,
        "plan_id": data.plan_document.get("plan_id"),
        "budget_unit": data.plan.budget_unit,
        "verdict": saturation.verdict,
        "reason": saturation.reason,
        "saturation": asdict(saturation),
        "settings": asdict(config),
        "versions": dict(versions),
        "frontier": asdict(findings.frontier),
        "fits": [{**asdict(fit), "status": fit.status.value} for fit in findings.fits],
        "asymptotes": [asdict(found) for found in findings.asymptotes],
        "problem_changes": [asdict(change) for change in findings.changes],
        "views": [asdict(view) for view in findings.views],
        "validation": None if validation is None else asdict(validation),
        "problems": list(data.problems),
    }
    finite: JsonObject = _without_nan(document)
    return finite


def _without_nan(value: Any) -> Any:
    """`value` with None for numbers that JSON cannot hold."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _settings(
    data: SweepData, config: AnalysisConfig, versions: Mapping[str, str]
) -> dict[str, object]:
    """Dotted names and values: the sweep's config, what the analysis used, and versions."""
    settings: dict[str, object] = {}
    _flatten(data.config_document, "", settings)
    _flatten(asdict(config), "analysis.", settings)
    settings["plan_id"] = data.plan_document.get("plan_id", "")
    settings.update({f"version of {name}": number for name, number in versions.items()})
    return settings


def _flatten(document: Mapping[str, Any], prefix: str, into: dict[str, object]) -> None:
    for key, value in document.items():
        if isinstance(value, dict):
            _flatten(value, f"{prefix}{key}.", into)
        else:
            into[f"{prefix}{key}"] = value
