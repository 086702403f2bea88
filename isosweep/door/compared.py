"""Sweeps, and variants of each, side by side in Python: what `mode=compare` says."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.analysis.columns import Row
from isosweep.config.base import one_of
from isosweep.door.columns import COMPARED
from isosweep.door.display import markdown
from isosweep.door.frames import frame
from isosweep.door.sweep import Sweep
from isosweep.door.sweep import open as open_sweep
from isosweep.errors import SettingError
from isosweep.words.numbers import UNITS, short

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

    from isosweep.analysis.figures.canvas import Figure
    from isosweep.analysis.statistics.compare import AtBudget, Comparison
    from isosweep.analysis.statistics.entries import Entry


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
        return frame(COMPARED, map(_row, self.answer.frontiers), self.answer.unit)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that `plot` draws."""
        return tuple(self._figures)

    def plot(self, name: str) -> "matplotlib.figure.Figure":
        """A figure of the comparison. Raises SettingError for a name that is none of `figures`."""
        from isosweep.analysis.figures.output import to_matplotlib

        one_of("figure", name, self.figures)
        return to_matplotlib(self._figures[name])

    def __repr__(self) -> str:
        told = ", ".join(f"{name}: {verdict}" for name, verdict in self.verdicts.items())
        return f"<ComparedSweeps {told}>"

    @cached_property
    def _figures(self) -> "dict[str, Figure]":
        from isosweep.analysis.figures.comparison import comparison_figures

        return comparison_figures(self.answer, self.entries)

    def _repr_markdown_(self) -> str:
        last = {at.entry: at for at in self.answer.frontiers}
        head = (self.answer.kind, f"largest budget ({UNITS[self.answer.unit]})", "n", "B", "reward")
        rows = [_shown_row(at) for at in last.values()]
        return markdown(
            heading=f"{len(self.entries)} {self.answer.kind}s compared",
            sentences=self.summary,
            tables=([(*head, "verdict"), *((*row, self.verdicts[row[0]]) for row in rows)],),
        )


def compare(
    *sweeps: Sweep | str | Path, sweeps_dir: str | Path = "sweeps", **settings: Any
) -> ComparedSweeps:
    """The sweeps side by side, with all variants of each: what `mode=compare` says.

    `sweeps`: opened ones, also variants and selections, or names and directories as `open` takes
    them. All are analysed by the settings of the first one, with those of `settings` instead, such
    as `metric="best"`. Nothing is written. Raises SettingError for fewer than two, for the same one
    twice, and for budgets in different units.

    >>> isosweep.compare(sweep.variant("few_problems"), sweep.variant("many_problems"))
    <ComparedSweeps few_problems: growing, many_problems: ...>
    """
    opened = [each if isinstance(each, Sweep) else open_sweep(each, sweeps_dir) for each in sweeps]
    if opened:
        asked = opened[0].view(**settings).analysis
        opened = [replace(each, analysis=asked) for each in opened]
    parts = [(each, variant) for each in opened for variant in each.variants.values()]
    if len(parts) < 2:
        raise SettingError("sweeps", len(parts), "a comparison takes two sweeps or variants")
    units = sorted({part.data.plan.budget_unit for _, part in parts})
    if len(units) > 1:
        rule = f"their budgets are in {' and '.join(units)}"
        raise SettingError("compute_axis", None, rule, 'compute_axis="flops"')
    from isosweep.analysis.statistics.compare import compare as compare_entries

    entries = _entries(opened)
    names = Counter(entry.name for entry in entries)
    if twice := [name for name, times in names.items() if times > 1]:
        raise SettingError("sweeps", ", ".join(twice), "is given twice")
    alone = len({each.path for each in opened}) == 1
    of_one = alone and not any(each.selected for each in opened)
    found = compare_entries(entries, asked, "variant" if of_one else "sweep")
    return ComparedSweeps(answer=found, entries=tuple(entries))


def _entries(opened: list[Sweep]) -> "list[Entry]":
    """One for every variant of every sweep, named by what tells it from the others."""
    from isosweep.analysis.statistics.entries import Entry, sweep_labels

    first = {each.path: each for each in opened}
    labels = dict.fromkeys(first, "")
    if len(first) > 1:
        documents = [next(iter(s.variants.values())).data.config_document for s in first.values()]
        names = [path.name for path in first]
        # Directories of one name are shown with their parents.
        shown = names if len(set(names)) == len(names) else [str(path) for path in first]
        labels = dict(zip(first, sweep_labels(shown, documents), strict=True))
    entries = []
    for sweep in opened:
        for part in sweep.variants.values():
            (axes,) = part.data.plan.axes
            entry = Entry.of_variant(axes, part.data, part.findings, sweep=labels[sweep.path])
            name = " ".join(filter(None, (entry.name, sweep.selected))) or sweep.name
            entries.append(replace(entry, name=name))
    return entries


def _row(at: "AtBudget") -> Row:
    low, high = at.interval or (None, None)
    row: dict[str, Any] = {
        **{"sweep": at.entry, "budget": at.budget, "n": at.best_n, "B": at.best_batch},
        **{"reward": at.reward, "low": low, "high": high, "better": at.better},
    }
    for name, found in (("n_star", at.n_star), ("n_d", at.n_d)):
        if found is not None:
            ends = found.interval
            row |= {name: ends.median, f"{name}_low": ends.low, f"{name}_high": ends.high}
            row[f"{name}_open_below"] = found.open_below
            row[f"{name}_open_above"] = found.open_above
    return row


def _shown_row(at: "AtBudget") -> tuple[str, ...]:
    return at.entry, short(at.budget), f"{at.best_n}", f"{at.best_batch}", f"{at.reward:.3f}"
