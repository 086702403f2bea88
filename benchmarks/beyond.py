"""What `mode=recommend` says of ten times the compute: simulated sweeps that end past a peak of n*.

    python benchmarks/beyond.py --sweeps 12

Worlds of `coverage.py`, laid over its three decades of budgets; the sweeps (affordable: n 8..2048,
four seeds, 4,096 problems) end at the decade of `_ENDS`, just past the peak where a world has one,
with a decade between their last two budgets, so that the check of forecasts goes as far as what is
asked. Prints a row a world: how often nothing is recommended, and why; how often the interval of
n* at ten times the last budget holds the true one, over all sweeps and over those accepted; and the
true reward that the recommended n loses against the true n*, and that the last budget's best n
does. Three seconds a sweep on one core.
"""

import zlib
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass

import numpy as np
from coverage import CONFIG, mean, resolve_plan
from frame import Goal, benchmark, by_world, number, table

from isosweep.analysis.recommend import doubt_beyond, recommend
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.sweep import sweep_of
from isosweep.analysis.simulation.truth import batches_of
from isosweep.analysis.statistics.findings import find

GOALS = {
    "held": Goal("share of accepted intervals of n* that hold it", "at least", 0.7),
    "lost": Goal("mean reward lost by the n recommended, where accepted", "at most", 0.01),
    "turned": Goal("sweeps accepted of worlds whose n* has turned", "at most", 0),
}
QUICK = {"sweeps": 3, "processes": 2}
_TURNED = ("dip", "return", "bump", "recovery")
_FIRST, _DECADES, _FACTOR = 1e18, 3.0, 10.0
# Decades after the first budget at which sweeps end.
_ENDS = {
    **dict.fromkeys((*_TURNED, "falling", "plateau", "slow_tail", "logarithm", "constant"), 1.875),
    "recovery": 1.5,
}
_GRID = [
    "grid=fix_B",
    f"grid.num_generations={[8 * 2**k for k in range(9)]}",
    "grid.seeds=[0,1,2,3]",
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One sweep, asked for ten times its last budget."""

    doubt: str | None
    held: bool
    doublings: float
    lost: float
    lost_by_last: float


def ask(world: str, sweeps: int) -> list[Asked]:
    """Of every simulated sweep of a world."""
    whole = [_FIRST, _FIRST * 10**_DECADES]
    known = presets_of(resolve_plan([f"budget={whole}", *_GRID]))[world]
    last = float(f"{_FIRST * 10 ** _ENDS[world]:.6g}")
    plan = resolve_plan([f"budget={[_FIRST, last / _FACTOR, last]}", *_GRID])
    offered, budget = batches_of(plan), last * _FACTOR
    n = [cell.num_generations for cell in plan.cells]
    best = known.best_n(budget, min(n), max(n), offered)

    def reward(n: float) -> float:
        at = np.array([n])
        return float(known.reward(np.array(budget), at, offered(at)).max())

    asked = []
    for seed in range(sweeps):
        seeds = zlib.crc32(world.encode()), seed
        data = sweep_of(known, plan, CONFIG, seeds, num_problems=4096, samples_per_problem=8)
        findings = find(data, CONFIG)
        split = recommend(data, findings, budget, extrapolate=True)
        assert split.best_n is not None
        low = 0.0 if split.open_below else split.best_n.low
        high = np.inf if split.open_above else split.best_n.high
        asked.append(
            Asked(
                doubt=doubt_beyond(findings),
                held=low <= best <= high,
                doublings=float(np.log2(split.best_n.high / split.best_n.low)),
                lost=reward(best) - reward(split.num_generations),
                lost_by_last=reward(best)
                - reward(findings.frontier.budgets[-1].best.num_generations),
            )
        )
    return asked


OPTIONS = {
    "--worlds": ",".join(_ENDS),
    "--sweeps": (12, "simulated sweeps of each world"),
    "--processes": 1,
}


def measure(options: Namespace) -> dict[str, float]:
    """Print the table; the figures of the goals."""
    row = table(
        *("world", "refused", "n* held", "doublings wide", "n loses", "the last n loses"),
        *("accepted", "n* held", "n loses"),
    )

    def add(name: str, asked: list[Asked]) -> None:
        why = Counter(each.doubt for each in asked if each.doubt)
        told = [each for each in asked if not each.doubt]
        row(
            name,
            ", ".join(f"{doubt} {count}" for doubt, count in why.items()) or "–",
            number(mean([each.held for each in asked]), ".0%"),
            number(mean([each.doublings for each in asked]), ".1f"),
            number(mean([each.lost for each in asked]), ".4f"),
            number(mean([each.lost_by_last for each in asked]), ".4f"),
            f"{len(told)} of {len(asked)}",
            number(mean([each.held for each in told]), ".0%"),
            number(mean([each.lost for each in told]), ".4f"),
        )

    seen: list[Asked] = []
    turned, worlds = 0, options.worlds.split(",")
    for world, (asked,) in by_world(ask, worlds, [(options.sweeps,)], options.processes):
        add(world, asked)
        seen += asked
        turned += world in _TURNED and sum(not each.doubt for each in asked)
    add("all", seen)
    told = [each for each in seen if not each.doubt]
    figures = {"turned": float(turned)}
    if told:
        figures["held"] = float(np.mean([each.held for each in told]))
        figures["lost"] = float(np.mean([each.lost for each in told]))
    return figures


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
