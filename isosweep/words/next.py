"""`mode=next`, over its document: what is believed now, and what is proposed or why nothing is."""

import math
from typing import TYPE_CHECKING

from isosweep.compute import BudgetUnit
from isosweep.files import JsonObject
from isosweep.pricing import Pricing
from isosweep.words.numbers import amount, ns, price, short
from isosweep.words.verdict import open_end

if TYPE_CHECKING:
    from isosweep.search.proposing import Proposal, Stop

NOT_LAUNCHED = (
    "nothing was launched. This command trains them one by one and decides again after each:"
)


def belief(proposal: "Proposal", label: str) -> list[str]:
    """Return the chances of each verdict of a variant, and why no run is proposed."""
    of, lines = f"{label}: " if label else "", []
    likely = [(v, p) for v, p in proposal.chances.items() if p >= 0.05]
    if likely:
        odds = ", ".join(f"{v} {p:.0%}" for v, p in sorted(likely, key=lambda one: -one[1]))
        lines.append(f"{of}verdict now, by probability: {odds}")
    if proposal.stop:
        lines.append(f"{of}no run is proposed: {stop(proposal.stop)}")
    return lines


def stop(why: "Stop") -> str:
    """Return why nothing is proposed."""
    match why.kind:
        case "no spread":
            return "the spread between seeds is not known. Train two seeds of one (n, B)"
        case "behind":
            text = f"{ns(why.n)} may be the best, and no run of these n has reached"
            more = "mode=resume finishes them (with retry_failed=true also those that failed)"
            return f"{text} {short(why.budget or 0)} yet. {more}"
        case "out of reach":
            where = f"{open_end(why.end)} " if why.end else ""
            return (
                f"{where}The grid's rules or search.max_compute keep out every run of {ns(why.n)}"
            )
        case "decided":
            lose = f"is expected to lose at most {why.margin:g} of reward"
            return (
                f"the verdict is decided: {why.verdict} (probability {why.chance:.0%}). At every "
                f"budget the n that seems best {lose}"
            )
        case "not worth":
            return "no run within search.max_compute is worth its compute"


def steps(variant: JsonObject, label: str, unit: BudgetUnit, pricing: Pricing) -> list[str]:
    """Return the lines below the table of steps: their sum, and what its columns are."""
    taken = variant["steps"]
    total = amount(math.fsum(step["compute"] for step in taken), unit)
    if taken[0]["device_hours"] is not None:
        hours = math.fsum(step["device_hours"] for step in taken)
        total += f", device time {price(hours, pricing)}"
    lines = [
        f"{label}: all of these: {total}" if label else f"all of these: {total}",
        "saves: expected gain of reward, summed over budgets. decides: how much surer the run "
        f"makes the verdict. agree: how sure it is then ({variant['agree']:.0%} now)",
    ]
    valued = {s["num_generations"]: s["valued_as_n"] for s in taken if s["valued_as_n"]}
    return lines + [
        f"n = {n} is outside the n that were run, so its value is that of n = {like}"
        for n, like in valued.items()
    ]
