"""What the IsoCompute Playbook's points say of n*(C), read again with intervals.

    python docs/studies/playbook_points.py                 # all tables
    python docs/studies/playbook_points.py --figure FILE   # its picture as well
    python docs/studies/playbook_points.py --points FILE   # bin digitised points anew first

Input: docs/studies/playbook.csv, means of the dots of figure 16 of arXiv 2603.12151 (CC BY 4.0;
Qwen2.5-7B-Instruct, easy problems) in bins of 0.05 decades of compute. Estimator: the reward
surface of `isosweep.analysis.statistics.surface`, which `mode=analyse` fits to means over seeds,
here fitted to means over bins. Their noise comes from resampling blocks of log C within each n,
since dots of one run are correlated, and seeds are unknown.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.figures.style import BLUE, GREEN, GREY, GRID, INK
from isosweep.analysis.statistics.best_n import interval_of_n, on_grid
from isosweep.analysis.statistics.intervals import Interval, central_ends
from isosweep.analysis.statistics.noise import Means
from isosweep.analysis.statistics.surface import Surface, fit_surface, smallest_within

if TYPE_CHECKING:
    from isosweep.door.sweep import Sweep

TABLE = Path(__file__).parent / "playbook.csv"
CONFIDENCE = 0.9
MARGINS = (0.02, 0.01)
# Standard deviation of whole runs, of which the figure shows nothing: an assumption.
LUCK = 0.01
# Of bins around their run's course, as if each had one dot: median over n and B. Dots within a bin
# scatter by 0.014, so that passing luck of a run lasts longer than a few dots.
SCATTER = 0.019
# Readings of the table of all B; budgets of B = 32 stored as a sweep.
SHOWN = (1.12e6, 2.24e6, 3.55e6)
BUDGETS = (3.5e5, 5.6e5, 8.9e5, 1.41e6, 2.24e6, 3.55e6)
# Between these n* is asked whether it still grows.
GROWTH = (1.78e6, 3.55e6)
Lines = list[list[str]]
# Of log10 C: bins that are shipped, and readings, of two bins each.
BIN, READING = 0.05, 0.1
# Readings before these have few dots: other B than 32 lie behind the figure's legend until 0.67M.
_FIRST, _FIRST_OF_OTHERS, _LAST = 54, 59, 65
# Blocks of so many bins are drawn together. Residuals of dots less than 0.005 decades apart
# correlate by 0.16, of dots 0.02 decades apart and more not at all.
_BLOCK, _RESAMPLES = 2, 2000
# Degree of the trend over log10 C around which bins scatter.
_TREND = 3
# The paper's fits, log2 n* = rise / (1 + exp(-steepness (log10 C - middle))) + floor, of B = 32
# (figure 6) and of all B together (figures 9 to 11).
PAPER = {"32": (6.09, 4.75, 5.84, 2.73), "all": (5.67, 8.84, 6.08, 3.08)}
# Colours of n that two n share, with the n that lies below.
_SHARED = {(32, 8): 2048, (32, 32): 1024, (64, 32): 1024}
# A dot of a shared colour is of the other n if it lies so far below the mean of n = 16, which has
# a colour of its own. Past 2.2 million the two branches of n = 32 meet.
_BELOW, _MEET = 0.03, 6.34
# By B and n, log10 C past which few dots are left, at rewards of other n.
_ENDS = {(32, 8): 6.2, (32, 16): 6.5}

# How colours are taken, by `read`.
Reading = Literal["split", "without", "colour"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is said of one B at one compute."""

    B: str
    compute: float
    best: Interval
    enough: tuple[Interval, ...]
    highest: int


def paper_n(B: str, compute: float) -> float:
    """n* by the paper's fit."""
    rise, steepness, middle, floor = PAPER[B]
    return float(2 ** (floor + rise / (1 + math.exp(-steepness * (math.log10(compute) - middle)))))


def bin_points(points: Path) -> "pd.DataFrame":
    """Bins of the dots, by B, n and log10 C. `part`: `low` for dots of a shared colour that lie on
    the lower branch, `late` for those past the end of their run, `own` for all others."""
    dots = pd.read_csv(points).rename(columns={"value": "B", "validation_reward": "reward"})
    dots["rollouts"] = dots["C_million_rollouts"] * 1e6
    dots["log"] = np.log10(dots["rollouts"])
    dots["part"] = "own"
    for (B, n), last in _ENDS.items():
        dots.loc[(dots["B"] == B) & (dots["n"] == n) & (dots["log"] > last), "part"] = "late"
    for (B, n), _ in _SHARED.items():
        beside = dots[(dots["B"] == B) & (dots["n"] == 16) & (dots["part"] == "own")]
        mine = dots[(dots["B"] == B) & (dots["n"] == n)]
        level = np.polyval(np.polyfit(beside["log"], beside["reward"], _TREND), mine["log"])
        low = mine["reward"] < level - _BELOW
        if n != 8:
            low &= mine["log"] < _MEET
        dots.loc[mine.index[low], "part"] = "low"
    dots["bin"] = np.floor(dots["log"] / BIN).astype(int)
    bins = dots.groupby(["B", "n", "part", "bin"])
    found = bins.agg(
        rollouts=("rollouts", "mean"),
        reward=("reward", "mean"),
        points=("reward", "size"),
        spread=("reward", "std"),
    ).reset_index()
    return found.round({"rollouts": 0, "reward": 4, "spread": 4})


def read(table: "pd.DataFrame", reading: Reading) -> "pd.DataFrame":
    """The bins of one way to take colours: `split` gives lower branches to the n that shares the
    colour, and leaves late dots out; `without` leaves lower branches and n = 32 out as well, where
    its colour is shared; `colour` takes every dot for the n of its colour."""
    kept = table.copy() if reading == "colour" else table[table["part"] != "late"].copy()
    low = kept["part"] == "low"
    pairs = list(zip(kept["B"], kept["n"], strict=True))
    if reading == "split":
        kept.loc[low, "n"] = [_SHARED[pair] for pair, of in zip(pairs, low, strict=True) if of]
    elif reading == "without":
        kept = kept[
            [
                not of and not (pair in _SHARED and pair[1] == 32)
                for pair, of in zip(pairs, low, strict=True)
            ]
        ]
    summed = kept.assign(total=kept["reward"] * kept["points"])
    by = summed.groupby(["B", "n", "bin"])[["total", "points"]].sum().reset_index()
    return by.assign(reward=by["total"] / by["points"]).drop(columns="total")


def means_of(bins: "pd.DataFrame", luck: float = 0.0) -> Means:
    """Mean rewards at every reading, with the covariance that blocks of log C give them, within
    each (B, n). `luck`: a standard deviation of whole runs added to it."""
    rng = np.random.default_rng(0)
    series = [
        of.sort_values("bin").assign(B=B, n=n)
        for (B, n), of in bins.groupby(["B", "n"])
        if len(of) > _TREND + 1
    ]
    scatter = {id(of): _scatter(of) for of in series}
    first = _FIRST if {int(B) for B in bins["B"]} == {32} else _FIRST_OF_OTHERS
    parts, covariances = [], []
    for of in series:
        B = int(of["B"].iloc[0])
        at = (of["bin"] // round(READING / BIN)).to_numpy()
        places = [k for k in np.unique(at) if first <= k <= _LAST]
        if not places:
            continue
        points = of["points"].to_numpy(dtype=np.float64)
        weight = np.array([np.where(at == k, points, 0.0) for k in places])
        weight /= weight.sum(axis=1, keepdims=True)  # (readings, bins)
        pool = [scatter[id(each)] for each in series if each["B"].iloc[0] == B]
        drawn = _blocks(pool, len(of), rng) / np.sqrt(points)
        covariances.append(np.cov((drawn @ weight.T).T).reshape(len(places), -1) + luck**2)
        rewards = weight @ of["reward"].to_numpy()
        size = int(of["n"].iloc[0])
        parts += [(size, B, k, reward) for k, reward in zip(places, rewards, strict=True)]
    n, batch, k, reward = (np.array(column) for column in zip(*parts, strict=True))
    noise = np.zeros((len(n), len(n)))
    start = 0
    for covariance in covariances:
        end = start + len(covariance)
        noise[start:end, start:end] = covariance
        start = end
    known = np.unique(k)
    several = len(np.unique(batch)) > 1
    return Means(
        budgets=tuple(float(10 ** ((each + 0.5) * READING)) for each in known),
        log2_n=np.log2(n),
        log2_batch=np.log2(batch) if several else np.zeros(len(batch)),
        budget=np.searchsorted(known, k),
        reward=reward,
        noise=noise,
        # Of one run, on the mean of all: the surface does not read it.
        covariance=np.eye(len(known)) * float(np.diag(noise).mean()),
        spread=np.sqrt(np.diag(noise)),
        degrees_of_freedom=sum(len(of) for of in series) // _BLOCK,
    )


def _scatter(of: "pd.DataFrame") -> FloatArray:
    """What bins deviate from a trend over log C, as if each had one dot: (bins,)."""
    weight = np.sqrt(of["points"].to_numpy(dtype=np.float64))
    x = of["bin"].to_numpy() * BIN
    x = x - x.mean()
    trend = np.polyval(np.polyfit(x, of["reward"], _TREND, w=weight), x)
    left = math.sqrt(1 - (_TREND + 1) / len(of))
    return np.asarray((of["reward"].to_numpy() - trend) * weight / left)


def _blocks(pool: Sequence[FloatArray], length: int, rng: np.random.Generator) -> FloatArray:
    """Residuals of `length` bins made of blocks of all n of one B: (resamples, length)."""
    blocks = np.concatenate(
        [np.lib.stride_tricks.sliding_window_view(each, _BLOCK) for each in pool]
    )
    chosen = rng.integers(len(blocks), size=(_RESAMPLES, -(-length // _BLOCK)))
    return np.asarray(blocks[chosen].reshape(_RESAMPLES, -1)[:, :length])


def rows_of(means: Means, surface: Surface, B: str) -> list[Row]:
    """n*, and the smallest n within each margin, at every reading."""
    drawn = [surface.smallest_n(loss).T for loss in (0.0, *MARGINS)]
    found = []
    for k, compute in enumerate(means.budgets):
        grid = surface.log2_n[surface.measured[k]]
        ranges = [on_grid(interval_of_n(of[k], grid, CONFIDENCE), 2.0**grid) for of in drawn]
        here = np.flatnonzero(means.budget == k)
        highest = here[np.argmax(means.reward[here])]
        found.append(
            Row(
                B=B,
                compute=compute,
                best=ranges[0],
                enough=tuple(ranges[1:]),
                highest=round(2 ** means.log2_n[highest]),
            )
        )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Read:
    """What one reading of one B, or of `all` together, says: a row for each compute."""

    means: Means
    surface: Surface
    rows: list[Row]


def analyse(table: "pd.DataFrame", reading: Reading, B: str, luck: float = 0.0) -> Read:
    """Fit the surface to one B, or to `all`."""
    bins = read(table, reading)
    means = means_of(bins if B == "all" else bins[bins["B"] == int(B)], luck)
    surface = fit_surface(means)
    return Read(means=means, surface=surface, rows=rows_of(means, surface, B))


def agreement(B: str, rows: Sequence[Row]) -> Lines:
    """n* beside the paper's fit, and n_d, at every reading."""
    lines = [["C", "paper", "n*", "paper inside", *(f"n_d, {margin:g}" for margin in MARGINS)]]
    for row in rows:
        paper = paper_n(B, row.compute)
        inside = "yes" if row.best.holds(paper) else "no"
        ranges = [str(each) for each in row.enough]
        lines.append([millions(row.compute), f"{paper:.0f}", str(row.best), inside, *ranges])
    return lines


def robust(table: "pd.DataFrame", main: Read) -> Lines:
    """n* of B = 32 by other ways to take colours, and with runs that differ by luck."""
    others = [
        main,
        analyse(table, "without", "32"),
        analyse(table, "colour", "32"),
        analyse(table, "split", "32", LUCK),
    ]
    head = ["C", "n*", "without n = 32", "by colour alone", f"runs differ by {LUCK:g}"]
    return [
        head,
        *(
            [millions(near[0].compute), *(str(row.best) for row in near)]
            for compute in (5.6e5, *SHOWN)
            for near in [[_at(read, compute) for read in others]]
        ),
    ]


def every_batch(reads: dict[str, Read]) -> Lines:
    """n* and n_d of every B, and of all together."""
    head = ["B", *(f"n* at {millions(compute)}" for compute in SHOWN)]
    lines = [head + [f"n_d, {margin:g}" for margin in MARGINS]]
    for B, read in reads.items():
        rows = [_at(read, compute) for compute in SHOWN]
        ranges = [row.best for row in rows] + list(rows[-1].enough)
        lines.append([B, *(str(each) for each in ranges)])
    return lines


def _at(read: Read, compute: float) -> Row:
    return min(read.rows, key=lambda row: abs(math.log(row.compute / compute)))


def best_batch(joint: Read) -> Lines:
    """B*(C): the probability that B = 32 is best, and by how much, each B at its best n."""
    surface = joint.surface
    by_B = np.where(surface.supported, surface.draws, -np.inf).max(axis=2)
    lines = [["C", "P(B = 32 is best)", *(f"32 against {B}" for B in (64, 128, 256))]]
    for k, compute in enumerate(surface.budgets):
        share = float((by_B[:, k].argmax(axis=1) == 0).mean())
        gaps = [by_B[:, k, 0] - by_B[:, k, j] for j in (1, 2, 3)]
        lines.append([millions(compute), f"{share:.0%}", *map(_gap, gaps)])
    return lines


def _gap(drawn: FloatArray) -> str:
    low, high = central_ends(drawn, CONFIDENCE)
    return f"{np.median(drawn):+.3f} ({low:+.3f} to {high:+.3f})"


def growth(read: Read) -> Lines:
    """Doublings of n* and n_d per decade over the largest readings, beside the paper's fit."""
    first, last = (read.rows.index(_at(read, compute)) for compute in GROWTH)
    ends = [read.means.budgets[k] for k in (first, last)]
    decades = math.log10(ends[1] / ends[0])
    law = math.log2(paper_n("32", ends[1]) / paper_n("32", ends[0])) / decades
    lines = [["quantity", "doublings per decade", "above 0.5", "paper's fit"]]
    for name, loss in (("n*", 0.0), (f"n_d, {MARGINS[0]:g}", MARGINS[0])):
        drawn = read.surface.smallest_n(loss)
        rate = (drawn[:, last] - drawn[:, first]) / decades
        low, high = central_ends(rate, CONFIDENCE)
        share = float((rate > 0.5).mean())
        rates = f"{np.median(rate):.1f} ({low:.1f} to {high:.1f})"
        lines.append([name, rates, f"{share:.0%}", f"{law:.1f}" if loss == 0 else ""])
    return lines


def millions(compute: float) -> str:
    """As 2.24M."""
    return f"{compute / 1e6:.2f}M"


def read_all(shipped: "pd.DataFrame") -> dict[str, Read]:
    """Every B by itself, and all together, with colours split."""
    names = [*map(str, sorted(shipped["B"].unique())), "all"]
    return {B: analyse(shipped, "split", B) for B in names}


def tables(shipped: "pd.DataFrame", reads: dict[str, Read]) -> dict[str, Lines]:
    """The tables of docs/playbook_points.md, and those that its sentences quote."""
    return {
        "B = 32": agreement("32", reads["32"].rows),
        "growth": growth(reads["32"]),
        "every B": every_batch(reads),
        "all B": agreement("all", reads["all"].rows),
        "best B": best_batch(reads["all"]),
        "colours": robust(shipped, reads["32"]),
    }


def halves(shipped: "pd.DataFrame", B: int) -> "pd.DataFrame":
    """The bins of one B as a table for `isosweep.from_frame`, with every other block of log C as
    `seed` 0, the rest as 1: what they differ by is the scatter in a run, not between seeds."""
    bins = read(shipped[shipped["B"] == B], "split")
    return bins.assign(
        rollouts=10 ** ((bins["bin"] + 0.5) * BIN), seed=bins["bin"] // _BLOCK % 2
    ).drop(columns="bin")


def store(shipped: "pd.DataFrame", sweep_dir: Path) -> "Sweep":
    """B = 32 as an imported sweep."""
    import isosweep

    return isosweep.from_frame(
        halves(shipped, 32),
        sweep_dir,
        sweeps_dir=str(sweep_dir.parent),
        columns={"reward": "reward", "compute": "rollouts"},
        budget=list(BUDGETS),
        budget_unit="rollouts",
    )


def simulate(shipped: "pd.DataFrame", sweeps: int) -> str:
    """How often the intervals hold what they should: bins of B = 32 drawn around a surface, read
    off as the shipped ones are."""
    fitted = analyse(shipped, "split", "32")
    surface = fitted.surface
    bins = read(shipped[shipped["B"] == 32], "split")
    bins = bins[bins["bin"] >= _FIRST * round(READING / BIN)]
    mean = surface.draws.mean(axis=0)[:, :, 0]
    x = (bins["bin"].to_numpy() + 0.5) * BIN
    at_n = np.array([surface.column(n) for n in bins["n"]])
    levels = np.array(
        [
            np.interp(each, np.log10(surface.budgets), mean[:, j])
            for each, j in zip(x, at_n, strict=True)
        ]
    )
    rng = np.random.default_rng(1)
    held = np.zeros(1 + len(MARGINS))
    for _ in range(sweeps):
        noise = SCATTER * rng.standard_normal(len(bins)) / np.sqrt(bins["points"])
        means = means_of(bins.assign(reward=levels + noise))
        drawn = fit_surface(means)
        truth = [
            smallest_within(np.where(drawn.supported[:, :, 0], mean, -np.inf), surface.log2_n, loss)
            for loss in (0.0, *MARGINS)
        ]
        for k, row in enumerate(rows_of(means, drawn, "32")):
            for j, each in enumerate((row.best, *row.enough)):
                held[j] += each.holds(2 ** truth[j][k] * (1 + 1e-9)) or each.holds(2 ** truth[j][k])
    shares = held / (sweeps * len(surface.budgets))
    names = ("n*", *(f"n_d at {margin:g}" for margin in MARGINS))
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True))


def draw(reads: dict[str, Read], file: Path) -> None:
    """n* and n_d with intervals beside the paper's curves: B = 32, and all B together."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 14})
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 5.2), sharey=True, layout="constrained")
    for axes, B in zip(panels, ("32", "all"), strict=True):
        rows = reads[B].rows
        x = np.array([row.compute for row in rows])
        curve = np.geomspace(x[0] / 1.1, x[-1] * 1.1)
        law = [paper_n(B, each) for each in curve]
        axes.plot(curve, law, color=INK, lw=2, label="paper's fit of n*")
        highest = [row.highest for row in rows]
        axes.plot(x, highest, "s", color=GREY, mfc="none", ms=8, label="n with the highest mean")
        for shift, color, name, ranges in (
            (0.985, BLUE, "n*, 90% interval", [row.best for row in rows]),
            (1.03, GREEN, "smallest n within 0.02", [row.enough[0] for row in rows]),
        ):
            middle = np.array([each.median for each in ranges])
            ends = np.array([[each.low, each.high] for each in ranges]).T
            bars = np.abs(ends - middle)
            axes.errorbar(x * shift, middle, bars, fmt="o", color=color, ms=5, lw=1.8, label=name)
            for at, each in zip(x * shift, ranges, strict=True):
                if each.open_below:
                    axes.plot(at, each.low, "v", color=color, ms=7)
                if each.open_above:
                    axes.plot(at, each.high, "^", color=color, ms=7)
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        ticks = [c for c in (3e5, 5e5, 1e6, 2e6, 3e6) if x[0] / 1.2 < c < x[-1] * 1.2]
        axes.set_xticks(ticks, [f"{c / 1e6:g}M" for c in ticks])
        axes.minorticks_off()
        sizes = [2**k for k in range(3, 11)]
        axes.set_yticks(sizes, [str(n) for n in sizes])
        axes.set_ylim(6.5, 1024)
        axes.grid(color=GRID, lw=0.6)
        axes.set_axisbelow(True)
        axes.set_title("B = 32" if B == "32" else "All B, each at its best")
        axes.set_xlabel("Compute (rollouts)")
    panels[0].set_ylabel("n, rollouts per problem")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.savefig(file, dpi=110)


def main() -> None:
    """Print the tables, and write what is asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--points", type=Path, help="digitised points, to bin anew")
    parser.add_argument("--figure", type=Path, help="draw the picture to this file")
    parser.add_argument("--sweep", type=Path, help="store B = 32 as a sweep, to be analysed")
    parser.add_argument("--simulate", type=int, help="say how often intervals hold, of so many")
    chosen = parser.parse_args()
    if chosen.points is not None:
        bin_points(chosen.points).to_csv(TABLE, index=False)
    shipped = pd.read_csv(TABLE)
    if chosen.simulate is not None:
        print(simulate(shipped, chosen.simulate))
        return
    if chosen.sweep is not None:
        store(shipped, chosen.sweep)
        return
    reads = read_all(shipped)
    for name, (head, *lines) in tables(shipped, reads).items():
        print(f"\n{name}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
        for line in lines:
            print(f"| {' | '.join(line)} |")
    if chosen.figure is not None:
        draw(reads, chosen.figure)


if __name__ == "__main__":
    main()
