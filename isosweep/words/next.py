"""`mode=next`, over its document: what is believed now, and the steps that a search would take."""

import math

from isosweep.compute import BudgetUnit
from isosweep.files import JsonObject
from isosweep.pricing import Pricing
from isosweep.words.numbers import amount, price

_NOT_LAUNCHED = (
    "nothing was launched. This command trains them one by one and decides again after each:"
)


def lines(document: JsonObject, pricing: Pricing) -> list[str]:
    """Return the lines that the terminal shows."""
    unit, steps = document["budget_unit"], document["steps"]
    found = [f"{document['sweep']}: its runs have spent {amount(document['spent'], unit)}"]
    likely = [(v, p) for v, p in (document["chances"] or {}).items() if p >= 0.05]
    if likely:
        odds = ", ".join(f"{v} {p:.0%}" for v, p in sorted(likely, key=lambda one: -one[1]))
        found.append(f"verdict now, by probability: {odds}")
    if not steps:
        found.append(f"no run is proposed: {document['stop']}")
        left = [f"  {_step(step, unit, pricing)}" for step in document["considered"]]
        return [*found, "what is left that is worth most:", *left] if left else found
    found.append("a search would train next:")
    found += [f"  {_step(step, unit, pricing)}" for step in steps]
    total = amount(math.fsum(step["compute"] for step in steps), unit)
    if steps[0]["device_hours"] is not None:
        hours = math.fsum(step["device_hours"] for step in steps)
        total += f", device time {price(hours, pricing)}"
    found.append(f"all of these: {total}")
    if document["command"]:
        found += [_NOT_LAUNCHED, f"  {document['command']}"]
    return found


def _step(step: JsonObject, unit: BudgetUnit, pricing: Pricing) -> str:
    label = f"{step['variant']}: " if step["variant"] else ""
    run = f"n = {step['num_generations']}, B = {step['problems_per_batch']}, seed {step['seed']}"
    added = [f"{amount(step['compute'], unit)} more"]
    if step["device_hours"] is not None:
        added.append(price(step["device_hours"], pricing, predicted=False))
    if step["value"]:
        added.append(f"worth {step['value']:.2g} of reward")
    return f"{label}{run} to {step['milestone']:.3g} ({', '.join(added)}): {step['why']}"
