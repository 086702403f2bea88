"""The answer in three sentences: what to use, how sure that is, and whether n* still grows.

Where n x B is fixed, one more for each: how the best B goes with compute. Where a search chose what
was trained, one that says how much that was.
"""

import math

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.axes import amount
from isosweep.analysis.statistics.best_batch import BatchLaw
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.frontier import BudgetFrontier, CellMean, Choice, Frontier
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.saturation import Saturation
from isosweep.analysis.statistics.verdict import behind


def summarise(data: SweepData, findings: Findings) -> tuple[str, ...]:
    """Three sentences, one for each fixed n x B, and one of a search; one where no run has reached
    a budget."""
    frontier = findings.frontier
    if not frontier.budgets:
        return (f"There is {nothing_to_use(frontier)}.",)
    at = answered_at(data, findings)
    return (
        _what_to_use(data, findings, at),
        how_sure(at, frontier.confidence),
        whether_it_grows(data, findings.saturation),
        *(_best_batch(data, law) for law in findings.batch_laws if law.optima),
        *_searched(data),
    )


def answered_at(data: SweepData, findings: Findings) -> BudgetFrontier:
    """The budget that the answer is of: the largest one that was read.

    Where n that may be the best have not come that far, what is best there is of those that happen
    to: then the largest that runs of them have reached too. Searches leave n out on purpose.
    """
    frontier = findings.frontier
    lacking = {*behind(findings.saturation.optima, frontier), *frontier.budgets[-1].measured}
    whole = [at for at in frontier.budgets if lacking <= {*at.measured, *at.fell}]
    return whole[-1] if whole and not data.searched else frontier.budgets[-1]


def nothing_to_use(frontier: Frontier) -> str:
    """Why no setting can be recommended, of a frontier without budgets."""
    if frontier.fell:
        return "nothing to recommend: every run that was read has lost what it had gained"
    return "nothing to recommend yet: no run has reached a budget"


def _searched(data: SweepData) -> tuple[str, ...]:
    """That runs were chosen, where a search did that: none of the others is missing by accident."""
    if not data.searched:
        return ()
    begun = [curve for curve in data.curves if curve.compute.size]
    spent = math.fsum(float(curve.compute[-1]) for curve in begun)
    whole = math.fsum(run.milestones[-1] for run in data.plan.runs)
    text = f"A search chose what was trained: {len(begun)} of {len(data.plan.runs)} runs, with "
    return (
        f"{text}{spent / whole:.0%} of the grid's compute; verdicts of chosen runs have been "
        "simulated far less often than those of grids.",
    )


def _what_to_use(data: SweepData, findings: Findings, at: BudgetFrontier) -> str:
    cell, confidence = at.best.cell, findings.frontier.confidence
    short = at.budget < max(data.plan.budgets)
    where = f"At {amount(data, at.budget)}"
    if at is not findings.frontier.budgets[-1]:
        lacking = _listed(list(behind(findings.saturation.optima, findings.frontier)))
        where += f", the largest budget that runs of {lacking} have reached as well,"
    elif findings.frontier.lost:
        where += ", the largest budget at which a run still has what it gained,"
    elif short:
        where += ", the largest budget that a run has reached,"
    where += f" for the evaluation set {data.evaluation_set}" if data.evaluation_set else ""
    text = (
        f"{where} use n = {cell.num_generations}, B = {cell.problems_per_batch}, "
        f"T = {cell.num_steps}: "
    )
    if at.best.expected is None or at.best.interval is None:
        text += f"measured reward {cell.mean:.3f}"
    else:
        low, high = at.best.interval
        text += f"expected reward {at.best.expected:.3f}"
        text += f" ({confidence:.0%} interval {low:.3f} to {high:.3f}){counting_fallen(cell)}"
    base = data.base_reward
    return text + ("." if base is None else f", against {base:.3f} before training.")


def counting_fallen(cell: CellMean) -> str:
    """How many of its runs had fallen by then, which the expected reward counts."""
    if not cell.num_fallen:
        return ""
    return f", counting that {cell.num_fallen} of its {cell.num_seeds + cell.num_fallen} runs fell"


def how_sure(at: BudgetFrontier, confidence: float) -> str:
    """Which other n may be as good, and what the neighbours of the best cost."""
    best = at.best.num_generations
    others = [n for n in at.candidates if n != best]
    fell = f"all runs of {_listed(list(at.fell))} had fallen" if at.fell else ""
    if len(at.choices) == 1:
        if fell and not at.missing:
            return f"Of the other n {fell} by then."
        besides = f", where {fell}" if fell else ""
        return f"No other n was measured there{besides}, so how good n = {best} is remains open."
    if at.best.expected is None:
        return (
            "Without a spread between seeds no n can be distinguished from it, nor a cost be put "
            "on choosing another."
        )
    text = (
        f"{_listed(others)} cannot be distinguished from it"
        if others
        else "Every other n measured there is worse"
    )
    costs = [
        f"n = {choice.num_generations} costs at most {choice.loss_upper:.3f}"
        for choice in _neighbours(at)
        if choice.loss_upper is not None
    ]
    neighbours = f"of its neighbours {' and '.join(costs)} of reward ({confidence:.0%} confidence)"
    return "; ".join([text, neighbours, *([fell] if fell else [])]) + "."


def _neighbours(at: BudgetFrontier) -> tuple[Choice, ...]:
    """The n measured next to the best."""
    place = at.choices.index(at.best)
    return at.choices[max(0, place - 1) : place] + at.choices[place + 1 : place + 2]


def _listed(values: list[int]) -> str:
    named = [str(n) for n in values]
    return "n = " + (named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}")


def whether_it_grows(data: SweepData, saturation: Saturation) -> str:
    """The verdict as a sentence, with its numbers."""
    growth = saturation.growth
    rate = "" if growth is None else f" ({growth.rate.words} doublings per decade of compute)"
    match saturation.verdict:
        case "saturated":
            text = "The best n has stopped growing with compute"
            plateau, settles = saturation.plateau, saturation.settles_at
            if plateau is None or settles is None:
                return f"{text}."
            return (
                f"{text}: from about {amount(data, settles.median)} on it stays near "
                f"n = {plateau.words}."
            )
        case "growing":
            return (
                f"The best n still grows at the largest budgets{rate}: more compute wants a "
                "larger n."
            )
        case "grew":
            return f"The best n grew with compute; whether it has stopped is open{rate}."
        case "fell":
            return "The best n is smaller at the largest budget than at an earlier one."
        case "constant":
            return "The best n does not change with compute."
        case "steady":
            since = "" if growth is None else f" from {amount(data, growth.steady_from)} on"
            return (
                f"The best n does not change{since}; whether it grew before, these records do not "
                "show."
            )
        case "n does not matter":
            return "Which n of the grid is chosen makes no difference that matters."
        case "not identified":
            return "Whether the best n grows with compute, these records do not show."


def _best_batch(data: SweepData, law: BatchLaw) -> str:
    """How B* goes with compute at one n x B."""
    first, last = law.optima[0], law.optima[-1]
    text = f"At n x B = {law.completions_per_step} the best B is "
    if first is not last:
        text += f"{first.words} at {amount(data, first.budget)} and "
    text += f"{last.words} at {amount(data, last.budget)}"
    if law.slope is None or law.since is None:
        return f"{text}; how it goes with compute is not identified: {law.reason}"
    where, slope = f"doublings per decade from {amount(data, law.since)} on", law.slope
    if slope.high < 0:
        fall = Interval(median=-slope.median, low=-slope.high, high=-slope.low)
        return f"{text}: it falls by {fall.words} {where}."
    verb = "rises" if slope.low > 0 else "changes"
    return f"{text}: it {verb} by {slope.words} {where}."
