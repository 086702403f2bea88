"""How often the intervals of laws hold: simulated sweeps with planted truth.

    python benchmarks/laws.py --laws batch,reuse --sweeps 40

Prints a row for every law, world and quantity.

- `batch`: planted worlds of `coverage.py` on its design `fix_batch`, a second a sweep on one core.
- `reuse`: losses of six forms with a random onset, 1 to 100 passes in seven numbers (arXiv
  2509.25300) or four, two seeds or four; milliseconds a sweep.
- `size`: four or six models, N0 from half a billion to twenty, two seeds or four that learn 6% or
  12% faster or slower, 2,000 completions a record; 50 milliseconds a sweep.
- `updates`: rollouts that a reward takes go with no power of the updates on each, or with 0.3 or
  0.8 of them; three or four numbers of updates, two seeds or three, rewards that rise slowly or
  fast, known to 0.005 or 0.02; milliseconds a sweep.
- `sum`: rollouts that go with D_min and powers of the updates, of the model size or B, or of all
  three, two seeds or three, needs that vary by 5% or 10%; a third of a second a sweep.
"""

import itertools
import math
import zlib
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from coverage import CONFIG, DESIGNS, find_world, make_plan
from frame import Goal, benchmark, by_world, loosen, table

from isosweep.analysis.curves import Curve
from isosweep.analysis.simulation.sweep import read_plan, sweep_of
from isosweep.analysis.simulation.truth import find_truth
from isosweep.analysis.simulation.worlds import Floats
from isosweep.analysis.statistics.across import Parameter
from isosweep.analysis.statistics.best_batch import batch_law
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.judgement import fit_budgets
from isosweep.analysis.statistics.needs import Amount, SumLaw, find_sum
from isosweep.analysis.statistics.reuse import Onset, find_onset
from isosweep.analysis.statistics.sizes import SizeFit, fit_sizes
from isosweep.analysis.statistics.updates import Needs, find_needs

# Of 90% intervals, over all worlds of a law, chance not counted.
GOALS = {
    f"{law}_{side}": Goal(f"share of intervals of {law} that hold the truth", sense, limit)
    for law in ("batch", "reuse", "size", "updates", "sum")
    for side, sense, limit in (("low", "at least", 0.86), ("high", "at most", 0.94))
}
QUICK = {"sweeps": 4, "processes": 2}
# Of planted worlds, those whose n*(C) lies off the edges of the grid at most budgets.
_WORLDS = ("plateau", "slow_tail", "logarithm", "easy", "falling", "early", "dip", "constant")
_COMPLETIONS = 16_384


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One interval of one simulated sweep: of what, whether it holds the truth, and its width."""

    quantity: str
    covered: bool
    width: float

    @classmethod
    def of(cls, quantity: str, interval: Interval, truth: float) -> "Seen":
        """Of an interval whose width has a unit."""
        covered = interval.low <= truth <= interval.high
        return cls(quantity=quantity, covered=covered, width=interval.high - interval.low)


def see_batch(world: str, sweeps: int) -> list[Seen]:
    """Of log2 B*(C) at every budget where it lies inside the grid, and of its slope."""
    plan = make_plan(DESIGNS["fix_batch"], policy=False)
    known = find_world(world, plan)
    truth = find_truth(known, read_plan(plan, CONFIG), CONFIG)
    seen = []
    for number in range(sweeps):
        seed = zlib.crc32(world.encode()), number
        data = sweep_of(known, plan, CONFIG, seed, num_problems=4096, samples_per_problem=8)
        law = batch_law(_COMPLETIONS, *fit_budgets(data, CONFIG))
        for at, n in zip(law.optima, truth.best_n, strict=True):
            if n is not None and 8.01 < n < 2047 and at.interval is not None:
                low = -math.inf if at.left_censored else math.log2(at.interval.low)
                high = math.inf if at.right_censored else math.log2(at.interval.high)
                interval = Interval(median=math.log2(at.interval.median), low=low, high=high)
                seen.append(Seen.of("log2 B*", interval, math.log2(_COMPLETIONS / n)))
        if law.slope is not None and truth.rate is not None:
            seen.append(Seen.of("slope", law.slope, -truth.rate))
    return seen


# Numbers of passes, and seeds, of the designs of `reuse`.
_REUSE = {
    "paper": ((1, 2, 5, 20, 25, 50, 100), 2),
    "paper, 4 seeds": ((1, 2, 5, 20, 25, 50, 100), 4),
    "sparse": ((2, 8, 32, 128), 2),
    "sparse, 4 seeds": ((2, 8, 32, 128), 4),
}


def loss_of_reuse(form: str, rng: np.random.Generator) -> Callable[[Floats], Floats]:
    """Reward lost by log2 of the passes, of one form; about the margin at a random number."""
    x, margin = rng.uniform(2, 6.5), CONFIG.margin
    limit, steepness = margin * np.exp(rng.uniform(0.7, 3)), rng.uniform(1, 3)
    match form:
        case "hinge":
            slope = margin * np.exp(rng.uniform(0.4, 1.8))
            return lambda at: slope * np.maximum(0, at - x + margin / slope)
        case "step":
            return lambda at: limit * (at > x)
        case "hill":
            middle = x + np.log2(limit / margin - 1) / steepness
            return lambda at: limit / (1 + 2 ** (steepness * (middle - at)))
        case "power":
            return lambda at: margin * 2 ** (steepness / 1.5 * (at - x))
        case "straight":
            return lambda at: margin * at / x
        case _:
            return lambda at: margin * (at / x) ** 2


def see_reuse(form: str, sweeps: int) -> list[Seen]:
    """Of where reuse begins to cost more than the margin, in log2 of the passes."""
    rng = np.random.default_rng(zlib.crc32(form.encode()))
    seen = []
    for design, (amounts, seeds) in _REUSE.items():
        at = np.log2(np.array(amounts, float))
        fine = np.linspace(at[0], at[-1], 4001)
        for _ in range(sweeps):
            loss = loss_of_reuse(form, rng)
            lost = loss(fine) - loss(at[:1])
            over = np.flatnonzero(lost > CONFIG.margin)
            truth = float(fine[over[0]]) if len(over) else math.inf
            luck = 0.01 * rng.standard_normal((1, seeds))
            own = 0.01 * rng.standard_normal((len(at), seeds))
            rewards = 0.5 - (loss(at) - loss(at[:1]))[:, None] + luck + own
            onset = find_onset(2.0**at, rewards, CONFIG.margin, CONFIG.confidence)
            if not isinstance(onset, Onset):
                continue  # of a thousand, one is refused by its luck
            low, high = math.log2(onset.harmless), math.log2(onset.harmful or math.inf)
            interval = Interval(median=low, low=low, high=high)
            seen.append(Seen.of(f"onset, {design}", interval, truth))
    return seen


_SIZES = np.array([0.5e9, 1.5e9, 3e9, 7e9, 14e9, 32e9])
_HALF_SIZES = {"N0 = 0.5e9": 0.5e9, "N0 = 2e9": 2e9, "N0 = 6e9": 6e9, "N0 = 2e10": 2e10}
_LARGEST, _ASKED = 0.08, 2000


def see_size(world: str, sweeps: int) -> list[Seen]:
    """Of K_max and N0, in doublings."""
    rng = np.random.default_rng(zlib.crc32(world.encode()))
    half_size = _HALF_SIZES[world]
    x = np.log(np.geomspace(1.0, 1000.0, 8))
    pull = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    seen = []
    for models, seeds, luck in ((4, 2, 0.06), (4, 4, 0.12), (6, 2, 0.12), (6, 4, 0.06)):
        sizes = _SIZES[:models]
        k = _LARGEST / (1 + half_size / sizes)
        reward = 1 - 0.6 * np.exp(-k[:, None] * x)
        errors = np.sqrt((pull**2 * reward / (1 - reward) / _ASKED).sum(axis=1))
        for _ in range(sweeps):
            own = k[:, None] * (1 + luck * rng.standard_normal((models, seeds)))
            level = 0.02 * rng.standard_normal((models, seeds, 1))
            wrong = 0.6 * np.exp(level - own[..., None] * x)
            slopes = -np.log(rng.binomial(_ASKED, wrong) / _ASKED) @ pull
            fit = fit_sizes(sizes, list(slopes), errors, CONFIG.confidence)
            if isinstance(fit, SizeFit):
                seen.append(Seen.of("log2 K_max", doublings(fit.largest), math.log2(_LARGEST)))
                seen.append(Seen.of("log2 N0", doublings(fit.half_size), math.log2(half_size)))
    return seen


def doublings(parameter: Parameter) -> Interval:
    """The interval in log2, its open ends without end."""
    low = -math.inf if parameter.low is None else math.log2(parameter.low)
    high = math.inf if parameter.high is None else math.log2(parameter.high)
    return Interval(median=math.nan, low=low, high=high)


_SAVINGS = {"power 0": 0.0, "power 0.3": 0.3, "power 0.8": 0.8}
_MIDDLE, _LUCK, _OWN = 3000.0, 0.15, 0.1


def see_updates(world: str, sweeps: int) -> list[Seen]:
    """Of log2 of what a doubling of the updates changes the rollouts by."""
    rng = np.random.default_rng(zlib.crc32(world.encode()))
    saving, seen = _SAVINGS[world], []
    # n = 8, B = 4, whatever else the plan says.
    run = replace(make_plan(DESIGNS["affordable"], policy=False).runs[0], problems_per_batch=4)
    drawn = np.concatenate([[0], np.unique(np.geomspace(4, 1000, 15).round())]).astype(np.int64)
    rollouts = drawn * run.num_generations * run.problems_per_batch
    nothing = np.zeros((len(drawn), 0), dtype=np.int64)
    for amounts, seeds, steepness, noise in itertools.product(
        ((1, 2, 4), (1, 2, 4, 8)), (2, 3), (1, 2), (0.005, 0.02)
    ):
        for _ in range(sweeps):
            # Of a seed at all numbers of updates, and of each run.
            luck = _LUCK * rng.standard_normal(seeds)
            runs = []
            for updates in amounts:
                middle = np.log(_MIDDLE / updates**saving) + luck
                middle += _OWN * rng.standard_normal(seeds)
                late = np.log(np.maximum(rollouts, 1e-9)) - middle[:, None]
                rewards = 0.2 + 0.5 / (1 + np.exp(-steepness * late))
                rewards += noise * rng.standard_normal(rewards.shape)
                runs.append(
                    {
                        seed: Curve(
                            run=run,
                            steps=drawn,
                            generations=drawn,
                            compute=rollouts * (1.0 + updates),
                            flops=rollouts * (1.0 + updates),
                            reward=reward,
                            successes=nothing,
                            samples_per_problem=1,
                            status="finished",
                            status_reason=None,
                        )
                        for seed, reward in enumerate(rewards)
                    }
                )
            found = find_needs({"updates": amounts}, runs, CONFIG.margin, CONFIG.confidence)
            if isinstance(found, Needs):
                factor = found.rollouts.factors["updates"]
                low, median, high = map(math.log2, (factor.low, factor.median, factor.high))
                interval = Interval(median=median, low=low, high=high)
                seen.append(Seen.of(f"log2 factor, {seeds} seeds", interval, -saving))
    return seen


_AMOUNTS: dict[Amount, tuple[float, ...]] = {
    "updates": (1, 2, 4, 8),
    "batch": (8, 32, 128),
    "parameters": (0.5e9, 1.5e9, 3e9, 7e9),
}
_EXPONENTS: dict[Amount, float] = {"updates": 0.8, "batch": 1.0, "parameters": 0.6}
_SUMS: dict[str, tuple[Amount, ...]] = {
    "U, N": ("updates", "parameters"),
    "U, B": ("updates", "batch"),
    "U, B, N": ("updates", "batch", "parameters"),
}


def see_sum(world: str, sweeps: int) -> list[Seen]:
    """Of log2 of D_min, which is 30% of the terms' middle, and of every exponent."""
    rng = np.random.default_rng(zlib.crc32(world.encode()))
    names, seen = _SUMS[world], []
    grid = np.meshgrid(*(np.log2(_AMOUNTS[name]) for name in names), indexing="ij")
    logs = {name: axis.ravel() for name, axis in zip(names, grid, strict=True)}
    middle = 1000.0 / len(names)
    needed = np.full(grid[0].size, 0.3 * middle)
    for name, of in logs.items():
        power = _EXPONENTS[name] if name == "batch" else -_EXPONENTS[name]
        needed += middle * 2.0 ** (power * (of - of.mean()))
    for seeds, own in itertools.product((2, 3), (0.05, 0.1)):
        for _ in range(sweeps):
            luck = _LUCK * rng.standard_normal(seeds)
            off = luck + own * rng.standard_normal((len(needed), seeds))
            found = find_sum(logs, needed[:, None] * np.exp(off), CONFIG.confidence)
            if isinstance(found, SumLaw):
                floor = math.log2(0.3 * middle) + float(luck.mean()) / math.log(2)
                seen.append(Seen.of("log2 D_min", doublings(found.floor), floor))
                for name, exponent in found.exponents.items():
                    power = math.log2(_EXPONENTS[name])
                    seen.append(Seen.of(f"log2 alpha, {name}", doublings(exponent), power))
    return seen


@dataclass(frozen=True, kw_only=True)
class Law:
    """How a law is tried: the worlds that it is planted in, and what is seen of sweeps of one."""

    worlds: tuple[str, ...]
    see: Callable[[str, int], list[Seen]]


LAWS = {
    "batch": Law(worlds=_WORLDS, see=see_batch),
    "reuse": Law(worlds=("hinge", "step", "hill", "power", "straight", "square"), see=see_reuse),
    "size": Law(worlds=tuple(_HALF_SIZES), see=see_size),
    "updates": Law(worlds=tuple(_SAVINGS), see=see_updates),
    "sum": Law(worlds=tuple(_SUMS), see=see_sum),
}


def allow_for_chance(law: str, sweeps: int) -> None:
    """Move a law's goals by two standard errors; intervals within a sweep go together."""
    error = 2 * math.sqrt(0.9 * 0.1 / sweeps)
    loosen(GOALS, **{f"{law}_low": -error, f"{law}_high": error})


OPTIONS = {
    "--laws": ",".join(LAWS),
    "--sweeps": (40, "simulated sweeps of each world"),
    "--processes": 1,
}


def measure(options: Namespace) -> dict[str, float]:
    """Print a row for every quantity; the figures of the goals."""
    row = table("law", "world", "sweeps", "of", "intervals", "hold the truth", "median width")
    figures: dict[str, float] = {}
    for name in options.laws.split(","):
        law, covered = LAWS[name], []
        for world, (seen,) in by_world(law.see, law.worlds, [(options.sweeps,)], options.processes):
            for quantity in dict.fromkeys(each.quantity for each in seen):
                mine = [each for each in seen if each.quantity == quantity]
                share = np.mean([each.covered for each in mine])
                width = np.median([each.width for each in mine])
                held = f"{share:.1%}", f"{width:.3g}"
                row(name, world, options.sweeps, quantity, len(mine), *held)
            covered += [each.covered for each in seen]
        figures[f"{name}_low"] = figures[f"{name}_high"] = float(np.mean(covered))
        allow_for_chance(name, options.sweeps * len(law.worlds))
    return figures


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
