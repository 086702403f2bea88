"""The picture of README.md: the best n, and the smallest that is good enough, against compute.

    python docs/studies/best_n.py SWEEP docs/best_n.png

SWEEP is the directory of a default sweep that has been trained (`python -m isosweep`). Readings
below 2e10 FLOPs are left out: no run has made more than 80 steps there.
"""

import argparse
from pathlib import Path

import matplotlib

import isosweep
from isosweep.analysis.figures.style import BLUE, GREY, GRID, INK, RED

_FIRST_FLOPS = 2e10
_TICKS_FLOPS = (2e10, 5e10, 1e11, 2e11)


def draw(sweep_dir: Path, file: Path) -> None:
    """Draw n* with its 90% band, n_d, and the largest n that was run, each named beside it."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    # Readable where the picture is shown 400 pixels wide.
    plt.rcParams.update({"font.size": 17})
    sweep = isosweep.open(sweep_dir)
    shown = sweep.frontier.query("budget >= @_FIRST_FLOPS")
    grid = sorted(set(sweep.choices.n))
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    band = (shown.budget, shown.n_star_low, shown.n_star_high)
    axes.fill_between(*band, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(shown.budget, shown.n_star, "o-", color=BLUE, linewidth=3)
    axes.plot(shown.budget, shown.n_d, "s--", color=RED, linewidth=3)
    axes.axhline(grid[-1], color=GREY, linestyle=":")

    axes.set(xscale="log", xlabel="training compute per run (FLOPs)")
    axes.set_yscale("log", base=2)
    axes.set_ylabel("rollouts per problem, n")
    axes.set_xticks(_TICKS_FLOPS, [f"{at:.0e}".replace("e+", "e") for at in _TICKS_FLOPS])
    axes.set_yticks(grid, [str(n) for n in grid])
    axes.set_ylim(grid[0] / 1.2, grid[-1] * 1.4)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)

    left, middle = shown.iloc[0], shown.iloc[len(shown) // 2]
    axes.text(left.budget, grid[-1] * 1.08, "largest n that was run", color=INK)
    best, enough = "best n\nand 90% band", "smallest n\nthat is good enough"
    axes.text(middle.budget * 0.8, middle.n_star * 1.5, best, color=BLUE, ha="right")
    axes.text(middle.budget, middle.n_d * 0.75, enough, color=RED, va="top")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sweep_dir", type=Path)
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args()
    draw(chosen.sweep_dir, chosen.file)
