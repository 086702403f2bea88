"""A sweep, read from its directory. Nothing in it is changed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.analysis.columns import Columns, Row
from isosweep.config.base import meant, one_of, replaced
from isosweep.config.study import AnalysisConfig
from isosweep.door.columns import PLAN, RECORDS, RUNS, SWEEPS
from isosweep.door.frames import (
    candidate_rows,
    frame,
    record_rows,
    run_rows,
    sweep_rows,
    with_axes,
)
from isosweep.door.selection import Selection, selection
from isosweep.errors import SettingError
from isosweep.metrics import METRICS
from isosweep.modes.directory import StoredSweep, named_root, read_sweep, sweep_roots
from isosweep.plan.cells import Plan, variant_label
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

    from isosweep.analysis.curves import SweepData
    from isosweep.analysis.recommend import Recommendation
    from isosweep.analysis.statistics.findings import Findings
    from isosweep.door.verdict import Verdict


def open(sweep_dir: str | Path, sweeps_dir: str | Path = "sweeps") -> "Sweep":  # noqa: A001
    """The sweep in a directory, ready to be read.

    `sweep_dir`: the directory, or the sweep's name in `sweeps_dir`, or how that name begins. Raises
    SettingError where no sweep or more than one fits, naming the nearest; RecordError where its
    files cannot be read.

    >>> isosweep.open("few_problems", "sweeps/studies")
    <Sweep few_problems: 153 runs, 3 budgets from 8.1e+10 to 3.24e+11 flops, 3 variants>
    """
    given, among = (str(Path(path).expanduser()) for path in (sweep_dir, sweeps_dir))
    stored = read_sweep(named_root("sweep_dir", given, among))
    return Sweep(stored=stored, analysis=stored.config.analysis)


def sweeps(sweeps_dir: str | Path = "sweeps") -> "pandas.DataFrame":
    """A frame of the sweeps in a directory, one a row, the newest first.

    One that cannot be read says why in `fault`.

    >>> isosweep.sweeps("sweeps/studies")[["name", "runs", "budget_unit"]]
               name   runs budget_unit
    0  few_problems  153.0       flops
    """
    from isosweep.modes.status import listed_sweep

    listed = [listed_sweep(root) for root in sweep_roots(str(Path(sweeps_dir).expanduser()))]
    return frame(SWEEPS, sweep_rows(listed))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Sweep:
    """A sweep to be read: its frames, verdict, figures and advice. Nothing in it is changed.

    `stored`: what its directory holds. `analysis`: the settings that its records are analysed by;
    those of the sweep's launch unless `view` changes them. `axes`: values of `grid.axes` of one
    variant; None for the whole sweep. `chosen`: the part that `select` has taken; None for all.

    `runs` and `records` read the files each time. The analysis is done once, when something of it
    is first needed; `refresh` gives a sweep that reads everything again.
    """

    stored: StoredSweep
    analysis: AnalysisConfig
    axes: dict[str, Any] | None = None
    chosen: Selection | None = None

    def __repr__(self) -> str:
        plan = self._plan
        budgets = f"{plan.budgets[0]:g} {plan.budget_unit}"
        if len(plan.budgets) > 1:
            last = f"{plan.budgets[-1]:g} {plan.budget_unit}"
            budgets = f"{len(plan.budgets)} budgets from {plan.budgets[0]:g} to {last}"
        several = f", {len(plan.axes)} variants" if len(plan.axes) > 1 else ""
        variant = f" ({variant_label(self.axes)})" if self.axes else ""
        part = f", {self.selected}" if self.selected else ""
        # Variants may share some.
        runs = len({run.run_id for run in plan.runs})
        return f"<Sweep {self.name}{variant}{part}: {runs} runs, {budgets}{several}>"

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.stored.name

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.stored.paths.root

    @property
    def report_path(self) -> Path | None:
        """The path of its newest report, `report.html`; None where `mode=analyse` wrote none.

        Each variant and each metric has its own report. A sweep with variants has a page that
        compares them. A selection has no report.
        """
        path = self._written.report
        return path if self.chosen is None and path.is_file() else None

    @property
    def selected(self) -> str:
        """What `select` has chosen, as typed; "" for all."""
        return "" if self.chosen is None else str(self.chosen)

    @cached_property
    def variants(self) -> dict[str, "Sweep"]:
        """Its variants of `grid.axes`, by name; the sweep itself where it has no axes."""
        axes = self._plan.axes
        if len(axes) == 1:
            return {variant_label(axes[0]): self}
        return {variant_label(values): replace(self, axes=values) for values in axes}

    def variant(self, name: str) -> "Sweep":
        """The variant of that name. Raises SettingError for a name that is none of `variants`."""
        one_of("variant", name, tuple(self.variants))
        return self.variants[name]

    def select(
        self,
        *,
        seeds: int | Iterable[int] | None = None,
        n: int | Iterable[int] | None = None,
        B: int | Iterable[int] | None = None,
        budgets: float | Iterable[float] | None = None,
    ) -> "Sweep":
        """The same sweep with some of its runs and budgets, analysed anew; nothing is written.

        Each argument takes one number or several; None takes all. With `budgets`, every run is read
        as though it had ended at the largest of them. Raises SettingError for a value that the
        sweep does not have, with the nearest.

        >>> small.select(seeds=[0, 1], n=[16, 32, 64, 128])
        <Sweep few_problems (few_problems), seeds=[0, 1], n=[16, 32, 64, 128]: 8 runs, ...>
        """
        new = selection(self._plan, seeds=seeds, n=n, B=B, budgets=budgets)
        chosen = new if self.chosen is None else self.chosen.narrowed(new)
        # Before anything is read: whether any run is all of that.
        chosen.of(self._plan)
        return replace(self, chosen=chosen)

    def view(self, **settings: Any) -> "Sweep":
        """The same sweep analysed by other settings of `analysis`, such as `metric="best"`.

        Raises SettingError for an unknown setting or value, with those that exist.

        >>> sweep.view(metric="best").analysis.metric
        'best'
        """
        _require_known(settings)
        return replace(self, analysis=replaced(self.analysis, **settings))

    def refresh(self) -> "Sweep":
        """The same sweep, read and analysed again from its files as they are now."""
        return replace(self, stored=read_sweep(self.path))

    @property
    def plan(self) -> "pandas.DataFrame":
        """A frame of every candidate: planned, or rejected with the reason."""
        return self._frame(PLAN, candidate_rows(self._plan))

    @property
    def runs(self) -> "pandas.DataFrame":
        """A frame of every run and its progress, by its files; no scheduler is asked."""
        return self._frame(RUNS, run_rows(replace(self.stored, plan=self._plan)))

    @property
    def records(self) -> "pandas.DataFrame":
        """A frame of every held-out evaluation of every run."""
        rows = record_rows(self._plan, self.stored.paths)
        if self.chosen is None or self.chosen.budgets is None:
            return self._frame(RECORDS, rows)
        # As though runs had ended at the largest budget chosen: records past their reading of it.
        ends = {
            curve.run.run_id: curve.steps[-1]
            for one in self.variants.values()
            for curve in one.data.curves
            if curve.steps.size
        }
        return self._frame(RECORDS, (r for r in rows if r["step"] <= ends.get(r["run_id"], 0)))

    @property
    def cells(self) -> "pandas.DataFrame":
        """A frame of every run's reward at every budget, smaller budgets than planned included."""
        from isosweep.analysis.tables import CELLS, cell_row

        return self._read_frame(
            CELLS, lambda one: (with_axes(cell_row(r), r.cell.axes) for r in one.data.readings)
        )

    @property
    def choices(self) -> "pandas.DataFrame":
        """A frame of every n at every budget, with its best B, its reward to expect, and the
        probability that it is the best n."""
        from isosweep.analysis.tables import CHOICES, choice_rows

        return self._read_frame(CHOICES, lambda one: one._with_axes(choice_rows(one.findings)))

    @property
    def frontier(self) -> "pandas.DataFrame":
        """A frame of the best n at every budget: n* and n_d with intervals, and the reward to
        expect."""
        from isosweep.analysis.tables import FRONTIER, frontier_rows

        return self._read_frame(FRONTIER, lambda one: one._with_axes(frontier_rows(one.findings)))

    @property
    def verdict(self) -> "Verdict":
        """The answer: whether the best n still grows with compute, or that it is not identified.

        Raises SettingError where there are several variants, each with a verdict of its own.
        """
        from isosweep.door.verdict import Verdict

        return Verdict.of(self.data, self.findings)

    @property
    def figures(self) -> dict[str, dict[str, Path]]:
        """Files of the report's figures by name, and by png, svg, pdf or dark_png.

        A figure without files has an empty dictionary: `mode=analyse` has not written it, or it has
        nothing to show of this sweep. `plot(name)` draws one without files.
        """
        from isosweep.analysis.figures.all import REPORT_FIGURES

        directory = self._written.figures
        return {
            figure.name: {
                kind: path
                for kind, ending in _FIGURE_FILES.items()
                if (path := directory / f"{figure.name}{ending}").is_file()
            }
            for figure in REPORT_FIGURES
        }

    def plot(self, name: str) -> "matplotlib.figure.Figure":
        """A figure of the report, drawn now. Raises SettingError for a name that is none of
        `figures`, and for a figure that has nothing to show of this sweep.

        >>> small.plot("best_n").get_suptitle()
        'Best n, and smallest n that is good enough, against compute'
        """
        from isosweep.analysis.figures.all import describe_figures
        from isosweep.analysis.figures.health import METRICS as COURSES
        from isosweep.analysis.figures.output import to_matplotlib
        from isosweep.analysis.load import read_training

        one_of("figure", name, tuple(self.figures))
        training = read_training(self.stored.paths, self.data, COURSES)
        figures = describe_figures(replace(self.data, training=training), self.findings)
        if name in figures.left_out:
            rule = f"has nothing to show: {figures.left_out[name]}"
            raise SettingError("figure", name, rule)
        return to_matplotlib(figures.drawn[name])

    def recommend(self, budget: float) -> "Recommendation":
        """How to split a budget: n, B, T, learning rate, and the reward to expect.

        `budget`: in the sweep's unit. Raises SettingError above the largest budget;
        `view(extrapolate=True)` answers there too.

        >>> split = small.recommend(2e11)
        >>> split.num_generations, split.problems_per_batch, split.num_steps
        (64, 4, 49)
        """
        from isosweep.analysis.recommend import recommend

        extrapolate = self.analysis.extrapolate
        return recommend(self.data, self.findings, float(budget), extrapolate=extrapolate)

    @cached_property
    def data(self) -> "SweepData":
        """Everything that was read of the records: curves of runs, and rewards at every budget.

        Raises SettingError where there are several variants; PreflightError where this
        installation cannot analyse.
        """
        from isosweep.preflight.machine import ANALYSIS, require_packages

        require_packages(*ANALYSIS)
        from isosweep.analysis.load import load_view
        from isosweep.modes.display_search import stored_course

        chosen = self.chosen
        part = None if chosen is None else chosen.of
        data = load_view(self.stored.paths, self.analysis, self._one_variant(), part)
        return replace(data, course=None if chosen else stored_course(self.stored))

    @cached_property
    def findings(self) -> "Findings":
        """Everything that the analysis has found, as the report has it."""
        from isosweep.analysis.statistics.findings import find

        return find(self.data, self.analysis)

    @property
    def _plan(self) -> Plan:
        plan = self.stored.plan
        plan = plan if self.axes is None else plan.of_axes(self.axes)
        return plan if self.chosen is None else self.chosen.of(plan)

    @property
    def _written(self) -> SweepPaths:
        """What `mode=analyse` writes of it as it is asked here."""
        axes = self._plan.axes
        view = self.analysis.view(axes[0]) if len(axes) == 1 else ""
        return replace(self.stored.paths, view=view)

    def _one_variant(self) -> dict[str, Any]:
        axes = self._plan.axes
        if len(axes) > 1:
            names = tuple(map(variant_label, axes))
            rule = f"there are {len(axes)} ({', '.join(names)}), and each has an answer of its own"
            raise SettingError("variant", None, rule, f'variant("{names[0]}")')
        return axes[0]

    def _frame(self, columns: Columns, rows: Iterable[Row]) -> "pandas.DataFrame":
        return frame(columns, rows, self.stored.plan.budget_unit)

    def _with_axes(self, rows: Iterable[Row]) -> Iterable[Row]:
        """With the values of `grid.axes` of this variant."""
        return (with_axes(row, self._one_variant()) for row in rows)

    def _read_frame(
        self, columns: Columns, rows_of: Callable[["Sweep"], Iterable[Row]]
    ) -> "pandas.DataFrame":
        """Of what was read of every variant, whose compute is in `analysis.compute_axis`."""
        unit = self.analysis.compute_axis or self.stored.plan.budget_unit
        return frame(columns, (r for one in self.variants.values() for r in rows_of(one)), unit)


# Endings of the files that `analysis.formats` names, the format first.
_FIGURE_FILES = {"png": ".png", "svg": ".svg", "pdf": ".pdf", "dark_png": "-dark.png"}
# Columns of `records` that hold each metric.
_COLUMNS = {
    "avg": "reward",
    "best": "best_at_k",
    "worst": "worst_at_k",
    "majority": "majority_at_k",
}


def _require_known(settings: Mapping[str, object]) -> None:
    """Raise SettingError for an unknown setting or metric, with all that exist and the nearest."""
    known = [*AnalysisConfig.model_fields]
    for name, value in settings.items():
        if name not in known:
            rule = f"no such setting; here are {', '.join(known)}"
            raise SettingError(f"analysis.{name}", value, rule, meant(name, known, "{}=..."))
    given = settings.get("metric", "avg")
    if given in METRICS:
        return
    named = ", ".join(f"{m} (column {_COLUMNS[m]})" if m in _COLUMNS else m for m in METRICS)
    by_column = {column: name for name, column in _COLUMNS.items()}
    nearest = by_column.get(str(given)) or meant(str(given), tuple(METRICS))
    if str(given).startswith("reward_"):
        works = f'evaluation_set="{str(given).removeprefix("reward_")}"'
    else:
        works = f'metric="{nearest}"' if nearest else ""
    raise SettingError("analysis.metric", given, f"must be one of {named}", works)
