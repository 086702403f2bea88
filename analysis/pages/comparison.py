"""Sweeps set side by side: `comparison.json`, figures, and a page."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from isosweep.analysis.figures.comparison import comparison_figures
from isosweep.analysis.figures.style import write_figures
from isosweep.analysis.pages.render import render
from isosweep.analysis.pages.tables import MISSING, PageTable, page_table
from isosweep.analysis.statistics.compare import AtBudget, Comparison, Entry
from isosweep.files import to_json, write_json, write_text
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import UNITS, amount, short
from isosweep.words.verdict import chance

# More would be no sentence.
_MOST_NAMES = 3


def write_comparison(
    comparison: Comparison,
    entries: Sequence[Entry],
    paths: SweepPaths,
    formats: Collection[str],
    *,
    reports: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the comparison into `paths.analysis`, replacing what was there.

    `reports`: where each entry's own page lies from there.
    """
    figures, (headline, *more) = comparison_figures(comparison, entries), summarise(comparison)
    write_figures(figures, paths.figures, formats)
    write_json(paths.comparison, to_json(asdict(comparison)))
    page = render(
        "comparison.html",
        "isosweep: comparison of " + ", ".join(entry.name for entry in entries),
        kind=comparison.kind,
        reports=reports,
        headline=headline,
        summary=more,
        drawn=figures,
        best=best_table(comparison, _ordered(comparison)),
    )
    write_text(paths.report, page)


def summarise(comparison: Comparison) -> list[str]:
    """Which entry reaches the highest reward at the largest budget that all have reached, or why
    that is not said, a sentence each."""
    if names := comparison.scored_otherwise:
        listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if names[_MOST_NAMES:] else "")
        return [
            f"Rewards are not comparable: the {comparison.kind}s differ in {listed}, so each is "
            "scored on held-out problems of its own, or in a way of its own."
        ]
    if not (shared := last_shared(comparison)):
        kind = comparison.kind
        return [f"No budget has been reached by all {kind}s, so their rewards are not compared."]
    budget = max(at.budget for at in shared)
    best = max((at for at in shared if at.budget == budget), key=lambda at: at.reward)
    where = f"At {amount(budget, comparison.unit)}"
    return [f"{where}, {best.entry} reaches the highest reward: {_reward(best)}."]


def last_shared(comparison: Comparison) -> list[AtBudget]:
    """Each entry at the largest budget that all have reached; none where there is none.

    Variants: at the largest that the first has reached; of one that came less far, by a collapse
    say, at the largest that it has.
    """
    reached = [
        {at.budget for at in comparison.frontiers if at.entry == name}
        for name in comparison.verdicts
    ]
    shared = set.intersection(*reached)
    if comparison.kind == "variant" and all(reached):
        shared = reached[0]
    budget = max(shared, default=0.0)
    return [*{at.entry: at for at in comparison.frontiers if at.budget <= budget}.values()]


def _reward(at: AtBudget) -> str:
    ends = "" if at.interval is None else f" ({at.interval[0]:.3f} to {at.interval[1]:.3f})"
    return f"{at.reward:.3f}{ends}"


def best_table(comparison: Comparison, frontiers: Sequence[AtBudget]) -> PageTable:
    """What is best of each entry at each budget, of those that are to be shown."""
    rows = [
        (
            *(at.entry, comparison.verdicts[at.entry], short(at.budget)),
            *(at.best_n, at.best_batch, at.n_star or MISSING, at.n_d or MISSING, _reward(at)),
            MISSING if comparison.scored_otherwise or at.better is None else chance(at.better),
        )
        for at in frontiers
    ]
    head = (comparison.kind, "verdict", f"budget ({UNITS[comparison.unit]})", "n", "B", "n*", "n_d")
    return page_table((*head, "reward", "better"), rows, left=(0, 1))


def _ordered(comparison: Comparison) -> Sequence[AtBudget]:
    """Sweeps one after the other; variants, which have their budgets in common, by budget, the
    largest first."""
    if comparison.kind == "sweep":
        return comparison.frontiers
    return sorted(comparison.frontiers, key=lambda at: -at.budget)
