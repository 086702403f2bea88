"""How often the analysis is right: simulated sweeps against known truth.

    python benchmarks/coverage.py --sweeps 200 --design affordable --worlds old,new
    python benchmarks/coverage.py --kinds all --sweeps 10 --design ten

`--worlds` takes names and groups: old, new, near (growth near the bound), curves (other forms of
rewards), lab (for few runs), read (luck that seeds share, records beside the budgets), all. Prints
one row a world, with all shares of n_d and of n*; shares of verdicts are of sweeps in worlds clear
of the bounds. With `--kinds` (behind, holes, sharp, hair, whole; all), so many sweeps of each case
of a kind (`kinds.py`), and one row a kind. Designs, with n 8..2048 but for the last three:

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
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from frame import Goal, UsageError, benchmark, by_world, loosen, number, table
from kinds import GROUPS, QUANTITIES, Judged, cases, is_decided, is_false, judged
from scipy import stats

from isosweep.analysis.simulation.findable import Odds, design_of, findable
from isosweep.analysis.simulation.sweep import wide_config
from isosweep.config.analysis import AnalysisConfig, Quantity
from isosweep.config.base import replaced
from isosweep.plan.cells import Plan
from isosweep.plan.study import resolve

# Runs are read between budgets, as users have them; not below, where nothing is planted.
CONFIG = AnalysisConfig(readings_per_decade=5, decades=0.0)
# Of 90% intervals; the limits of coverage move by what chance does.
GOALS = {
    "low": Goal("share of intervals of n*(C) that hold it, off the edges", "at least", 0.88),
    "high": Goal("share of intervals of n*(C) that hold it, off the edges", "at most", 0.92),
    "enough_low": Goal("the same of the smallest n that is good enough", "at least", 0.88),
    "enough_high": Goal("the same of the smallest n that is good enough", "at most", 0.92),
    "outside": Goal("rows outside the band that holds them all with 99%", "at most", 0),
    "rate": Goal("share of intervals of the rate at the end that hold it", "at least", 0.88),
    "false": Goal("share of false verdicts, where more are false of n_d and n*", "at most", 0.02),
    "losses": Goal("share of 'loses at most' that hold", "at least", 0.88),
    "promised": Goal("share decided that plans promise, less that which is", "at most", 0.1),
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


def sweeps_of(name: str, design: str, sweeps: int, counts: bool) -> list[Judged]:
    """So many sweeps of one case of a kind, named "kind case"."""
    chosen = DESIGNS[design]
    plan, config = make_plan(chosen), replaced(CONFIG, decades=chosen.decades)
    kind, _, case = name.partition(" ")
    size = {"num_problems": chosen.problems, "samples_per_problem": _SAMPLES}
    return [judged(case, kind, plan, config, k, **size, counts=counts) for k in range(sweeps)]


def promised(found: Sequence[Judged], design: str) -> Odds | None:
    """Shares that a plan of the design says are decided where growth ends, or goes on, as in that
    world; None for worlds of which it says nothing."""
    chosen, truth = DESIGNS[design], found[0].truth
    plan, config = make_plan(chosen), replaced(CONFIG, decades=chosen.decades)
    largest = max(run.num_generations for run in plan.runs)
    ends_at = truth.best_n[-1] if truth.verdict == "saturated" else largest / 4
    if truth.verdict not in ("saturated", "growing") or not ends_at:
        return None
    odds = findable(design_of(plan, config, chosen.problems, ends_at))
    return odds.ends if truth.verdict == "saturated" else odds.goes_on


def mean(values: Iterable[float]) -> float | None:
    """The mean, or None of nothing."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else None


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Shares of some sweeps, of one quantity: None of nothing. `clear`: sweeps in worlds clear of
    bounds, of which are `false`, `decided` (`surely` without what is probable); `held`: of
    intervals, `wide` doublings on average."""

    clear: int
    false: float | None
    decided: float | None
    surely: float | None
    held: float | None
    wide: float | None

    @classmethod
    def of(cls, found: Sequence[Judged], quantity: Quantity) -> "Shares":
        """Of these sweeps."""
        verdicts = [each.verdicts[quantity] for each in found if quantity in each.verdicts]
        intervals = [each for sweep in found for each in sweep.intervals[quantity]]
        decided = [is_decided(*each) for each in verdicts]
        sure = [not verdict.startswith("probably ") for verdict, _ in verdicts]
        return cls(
            clear=len(verdicts),
            false=mean(is_false(*each) for each in verdicts),
            decided=mean(decided),
            surely=mean(map(min, decided, sure)),
            held=mean(held for held, _ in intervals),
            wide=mean(wide for _, wide in intervals),
        )

    def cells(self) -> list[str]:
        """As the table has them."""
        shares = (self.false, self.decided, self.surely, self.held)
        return [str(self.clear), *(number(s, ".1%") for s in shares), number(self.wide, ".2f")]


HEADS = ("clear", "false", "decided", "surely", "held", "wide")


def outside(rows: Sequence[tuple[int, float | None]]) -> int:
    """How many rows, of (sweeps, share held), differ from 90% by more than chance makes of all of
    them together in 99%. Intervals of one sweep go together: it counts once."""
    known = [(sweeps, held) for sweeps, held in rows if held is not None]
    found = 0
    for sweeps, held in known:
        low, high = stats.binom.interval(0.99 ** (1 / len(known)), sweeps, CONFIG.confidence)
        found += not low <= held * sweeps <= high
    return found


def allow_for_chance(sweeps: int, covered: tuple[float, float]) -> None:
    """Move the goals of intervals, `covered` for n, by two standard errors; intervals within a
    sweep go together."""
    error = 2 * math.sqrt(0.9 * 0.1 / sweeps)
    for name, limit in zip(("low", "high"), covered, strict=True):
        for of in (name, f"enough_{name}"):
            GOALS[of] = replace(GOALS[of], limit=limit)
    loosen(GOALS, low=-error, rate=-error, losses=-error, high=error)
    loosen(GOALS, enough_low=-error, enough_high=error)
    loosen(GOALS, false=2 * math.sqrt(0.02 * 0.98 / sweeps))


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


def chosen_cases(options: Namespace) -> dict[str, list[str]]:
    """The cases of every row of the table."""
    if not options.kinds:
        return {world: [f"whole {world}"] for world in dict.fromkeys(named(options.worlds))}
    known = cases(CONFIG.margin)
    kinds = known if options.kinds == "all" else options.kinds.split(",")
    if not set(kinds) <= set(known):
        raise UsageError(f"--kinds {options.kinds}: all, or of {', '.join(known)}")
    return {kind: [f"{kind} {case}" for case in known[kind]] for kind in kinds}


def measure(options: Namespace) -> dict[str, float]:
    """Print the table; the figures of the goals."""
    rows, done = chosen_cases(options), dict[str, list[Judged]]()
    of_n = [f"{head}, {'n_d' if q == 'enough' else 'n*'}" for q in QUANTITIES for head in HEADS]
    further = ("rate held", "losses held", "reward held", "chosen n costs", "promised")
    row = table("row", "truth", "sweeps", *of_n, *further)
    names = [name for cases_of_row in rows.values() for name in cases_of_row]
    jobs = [(options.design, options.sweeps, not options.rewards)]
    by_case = dict(by_world(sweeps_of, names, jobs, options.processes))
    surplus = []
    for name, mine in rows.items():
        found = done[name] = [each for case in mine for each in by_case[case][0]]
        odds = promised(found, options.design) if len(mine) == 1 else None
        shares = [Shares.of(found, quantity) for quantity in QUANTITIES]
        if odds and shares[0].surely is not None:
            surplus.append(odds.surely - shares[0].surely)
        row(
            name,
            found[0].truth.verdict if len(mine) == 1 else "",
            len(found),
            *(cell for each in shares for cell in each.cells()),
            number(mean(each.rate for each in found if each.rate is not None), ".1%"),
            number(mean(each for sweep in found for each in sweep.losses), ".1%"),
            number(mean(each.reward for each in found), ".1%"),
            number(mean(each.lost for each in found), ".4f"),
            number(None if odds is None else odds.surely, ".1%"),
        )
    every = [sweep for found in done.values() for sweep in found]
    allow_for_chance(len(every), DESIGNS[options.design].covered)
    return figures(done, every, surplus)


def figures(
    done: dict[str, list[Judged]], every: list[Judged], surplus: list[float]
) -> dict[str, float]:
    """What the goals ask, but for what nothing shows."""
    found: dict[str, float | None] = {"outside": 0, "promised": mean(surplus)}
    for quantity in QUANTITIES:
        prefix = "enough_" if quantity == "enough" else ""
        found[f"{prefix}low"] = found[f"{prefix}high"] = Shares.of(every, quantity).held
        held = [(len(mine), Shares.of(mine, quantity).held) for mine in done.values()]
        found["outside"] = (found["outside"] or 0) + outside(held)
    found["rate"] = mean(each.rate for each in every if each.rate is not None)
    false = [Shares.of(every, quantity).false for quantity in QUANTITIES]
    found["false"] = max((share for share in false if share is not None), default=None)
    found["losses"] = mean(each for sweep in every for each in sweep.losses)
    return {name: figure for name, figure in found.items() if figure is not None}


OPTIONS = {
    "--sweeps": 20,
    "--design": {"choices": sorted(DESIGNS), "default": "affordable"},
    "--worlds": "old,new",
    "--kinds": "",
    "--rewards": (False, "rewards alone, as of runs that are imported without counts"),
    "--processes": 1,
}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
