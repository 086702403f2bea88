"""A tuned setting: `tuning.json`, figures, and a page that says what to set and how surely."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from isosweep import words
from isosweep.analysis.columns import MISSING, PageTable, page_table, span, written
from isosweep.analysis.course import Course
from isosweep.analysis.figures.by_value import cell_label, tuning_figures
from isosweep.analysis.figures.draw_matplotlib import write_figures
from isosweep.analysis.pages.render import render
from isosweep.analysis.statistics.best_values import TunedAt, Tuning
from isosweep.analysis.tuned import TunedCell
from isosweep.config.analysis import FigureWidth
from isosweep.files import to_json, write_json, write_text
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import UNITS, short


def write_tuning(
    tuning: Tuning,
    cells: Sequence[TunedCell],
    paths: SweepPaths,
    formats: Collection[str],
    *,
    handed: Mapping[str, object],
    margin: float,
    course: Course | None,
    width: FigureWidth = "two_columns",
) -> None:
    """Write what was found into `paths.analysis`, replacing what was there; `handed`: the settings
    for the grid."""
    figures = tuning_figures(tuning, cells, course)
    write_figures(figures, paths.figures, formats, width)
    document = to_json(asdict(tuning) | {"settings_for_the_grid": dict(handed)})
    write_json(paths.tuning, document)
    page = render(
        "tuning.html",
        "isosweep: " + ", ".join(tuning.settings) + " tuned",
        summary=words.lines("tuning", "summary", document, margin),
        handed=as_overrides(handed),
        drawn=figures,
        tried=[
            (f"{cell_label(at)} at {short(at.budget)} {UNITS[tuning.unit]}", _tried_table(at))
            for at in (*tuning.cells, *reversed(tuning.courses))
        ],
        cells=len(tuning.cells),
        rules=_rule_table(tuning),
        preferences=_preference_table(tuning),
    )
    write_text(paths.report, page)


def as_overrides(handed: Mapping[str, object]) -> str:
    """Settings as the command line takes them."""
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in handed.items()
    )


def _values(values: Mapping[str, float]) -> str:
    return " x ".join(f"{value:g}" for value in values.values())


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _tried_table(at: TunedAt) -> PageTable:
    rows = [
        (
            _values(tried.values),
            f"{tried.mean:.4f}",
            tried.num_seeds,
            tried.num_fallen,
            written(".4f")(tried.expected),
            span(*(tried.interval or (None, None))),
            written(".4f")(tried.loss),
            written(".0%")(tried.probability_best),
        )
        for tried in at.tried
    ]
    names = " x ".join(at.best.values)
    head = (names, "mean", "seeds", "collapsed", "expected", "interval", "lost", "probability best")
    return page_table(head, rows)


def _rule_table(tuning: Tuning) -> PageTable:
    rows = [
        (
            rule.rule,
            f"{rule.exponent:g}",
            MISSING if rule.agrees is None else ("yes" if rule.agrees else "no"),
            written(".4f")(rule.loss),
            written(".4f")(rule.loss_upper),
        )
        for rule in tuning.rules
    ]
    head = ("rule", "exponent", "agrees", "reward lost", "at most")
    return page_table(head, rows, left=(0, 2))


def _preference_table(tuning: Tuning) -> PageTable:
    rows = [
        (_values(p.values), *(_signed(v) for v in (p.gain.median, p.gain.low, p.gain.high)))
        for p in tuning.preferences
    ]
    return page_table((" x ".join(tuning.settings), "gain of the second", "low", "high"), rows)
