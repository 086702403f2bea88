"""Sweeps set side by side: `comparison.json`, figures, and a page."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from isosweep.analysis.figures.comparison import comparison_figures
from isosweep.analysis.figures.style import write_figures
from isosweep.analysis.pages.render import render
from isosweep.analysis.pages.tables import MISSING, PageTable, page_table, span
from isosweep.analysis.statistics.compare import AtBudget, Comparison, Entry
from isosweep.files import to_json, write_json, write_text
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import UNITS, short
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
    figures = comparison_figures(comparison, entries)
    write_figures(figures, paths.figures, formats)
    write_json(paths.comparison, to_json(asdict(comparison)))
    page = render(
        "comparison.html",
        "isosweep: comparison of " + ", ".join(entry.name for entry in entries),
        kind=comparison.kind,
        reports=reports,
        headline=headline(comparison),
        summary=[each for each in summarise(comparison) if each != headline(comparison)],
        drawn=figures,
        best=_best_table(comparison),
    )
    write_text(paths.report, page)


def doubts(comparison: Comparison) -> list[str]:
    """Why the entries' rewards are not comparable, in a sentence; none where they are."""
    if not (names := comparison.scored_otherwise):
        return []
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if names[_MOST_NAMES:] else "")
    return [
        f"Rewards are not comparable: the {comparison.kind}s differ in {shown}, so each is scored "
        "on held-out problems of its own, or in a way of its own."
    ]


def headline(comparison: Comparison) -> str:
    """Which entry reaches the highest reward, or why that is not said, in a sentence."""
    if found := doubts(comparison):
        return found[0]
    budget, rows = _last_shared(comparison)
    if budget is None:
        return _nothing_shared(comparison)
    best = max((at for at in rows if at.budget == budget), key=lambda at: at.reward)
    where = f"At {short(budget)} {UNITS[comparison.unit]}"
    return f"{where}, {best.entry} reaches the highest reward: {_reward(best)}."


def summarise(comparison: Comparison) -> list[str]:
    """What sets the entries apart at the largest budget that all have reached, a sentence each,
    after what makes them no match.

    Variants: at the largest that the first has reached; of one that came less far, by a collapse
    say, at the largest that it has.
    """
    sentences = doubts(comparison)
    budget, rows = _last_shared(comparison)
    if budget is None:
        return [*sentences, _nothing_shared(comparison)]
    for at in rows:
        where = f"At {short(at.budget)} {UNITS[comparison.unit]}"
        if at.budget < budget:
            where += ", the largest budget at which it was read"
        better = ""
        if at.better is not None and not comparison.scored_otherwise:
            better = f"; better than {rows[0].entry} with a probability of {chance(at.better)}"
        reached_by, verdict = "", ""
        if not comparison.one_pair:
            reached_by = f" with n = {at.best_n}, B = {at.best_batch}"
            verdict = f" Its verdict: {comparison.verdicts[at.entry]}."
        sentences.append(f"{where}, {at.entry} reaches {_reward(at)}{reached_by}{better}.{verdict}")
    return sentences


def _last_shared(comparison: Comparison) -> tuple[float | None, list[AtBudget]]:
    """The largest budget of `summarise`, None where there is none, and each entry up to it."""
    reached = [
        {at.budget for at in comparison.frontiers if at.entry == name}
        for name in comparison.verdicts
    ]
    shared = set.intersection(*reached)
    if comparison.kind == "variant" and all(reached):
        shared = reached[0]
    if not shared:
        return None, []
    budget = max(shared)
    last = {at.entry: at for at in comparison.frontiers if at.budget <= budget}
    return budget, list(last.values())


def _nothing_shared(comparison: Comparison) -> str:
    kind = comparison.kind
    return f"No budget has been reached by all {kind}s, so their rewards are not compared."


def _reward(at: AtBudget) -> str:
    ends = "" if at.interval is None else f" ({at.interval[0]:.3f} to {at.interval[1]:.3f})"
    return f"{at.reward:.3f}{ends}"


def _best_table(comparison: Comparison) -> PageTable:
    no_match = bool(comparison.scored_otherwise)
    rows = [
        (
            at.entry,
            short(at.budget),
            at.best_n,
            at.best_batch,
            *(MISSING if found is None else str(found) for found in (at.n_star, at.n_d)),
            f"{at.reward:.4f}",
            span(at.interval),
            MISSING if no_match or at.better is None else chance(at.better),
        )
        for at in _ordered(comparison)
    ]
    head = (comparison.kind, f"budget ({UNITS[comparison.unit]})", "n", "B")
    both = ("n*, the best n", "n_d, the smallest n that is good enough")
    return page_table(
        (*head, *both, "reward", "interval", "probability of beating the first"), rows, left=(0,)
    )


def _ordered(comparison: Comparison) -> Sequence[AtBudget]:
    """Sweeps one after the other; variants, which have their budgets in common, by budget, the
    largest first."""
    if comparison.kind == "sweep":
        return comparison.frontiers
    return sorted(comparison.frontiers, key=lambda at: -at.budget)
