"""Whether n* moves with the updates on each rollout, with a planted n*."""

import csv
from pathlib import Path

import numpy as np
import pytest

from isosweep import words
from isosweep.analysis.pages.comparison import summarise
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.moves import find_shift
from isosweep.analysis.statistics.optima import Range
from tests.analysis.statistics.planted import compared, known
from tests.analysis.sweeps import RewardAt, paths_in

UPDATES = (1.0, 2.0, 4.0)


def within(*, below: bool = False, above: bool = False) -> Range:
    around = Interval(median=8, low=4, high=16)
    return Range(interval=around, open_below=below, open_above=above)


def drawn(rate: float, rng: np.random.Generator, noise: float) -> list[np.ndarray]:
    """Draws of log2 n* around 3 + rate log2 U, with an error of each entry."""
    return [
        3 + rate * np.log2(u) + noise * (rng.standard_normal() + rng.standard_normal(2000))
        for u in UPDATES
    ]


def test_intervals_of_how_n_moves_hold_it_in_nine_of_ten_sweeps() -> None:
    rng = np.random.default_rng(0)
    held, said = [], []
    for rate in (0.0, 0.5) * 200:
        shift = find_shift(UPDATES, [within()] * 3, drawn(rate, rng, 0.3), 0.9)
        held.append(known(shift.low) <= 2**rate <= known(shift.high))
        said.append(shift.direction)
    assert 0.88 <= np.mean(held) <= 0.97
    assert said[0::2].count(None) >= 170
    assert said[1::2].count("down") == 0


@pytest.mark.parametrize(
    ("place", "open_end", "ends"),
    [
        # A larger n* with the most updates moves the slope up alone, with the fewest down.
        (2, "above", ("low",)),
        (0, "above", ("high",)),
        (2, "below", ("high",)),
        (0, "below", ("low",)),
        (1, "above", ("low", "high")),
    ],
)
def test_an_n_that_may_lie_off_the_grid_opens_the_end_that_it_could_move(
    place: int, open_end: str, ends: tuple[str, ...]
) -> None:
    ranges = [within(**{open_end: k == place}) for k in range(3)]
    shift = find_shift(UPDATES, ranges, drawn(1.0, np.random.default_rng(0), 0.02), 0.9)
    assert tuple(name for name in ("low", "high") if getattr(shift, name) is not None) == ends
    assert (shift.value is None) == (ends != ("low", "high"))
    assert shift.direction == ("up" if "low" in ends else None)


@pytest.mark.parametrize(
    ("best", "said"),
    [
        ((1.1, 0.9, 1.3, None), "n* is not shown to move with updates: every doubling multiplies"),
        ((None, 1.2, None, "up"), "by 1.2 to any more."),
        ((0.8, 0.7, 0.9, "down"), "n* falls with updates: every doubling multiplies n* by 0.8 ("),
        ((None, None, None, None), "is not established: n* may lie off the grid."),
    ],
)
def test_every_way_that_n_moves_is_worded(best: tuple[object, ...], said: str) -> None:
    shift = dict(zip(("value", "low", "high", "direction"), best, strict=True))
    law = {"budget": 1e18, "of": "updates", "best": shift}
    assert said in words.line("comparison", "moves", law, "flops")


def test_variants_whose_best_n_grows_with_updates_say_so(tmp_path: Path) -> None:
    """n* = 4 with one update, and twice as much with every doubling."""

    def of(updates: int) -> RewardAt:
        best = 2 + np.log2(updates)
        return lambda compute, n, B: 0.6 - 0.03 * float(np.log2(n) - best) ** 2

    entries = {f"{k} updates": (of(k), {"recipe": {"num_iterations": k}}) for k in (1, 2, 4)}
    comparison, of_two = compared(
        tmp_path, entries, generations=(2, 4, 8, 16, 32), budgets=(1e15, 4e15)
    )
    assert of_two.moves == ()
    assert [law.budget for law in comparison.moves] == [1e15, 4e15]
    last = comparison.moves[-1]
    assert list(last.amounts) == [1, 2, 4]
    medians = [found.interval.median for found in last.n_star]
    assert medians == pytest.approx([4, 8, 16], rel=0.15)
    assert known(last.best.low) <= 2 <= known(last.best.high) < 2.6
    assert last.best.direction == "up"
    said = summarise(comparison)[-1]
    assert said.startswith("At 4e15 FLOPs, n* rises with updates: every doubling multiplies n* by")
    assert "Does n* move?" in paths_in(tmp_path).report.read_text()
    rows = list(csv.DictReader(paths_in(tmp_path).table("effects").read_text().splitlines()))
    n_star = [row for row in rows if row["quantity"] == "n_star"]
    assert [float(row["budget"]) for row in n_star] == [1e15, 4e15]
    assert float(n_star[-1]["low"]) == last.best.low
