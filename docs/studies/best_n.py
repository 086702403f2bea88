"""The picture of README.md: the best n, and the smallest that is good enough, against compute.

    python docs/studies/best_n.py SWEEP docs/best_n.png

SWEEP is a directory that has been trained: the default sweep, `python -m isosweep`. Budgets below
2e10 FLOPs are left out: no run has made more than 80 steps there.
"""

import argparse
from pathlib import Path

import matplotlib

import isosweep
from isosweep.analysis.figures.colors import BLUE, GREY, GRID, INK, RED

# FLOPs.
_FIRST = 2e10


def draw(sweep_dir: Path, file: Path) -> None:
    """Draw n* with its 90% band, n_d, and the largest n that was run, each named beside it."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    sweep = isosweep.open(sweep_dir)
    frame = sweep.frontier
    frame = frame[frame.budget >= _FIRST]
    grid = sorted(set(sweep.choices.n))
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    plt.rcParams.update({"font.size": 13})
    axes.fill_between(frame.budget, frame.n_star_low, frame.n_star_high, color=BLUE, alpha=0.2, lw=0)
    axes.plot(frame.budget, frame.n_star, "o-", color=BLUE, lw=2.5, ms=6)
    axes.plot(frame.budget, frame.n_d, "s--", color=RED, lw=2.5, ms=6)
    axes.axhline(grid[-1], color=GREY, ls=":")
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(grid, [str(n) for n in grid], fontsize=13)
    ticks = [2e10, 5e10, 1e11, 2e11, 3e11]
    axes.set_xticks(ticks, [f"{tick:.0e}".replace("e+", "e") for tick in ticks], fontsize=13)
    axes.set_xlabel("training compute per run (FLOPs)", fontsize=13)
    axes.set_ylabel("rollouts per problem, n", fontsize=13)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    last = frame.iloc[len(frame) // 2]
    named = {"size": 14, "weight": "bold"}
    axes.text(last.budget * 0.92, last.n_star * 1.25, "best n, with its 90% band", color=BLUE, ha="right", **named)
    axes.text(last.budget * 1.15, last.n_d * 0.72, "smallest n that is\ngood enough", color=RED, va="top", **named)
    axes.text(_FIRST, grid[-1] * 1.06, "largest n that was run", color=INK, size=12)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sweep_dir", type=Path)
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args()
    draw(chosen.sweep_dir, chosen.file)
