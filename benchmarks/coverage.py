"""How often the analysis is right: simulated sweeps against known truth.

    python benchmarks/coverage.py --sweeps 200 --design affordable --worlds old,new
    python benchmarks/coverage.py --kinds all --sweeps 10 --design ten

`--worlds` takes names and groups: old, new, near (growth near the bound), curves (other forms of
rewards), lab (for few runs), all. Prints one row a world. With `--kinds` (behind, holes, sharp,
hair, whole; all), so many sweeps of each case of a kind (`kinds.py`), and one row a kind. Designs,
with n 8..2048 but for the last three:

| design | budgets | seeds | problems x 8 samples | runs |
|---|---|---|---|---|
| strong | 10 over 3 decades | 16 | 1,024 | 144 |
| affordable | 9 over 3 decades | 4 | 4,096 | 36 |
| modest | 5 over 2 decades | 4 | 256 | 36 |
| fix_batch | as affordable, with n x B = 16,384 throughout | 4 | 4,096 | 36 |
| holes | as affordable, a quarter of the cells not read | 4 | 4,096 | 36 |
| ten | 1, read over 2 decades, of n 8..128 | 2 | 4,096 | 10 |
| twenty | as ten | 4 | 4,096 | 20 |
| ten_fix_batch | as ten, with n x B = 16,384 throughout | 2 | 4,096 | 10 |

Half a second (modest) to two seconds (strong) a sweep
on one core.
"""

import math
import zlib
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from frame import Goal, UsageError, benchmark, by_world, loosen, number, table
from kinds import GROUPS, QUANTITIES, Judged, cases, is_decided, is_false, judged
from power import Power, measure_power
from scipy import stats

from isosweep.analysis.simulation.findable import Odds, design_of, findable
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.sweep import read_plan, wide_config
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import replaced
from isosweep.plan.cells import Plan
from isosweep.plan.study import resolve

# Runs are read between budgets, as users have them; not below, where nothing is planted.
CONFIG = AnalysisConfig(readings_per_decade=5, decades=0.0)
# Of 90% intervals; the limits of coverage move by what chance does.
GOALS = {
    "low": Goal("share of intervals of n*(C) that cover it, off the edges", "at least", 0.88),
    "high": Goal("share of intervals of n*(C) that cover it, off the edges", "at most", 0.92),
    "enough_low": Goal("the same of the smallest n that is good enough", "at least", 0.88),
    "enough_high": Goal("the same of the smallest n that is good enough", "at most", 0.92),
    "outside": Goal("worlds outside the band that holds them all with 99%", "at most", 0),
    "rate": Goal("share of intervals of the rate at the end that cover it", "at least", 0.88),
    "claimed": Goal("worst share `saturated` where n does not matter", "at most", 0.0),
    "false": Goal("worst share `saturated` where n* grows at twice the bound", "at most", 0.02),
    "constant": Goal("worst share `constant` where n* changes", "at most", 0.02),
    "promised": Goal("share decided that plans promise, less that which is", "at most", 0.1),
    "kinds": Goal("worst share of false verdicts in a kind", "at most", 0.02),
    "losses": Goal("share of 'loses at most' that hold, worst kind", "at least", 0.88),
}
QUICK = {
    "sweeps": 16,
    "worlds": "easy,flat,plateau,slow_tail,dip,collapses",
    "processes": 2,
}
# Of (n, budget) and of the cells that are left: what is not read in `holes`.
_HOLES = 0.135
_SAMPLES = 8


def doubling(first: int, last: int) -> tuple[int, ...]:
    """Every n from the first to the last, each twice the one before."""
    return tuple(first << k for k in range((last // first).bit_length()))


@dataclass(frozen=True, kw_only=True)
class Design:
    """`budgets`: first:last:number, log-spaced FLOPs, or one. `problems`: held-out ones.
    `decades`: read below the first budget. `covered`: the goal for intervals of n*, at least and at
    most."""

    budgets: str
    seeds: int
    problems: int
    grid: str = "fix_B"
    n: tuple[int, ...] = doubling(8, 2048)
    decades: float = 0.0
    holes: bool = False
    covered: tuple[float, float] = (0.88, 0.92)


_AFFORDABLE = Design(budgets="1e18:1e21:9", seeds=4, problems=4096)
# Two seeds know their spread badly.
_TEN = Design(
    budgets="1e20",
    seeds=2,
    problems=4096,
    n=doubling(8, 128),
    decades=2.0,
    covered=(0.85, 0.95),
)
DESIGNS = {
    "strong": Design(budgets="1e18:1e21:10", seeds=16, problems=1024),
    "affordable": _AFFORDABLE,
    "modest": Design(budgets="1e18:1e20:5", seeds=4, problems=256),
    "fix_batch": replace(_AFFORDABLE, grid="fix_batch"),
    "holes": replace(_AFFORDABLE, holes=True),
    "ten": _TEN,
    "twenty": replace(_TEN, seeds=4),
    "ten_fix_batch": replace(_TEN, grid="fix_batch"),
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """`covered`: of n*(C) at each budget where it lies off the edges of the grid; `enough`: of the
    smallest n that is good enough likewise. `promised`: what a plan of the design says that it can
    find where growth ends as here, or goes on; None for what it says nothing of."""

    power: Power
    promised: Odds | None
    covered: tuple[float, ...]
    enough: tuple[float, ...]


def power_of(world: str, design: str, sweeps: int, counts: bool) -> Measured:
    """Power in one world; without `counts` of single problems, of rewards alone."""
    chosen = DESIGNS[design]
    plan = make_plan(chosen)
    generations = [cell.num_generations for cell in plan.cells]
    least, most = min(generations), max(generations)
    config = replaced(CONFIG, decades=chosen.decades)
    power = measure_power(
        plan,
        presets_of(read_plan(plan, config))[world],
        config,
        sweeps=sweeps,
        # Of its own in every world, so that luck of one is not luck of all; and not those by which
        # thresholds were chosen, which were of the name alone.
        seed=zlib.crc32(f"reported {world}".encode()),
        num_problems=chosen.problems,
        samples_per_problem=_SAMPLES,
        counts=counts,
    )

    def off_edges(shares: Iterable[tuple[float | None, float | None]]) -> tuple[float, ...]:
        return tuple(
            covered
            for n, covered in shares
            if covered is not None and n and least * 1.001 < n < most / 1.001
        )

    return Measured(
        power=power,
        promised=promised(power, plan, config, chosen.problems),
        covered=off_edges((at.best_n, at.covered) for at in power.budgets),
        enough=off_edges((at.enough_n, at.enough_covered) for at in power.budgets),
    )


def promised(power: Power, plan: Plan, config: AnalysisConfig, problems: int) -> Odds | None:
    """Shares that `plan` says are decided where growth ends, or goes on, as in that world."""
    largest = max(run.num_generations for run in plan.runs)
    ends_at = power.budgets[-1].best_n if power.true_verdict == "saturated" else largest / 4
    if power.true_verdict not in ("saturated", "growing") or not ends_at:
        return None
    found = findable(design_of(plan, config, problems, ends_at))
    return found.ends if power.true_verdict == "saturated" else found.goes_on


def make_plan(design: Design) -> Plan:
    """The plan of a design."""
    n = list(design.n)
    several = ":" in design.budgets
    overrides = [f"budget={'logspace:' * several}{design.budgets}", f"grid={design.grid}"]
    if design.grid == "fix_batch":
        batches = [16384 // each for each in n]
        overrides += [f"grid.problems_per_batch={batches}", "grid.completions_per_step=[16384]"]
    plan = resolve_plan([*overrides, *_grid(n, design.seeds)])
    return punched(plan) if design.holes else plan


def _grid(n: list[int], seeds: int) -> list[str]:
    return [f"grid.num_generations={n}", f"grid.seeds={list(range(seeds))}"]


def resolve_plan(overrides: list[str]) -> Plan:
    """The plan of these settings, whatever it would cost."""
    return resolve(wide_config(*overrides)).plan


def punched(plan: Plan) -> Plan:
    """The plan with about a quarter of its cells removed at random, always the same ones."""
    rng = np.random.default_rng(5)
    pairs = sorted({(cell.num_generations, cell.budget) for cell in plan.cells})
    gone = {pair for pair in pairs if rng.random() < _HOLES}
    cells = tuple(
        cell
        for cell in plan.cells
        if (cell.num_generations, cell.budget) not in gone and rng.random() >= _HOLES
    )
    left: dict[str, list[float]] = {}
    for cell in cells:
        left.setdefault(cell.run_id, []).append(cell.budget)
    runs = tuple(
        replace(run, milestones=tuple(sorted(left[run.run_id])))
        for run in plan.runs
        if run.run_id in left
    )
    return replace(plan, cells=cells, runs=runs)


def _truth(power: Power) -> str:
    rate = "" if power.true_rate is None else f", {round(power.true_rate, 2) + 0.0:g}"
    return power.true_verdict + rate


def _mean_of(power: Power, width: str) -> float | None:
    widths = [getattr(at, width) for at in power.budgets]
    return mean([each for each in widths if each is not None])


def _promise(measured: Measured, how: Literal["surely", "probably"]) -> str:
    odds = measured.promised
    return number(None if odds is None else float(getattr(odds, how)), ".1%")


# The table of docs/error_rates.md.
COLUMNS: dict[str, Callable[[Power, Measured], str]] = {
    "world": lambda power, _: power.world,
    "truth": lambda power, _: _truth(power),
    "verdicts": lambda power, _: ", ".join(f"{v} {s:.1%}" for v, s in power.verdicts.items()),
    "correct": lambda power, _: number(power.correct, ".1%"),
    "decided": lambda power, _: number(power.surely, ".1%"),
    "and probably": lambda power, _: number(power.decided, ".1%"),
    "promised": lambda _, measured: _promise(measured, "surely"),
    "and so": lambda _, measured: _promise(measured, "probably"),
    "false": lambda power, _: number(falsely(power), ".1%"),
    "false saturated": lambda power, _: number(power.false_saturated, ".1%"),
    "false growing": lambda power, _: number(power.false_growing, ".1%"),
    "n* covered": lambda _, measured: number(mean(measured.covered), ".1%"),
    "doublings wide": lambda power, _: number(_mean_of(power, "width"), ".2f"),
    "n_d covered": lambda _, measured: number(mean(measured.enough), ".1%"),
    "n_d wide": lambda power, _: number(_mean_of(power, "enough_width"), ".2f"),
    "rate covered": lambda power, _: number(power.rate_covered, ".1%"),
    "wide": lambda power, _: number(power.rate_width, ".2f"),
    "n_sat covered": lambda power, _: number(power.plateau_covered, ".1%"),
    "best n costs": lambda power, _: number(power.recommended_loss, ".4f"),
    "within margin": lambda power, _: number(power.recommended_harmless, ".1%"),
}


def falsely(power: Power) -> float:
    """Share of sweeps whose verdict claims what is not so."""
    return max(0.0, 1 - power.correct - power.verdicts.get("not identified", 0.0))


def mean(values: list[float] | tuple[float, ...]) -> float | None:
    """The mean, or None of nothing."""
    return math.fsum(values) / len(values) if values else None


def figures(all_measured: list[Measured]) -> dict[str, float]:
    """What the goals ask."""
    powers = [measured.power for measured in all_measured]
    found: dict[str, float] = {}
    for prefix, name in (("", "covered"), ("enough_", "enough")):
        pooled = mean([share for measured in all_measured for share in getattr(measured, name)])
        if pooled is not None:
            found[f"{prefix}low"] = found[f"{prefix}high"] = pooled
            of_worlds = [(each.power.sweeps, mean(getattr(each, name))) for each in all_measured]
            found["outside"] = found.get("outside", 0) + outside(of_worlds)
    for name, given in (("rate", [(power.num_rates, power.rate_covered) for power in powers]),):
        count = sum(number for number, _ in given)
        if count:
            found[name] = sum(number * (covered or 0.0) for number, covered in given) / count
    surplus = [m.promised.surely - m.power.surely for m in all_measured if m.promised is not None]
    if surplus:
        found["promised"] = math.fsum(surplus) / len(surplus)
    idle = [p.false_saturated for p in powers if p.true_verdict == "n does not matter"]
    twice = 2 * CONFIG.growth_bound
    rising = [p.false_saturated for p in powers if (p.true_rate or 0.0) >= twice]
    changing = ("fell", "growing", "saturated")
    still = [p.verdicts.get("constant", 0.0) for p in powers if p.true_verdict in changing]
    for name, shares in (("claimed", idle), ("false", rising), ("constant", still)):
        if shares:
            found[name] = max(shares)
    return found


def outside(worlds: Sequence[tuple[int, float | None]]) -> int:
    """How many worlds, of (sweeps, share covered), differ from 90% by more than chance makes of all
    of them together in 99%. Intervals of one sweep go together: it counts once."""
    known = [(sweeps, covered) for sweeps, covered in worlds if covered is not None]
    found = 0
    for sweeps, covered in known:
        low, high = stats.binom.interval(0.99 ** (1 / len(known)), sweeps, CONFIG.confidence)
        found += not low <= covered * sweeps <= high
    return found


def allow_for_chance(sweeps: int, covered: tuple[float, float]) -> None:
    """Move the goals of coverage, `covered` for n, by two standard errors; intervals within a
    sweep go together."""
    error = 2 * math.sqrt(0.9 * 0.1 / sweeps)
    for name, limit in zip(("low", "high"), covered, strict=True):
        for of in (name, f"enough_{name}"):
            GOALS[of] = replace(GOALS[of], limit=limit)
    loosen(GOALS, low=-error, rate=-error, high=error)
    loosen(GOALS, enough_low=-error, enough_high=error)


def named(listed: str) -> list[str]:
    """Names of worlds from names and groups, each once."""
    known = [name for names in GROUPS.values() for name in names]
    found: list[str] = []
    for item in listed.split(","):
        names = known if item == "all" else GROUPS.get(item, (item,))
        if not set(names) <= set(known):
            known_names = f"worlds {', '.join(known)}; groups {', '.join(GROUPS)}"
            raise UsageError(f"--worlds {item}: {known_names}")
        found += [name for name in names if name not in found]
    return found


OPTIONS = {
    "--sweeps": 20,
    "--design": {"choices": sorted(DESIGNS), "default": "affordable"},
    "--worlds": "old,new",
    "--kinds": "",
    "--rewards": (False, "rewards alone, as of runs that are imported without counts"),
    "--processes": 1,
}


def sweeps_of_case(name: str, design: str, sweeps: int) -> list[Judged]:
    """So many sweeps of one case of a kind, named "kind case"."""
    chosen = DESIGNS[design]
    plan, config = make_plan(chosen), replaced(CONFIG, decades=chosen.decades)
    kind, _, case = name.partition(" ")
    return [judged(case, kind, plan, config, k, chosen.problems) for k in range(sweeps)]


def measure_kinds(options: Namespace) -> dict[str, float]:
    """Print a row a kind; the worst shares of all of them."""
    known = cases(CONFIG.margin)
    kinds = known if options.kinds == "all" else options.kinds.split(",")
    if not set(kinds) <= set(known):
        raise UsageError(f"--kinds {options.kinds}: all, or of {', '.join(known)}")
    of_quantity = ("clear of bounds", "false", "decided", "surely", "interval held")
    heads = [
        f"{name}, {'n_d' if q == 'enough' else 'n*'}" for q in QUANTITIES for name in of_quantity
    ]
    row = table("kind", "sweeps", *heads, "losses held", "reward held")
    jobs = [(options.design, options.sweeps)]
    false, losses = [], []
    names = [f"{kind} {case}" for kind in kinds for case in known[kind]]
    of_kind: dict[str, list[Judged]] = {kind: [] for kind in kinds}
    for name, (found,) in by_world(sweeps_of_case, names, jobs, options.processes):
        of_kind[name.partition(" ")[0]] += found
    for kind, found in of_kind.items():
        cells: list[str] = []
        for quantity in QUANTITIES:
            verdicts = [each.verdicts[quantity] for each in found if quantity in each.verdicts]
            wrong = mean([float(is_false(*each)) for each in verdicts])
            right = [each for each in verdicts if is_decided(*each)]
            surely = [verdict for verdict, _ in right if not verdict.startswith("probably ")]
            held = [float(each) for sweep in found for each in sweep.intervals[quantity]]
            shares = [len(some) / len(verdicts) for some in (right, surely)] if verdicts else []
            cells += [str(len(verdicts)), number(wrong, ".1%")]
            cells += [number(share, ".0%") for share in shares or (None, None)]
            cells.append(number(mean(held), ".0%"))
            false += [] if wrong is None else [wrong]
        bounds = [float(each) for sweep in found for each in sweep.losses]
        losses.append(mean(bounds) or 0.0)
        reward = mean([float(sweep.reward) for sweep in found])
        row(kind, len(found), *cells, number(losses[-1], ".0%"), number(reward, ".0%"))
    return {"kinds": max(false), "losses": min(losses)}


def measure(options: Namespace) -> dict[str, float]:
    """Print the table; the figures of the goals."""
    if options.kinds:
        return measure_kinds(options)
    worlds, done = named(options.worlds), []
    row = table(*COLUMNS)
    jobs = [(options.design, options.sweeps, not options.rewards)]
    for _, (measured,) in by_world(power_of, worlds, jobs, options.processes):
        row(*(said(measured.power, measured) for said in COLUMNS.values()))
        done.append(measured)
    covered = DESIGNS[options.design].covered
    allow_for_chance(len(done) * options.sweeps, covered)
    return figures(done)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
