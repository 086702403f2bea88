"""The answer in three sentences: what to use, how sure that is, and whether n* still grows."""

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.axes import amount
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.frontier import BudgetFrontier, Choice
from isosweep.analysis.statistics.saturation import Saturation


def summarise(data: SweepData, findings: Findings) -> tuple[str, ...]:
    """Three sentences; one where no run has reached a budget."""
    frontier = findings.frontier
    if not frontier.budgets:
        return ("No run has reached a budget yet, so there is nothing to recommend.",)
    at = frontier.budgets[-1]
    return (
        _what_to_use(data, at, frontier.confidence),
        _how_sure(at, frontier.confidence),
        _whether_it_grows(data, findings.saturation),
    )


def _what_to_use(data: SweepData, at: BudgetFrontier, confidence: float) -> str:
    cell = at.best.cell
    short = at.budget < max(data.plan.budgets)
    where = f"At {amount(data, at.budget)}"
    where += ", the largest budget that a run has reached," if short else ""
    text = (
        f"{where} use n = {cell.num_generations}, B = {cell.problems_per_batch}, "
        f"T = {cell.num_steps}: "
    )
    if at.best.expected is None or at.best.interval is None:
        text += f"measured reward {cell.mean:.3f}"
    else:
        low, high = at.best.interval
        text += f"expected reward {at.best.expected:.3f}"
        text += f" ({confidence:.0%} interval {low:.3f} to {high:.3f})"
    base = data.base_reward
    return text + ("." if base is None else f", against {base:.3f} before training.")


def _how_sure(at: BudgetFrontier, confidence: float) -> str:
    best = at.best.num_generations
    others = [n for n in at.candidates if n != best]
    if len(at.choices) == 1:
        return f"No other n was measured there, so how good n = {best} is remains open."
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
    return (
        f"{text}; of its neighbours {' and '.join(costs)} of reward ({confidence:.0%} confidence)."
    )


def _neighbours(at: BudgetFrontier) -> tuple[Choice, ...]:
    """The n measured next to the best."""
    place = at.choices.index(at.best)
    return at.choices[max(0, place - 1) : place] + at.choices[place + 1 : place + 2]


def _listed(values: list[int]) -> str:
    named = [str(n) for n in values]
    return "n = " + (named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}")


def _whether_it_grows(data: SweepData, saturation: Saturation) -> str:
    match saturation.verdict:
        case "saturated":
            text = "The best n has stopped growing with compute"
            plateau, settles = saturation.plateau, saturation.settles_at
            if plateau is None or settles is None:
                return f"{text}."
            return (
                f"{text}: from about {amount(data, settles.median)} on it stays near "
                f"n = {plateau.median:.3g} ({plateau.low:.3g} to {plateau.high:.3g})."
            )
        case "growing":
            return "The best n still grows at the largest budget: more compute wants a larger n."
        case "flat":
            return "The best n does not change with compute, as far as matters."
        case "not identified":
            return "Whether the best n grows with compute, these records do not show."
