"""Analyses a sweep and writes what came of it: answer, tables, figures and the report."""

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isosweep.analysis.answer import Answer
from isosweep.analysis.completions import Sign, find_signs, read_kept
from isosweep.analysis.completions import table as completions_table
from isosweep.analysis.conclude import Advice, conclude
from isosweep.analysis.course import Course
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.all import draw_figures
from isosweep.analysis.figures.health import METRICS
from isosweep.analysis.figures.style import write_figures
from isosweep.analysis.load import load_sweep, read_training
from isosweep.analysis.pages.report import About, render_report
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.analysis.tables import all_tables
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import flattened, stored_settings
from isosweep.files import write_json, write_text
from isosweep.store.paths import SweepPaths
from isosweep.version import __version__


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What came of a sweep. `signs`: what of the models' answers is worth a look. `figures`: all
    files, by `analysis.formats`. The answer was read off `data` and `findings`."""

    answer: Answer
    signs: tuple[Sign, ...]
    figures: tuple[Path, ...]
    report: Path
    data: SweepData
    findings: Findings


def analyse(
    paths: SweepPaths,
    config: AnalysisConfig,
    axes: dict[str, Any] | None = None,
    course: Course | None = None,
    advice: Advice | None = None,
    *,
    going_on: Callable[[], bool] | None = None,
) -> Analysis:
    """Analyse the sweep as far as its runs have come, and replace its `analysis/`.

    `axes`: the variant of `grid.axes` to analyse, where the plan has several. `course`: of the
    search that chose the runs; `advice`: what would make the answer surer. `going_on`: runs go
    on: the report alone is written, which says how far they are and reloads itself, unless they do
    so no more by the time it is ready.

    Raises RecordError when the sweep has no readable plan.
    """
    data = replace(load_sweep(paths, config, axes), course=course)
    data = replace(data, training=read_training(paths, data, (*METRICS, "reward")))
    completions = read_kept(paths, data)
    signs = find_signs(completions)
    findings = find(data, config, new_problems=True)
    figures = draw_figures(data, findings)
    numbers = {k: v for k, v in config.model_dump().items() if k != "formats"}
    answer = replace(conclude(data, findings, advice), settings=numbers, versions=_versions())
    drawn = tuple[Path, ...]()
    paths.analysis.mkdir(parents=True, exist_ok=True)
    if going_on is None:
        drawn = write_figures(figures.drawn, paths.figures, config.formats)
        write_json(paths.answer, answer.document())
        paths.completions.unlink(missing_ok=True)
        if completions:
            write_json(paths.completions, completions_table(completions))
        for name, table in all_tables(data, findings).items():
            write_text(paths.table(name), table.to_csv())
    settings = _settings(data, config)
    about = About(
        settings=settings,
        answer=answer,
        completions=completions,
        signs=signs,
        going_on=going_on is not None,
    )
    page = render_report(data, findings, figures, about)
    if going_on is None or going_on():
        write_text(paths.report, page)
    return Analysis(
        answer=answer,
        signs=signs,
        figures=drawn,
        report=paths.report,
        data=data,
        findings=findings,
    )


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("numpy", "scipy", "matplotlib")}
    return {"isosweep": __version__, "python": platform.python_version(), **packages}


def _settings(data: SweepData, config: AnalysisConfig) -> dict[str, object]:
    """Dotted names and values: the config of the sweep, or of its variant, and what the analysis
    used."""
    axes = data.plan.runs[0].axes if data.plan.runs else {}
    settings = stored_settings(data.config_document, axes)
    return settings | flattened(config.model_dump(), "analysis.")
