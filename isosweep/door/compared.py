"""Sweeps, and variants of each, side by side in Python: what `mode=compare` says."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.base import one_of
from isosweep.door.frames import frame, page
from isosweep.door.sweep import Sweep
from isosweep.door.sweep import open as open_sweep
from isosweep.errors import SettingError

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

    from isosweep.analysis.figures.style import Figure
    from isosweep.analysis.statistics.compare import Comparison, Entry


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ComparedSweeps:
    """Sweeps side by side: their best rewards, n and verdicts, and what sets them apart.

    `answer`: all of it as kinds and numbers, as `comparison.json` has it. `entries`: each sweep or
    variant with what was read and found.
    """

    answer: "Comparison"
    entries: "tuple[Entry, ...]"

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences: what sets them apart at the largest budget that all have reached."""
        from isosweep.analysis.pages.comparison import summarise

        return tuple(summarise(self.answer))

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each, such as "growing", by its name."""
        return dict(self.answer.verdicts)

    @property
    def frontier(self) -> "pandas.DataFrame":
        """A frame of the best n and its reward, one row a sweep and budget."""
        rows = []
        for at in self.answer.frontiers:
            row = {**asdict(at), "n_star": at.n_star, "n_d": at.n_d}
            row["low"], row["high"] = row.pop("interval") or (None, None)
            rows.append(row)
        made = frame(rows, self.answer.unit)
        return made.rename(columns={"entry": "sweep", "best_n": "n", "best_batch": "B"})

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that `plot` draws."""
        return tuple(self._figures)

    def plot(self, name: str) -> "matplotlib.figure.Figure":
        """Return a figure of the comparison. Raises SettingError for none of `figures`."""
        from isosweep.analysis.figures.style import titled

        one_of("figure", name, self.figures)
        return titled(self._figures[name])

    @property
    def _figures(self) -> "dict[str, Figure]":
        from isosweep.analysis.figures.comparison import comparison_figures

        return comparison_figures(self.answer, self.entries)

    def __repr__(self) -> str:
        named = ", ".join(f"{name}: {verdict}" for name, verdict in self.verdicts.items())
        return f"<ComparedSweeps {named}>"

    def _repr_html_(self) -> str:
        heading = f"{len(self.entries)} {self.answer.kind}s compared"
        return page(heading, self.summary, self.frontier.groupby("sweep", sort=False).tail(1))


def compare(
    *sweeps: Sweep | str | Path, sweeps_dir: str | Path = "sweeps", **settings: Any
) -> ComparedSweeps:
    """Return the sweeps side by side, with all variants of each: what `mode=compare` says.

    `sweeps`: opened ones, also variants and selections, or names and directories as `open` takes
    them. All are analysed by the settings of the first one, with those of `settings` instead, such
    as `metric="best"`. Nothing is written. Raises SettingError for fewer than two, for the same one
    twice, and for budgets in different units.

    >>> isosweep.compare(sweep.variants["few_problems"], sweep.variants["many_problems"])
    <ComparedSweeps few_problems: growing, many_problems: ...>
    """
    from isosweep.analysis.statistics.compare import compare as compare_entries

    opened = [each if isinstance(each, Sweep) else open_sweep(each, sweeps_dir) for each in sweeps]
    opened = [replace(each, analysis=opened[0].view(**settings).analysis) for each in opened]
    parts = [part for each in opened for part in each.variants.values()]
    if len(parts) < 2:
        raise SettingError("sweeps", len(parts), "a comparison takes two sweeps or variants")
    units = sorted({part.data.plan.budget_unit for part in parts})
    if len(units) > 1:
        rule = f"their budgets are in {' and '.join(units)}"
        raise SettingError("compute_axis", None, rule, 'compute_axis="flops"')
    entries = _entries(parts)
    names = Counter(entry.name for entry in entries)
    if twice := [name for name, times in names.items() if times > 1]:
        raise SettingError("sweeps", ", ".join(twice), "is given twice")
    of_one = len({each.path for each in opened}) == 1 and not any(each.selected for each in opened)
    found = compare_entries(entries, opened[0].analysis, "variant" if of_one else "sweep")
    return ComparedSweeps(answer=found, entries=tuple(entries))


def _entries(parts: list[Sweep]) -> "list[Entry]":
    """Return one for every variant, named by what tells it from the others."""
    from isosweep.analysis.statistics.compare import Entry, sweep_labels

    first = {part.path: part for part in parts}
    labels = dict.fromkeys(first, "")
    if len(first) > 1:
        names = [path.name for path in first]
        # Directories of one name are shown with their parents.
        shown = names if len(set(names)) == len(names) else [str(path) for path in first]
        documents = [part.data.config_document for part in first.values()]
        labels = dict(zip(first, sweep_labels(shown, documents), strict=True))
    entries = []
    for part in parts:
        axes = part.data.plan.axes[0]
        entry = Entry.of_variant(axes, part.data, part.findings, sweep=labels[part.path])
        name = " ".join(filter(None, (entry.name, part.selected))) or part.name
        entries.append(replace(entry, name=name))
    return entries
