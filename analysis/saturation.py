"""Where the best n stops growing with compute, or why the data cannot tell."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from isosweep.analysis.frontier import BudgetFrontier, Frontier

Verdict = Literal["saturated", "growing", "flat", "not identified"]

# Fewer points than three cannot show growth and its end.
MIN_BUDGETS = 3
MIN_GENERATIONS = 3
# A common n must hold over at least this factor in compute before it counts as settled.
MIN_SPAN = 4.0
# GRPO compares the rollouts of one problem with each other: n = 2 is the method's own bound.
SMALLEST_GENERATIONS = 2

_NO_COMMON = (
    f"No settling is shown: no n is common to the last budgets over a factor of {MIN_SPAN:g}."
)


@dataclass(frozen=True, kw_only=True)
class BestGenerations:
    """n*(C) at one budget: the best n, and the set of n that cannot be told apart from it.

    Censored: the set reaches the edge of the n measured at this budget, so the true best n may
    lie beyond. n = 2 is no such edge, for GRPO allows no smaller n.
    """

    budget: float
    best: int
    candidates: tuple[int, ...]
    left_censored: bool
    right_censored: bool

    @property
    def listed(self) -> str:
        return "{" + ", ".join(str(n) for n in self.candidates) + "}"


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The sweep's answer. `settled` (the n that are left) and `settled_from` (a budget) are set
    for `saturated`; `settled` alone for `flat`."""

    verdict: Verdict
    reason: str
    optima: tuple[BestGenerations, ...]
    settled: tuple[int, ...] = ()
    settled_from: float | None = None


def best_generations(at: BudgetFrontier) -> BestGenerations:
    smallest, largest = at.measured[0], at.measured[-1]
    return BestGenerations(
        budget=at.budget,
        best=at.best.num_generations,
        candidates=at.candidates,
        left_censored=smallest > SMALLEST_GENERATIONS and smallest in at.candidates,
        right_censored=largest in at.candidates,
    )


def find_saturation(frontier: Frontier, margin: float) -> Saturation:
    """The verdict, with its reason in words and numbers.

    `margin` is the reward difference too small to matter. Budgets at which fewer than three n
    were measured are shown but not judged.
    """
    optima = tuple(best_generations(at) for at in frontier.budgets)
    refusal = _too_little(frontier)
    if refusal is not None:
        return Saturation(verdict="not identified", reason=refusal, optima=optima)
    judged = [at for at in frontier.budgets if len(at.measured) >= MIN_GENERATIONS]
    sets = [best_generations(at) for at in judged]
    answer = _falling(sets) or _constant(judged, sets, margin) or _growth(sets)
    verdict, reason, settled, settled_from = answer
    return Saturation(
        verdict=verdict,
        reason=reason,
        optima=optima,
        settled=settled,
        settled_from=settled_from,
    )


_Answer = tuple[Verdict, str, tuple[int, ...], float | None]


def _refuse(reason: str) -> _Answer:
    return "not identified", reason, (), None


def _too_little(frontier: Frontier) -> str | None:
    """Why the sweep is too small to be judged, or None."""
    if not frontier.budgets:
        return "No cell has been read: no run has reached a budget yet."
    judged = [at for at in frontier.budgets if len(at.measured) >= MIN_GENERATIONS]
    measured = {n for at in frontier.budgets for n in at.measured}
    if len(measured) < MIN_GENERATIONS:
        listed = ", ".join(str(n) for n in sorted(measured))
        return (
            f"Only {len(measured)} n measured (n = {listed}); "
            f"at least {MIN_GENERATIONS} are needed to tell an interior best n from an edge."
        )
    if len(judged) < MIN_BUDGETS:
        return (
            f"Too few budgets with {MIN_GENERATIONS} or more n measured: {len(judged)}; "
            f"at least {MIN_BUDGETS} are needed to show growth and its end."
        )
    if frontier.seed_sd is None:
        seeds = max(cell.num_seeds for at in frontier.budgets for cell in at.cells)
        if seeds >= 2:
            return (
                "Every cell's seeds agree to the last digit: there is no spread between seeds "
                "to judge a difference by."
            )
        return (
            "Every cell was measured with one seed: without a spread between seeds, no n can "
            "be told apart from the best. At least 2 seeds are needed."
        )
    return None


def _falling(sets: Sequence[BestGenerations]) -> _Answer | None:
    """Refusal when the set at some budget lies entirely below that at a smaller one."""
    for later, high in enumerate(sets):
        for low in sets[:later]:
            if max(high.candidates) < min(low.candidates):
                return _refuse(
                    f"The best n falls from {low.listed} at {low.budget:.3g} to {high.listed} "
                    f"at {high.budget:.3g}: n*(C) is not monotone, so no saturation is defined."
                )
    return None


def _constant(
    judged: Sequence[BudgetFrontier], sets: Sequence[BestGenerations], margin: float
) -> _Answer | None:
    """The answer when one n stays in the set at every budget; None when none does."""
    common = set(sets[0].candidates).intersection(*(s.candidates for s in sets[1:]))
    if not common:
        return None
    risk = {n: _largest_risk(judged, n) for n in sorted(common)}
    everywhere = set(judged[0].measured).intersection(*(at.measured for at in judged[1:]))
    harmless = all(_largest_risk(judged, n) <= margin for n in everywhere)
    if harmless and all(set(at.measured) == everywhere for at in judged):
        return (
            "flat",
            f"No effect of n detected: at every budget, each n from {min(everywhere)} to "
            f"{max(everywhere)} costs at most {margin:g} of reward against the best, at the "
            "confidence of this analysis. Nothing is said about n outside this grid.",
            tuple(sorted(everywhere)),
            None,
        )
    safe = tuple(n for n in risk if risk[n] <= margin)
    listed = ", ".join(str(n) for n in risk)
    largest = max(n for at in judged for n in at.measured)
    if not safe:
        n = min(risk, key=lambda n: risk[n])
        return _refuse(
            f"Noise: n = {listed} cannot be told apart from the best at any budget, so no change "
            f"of n* is shown; but even n = {n} could cost {risk[n]:.3f} of reward, more than the "
            f"margin of {margin:g}, so no constancy is shown either. More seeds would tell."
        )
    interior = tuple(n for n in safe if n != largest)
    if not interior:
        return _refuse(
            f"n = {largest} costs at most {risk[largest]:.3f} at every budget, but it is the "
            "largest n of the grid: the best n may lie beyond it. Add larger n."
        )
    if all(s.left_censored for s in sets) and set(interior) == {min(judged[0].measured)}:
        return _refuse(
            f"n = {interior[0]} costs at most {risk[interior[0]]:.3f} at every budget, but it is "
            "the smallest n of the grid: the best n may lie below it. Add smaller n."
        )
    n = min(interior, key=lambda n: risk[n])
    reason = (
        f"The best n is constant: n = {', '.join(map(str, interior))} cannot be told apart from "
        f"the best at any budget, and n = {n} costs at most {risk[n]:.3f} of reward against any "
        f"n of the grid, within the margin of {margin:g}."
    )
    if any(s.right_censored for s in sets):
        reason += f" n = {largest}, the largest of the grid, is not excluded everywhere."
    return "flat", reason, interior, None


def _largest_risk(judged: Sequence[BudgetFrontier], n: int) -> float:
    """Largest upper confidence bound, over budgets, of the reward that choosing `n` costs."""
    bounds = [
        choice.loss_upper
        for at in judged
        for choice in at.choices
        if choice.num_generations == n and choice.loss_upper is not None
    ]
    return max(bounds, default=math.inf)


def _growth(sets: Sequence[BestGenerations]) -> _Answer:
    """The answer when no n stays in the set at every budget and none falls."""
    first, last = sets[0], sets[-1]
    ends = f"from {first.listed} at {first.budget:.3g} to {last.listed} at {last.budget:.3g}"
    if min(last.candidates) <= max(first.candidates):
        return _refuse(
            f"The sets of best n change {ends}, but those at the two ends overlap, and no n "
            "belongs to all: neither growth nor constancy is shown."
        )
    if first.right_censored or last.left_censored:
        edge, at = ("largest", first) if first.right_censored else ("smallest", last)
        return _refuse(
            f"The sets of best n rise {ends}, but at {at.budget:.3g} the set holds the {edge} n "
            "measured there: the rise may come from the n that could be planned at each budget."
        )
    refusal = _NO_COMMON
    for start in range(1, len(sets) - 1):
        settled = _settled(sets, start)
        if isinstance(settled, str):
            # The longest stretch that came nearest to settling explains most.
            refusal = settled if refusal == _NO_COMMON else refusal
            continue
        begin = sets[start].budget
        return (
            "saturated",
            f"The best n grew {ends}, and stopped: from {begin:.3g} on, over a factor of "
            f"{last.budget / begin:.3g} in compute, n = {', '.join(map(str, settled))} cannot be "
            "told apart from the best, larger n of the grid are excluded, and growth at the "
            "earlier rate would have left the last set.",
            settled,
            begin,
        )
    least = " or more" if last.right_censored else ""
    return "growing", f"The best n grew {ends}{least}. {refusal}", (), None


def _settled(sets: Sequence[BestGenerations], start: int) -> tuple[int, ...] | str:
    """The n common to the sets from `start` on, or the sentence why that is no settling."""
    tail = sets[start:]
    common = set(tail[0].candidates).intersection(*(s.candidates for s in tail[1:]))
    span = tail[-1].budget / tail[0].budget
    # Budgets are often written in rounded factors.
    if not common or len(tail) < 2 or span < MIN_SPAN * (1 - 1e-9):
        return _NO_COMMON
    if any(s.right_censored for s in tail):
        return (
            "No settling is shown: the largest n of the grid is not excluded at the last "
            "budgets, so the best n may lie beyond the grid."
        )
    # Growth at the rate seen so far, n* ~ C^rate, must be excluded at the last budget.
    before = math.log(tail[0].budget / sets[0].budget)
    rate = math.log(tail[0].best / sets[0].best) / before
    expected = tail[0].best * span**rate
    if expected <= max(tail[-1].candidates):
        return (
            f"No settling is shown: growth at the earlier rate would have reached n = "
            f"{expected:.3g}, which the last set {tail[-1].listed} does not exclude."
        )
    return tuple(sorted(common))
