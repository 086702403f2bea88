"""A sweep, read from its directory. Nothing in it is changed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import one_of, replaced
from isosweep.door.frames import (
    COMPLETION,
    RECORD,
    Row,
    answer_rows,
    candidate_rows,
    frame,
    page,
    record_rows,
    run_rows,
    sweep_row,
    with_axes,
)
from isosweep.errors import SettingError
from isosweep.modes.sweeps import StoredSweep, find_root, read_sweep, sweep_roots
from isosweep.plan.cells import Cell, Plan, PlannedRun, variant_label
from isosweep.words import answer as words
from isosweep.words import verdict
from isosweep.words.numbers import amount, short

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

    from isosweep.analysis.answer import Answer
    from isosweep.analysis.curves import SweepData
    from isosweep.analysis.recommend import Recommendation
    from isosweep.analysis.statistics.findings import Findings
    from isosweep.analysis.statistics.intervals import Interval
    from isosweep.analysis.tables import Table

# Budgets are typed in a few digits.
_CLOSE = 0.005


def open(sweep: str | Path, sweeps_dir: str | Path = "sweeps") -> "Sweep":  # noqa: A001
    """Return the sweep in a directory, ready to be read.

    `sweep`: the directory, or the sweep's name in `sweeps_dir`. Raises SettingError, which names
    the likest sweeps, where there is none; RecordError where its files cannot be read.

    >>> isosweep.open("few_problems", "sweeps/studies")
    <Sweep few_problems: 153 runs, 3 budgets up to 3.24e11 FLOPs, 3 variants>
    """
    given, among = (str(Path(path).expanduser()) for path in (sweep, sweeps_dir))
    stored = read_sweep(find_root(given, among))
    return Sweep(stored=stored, analysis=stored.config.analysis)


def sweeps(sweeps_dir: str | Path = "sweeps") -> "pandas.DataFrame":
    """Return a frame of the sweeps in a directory, one a row, the newest first.

    One that cannot be read says why in `fault`.

    >>> isosweep.sweeps("sweeps/studies")[["name", "runs", "budget_unit"]]
               name  runs budget_unit
    0  few_problems   153       flops
    """
    from isosweep.modes.status import listed_sweep

    roots = sweep_roots(str(Path(sweeps_dir).expanduser()))
    return frame(sweep_row(listed_sweep(root)) for root in roots)


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """A sweep's answer: whether the best n still grows with compute, and which n to use.

    `answer`: all of it as kinds and numbers, as `answer.json` has it.
    """

    answer: "Answer"

    @property
    def kind(self) -> str:
        """The answer in a word or two, such as "growing"."""
        return self.answer.verdict

    @property
    def sentence(self) -> str:
        """The answer in a sentence, and its number in another."""
        return verdict.headline(self.answer)

    @property
    def n_star(self) -> "Interval | None":
        """n*, the best n, at the largest budget that was read; None where it is not identified."""
        return self.answer.optima[-1].n_star if self.answer.optima else None

    @property
    def n_d(self) -> "Interval | None":
        """n_d, the smallest n that is good enough, at the largest budget; None likewise."""
        return self.answer.optima[-1].n_d if self.answer.optima else None

    def __repr__(self) -> str:
        return "\n".join([*words.lead(self.answer), f"{self.kind}: {self.sentence}"])

    def _repr_html_(self) -> str:
        unit = self.answer.budget_unit
        rows = [
            {"budget": amount(at.budget, unit), "n*": str(at), "n_d": str(at.n_d or "")}
            for at in self.answer.optima
        ]
        shown = [f"{fact.term}: {fact.text}" for fact in words.facts(self.answer)]
        first, grows = words.lead(self.answer)
        caveats, reason = words.caveats(self.answer), verdict.reason(self.answer)
        sentences = (grows, self.sentence, *caveats, reason, *shown)
        return page(first, sentences, frame(rows))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Sweep:
    """A sweep to be read: its frames, verdict, figures and advice. Nothing in it is changed.

    `stored`: what its directory holds. `analysis`: the settings that its records are analysed by;
    those of the sweep's launch unless `view` changes them. `axes`: values of `grid.axes` of one
    variant; None for all. `chosen`: names and values of what `select` has taken, in its order.

    `runs` and `records` read the files each time. The analysis is done once, when something of it
    is first needed; `refresh` returns a sweep that reads everything again.
    """

    stored: StoredSweep
    analysis: AnalysisConfig
    axes: dict[str, Any] | None = None
    chosen: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def __repr__(self) -> str:
        budgets, variants = self.part.budgets, self.part.axes
        last = amount(budgets[-1], self.part.budget_unit)
        count = f"{len(budgets)} budgets up to {last}" if len(budgets) > 1 else last
        several = f", {len(variants)} variants" if len(variants) > 1 else ""
        label = variant_label(variants[0]) if len(variants) == 1 else ""
        chosen = "".join(f", {each}" for each in (label, self.selected) if each)
        # Variants may share some.
        runs = len({run.run_id for run in self.part.runs})
        return f"<Sweep {self.name}{chosen}: {runs} runs, {count}{several}>"

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.stored.name

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.stored.paths.root

    @property
    def selected(self) -> str:
        """What `select` has chosen, as typed; "" for all."""
        return " ".join(f"{name}={_listed(values)}" for name, values in self.chosen)

    @cached_property
    def part(self) -> Plan:
        """The runs and budgets of its plan that it is about."""
        plan = self.stored.plan if self.axes is None else self.stored.plan.of_axes(self.axes)
        for name, values in self.chosen:
            plan = _narrowed(plan, attrgetter(_FIELDS[name]), values)
        return plan

    @property
    def report_path(self) -> Path | None:
        """The path of its newest `report.html`; None where `mode=analyse` wrote none.

        Each variant and each metric has its own report. A sweep with variants has a page that
        compares them. A selection has no report.
        """
        axes = self.part.axes
        view = self.analysis.view(axes[0]) if len(axes) == 1 else ""
        path = replace(self.stored.paths, view=view).report
        return path if not self.selected and path.is_file() else None

    @cached_property
    def variants(self) -> dict[str, "Sweep"]:
        """Its variants of `grid.axes`, by name; the sweep itself where it has no axes."""
        axes = self.part.axes
        if len(axes) == 1:
            return {variant_label(axes[0]): self}
        return {variant_label(each): replace(self, axes=each) for each in axes}

    def select(self, **chosen: "float | Iterable[float] | None") -> "Sweep":
        """Return the same sweep with some of its `seeds`, `n`, `B` and `budgets`, analysed anew.

        Each takes one number or several; None takes all. With `budgets`, every run is read as
        though it had ended at the largest of them. Raises SettingError for a value that the sweep
        does not have, with the nearest.

        >>> small.select(seeds=[0, 1], n=[16, 32, 64, 128])
        <Sweep few_problems, few_problems, seeds=[0, 1] n=[16, 32, 64, 128]: 8 runs, ...>
        """
        selected = self
        for name, asked in chosen.items():
            one_of("select", name, tuple(_FIELDS))
            if asked is not None:
                known = sorted({getattr(cell, _FIELDS[name]) for cell in selected.part.cells})
                values = (name, _known(name, asked, known))
                selected = replace(selected, chosen=(*selected.chosen, values))
        return selected

    def view(self, **settings: Any) -> "Sweep":
        """Return the same sweep analysed by other settings of `analysis`, such as `metric="best"`.

        Raises SettingError for an unknown setting or value.

        >>> small.view(metric="best").analysis.metric
        'best'
        """
        return replace(self, analysis=replaced(self.analysis, **settings))

    def refresh(self) -> "Sweep":
        """Return the same sweep, read and analysed again from its files as they are now."""
        return replace(self, stored=read_sweep(self.path))

    @property
    def plan(self) -> "pandas.DataFrame":
        """A frame of every candidate: planned, or rejected with the reason."""
        return frame(candidate_rows(self.part), self.part.budget_unit)

    @property
    def runs(self) -> "pandas.DataFrame":
        """A frame of every run and its progress, by its files; no scheduler is asked."""
        return frame(run_rows(replace(self.stored, plan=self.part)), self.part.budget_unit)

    @property
    def records(self) -> "pandas.DataFrame":
        """A frame of every held-out evaluation of every run."""
        names = ("run_id", "n", "B", "seed", "spent", *RECORD)
        rows = self._until_chosen(record_rows(self.part, self.stored.paths))
        return frame(rows, self.part.budget_unit, names)

    @property
    def completions(self) -> "pandas.DataFrame":
        """A frame of what models answered: every completion that runs have kept, one a row. It has
        none of another user's runs, which nobody else can read."""
        rows = self._until_chosen(answer_rows(self.part, self.stored.paths))
        return frame(rows, self.part.budget_unit, COMPLETION)

    @property
    def cells(self) -> "pandas.DataFrame":
        """A frame of every run's reward at every budget, smaller budgets than planned included."""
        from isosweep.analysis.tables import cells

        return self._analysed(lambda one: cells(one.data))

    @property
    def choices(self) -> "pandas.DataFrame":
        """A frame of every n at every budget, with its best B, its reward to expect, and the
        probability that it is the best n."""
        from isosweep.analysis.tables import choices

        return self._analysed(lambda one: choices(one.findings))

    @property
    def frontier(self) -> "pandas.DataFrame":
        """A frame of the best n at every budget: n* and n_d with intervals, and the reward to
        expect."""
        from isosweep.analysis.tables import optima

        return self._analysed(lambda one: optima(one.findings))

    @property
    def verdict(self) -> Verdict:
        """The answer: whether the best n still grows with compute, or that it is not identified.

        Raises SettingError where there are several variants, each with a verdict of its own.
        """
        from isosweep.analysis.conclude import conclude

        return Verdict(answer=conclude(self.data, self.findings))

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that `plot` draws, and that `mode=analyse` writes."""
        from isosweep.analysis.figures.all import REPORT_FIGURES

        return tuple(REPORT_FIGURES)

    def plot(self, name: str) -> "matplotlib.figure.Figure":
        """Return a figure of the report, drawn now. Raises SettingError for a name that is none of
        `figures`, and for a figure that has nothing to show of this sweep.

        >>> small.plot("best_n").get_suptitle()
        'Best n, and smallest n that is good enough, against compute'
        """
        from isosweep.analysis.figures.all import draw_figure
        from isosweep.analysis.figures.health import METRICS as COURSES
        from isosweep.analysis.figures.style import LeftOut, titled
        from isosweep.analysis.load import read_training

        one_of("figure", name, self.figures)
        training = read_training(self.stored.paths, self.data, COURSES)
        figure = draw_figure(name, replace(self.data, training=training), self.findings)
        if isinstance(figure, LeftOut):
            raise SettingError("figure", name, f"has nothing to show: {figure.reason}")
        return titled(figure)

    def recommend(self, budget: float) -> "Recommendation":
        """Return how to split a budget: n, B, T, learning rate, and the reward to expect.

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
        from isosweep.preflight.packages import ANALYSIS, require_packages

        require_packages(*ANALYSIS)
        from isosweep.analysis.load import load_sweep
        from isosweep.modes.display_search import stored_course

        if len(self.variants) > 1:
            names = tuple(self.variants)
            rule = f"there are {len(names)} ({', '.join(names)}), each with an answer of its own"
            raise SettingError("variant", None, rule, f'variants["{names[0]}"]')
        data = load_sweep(self.stored.paths, self.analysis, self.part.axes[0], lambda _: self.part)
        return replace(data, course=None if self.selected else stored_course(self.stored))

    @cached_property
    def findings(self) -> "Findings":
        """Everything that the analysis has found, as the report has it."""
        from isosweep.analysis.statistics.findings import find

        return find(self.data, self.analysis)

    def _until_chosen(self, rows: "Iterable[Row]") -> "Iterable[Row]":
        """Yield the rows of runs as though these had ended at the largest budget chosen."""
        if "budgets" not in dict(self.chosen):
            return rows
        curves = (curve for one in self.variants.values() for curve in one.data.curves)
        ends = {curve.run.run_id: curve.steps[-1] for curve in curves if curve.steps.size}
        return (row for row in rows if row["step"] <= ends.get(row["run_id"], 0))

    def _analysed(self, table_of: "Callable[[Sweep], Table]") -> "pandas.DataFrame":
        """Return a table over all variants, whose compute is in `analysis.compute_axis`."""
        unit = self.analysis.compute_axis or self.part.budget_unit
        tables = [(table_of(one), one.part.axes[0]) for one in self.variants.values()]
        rows = (with_axes(row, axes) for own, axes in tables for row in own.rows)
        return frame(rows, unit, tables[0][0].columns)


# What `select` chooses by, and the field of a cell.
_FIELDS = {"seeds": "seed", "n": "num_generations", "B": "problems_per_batch", "budgets": "budget"}


def _known(name: str, asked: Any, known: list[Any]) -> tuple[Any, ...]:
    """Return the values of the plan that are asked for, ascending."""
    values = list(asked) if hasattr(asked, "__iter__") and not isinstance(asked, str) else [asked]
    found, has = set(), f"the sweep has {_listed(known)}"
    for value in values:
        if isinstance(value, str):
            raise SettingError(name, value, f"must be a number or a list of them; {has}")
        nearest = min(known, key=lambda each: abs(each - value))
        if abs(nearest - value) > _CLOSE * nearest * (name == "budgets"):
            raise SettingError(name, value, has, f"{name}={_listed([nearest])}")
        found.add(nearest)
    if not found:
        raise SettingError(name, "[]", f"chooses nothing; {has}")
    return tuple(sorted(found))


def _listed(values: Iterable[float]) -> str:
    shown = (str(value) if isinstance(value, int) else short(value) for value in values)
    return f"[{', '.join(shown)}]"


def _narrowed(plan: Plan, field: Callable[[Any], Any], values: tuple[Any, ...]) -> Plan:
    """Return the part of the plan whose candidates have one of the values."""
    kept = tuple(cell for cell in plan.cells if field(cell) in values)
    cells: dict[str, list[Cell]] = {}
    for cell in kept:
        cells.setdefault(cell.run_id, []).append(cell)
    return replace(
        plan,
        budgets=tuple(sorted({cell.budget for cell in kept})),
        cells=kept,
        runs=tuple(_until(run, cells[run.run_id]) for run in plan.runs if run.run_id in cells),
        rejected=tuple(each for each in plan.rejected if field(each) in values),
    )


def _until(run: PlannedRun, own: list[Cell]) -> PlannedRun:
    """Return the run as though it had been planned for its chosen budgets."""
    ends = max(own, key=lambda cell: cell.budget)
    share = ends.num_steps / run.num_steps
    return replace(
        run,
        milestones=tuple(sorted(cell.budget for cell in own)),
        num_steps=ends.num_steps,
        planned_flops=ends.planned_flops,
        seconds=run.seconds and run.seconds * share,
    )
