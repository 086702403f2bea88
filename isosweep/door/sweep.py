"""A sweep in its directory, to be read: nothing in it is changed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.analysis.columns import Columns
from isosweep.config.analysis import AnalysisConfig
from isosweep.door.columns import PLAN, RECORDS, RUNS, SWEEPS
from isosweep.door.frames import (
    Row,
    candidate_rows,
    cell_rows,
    choice_rows,
    frame,
    frontier_rows,
    record_rows,
    run_rows,
    sweep_rows,
)
from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep, named_root, read_sweep, sweep_roots
from isosweep.plan.cells import Plan, variant_label

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects

    from isosweep.analysis.curves import SweepData
    from isosweep.analysis.recommend import Recommendation
    from isosweep.analysis.statistics.findings import Findings
    from isosweep.door.verdict import Verdict


def open(sweep_dir: str | Path, sweeps_dir: str | Path = "sweeps") -> "Sweep":  # noqa: A001
    """The sweep in a directory, or of that name, or whose name begins so, in `sweeps_dir`.

    Raises SettingError where there is none, naming the likest, or where several begin so;
    RecordError where its files cannot be read.

    >>> isosweep.open("few_problems", "sweeps/studies")
    <Sweep few_problems: 153 runs, 3 budgets from 8.1e+10 to 3.24e+11 flops, 3 variants>
    """
    given, among = (str(Path(path).expanduser()) for path in (sweep_dir, sweeps_dir))
    stored = read_sweep(named_root("sweep_dir", given, among))
    return Sweep(stored=stored, analysis=stored.config.analysis)


def sweeps(sweeps_dir: str | Path = "sweeps") -> "pandas.DataFrame":
    """The sweeps of a directory, one a row, the newest first; one that cannot be read has a fault.

    >>> isosweep.sweeps("sweeps/studies")[["name", "runs", "budget_unit"]]
               name   runs budget_unit
    0  few_problems  153.0       flops
    """
    from isosweep.modes.listing import listed_sweep

    listed = [listed_sweep(root) for root in sweep_roots(str(Path(sweeps_dir).expanduser()))]
    return frame(SWEEPS, sweep_rows(listed))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Sweep:
    """A sweep that was planned or launched, or one variant of `grid.axes` of it (`axes`).

    `stored` is what its directory holds, `analysis` what is asked of the records: by default what
    the sweep was launched with. `runs` and `records` say how its files are at that moment; what
    the analysis says is worked out once, when it is first asked for: `refresh` does it again.
    """

    stored: StoredSweep
    analysis: AnalysisConfig
    axes: dict[str, Any] | None = None

    def __repr__(self) -> str:
        plan = self._plan
        budgets = f"{plan.budgets[0]:g} {plan.budget_unit}"
        if len(plan.budgets) > 1:
            last = f"{plan.budgets[-1]:g} {plan.budget_unit}"
            budgets = f"{len(plan.budgets)} budgets from {plan.budgets[0]:g} to {last}"
        several = f", {len(plan.axes)} variants" if len(plan.axes) > 1 else ""
        variant = f" ({variant_label(self.axes)})" if self.axes else ""
        # Variants may share some.
        runs = len({run.run_id for run in plan.runs})
        return f"<Sweep {self.name}{variant}: {runs} runs, {budgets}{several}>"

    @property
    def name(self) -> str:
        """Its directory's own name."""
        return self.stored.name

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.stored.paths.root

    @cached_property
    def variants(self) -> dict[str, "Sweep"]:
        """Its variants of `grid.axes`, by what figures call them; itself alone without axes."""
        axes = self._plan.axes
        if len(axes) == 1:
            return {variant_label(axes[0]): self}
        return {variant_label(values): replace(self, axes=values) for values in axes}

    def variant(self, name: str) -> "Sweep":
        """One of `variants`. Raises SettingError for a name that none has."""
        known = tuple(self.variants)
        if name not in known:
            rule = f"must be one of {', '.join(known)}"
            raise SettingError("variant", name, rule)
        return self.variants[name]

    def view(self, **settings: Any) -> "Sweep":
        """The same sweep asked differently: settings of `analysis`, such as `metric="best"`.

        Raises SettingError as the command line does.

        >>> sweep.view(metric="best").analysis.metric
        'best'
        """
        return replace(self, analysis=replace(self.analysis, **settings))

    def refresh(self) -> "Sweep":
        """The sweep as its files are now."""
        return replace(self, stored=read_sweep(self.path))

    @property
    def plan(self) -> "pandas.DataFrame":
        """Every candidate, planned or rejected with its reason."""
        return self._frame(PLAN, candidate_rows(self._plan))

    @property
    def runs(self) -> "pandas.DataFrame":
        """Every run, with how it stands: by its files, no scheduler is asked."""
        return self._frame(RUNS, run_rows(replace(self.stored, plan=self._plan)))

    @property
    def records(self) -> "pandas.DataFrame":
        """Every held-out evaluation of every run, of those that count."""
        return self._frame(RECORDS, record_rows(self._plan, self.stored.paths))

    @property
    def cells(self) -> "pandas.DataFrame":
        """Every run as it is read at every budget, smaller ones that are read as well included."""
        from isosweep.analysis.tables import CELLS

        return self._read_frame(CELLS, (cell_rows(one.data) for one in self.variants.values()))

    @property
    def choices(self) -> "pandas.DataFrame":
        """Every n at every budget, at its best B: what to expect, and how likely it is the best."""
        from isosweep.analysis.tables import CHOICES

        rows = (choice_rows(one.data, one.findings) for one in self.variants.values())
        return self._read_frame(CHOICES, rows)

    @property
    def frontier(self) -> "pandas.DataFrame":
        """The best n at every budget, n*(C) and n_d(C) with intervals, and the reward to expect."""
        from isosweep.analysis.tables import FRONTIER

        rows = (frontier_rows(one.data, one.findings) for one in self.variants.values())
        return self._read_frame(FRONTIER, rows)

    @property
    def verdict(self) -> "Verdict":
        """Where the n that is judged stops growing, or that the data cannot tell.

        Raises SettingError where there are several variants, each with a verdict of its own.
        """
        from isosweep.door.verdict import Verdict

        return Verdict.of(self.data, self.findings)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of all figures of the report; one may have nothing to show of this sweep."""
        from isosweep.analysis.figures.all import REPORT_FIGURES

        return tuple(figure.name for figure in REPORT_FIGURES)

    def plot(self, name: str) -> "plotly.graph_objects.Figure":
        """A figure of the report, by name. Raises SettingError for one that there is none of.

        >>> small.plot("best_n").layout.title.text
        'Best n, and smallest n that is good enough, against compute'
        """
        from isosweep.analysis.figures.all import describe_figures
        from isosweep.analysis.figures.draw_plotly import to_plotly
        from isosweep.analysis.figures.health import METRICS
        from isosweep.analysis.load import read_training

        if name not in self.figures:
            rule = f"must be one of {', '.join(self.figures)}"
            raise SettingError("figure", name, rule)
        training = read_training(self.stored.paths, self.data, METRICS)
        figures = describe_figures(replace(self.data, training=training), self.findings)
        if name in figures.left_out:
            rule = f"has nothing to show: {figures.left_out[name]}"
            raise SettingError("figure", name, rule)
        return to_plotly(figures.drawn[name])

    def recommend(self, budget: float) -> "Recommendation":
        """How to split a budget, in the sweep's unit: n, B, T, learning rate, reward to expect.

        Raises SettingError beyond what forecasts were checked for, unless asked by
        `view(extrapolate=True)`.

        >>> split = small.recommend(2e11)
        >>> split.num_generations, split.problems_per_batch, split.num_steps
        (64, 4, 49)
        """
        from isosweep.analysis.recommend import recommend

        extrapolate = self.analysis.extrapolate
        return recommend(self.data, self.findings, float(budget), extrapolate=extrapolate)

    @cached_property
    def data(self) -> "SweepData":
        """What was read of the records: every run's curve, and the reading of every cell.

        Raises SettingError where there are several variants; PreflightError where this
        installation cannot analyse.
        """
        from isosweep.preflight.machine import require_analysis

        require_analysis()
        from isosweep.analysis.load import load_view
        from isosweep.modes.display_search import stored_course

        data = load_view(self.stored.paths, self.analysis, self._one_variant())
        return replace(data, course=stored_course(self.stored))

    @cached_property
    def findings(self) -> "Findings":
        """All that the analysis has found, as the report has it."""
        from isosweep.analysis.statistics.findings import find

        return find(self.data, self.analysis)

    @property
    def _plan(self) -> Plan:
        plan = self.stored.plan
        return plan if self.axes is None else plan.of_axes(self.axes)

    def _one_variant(self) -> dict[str, Any]:
        axes = self._plan.axes
        if len(axes) > 1:
            names = tuple(map(variant_label, axes))
            rule = f"there are {len(axes)} ({', '.join(names)}), and each has an answer of its own"
            raise SettingError("variant", None, rule, f'variant("{names[0]}")')
        return axes[0]

    def _frame(self, columns: Columns, rows: Iterable[Row]) -> "pandas.DataFrame":
        return frame(columns, rows, self.stored.plan.budget_unit)

    def _read_frame(self, columns: Columns, parts: Iterable[Iterable[Row]]) -> "pandas.DataFrame":
        """Of what was read, whose compute is in `analysis.compute_axis`."""
        unit = self.analysis.compute_axis or self.stored.plan.budget_unit
        return frame(columns, (row for part in parts for row in part), unit)
