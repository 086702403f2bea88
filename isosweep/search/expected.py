"""What a search has cost in simulated sweeps, as `benchmarks/search.py` has measured it."""

import json
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, kw_only=True)
class ExpectedCost:
    """Of so many simulated `sweeps`, the shares of the grid's compute that searches spent: the
    `low` and `high` ends of the range, and the `median`."""

    sweeps: int
    low: float
    median: float
    high: float


def expected_cost() -> ExpectedCost:
    """The shipped table, `expected.json`."""
    text = files("isosweep.search").joinpath("expected.json").read_text(encoding="utf-8")
    document = json.loads(text)
    share = document["share"]
    return ExpectedCost(
        sweeps=document["sweeps"], low=share["low"], median=share["median"], high=share["high"]
    )
