"""What `mode=compare` prints fits a terminal, whatever is compared."""

from itertools import product

import pytest

from isosweep.analysis.statistics.compare import AtBudget, Comparison
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.optima import Range
from isosweep.modes.compare import _lettered, _show_comparison
from tests.modes.looked_after import printed, terminal

BUDGETS = [1e18 * 2**k for k in range(9)]


def comparison(entries: int) -> Comparison:
    """Of entries with long names, at nine budgets each."""
    names = [
        f"num_train_problems={k} num_generations=[2, 4, 8, 16, 32, 64]" for k in range(entries)
    ]
    n = Range(interval=Interval(median=19.0, low=4.0, high=128.0), open_below=True, open_above=True)
    return Comparison(
        kind="sweep",
        one_pair=False,
        scored_otherwise=(),
        unit="flops",
        verdicts=dict.fromkeys(names, "probably saturated"),
        frontiers=tuple(
            AtBudget(
                entry=name,
                budget=budget,
                best_n=16,
                best_batch=32,
                reward=0.5,
                interval=(0.475, 0.525),
                better=None if name == names[0] else 0.9,
                n_star=n,
                n_d=n,
            )
            for name, budget in product(names, BUDGETS)
        ),
    )


@pytest.mark.parametrize("entries", [2, 3, 30])
def test_a_comparison_fits_a_terminal_of_80_columns_and_40_lines(entries: int) -> None:
    found, console = comparison(entries), terminal(80)
    letters = _lettered(found.verdicts)
    _show_comparison(found, letters, console)
    lines = printed(console).splitlines()
    assert max(map(len, lines)) <= 80
    # Beside names and sentences.
    assert len(lines) <= 22
    # The largest budget is there, and the entries stand below one another.
    first = next(line for line in lines if line.startswith("2.56e20"))
    assert first.split()[1] == "A"
    assert lines[lines.index(first) + 1].split()[0] == "B"
