"""The verdict and why, over an Answer: what terminal, report, MLflow and Python share."""

from typing import TYPE_CHECKING

from isosweep import evidence
from isosweep.words.numbers import amount, ns, ns_and

if TYPE_CHECKING:
    from isosweep.analysis.answer import Answer, NotForNewProblems
    from isosweep.analysis.statistics.growth import Growth
    from isosweep.analysis.statistics.verdict import OpenEnd

_FINDINGS = {
    "saturated": "{n} has stopped growing with compute.",
    "probably saturated": "{n} has probably stopped growing with compute.",
    "growing": "{n} still grows with compute.",
    "probably growing": "{n} probably still grows with compute.",
    "grew": "{n} grew with compute; whether it has stopped is not established.",
    "fell": "{n} is smaller at the largest budget than at an earlier one.",
    "constant": "{n} does not change with compute.",
    "steady": "{n} stays the same{since}; earlier growth is not established.",
    "n does not matter": "Every n of the grid is good enough: "
    "the choice makes no difference that matters.",
    "not identified": "It is not established whether {it} grows with compute.",
}

# Why nothing can be said of a trend, or why none matters, by kind of reason.
_LACKING = {
    "no record": "No run has reached a budget yet.",
    "all fell": "{fell}. No n can be compared.",
    "few n": "Only {count} n were measured ({n}). At least {few.MIN_GENERATIONS} are needed to "
    "distinguish a best n inside the grid from an edge.",
    "few budgets": "Budgets with {few.MIN_GENERATIONS} or more n measured: {why.num_budgets}. At "
    "least {few.MIN_BUDGETS} are needed to show growth and its end.",
    "one seed": "Only one seed was run, so the spread between seeds is unknown and no n can be "
    "distinguished from the best. At least {few.MIN_SEEDS} seeds are needed.",
    "no spread": "All seeds agree to the last digit, so there is no spread between seeds to judge "
    "a difference by.",
    "harmless": "At every budget, each n measured there or at a smaller budget costs at most "
    "{why.margin:g} of reward against the best ({why.confidence:.0%} confidence; {n}). Nothing is "
    "established for other n.",
}


def capitalized(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def chance(share: float) -> str:
    """Return a probability, of which none is certain: over 99%, 91%, under 1%."""
    return "over 99%" if share > 0.995 else "under 1%" if share < 0.005 else f"{share:.0%}"


def symbol(answer: "Answer") -> str:
    """Return the symbol of the n that is judged."""
    return "n_d" if answer.reason.quantity == "enough" else "n*"


def judged(answer: "Answer") -> str:
    """Return what the n that is judged is."""
    enough = answer.reason.quantity == "enough"
    return "the smallest n that is good enough" if enough else "the best n"


def both(answer: "Answer") -> str:
    """Return what n* and n_d are, and which of them the verdict is about."""
    return (
        "n* is the best n: the one with the highest expected reward. n_d is the smallest n that is "
        f"good enough: it loses at most {_margin(answer)} against n* (analysis.margin). The "
        f"verdict is about {symbol(answer)} (analysis.quantity={answer.reason.quantity}). The "
        "setting to use has the highest expected reward: at equal compute a larger n costs no more."
    )


def headline(answer: "Answer") -> str:
    """Return the verdict as a sentence, and its number as another."""
    return _joined(finding(answer), measure(answer))


def finding(answer: "Answer") -> str:
    """Return the verdict in 25 words or fewer; where new problems have another, of these alone."""
    if answer.reason.kind == "all fell":
        return "No run has kept its gain, so there is nothing to recommend."
    if not answer.generations:
        return "No run has reached a budget yet, so there is nothing to recommend."
    text = _finding(answer)
    others = new_problems(answer)
    if others and answer.verdict != "not identified":
        return f"On these {others.num_problems:,} held-out problems {text[0].lower()}{text[1:]}"
    return text


def new_problems(answer: "Answer") -> "NotForNewProblems | None":
    """Return the caveat that new problems have another verdict; None where they have the same."""
    return next((each for each in answer.caveats if each.kind == "new problems"), None)


def _finding(answer: "Answer") -> str:
    n, growth = capitalized(judged(answer)), answer.growth
    moves = [each for each in answer.caveats if each.kind == "best moves" and each.moves]
    since = ""
    if growth and answer.verdict == "steady":
        since = f" from {amount(growth.steady_from, answer.budget_unit)} on"
    if moves:
        ends = (moves[0].first.n_star, moves[0].last.n_star)
        first, last = (f"{each.median:.0f}" for each in ends if each)
        enough = f"Within {_margin(answer)} one n is enough{since}"
        return f"{enough}, but the best n goes from {first} to {last}."
    return _FINDINGS[answer.verdict].format(n=n, it=judged(answer), since=since)


def measure(answer: "Answer") -> str:
    """Return the number of the verdict, with its interval and its probability; "" without one."""
    growth, unit = answer.growth, answer.budget_unit
    if growth is None or not answer.optima:
        return ""
    match answer.verdict:
        case "saturated" | "probably saturated":
            stays = ""
            if answer.plateau and answer.settles_at:
                budget = amount(answer.settles_at.median, unit)
                stays = f"From about {budget} on, it stays near n = {answer.plateau}. "
            return (
                f"{stays}The probability that it grew and has stopped is {chance(growth.settled)}."
            )
        case "growing" | "probably growing":
            return (
                f"{_rate(growth)} The probability that it grew and still grows by {growth.bound:g} "
                f"doublings per decade or more is {chance(growth.rising)}."
            )
        case "grew":
            return _rate(growth)
        case "fell":
            return _fell(answer, growth)
        case "constant" | "steady":
            return _unchanged(answer, growth)
        case _:
            return ""


def reason(answer: "Answer") -> str:
    """Return what the verdict rests on, without the numbers that `measure` has."""
    text = _reason(answer)
    if answer.harmless and answer.reason.kind != "harmless":
        loss = f"the loss is at most {answer.reason.margin:g} of reward at every budget"
        text += f" With {ns(answer.harmless)} {loss}."
    return text


def _reason(answer: "Answer") -> str:
    why, growth = answer.reason, answer.growth
    end = open_end(why.end) if why.end else ""
    if why.kind == "edge":
        may = f"At every budget {judged(answer)} may be n = {why.edge}, an edge of the grid."
        where = f"It is {_at(answer, answer.optima[0].budget)} and {_last(answer)}."
        return _joined(may, where, end)
    if growth is not None and why.kind not in _LACKING:
        return _trend(answer, growth, end)
    n = ns(why.measured)
    if why.fell and why.kind == "few n":
        n += f"; all runs of {ns(why.fell)} collapsed"
    fell, count = capitalized(all_fell(answer)), len(why.measured)
    return _LACKING[why.kind].format(why=why, few=evidence, n=n, fell=fell, count=count)


def _trend(answer: "Answer", growth: "Growth", end: str) -> str:
    why, n = answer.reason, symbol(answer)
    sure = f"A sure verdict takes a probability of {answer.confidence:.0%}."
    stopped = f"A rate within {growth.bound:g} doublings per decade counts as stopped."
    since = amount(growth.steady_from, answer.budget_unit)
    match why.kind:
        case "fell":
            return _fell(answer, growth).replace("It", n, 1)
        case "saturated":
            return _joined(_grew(answer, growth), _rate(growth), stopped, end)
        case "probably saturated":
            return _joined(_grew(answer, growth), _rate(growth), stopped, sure, end)
        case "growing":
            return _joined(_grew(answer, growth), end)
        case "probably growing":
            return _joined(_grew(answer, growth), sure, end)
        case "grew":
            odds = (
                f"The probability that it has stopped inside the grid is {chance(growth.settled)}; "
                f"that it still grows faster than that, {chance(growth.rising)}."
            )
            return _joined(_grew(answer, growth), stopped, odds, end)
        case "constant":
            return _joined(f"{n} does not change with compute.", _rate(growth))
        case "steady":
            return _joined(
                f"{n} stays the same from {since} on.",
                _rate(growth),
                f"{stopped[:-1]} (probability {chance(growth.stopped)}).",
                "Whether it changed before is not established.",
            )
        case _:
            lacking = f"Train the runs of {ns(why.lacking)} up to that budget first."
            return _joined(_undecided(answer, growth), end or (lacking if why.lacking else ""))


def _undecided(answer: "Answer", growth: "Growth") -> str:
    end, unit = answer.reason.end, answer.budget_unit
    if end and end.kind == "missing":
        last = amount(answer.optima[-1].budget, unit)
        text = f"{symbol(answer)} is not known at {last}"
        return f"{text}: no run of {ns_and(end.n)} has records there."
    fell = growth.fell > growth.grew
    since = amount(growth.peak if fell else growth.since, unit)
    did = f"{'fell' if fell else 'grew'} by a doubling or more since {since}"
    odds = chance(growth.fell if fell else growth.grew)
    text = f"{symbol(answer)} {did} with a probability of {odds}"
    if growth.unchanged >= answer.confidence:
        steady = f"within a doubling of where it was at {amount(growth.steady_from, unit)}"
        text += f", though it ends {steady} (probability {chance(growth.unchanged)})"
    return f"{text}."


def open_end(end: "OpenEnd") -> str:
    """Return where the n that is judged may lie that was not measured, and what would show it."""
    if end.kind == "missing":
        first = f"Train the runs of {ns(end.n)} up to this budget, and evaluate them there, first"
        return f"{first}: no other run shows as much."
    above = end.kind == "above"
    text = f"It may lie {end.kind} n = {end.edge}, the "
    if end.n:
        most = "largest" if above else "smallest"
        return f"{text}{most} n whose runs last: all runs of {ns(end.n)} collapsed."
    more = "larger" if above else "smaller"
    return f"{text}edge of the grid there: add a {more} n to the grid."


def all_fell(answer: "Answer") -> str:
    """Return what became of all runs that were read, of which none counts."""
    runs = answer.runs
    broken = sum(each.runs for each in runs.warned if each.rule == "non_finite")
    if not runs.fallen and broken and broken == runs.standings.get("diverged"):
        return (
            "every run that was read ended because a loss, gradient norm or logit was not finite "
            "(health rule non_finite)"
        )
    return "every run that was read has collapsed: its gain is lost"


def _margin(answer: "Answer") -> str:
    """Return the margin, with its share of the whole gain where that is large."""
    coarse = [each for each in answer.caveats if each.kind == "coarse margin"]
    shares = [f" ({each.margin / each.gain:.0%} of the gain)" for each in coarse]
    return "".join([f"{answer.reason.margin:g} of reward", *shares])


def _rate(growth: "Growth") -> str:
    if growth.closed < 0.5:
        return (
            "How fast it grows at the largest budgets is not known: other n have no records there."
        )
    does = "grows" if growth.rate.median >= 0 else "changes"
    return f"At the largest budgets it {does} by {growth.rate} doublings per decade of compute."


def _grew(answer: "Answer", growth: "Growth") -> str:
    first = _at(answer, growth.since)
    odds = f"(probability {chance(growth.grew)})"
    return f"{symbol(answer)} grew from {first} to {_last(answer)} {odds}."


def _fell(answer: "Answer", growth: "Growth") -> str:
    first, odds = _at(answer, growth.peak), chance(growth.fell)
    return f"It fell from {first} to {_last(answer)} (probability {odds})."


def _unchanged(answer: "Answer", growth: "Growth") -> str:
    first, odds = _at(answer, growth.steady_from), chance(growth.unchanged)
    n = f"{symbol(answer)} is {first} and {_last(answer)}"
    return f"{n}. The probability of a difference below one doubling is {odds}."


def _last(answer: "Answer") -> str:
    return _at(answer, answer.optima[-1].budget)


def _at(answer: "Answer", budget: float) -> str:
    """Return the n that is judged at one budget: 16 (8 to 32) at 1e20 FLOPs."""
    found = next(each for each in answer.optima if each.budget == budget)
    n = found.judged(answer.reason.quantity) or found
    return f"{n} at {amount(budget, answer.budget_unit)}"


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))
